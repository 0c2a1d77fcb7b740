// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeoverlay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/model"
)

func TestMain(m *testing.M) { casetest.Drawn(m, 100, 50_000) }

// TestCases: testdata/*.txt. The words of the input:
//
//	pool NAME [LABEL=VALUE …]                      a NodePool; it is offered every type
//	type NAME zones=a,b on-demand=0.10 spot=0.04 [LABEL=VALUE …]
//	overlay NAME [weight=5] [price=0.05] [adjust=-10%] [capacity=example.com/x:2,…] [KEY=OPERATOR:VALUE,…  …]
//
// The output has every offering whose price is changed, every type that has more resources, and what became of each
// overlay.
func TestCases(t *testing.T) {
	casetest.Run(t, func(t *testing.T, input string) string { return play(t, input) })
}

func play(t *testing.T, input string) string {
	t.Helper()
	var pools []Pool
	var types []*model.InstanceType
	var overlays []*Overlay
	names := model.FixedNames()
	dim := func(name string) model.Dim {
		i := slices.Index(names, name)
		if i < 0 {
			i, names = len(names), append(names, name)
		}
		return model.Dim(i)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.SplitSeq(input, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		kind, name := words[0], words[1]
		switch kind {
		case "pool":
			p := Pool{Name: name, Labels: model.Labels{}}
			for _, w := range words[2:] {
				k, v, _ := strings.Cut(w, "=")
				p.Labels[k] = v
			}
			pools = append(pools, p)
		case "type":
			x := &model.InstanceType{Name: name, Labels: model.Labels{model.LabelInstanceType: name}}
			var zones []string
			for _, w := range words[2:] {
				k, v, _ := strings.Cut(w, "=")
				switch k {
				case "zones":
					zones = strings.Split(v, ",")
				case model.OnDemand, model.Spot:
					price, err := strconv.ParseFloat(v, 64)
					must(err)
					for _, z := range zones {
						x.Offerings = append(x.Offerings, model.Offering{Zone: z, CapacityType: k, PriceMicro: int64(price*1e6 + 0.5), Modelled: k == model.Spot})
					}
				default:
					x.Labels[k] = v
				}
			}
			types = append(types, x)
		case "overlay":
			o := &Overlay{Name: name}
			for _, w := range words[2:] {
				k, v, _ := strings.Cut(w, "=")
				var err error
				switch k {
				case "weight":
					n, e := strconv.Atoi(v)
					o.Weight, err = int32(n), e
				case "price":
					o.Price, err = ReadPrice(v)
				case "adjust":
					o.Price, err = ReadPriceAdjustment(v)
				case "capacity":
					for c := range strings.SplitSeq(v, ",") {
						r, amount, _ := strings.Cut(c, ":")
						n, e := strconv.Atoi(amount)
						must(e)
						o.Capacity = append(o.Capacity, Resource{r, dim(r), int64(n)})
					}
				default:
					op, values, _ := strings.Cut(v, ":")
					var list []string
					if values != "" {
						list = strings.Split(values, ",")
					}
					r, e := model.NewRequirement(k, model.Operator(op), list...)
					o.Requirements, err = o.Requirements.With(r), e
				}
				if err != nil {
					o.Invalid = err.Error()
				}
			}
			overlays = append(overlays, o)
		default:
			t.Fatalf("unknown word %q", kind)
		}
	}
	for i := range pools {
		pools[i].Types = types
	}
	out, verdicts := Apply(pools, overlays)
	var b strings.Builder
	for i, p := range pools {
		for _, x := range out[i] {
			for _, f := range x.Offerings {
				if f.PriceOverlay == "" {
					continue
				}
				modelled := ""
				if f.Modelled {
					modelled = ", modelled"
				}
				fmt.Fprintf(&b, "%s %s %s %s: %s instead of %s (%s%s)\n", p.Name, x.Name, f.Zone, f.CapacityType, dollars(f.PriceMicro), dollars(f.ListPriceMicro), f.PriceOverlay, modelled)
			}
			if len(x.CapacityOverlays) > 0 {
				fmt.Fprintf(&b, "%s %s:", p.Name, x.Name)
				for d := model.FirstExtended; int(d) < len(x.Allocatable); d++ {
					fmt.Fprintf(&b, " %s %d", names[d], x.Allocatable.At(d))
				}
				fmt.Fprintf(&b, " (%s)\n", strings.Join(x.CapacityOverlays, ", "))
			}
		}
	}
	for _, o := range overlays {
		v := verdicts[o.Name]
		if why := v.NotApplied(); why != "" {
			fmt.Fprintf(&b, "%s: not applied: %s\n", o.Name, why)
		} else {
			fmt.Fprintf(&b, "%s: applied, %d offerings\n", o.Name, v.Matches)
		}
	}
	return b.String()
}

func dollars(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000) }
