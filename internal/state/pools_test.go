// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"fmt"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/nodeoverlay"
)

// countingDevices is a DeviceSource that counts how often it is asked.
type countingDevices struct{ asked int }

func (c *countingDevices) OfType(string, *model.InstanceType) model.Resources {
	c.asked++
	return model.Resources{}.With(model.FirstExtended, 1)
}

func (c *countingDevices) take() int {
	n := c.asked
	c.asked = 0
	return n
}

func poolsWithDevices(n int) (*State, *countingDevices) {
	s, source := New(), &countingDevices{}
	s.Pools.SetDevices(source)
	for i := range n {
		s.Pools.SetPool(&model.NodePool{Name: fmt.Sprint("p", i), UID: fmt.Sprint(i)})
	}
	return s, source
}

func typesOf(n int) (out []*model.InstanceType) {
	for i := range n {
		out = append(out, &model.InstanceType{Name: fmt.Sprint("t", i), Offerings: []model.Offering{{Zone: "a", CapacityType: model.Spot, PriceMicro: 100}}})
	}
	return out
}

// The work of setting the types of pools is proportional to the types that are set: the types of other pools are not made
// again, with and without NodeOverlays. What concerns all pools makes the types of all again.
func TestWorkOfSettingTypes(t *testing.T) {
	const pools, types = 50, 10
	price := func(text string) nodeoverlay.PriceChange {
		p, err := nodeoverlay.ReadPrice(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, overlays := range []bool{false, true} {
		t.Run(fmt.Sprint("overlays=", overlays), func(t *testing.T) {
			s, source := poolsWithDevices(pools)
			overlay := nodeoverlay.Overlay{Name: "o", UID: "o", Price: price("2")}
			if overlays {
				s.Pools.SetNodeOverlay(overlay)
			}
			check := func(when string, want int) {
				t.Helper()
				if got := source.take(); got != want {
					t.Errorf("%s: the devices of %d types were read, want %d", when, got, want)
				}
			}
			check("before types are offered", 0)
			for _, p := range s.Pools.ListPools() {
				s.Pools.SetTypes(p.Name, typesOf(types))
			}
			check("one pool after the other", pools*types)
			all := map[string][]*model.InstanceType{}
			for _, p := range s.Pools.ListPools() {
				all[p.Name] = typesOf(types)
			}
			s.Pools.SetTypesOfPools(all)
			check("all pools at once", pools*types)
			s.Pools.SetTypes("p3", typesOf(types))
			check("one pool", types)
			s.Pools.SetPool(&model.NodePool{Name: "p3", UID: "3", Weight: 7})
			check("a changed weight", 0)
			s.Pools.SetPool(&model.NodePool{Name: "p3", UID: "3", Labels: model.Labels{"team": "a"}})
			check("a changed label", types)
			s.Pools.SetPool(&model.NodePool{Name: "new", UID: "new"})
			s.Pools.DeletePool("new")
			s.Pools.SetPool(&model.NodePool{Name: "p3", UID: "other"})
			check("pools that come and go", 0)
			s.Pools.SetTypes("p3", all["p4"])
			check("another pool of the same name", types)
			s.Pools.SetNodeOverlay(nodeoverlay.Overlay{Name: "another", UID: "another", Price: price("3")})
			check("a new NodeOverlay", pools*types)
			s.Pools.SetDevices(source)
			check("other devices", pools*types)
			for _, p := range s.Pools.ListPools() {
				for _, x := range p.Types {
					if x.Devices.At(model.FirstExtended) != 1 || (x.Offerings[0].PriceOverlay == "") {
						t.Fatalf("type %s of pool %s has devices %v and NodeOverlay %q", x.Name, p.Name, x.Devices, x.Offerings[0].PriceOverlay)
					}
				}
			}
		})
	}
}

// BenchmarkSetTypes sets the types of all pools: all at once, and one pool after the other, without and with NodeOverlays.
// The time of a pool (ns/pool) must not grow with the number of pools.
func BenchmarkSetTypes(b *testing.B) {
	for _, overlays := range []int{0, 5} {
		for _, pools := range []int{10, 100, 300} {
			s, _ := poolsWithDevices(pools)
			for i := range overlays {
				p, err := nodeoverlay.ReadPriceAdjustment("-10%")
				if err != nil {
					b.Fatal(err)
				}
				s.Pools.SetNodeOverlay(nodeoverlay.Overlay{Name: fmt.Sprint("o", i), UID: fmt.Sprint(i), Weight: int32(i), Price: p})
			}
			run := func(way string, set func(types map[string][]*model.InstanceType)) {
				b.Run(fmt.Sprintf("overlays=%d/pools=%d/%s", overlays, pools, way), func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						types := map[string][]*model.InstanceType{}
						for _, p := range s.Pools.ListPools() {
							types[p.Name] = typesOf(100)
						}
						b.StartTimer()
						set(types)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pools), "ns/pool")
				})
			}
			run("at-once", s.Pools.SetTypesOfPools)
			run("one-by-one", func(types map[string][]*model.InstanceType) {
				for name, list := range types {
					s.Pools.SetTypes(name, list)
				}
			})
		}
	}
}
