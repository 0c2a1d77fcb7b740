// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command gen generates the built-in catalog of package catalog from published data:
//
//	go run ./internal/cloud/catalog/gen -in ec2-us-east-1.json -out internal/cloud/catalog/ec2-us-east-1.json.gz
//
// It drops fields that the catalog does not use, then parses its output, and fails if that differs from the input.
// The output depends on the input only. Without an input, the output file is not changed.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"sort"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
)

func main() {
	in := flag.String("in", "", "catalogue to distil, JSON")
	out := flag.String("out", "", "file to write, gzip of JSON")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

type figures struct {
	Region        string         `json:"region"`
	PricesAsOf    string         `json:"pricesAsOf"`
	Source        string         `json:"source"`
	Zones         []string       `json:"zones"`
	InstanceTypes []instanceType `json:"instanceTypes"`
}

type instanceType struct {
	Name        string            `json:"name"`
	Arch        string            `json:"arch"`
	VCPU        json.Number       `json:"vcpu"`
	MemoryMiB   json.Number       `json:"memoryMiB"`
	Labels      map[string]string `json:"labels"`
	Allocatable map[string]string `json:"allocatable"`
	ENI         []json.Number     `json:"eni,omitempty"`
	OnDemand    json.Number       `json:"onDemandUSDPerHour"`
}

func run(in, out string) error {
	data, err := os.ReadFile(in)
	if errors.Is(err, fs.ErrNotExist) {
		// The figures are no part of the repository; what was made of them is.
		fmt.Printf("%s: kept as it is: there is no %s to make it from\n", out, in)
		return nil
	}
	if err != nil {
		return err
	}
	want, err := catalog.Parse(in, data)
	if err != nil {
		return err
	}
	var f figures
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("read %s: %w", in, err)
	}
	f.Zones = want.Zones()
	sort.Slice(f.InstanceTypes, func(i, j int) bool { return f.InstanceTypes[i].Name < f.InstanceTypes[j].Name })
	distilled, err := json.Marshal(f)
	if err != nil {
		return err
	}
	have, err := catalog.Parse(in, distilled)
	if err != nil {
		return fmt.Errorf("read the distilled catalogue back: %w", err)
	}
	if !reflect.DeepEqual(want, have) {
		return fmt.Errorf("the distilled catalogue differs from %s", in)
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(distilled); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(out, packed.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d types, prices as of %s, %d bytes\n", out, len(have.Types), have.PricesAsOf, packed.Len())
	return nil
}
