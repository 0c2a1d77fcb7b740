// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// FuzzUserData: whatever user data a class has, it is refused, or the machine gets it whole beside what it needs to
// join.
func FuzzUserData(f *testing.F) {
	for _, own := range []string{
		"", "#!/bin/bash\necho hi\n", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\n\n--//--\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: application/node.eks.aws\n\nkind: NodeConfig\n--B--",
		"[settings.kubernetes]\ncluster-name = \"x\"\n[settings.kubernetes.node-labels]\n\"a\" = \"b\"\n", "settings = 1", "<powershell>\nWrite-Host 1\n</powershell>",
		"#!/bin/sh\n--//\nx\n--//--\n", "Content-Type: multipart/mixed\n\n", "Content-Type: multipart/mixed; boundary=\n\n--\n",
	} {
		for i := range 4 {
			f.Add(uint8(i), own)
		}
	}
	families := []string{FamilyAL2023, FamilyBottlerocket, FamilyAL2, awsv1.AMIFamilyWindows2022}
	j := Registration{model.Labels{"example.com/pool": "default"}, []model.Taint{{Key: "only", Value: "us", Effect: model.NoSchedule}}, &KubeletConfig{}, 58}
	f.Fuzz(func(t *testing.T, family uint8, own string) {
		r := &Resolved{Class: &Class{Name: "c", Family: families[int(family)%len(families)], KubeletConfig: &KubeletConfig{}}, Cluster: Cluster{Endpoint: "https://x", CABundle: "eA=="}}
		r.Spec.UserData = &own
		encoded, err := r.WriteUserData("demo", j)
		if err != nil {
			return
		}
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(raw) > userDataLimit {
			t.Fatalf("%d bytes, %v", len(raw), err)
		}
		text := string(raw)
		if !strings.Contains(text, "demo") || !strings.Contains(text, "https://x") || !strings.Contains(text, "example.com/pool") || !strings.Contains(text, "58") {
			t.Errorf("%s: the machine isn't told how to join:\n%s", r.Family, text)
		}
		switch r.Family {
		case FamilyAL2023, FamilyAL2:
			before, err := readParts(own)
			if err != nil {
				t.Fatal(err)
			}
			after, err := readParts(text)
			if err != nil || len(after) != len(before)+1 || !slices.Equal(after[:len(before)], before) {
				t.Errorf("%s: the class's parts are\n%q\nthe machine's are\n%q, %v", r.Family, before, after, err)
			}
		case FamilyBottlerocket:
			if err := toml.Unmarshal(raw, &map[string]any{}); err != nil {
				t.Errorf("not TOML any more: %v\n%s", err, text)
			}
		}
	})
}

// TestEncodedParts: parts of MIME multipart in base64 and quoted-printable are decoded.
func TestEncodedParts(t *testing.T) {
	const own = "Content-Type: multipart/mixed; boundary=B\nMIME-Version: 1.0\n\n" +
		"--B\nContent-Type: text/x-shellscript\nContent-Transfer-Encoding: base64\n\nIyEvYmluL2Jhc2gKZWNobyAx\nCg==\n" +
		"--B\nContent-Type: text/x-shellscript\nContent-Transfer-Encoding: quoted-printable\n\n#!/bin/bash\na=3D1\n--B--\n"
	list, err := readParts(own)
	if err != nil || len(list) != 2 || list[0].body != "#!/bin/bash\necho 1\n" || list[1].body != "#!/bin/bash\na=1" {
		t.Errorf("%q, %v", list, err)
	}
}

// TestReservedByEviction: what must stay free is taken off allocatable by evictionHard alone, and 100% switches a signal off.
func TestReservedByEviction(t *testing.T) {
	capacity := model.Resources{4000, 16 << 30, 20 << 30, 110}
	reserved := func(spec string) (memory, storage int64) {
		k, err := readKubeletConfig([]byte(spec))
		if err != nil {
			t.Fatal(err)
		}
		r := k.ReservedResources(capacity)
		return r.At(model.Memory), r.At(model.EphemeralStorage)
	}
	memory, storage := reserved(`{"evictionHard":{"memory.available":"0","nodefs.available":"0"}}`)
	for spec, more := range map[string][2]int64{
		`{}`: {100 << 20, 2 << 30},
		`{"evictionHard":{"memory.available":"25%","nodefs.available":"1Gi"}}`:                                                                      {4 << 30, 1 << 30},
		`{"evictionHard":{"memory.available":"100%","nodefs.available":"100%"}}`:                                                                    {0, 0},
		`{"evictionSoft":{"memory.available":"25%"},"evictionSoftGracePeriod":{"memory.available":"1m"}}`:                                           {100 << 20, 2 << 30},
		`{"evictionHard":{"memory.available":"1Gi"},"evictionSoft":{"memory.available":"2Gi"},"evictionSoftGracePeriod":{"memory.available":"1m"}}`: {1 << 30, 2 << 30},
	} {
		if m, s := reserved(spec); m-memory != more[0] || s-storage != more[1] {
			t.Errorf("%s: %d bytes of memory and %d of storage must stay free, want %v", spec, m-memory, s-storage, more)
		}
	}
}

