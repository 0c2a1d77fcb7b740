// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scaledown

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

type requirement struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

type offering struct {
	Price        float64
	Available    bool
	Requirements []requirement
}

type instanceType struct {
	Name      string            `json:"name"`
	Arch      string            `json:"architecture"`
	OS        []string          `json:"operatingSystems"`
	Resources map[string]string `json:"resources"`
	Offerings []offering        `json:"offerings"`
}

// WriteCatalogue writes the instance types that a sandbox's cloud is to have to a file in a directory, which must exist, and returns the file's path.
// They are the Linux machines on amd64 of Karpenter's KWOK catalogue, by the rule that it is made by: two, four or eight GiB a CPU, $0.025 a CPU
// and $0.001 a gigabyte an hour, spot at seven tenths, the same in each of four zones.
func WriteCatalogue(dir string) (path string, err error) {
	text, err := json.Marshal(instanceTypes())
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "catalogue.json")
	return path, os.WriteFile(path, text, 0o600)
}

// Prices are the dollars an hour of an instance type that WriteCatalogue writes, by its name and by capacity type.
func Prices() map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for _, t := range instanceTypes() {
		out[t.Name] = map[string]float64{}
		for _, o := range t.Offerings {
			out[t.Name][o.Requirements[0].Values[0]] = o.Price
		}
	}
	return out
}

func instanceTypes() (out []instanceType) {
	for _, cpu := range []int64{1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256} {
		for _, family := range []struct {
			name string
			gib  int64
		}{{"c", 2}, {"s", 4}, {"m", 8}} {
			t := instanceType{Name: fmt.Sprintf("%s-%dx-amd64-linux", family.name, cpu), Arch: "amd64", OS: []string{"linux"},
				Resources: map[string]string{"cpu": fmt.Sprint(cpu), "memory": fmt.Sprintf("%dGi", cpu*family.gib), "pods": fmt.Sprint(min(16*cpu, 1024)), "ephemeral-storage": "20Gi"}}
			price := 0.025*float64(cpu) + 0.001*float64(cpu*family.gib<<30)/1e9
			for _, zone := range []string{"a", "b", "c", "d"} {
				for capacity, p := range map[string]float64{"spot": 0.7 * price, "on-demand": price} {
					t.Offerings = append(t.Offerings, offering{Price: p, Available: true, Requirements: []requirement{
						{"karpenter.sh/capacity-type", "In", []string{capacity}}, {"topology.kubernetes.io/zone", "In", []string{"test-zone-" + zone}}}})
				}
			}
			out = append(out, t)
		}
	}
	return out
}
