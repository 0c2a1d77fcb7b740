// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
)

// Builtin returns the built-in catalog: EC2 us-east-1, zones a, b and c.
func Builtin() (*Catalog, error) {
	z, err := gzip.NewReader(bytes.NewReader(builtin))
	if err != nil {
		return nil, fmt.Errorf("unpack catalog %s: %w", BuiltinName, err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("unpack catalog %s: %w", BuiltinName, err)
	}
	return Parse(BuiltinName, data)
}

// Load reads a catalog file; an empty path means the built-in catalog.
func Load(path string) (*Catalog, error) {
	if path == "" {
		return Builtin()
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	return Parse(path, data)
}

// Parse parses a catalog in either format: an object is in Dovetail's format, a list is an instance types file of Karpenter's
// KWOK provider. name is the name in errors.
//
// Dovetail's format:
//
//	{"region": "us-east-1",            optional, default us-east-1
//	 "zones": ["us-east-1a", …],       optional, default the region's a, b and c
//	 "pricesAsOf": "…", "source": "…", optional
//	 "instanceTypes": [{
//	   "name": "m5.large", "arch": "amd64",
//	   "vcpu": 2, "memoryMiB": 8192,   optional: the machine's capacity, default allocatable
//	   "allocatable": {"cpu": "1930m", "memory": "6903Mi", "pods": "29", …},
//	   "onDemandUSDPerHour": 0.096,    one of the two prices
//	   "spotUSDPerHour": 0.0423,       optional: one price, or an object with one per zone; default modelled
//	   "os": "linux",                  optional
//	   "eni": [3, 10],                 optional: network interfaces and addresses of each, for EC2NodeClasses with a maximum number of pods
//	   "zones": ["us-east-1a"],        optional, default the file's
//	   "labels": {"instance-family": "m5", …}}]}  optional; keys without a domain get the prefix karpenter.k8s.aws/
func Parse(name string, data []byte) (*Catalog, error) {
	p := &parser{name: name, data: data}
	c, err := p.parse()
	if err != nil {
		return nil, err
	}
	sort.SliceStable(c.Types, func(i, j int) bool { return c.Types[i].Name < c.Types[j].Name })
	for i := range c.Types {
		o := c.Types[i].Offerings
		sort.Slice(o, func(a, b int) bool {
			if o[a].Zone != o[b].Zone {
				return o[a].Zone < o[b].Zone
			}
			return o[a].CapacityType < o[b].CapacityType
		})
	}
	return c, nil
}

func (p *parser) parse() (*Catalog, error) {
	if len(bytes.TrimSpace(p.data)) == 0 {
		return nil, fmt.Errorf("catalog %s: the file is empty", p.name)
	}
	if !json.Valid(p.data) {
		return nil, p.jsonError(0, "", json.Unmarshal(p.data, new(json.RawMessage)))
	}
	p.at = map[string]int64{}
	dec := json.NewDecoder(bytes.NewReader(p.data))
	start, err := dec.Token()
	if err != nil {
		return nil, p.jsonError(0, "", err)
	}
	switch start {
	case json.Delim('['):
		return p.kwok(dec)
	case json.Delim('{'):
		return p.ours(dec)
	}
	return nil, p.errorf(0, "need an object with instanceTypes, or a list of KWOK instance types, have %v", start)
}