// TestKubeletMistakes: an error names the field, the value and what is accepted.
func TestKubeletMistakes(t *testing.T) {
	for spec, want := range map[string]string{
		`{"systemReserved":{"memory":1}}`:                       `spec.kubelet.systemReserved.memory: 1: need a string; write it in quotes`,
		`{"kubeReserved":["cpu"]}`:                              `spec.kubelet.kubeReserved: need a map of names to quantities, found ["cpu"]`,
		`{"systemReserved":{"memory":"-1Gi"}}`:                  `spec.kubelet.systemReserved.memory: "-1Gi": must not be negative`,
		`{"evictionHard":{"memory.available":"-1Gi"}}`:          `spec.kubelet.evictionHard.memory.available: "-1Gi": must not be negative`,
		`{"evictionHard":{"memory.available":"120%"}}`:          `spec.kubelet.evictionHard.memory.available: "120%": need a quantity or a percentage from 0% to 100%`,
		`{"maxpods":110}`:                                       `spec.kubelet.maxpods: not a field of KubeletConfiguration; write it maxPods`,
		`{"maxPods":"vcpus * 10","maxPodz":1}`:                  `spec.kubelet.maxPodz: not a field of KubeletConfiguration (unknown field "maxPodz")`,
		`{"logging":{"format":"json","verbose":3}}`:             `spec.kubelet.logging: not a field of KubeletConfiguration (unknown field "logging.verbose")`,
		`{"imageGCHighThresholdPercent":"80"}`:                  `spec.kubelet.imageGCHighThresholdPercent: "80": need a value of type int32, found a string`,
		`{"seccompDefault":"yes"}`:                              `spec.kubelet.seccompDefault: "yes": need a value of type bool, found a string`,
		`{"imageMinimumGCAge":"soon"}`:                          `spec.kubelet.imageMinimumGCAge: "soon": time: invalid duration "soon"`,
		`{"imageGCHighThresholdPercent":120}`:                   `spec.kubelet.imageGCHighThresholdPercent: 120: need a percentage from 0 to 100`,
		`{"imageGCHighThresholdPercent":50}`:                    `spec.kubelet.imageGCLowThresholdPercent: 80 is not below imageGCHighThresholdPercent, 50 (defaults: 80 and 85)`,
		`{"evictionSoft":{"memory.available":"5%"}}`:            `spec.kubelet.evictionSoft.memory.available: has no grace period; add evictionSoftGracePeriod.memory.available, for example 2m`,
		`{"evictionSoftGracePeriod":{"memory.available":"2m"}}`: `spec.kubelet.evictionSoftGracePeriod.memory.available: evictionSoft has no memory.available; add it, or remove the grace period`,
		`{"evictionSoft":{"memory.available":"5%"},"evictionSoftGracePeriod":{"memory.available":"soon"}}`: `spec.kubelet.evictionSoftGracePeriod.memory.available: "soon": need a duration not below 0, for example 2m`,
		`{"evictionMinimumReclaim":{"memory.available":"much"}}`:                                           `spec.kubelet.evictionMinimumReclaim.memory.available: "much": not a quantity; write a number with an optional suffix, for example 1930m, 6903Mi or 29`,
		`{"evictionMaxPodGracePeriod":-1}`:                                                                 `spec.kubelet.evictionMaxPodGracePeriod: -1: need a number of seconds not below 0`,
		`{"registerWithTaints":[{"key":"a","effect":"NoSchedule"}]}`:                                       `spec.kubelet.registerWithTaints: not supported, because nodes would be launched for pods that do not tolerate the taints; write them in spec.template.spec.taints of the NodePool`,
		`{"registerNode":false}`:                                                                           `spec.kubelet.registerNode: false: instances would never join the cluster; remove it`,
		`{"providerID":"a"}`:                                                                               `spec.kubelet.providerID: "a": each instance has its own; remove it`,
	} {
		if _, err := readKubeletConfig([]byte(spec)); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", spec, err, want)
		}
	}
}

// FuzzKubeletConfig: whatever spec.kubelet is, it is refused with its field, or what it keeps from pods is no less
// than nothing.
func FuzzKubeletConfig(f *testing.F) {
	for _, s := range []string{
		`{"maxPods":58,"podsPerCore":4,"clusterDNS":["10.0.0.10"]}`, `{"kubeReserved":{"cpu":"100m","memory":"1Gi","ephemeral-storage":"1Gi","pid":"100"}}`,
		`{"evictionHard":{"memory.available":"5%","nodefs.available":"10%","nodefs.inodesFree":"NaN%"}}`, `{"evictionSoft":{"memory.available":"1e3%"}}`,
		`{"systemReserved":{"memory":"9223372036854775807"},"kubeReserved":{"memory":"9223372036854775807"}}`, `null`, `[]`, `{"maxPods":-1}`,
	} {
		f.Add([]byte(s))
	}
	capacity := model.Resources{4000, 16 << 30, 20 << 30, 110}
	f.Fuzz(func(t *testing.T, raw []byte) {
		k, err := readKubeletConfig(raw)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "spec.kubelet") {
				t.Errorf("the error names no field: %v", err)
			}
			return
		}
		for d, v := range k.ReservedResources(capacity) {
			if v < 0 {
				t.Errorf("of resource %d it keeps %d", d, v)
			}
		}
	})
}
