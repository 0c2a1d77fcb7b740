// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

// TestParse runs testdata/*.txt: cases separated by an empty line, each a comment, a file, ----, and what Parse makes of it, in
// prices.txt ParsePrices.
func TestParse(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no cases")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		render := renderCatalog
		if filepath.Base(file) == "prices.txt" {
			render = renderPrices
		}
		cases := strings.Split(strings.TrimSpace(string(data)), "\n\n")
		for i, c := range cases {
			head, want, ok := strings.Cut(c+"\n", "\n----\n")
			if !ok {
				t.Fatalf("%s case %d: no ---- line:\n%s", file, i, c)
			}
			var input []string
			for _, line := range strings.Split(head, "\n") {
				if !strings.HasPrefix(line, "#") {
					input = append(input, line)
				}
			}
			have := strings.TrimSuffix(render(strings.Join(input, "\n")), "\n")
			if *update {
				cases[i] = head + "\n----\n" + have
			} else if have != strings.TrimSpace(want) {
				t.Errorf("%s:\n%s\n---- have\n%s", file, c, have)
			}
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(cases, "\n\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func renderCatalog(input string) string {
	c, err := catalog.Parse("file.json", []byte(input))
	if err != nil {
		return "error: " + err.Error()
	}
	var b strings.Builder
	for _, t := range c.Types {
		fmt.Fprintf(&b, "%s capacity %s allocatable %s\n", t.Name, amounts(t.Capacity), amounts(t.Allocatable))
		var labels []string
		for k, v := range t.Labels {
			if k != model.LabelInstanceType {
				labels = append(labels, k+"="+v)
			}
		}
		sort.Strings(labels)
		fmt.Fprintf(&b, "  %s\n", strings.Join(labels, " "))
		for _, o := range t.Offerings {
			fmt.Fprintf(&b, "  %s %s %d", o.Zone, o.CapacityType, o.PriceMicro)
			if o.Modelled {
				b.WriteString(" modelled")
			}
			if !o.Available {
				b.WriteString(" not available")
			}
			for k, v := range o.Labels {
				fmt.Fprintf(&b, " %s=%s", k, v)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func amounts(a catalog.Amounts) string {
	var out []string
	for n, v := range a {
		out = append(out, n+"="+catalog.FormatQuantity(n, v))
	}
	sort.Strings(out)
	return strings.Join(out, ",")
}

func TestBuiltin(t *testing.T) {
	c, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Types) != 1345 || c.PricesAsOf != "2026-07-20" || strings.Join(c.Zones(), " ") != "us-east-1a us-east-1b us-east-1c" {
		t.Errorf("have %d types of %s in %s", len(c.Types), c.PricesAsOf, c.Zones())
	}
	m5 := c.Find("m5.large")
	if m5 == nil {
		t.Fatal("no m5.large")
	}
	if m5.Offerings[0].PriceMicro != 96_000 || m5.Offerings[0].CapacityType != model.OnDemand || m5.Offerings[0].Modelled {
		t.Errorf("m5.large on-demand is %+v", m5.Offerings[0])
	}
	if m5.Labels["karpenter.k8s.aws/instance-family"] != "m5" || m5.Labels[model.LabelRegion] != "us-east-1" || m5.Labels[model.LabelOS] != "linux" {
		t.Errorf("m5.large labels are %v", m5.Labels)
	}
	if c.Find("m5.huge") != nil {
		t.Error("found a type that isn't there")
	}
	for _, ty := range c.Types {
		if len(ty.Offerings) != 6 {
			t.Errorf("%s has %d offerings, want 6", ty.Name, len(ty.Offerings))
		}
		for _, o := range ty.Offerings {
			onDemand := ty.Offerings[0].PriceMicro
			if o.Modelled != (o.CapacityType == model.Spot) {
				t.Errorf("%s %s %s: modelled is %t", ty.Name, o.Zone, o.CapacityType, o.Modelled)
			}
			if o.Modelled && (o.PriceMicro < onDemand*30/100 || o.PriceMicro > onDemand*65/100+1) {
				t.Errorf("%s %s: spot %d is outside 30 to 65 %% of %d", ty.Name, o.Zone, o.PriceMicro, onDemand)
			}
		}
	}
}

// TestInstanceTypes holds the vectors against the amounts by name, in two tables of names.
func TestInstanceTypes(t *testing.T) {
	c, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{model.FixedNames(), append(model.FixedNames(), "example.com/other", "nvidia.com/gpu")} {
		intern := func(name string) model.Dim {
			for i, n := range names {
				if n == name {
					return model.Dim(i)
				}
			}
			names = append(names, name)
			return model.Dim(len(names) - 1)
		}
		types := c.InstanceTypes(intern)
		if len(types) != len(c.Types) {
			t.Fatalf("have %d types, want %d", len(types), len(c.Types))
		}
		for i, it := range types {
			for name, v := range c.Types[i].Allocatable {
				if it.Allocatable.At(intern(name)) != v {
					t.Errorf("%s %s is %d, want %d", it.Name, name, it.Allocatable.At(intern(name)), v)
				}
			}
			var have, want int64
			for _, v := range it.Capacity {
				have += v
			}
			for _, v := range c.Types[i].Capacity {
				want += v
			}
			if have != want {
				t.Errorf("%s: capacity %v is not %v", it.Name, it.Capacity, c.Types[i].Capacity)
			}
		}
	}
}

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		resource, text string
		want           int64
		bad            bool
	}{
		{"cpu", "1930m", 1930, false},
		{"cpu", "2", 2000, false},
		{"cpu", "0.5", 500, false},
		{"cpu", "1n", 1, false},
		{"memory", "6903Mi", 6903 << 20, false},
		{"memory", "1.5Gi", 3 << 29, false},
		{"memory", "1G", 1e9, false},
		{"memory", "12e6", 12e6, false},
		{"memory", "1500m", 2, false},
		{"pods", "29", 29, false},
		{"nvidia.com/gpu", "8", 8, false},
		{"memory", "9Ei", 0, true},
		{"memory", "-1", 0, true},
		{"memory", "", 0, true},
		{"memory", "1.2.3", 0, true},
		{"memory", "1GB", 0, true},
		{"memory", "1MG", 0, true},
		{"memory", "1e99999", 0, true},
	} {
		have, err := catalog.ParseQuantity(c.resource, c.text)
		if have != c.want || (err != nil) != c.bad {
			t.Errorf("%s %q: have %d, %v", c.resource, c.text, have, err)
		}
	}
}

// FuzzParse: whatever the bytes, Parse answers a catalog that holds its invariants or an error that names the file.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		for _, c := range strings.Split(string(data), "\n\n") {
			head, _, _ := strings.Cut(c, "\n----\n")
			f.Add([]byte(head[strings.Index(head, "\n")+1:]))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := catalog.Parse("file.json", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "catalog file.json") {
				t.Errorf("error doesn't name the file: %v", err)
			}
			return
		}
		for i, ty := range c.Types {
			if i > 0 && c.Types[i-1].Name >= ty.Name {
				t.Errorf("types %q and %q are not in order", c.Types[i-1].Name, ty.Name)
			}
			for _, o := range ty.Offerings {
				if o.PriceMicro < 1 || o.Zone == "" {
					t.Errorf("%s: offering %+v", ty.Name, o)
				}
			}
		}
	})
}

func BenchmarkBuiltin(b *testing.B) {
	for b.Loop() {
		if _, err := catalog.Builtin(); err != nil {
			b.Fatal(err)
		}
	}
}
