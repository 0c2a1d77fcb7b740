// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"strings"
	"testing"
)

// TestLaunchPrice: a node of a type that the catalog lacks has the price that its NodeClaim says, or else its own annotation, and one of a type that it has the catalog's.
func TestLaunchPrice(t *testing.T) {
	b := NewBoard(Cluster{}, testPrices)
	for name, kind := range map[string]string{"one": "cx42", "two": "cx52", "three": "m5.large"} {
		b.SetNode(&Node{Name: name, Pool: "nodepool/a", Type: kind, Zone: "us-east-1a", CapacityType: "on-demand", Ready: "True"})
	}
	own := map[string]string{"dovetail.sh/price-per-hour": "0.07"}
	b.SetNode(&Node{Name: "four", Pool: "nodepool/b", Type: "cx62", Zone: "us-east-1a", CapacityType: "on-demand", Ready: "True", Annotations: own})
	b.SetNode(&Node{Name: "five", Pool: "nodepool/b", Type: "m5.large", Zone: "us-east-1a", CapacityType: "on-demand", Ready: "True", Annotations: own})
	b.SetNode(&Node{Name: "one", Pool: "nodepool/a", Type: "cx42", Zone: "us-east-1a", CapacityType: "on-demand", Ready: "True", Annotations: own})
	b.SetClaim(&Claim{Name: "a", Pool: "nodepool/a", Node: "one", LaunchMicro: 50_000})
	b.SetClaim(&Claim{Name: "b", Pool: "nodepool/a", Node: "two"})
	b.SetClaim(&Claim{Name: "c", Pool: "nodepool/a", Node: "three", LaunchMicro: 1})
	v := b.View(now)
	listed, _ := testPrices.Find("m5.large", "us-east-1a", "on-demand")
	if v.Total.Micro != 50_000+70_000+2*listed.Micro || v.Total.Unpriced != 1 || v.Pools[0].Unpriced != 1 {
		t.Errorf("%d micro-dollars, %d nodes without a price, want %d and 1", v.Total.Micro, v.Total.Unpriced, 50_000+70_000+2*listed.Micro)
	}
	notes := strings.Join(v.Notes, "\n")
	for _, want := range []string{"The price at launch, from the NodeClaim, is used for 1 node.", "The price of annotation dovetail.sh/price-per-hour is used for 1 node.", "No price is known for 1 node of type cx52"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}

// TestOffers: a node of Cluster API has the instance type, the zone and the price that its MachineDeployment says, if it says none itself.
func TestOffers(t *testing.T) {
	b := NewBoard(Cluster{}, testPrices)
	own := map[string]string{"dovetail.sh/price-per-hour": "0.07"}
	b.SetNode(&Node{Name: "one", Ready: "True", ClusterAPI: "default/workload"})
	b.SetNode(&Node{Name: "two", Type: "cx42", Ready: "True", ClusterAPI: "default/workload"})
	b.SetNode(&Node{Name: "three", Type: "cx42", Ready: "True", ClusterAPI: "default/workload", Annotations: own})
	b.SetNode(&Node{Name: "four", Type: "cx42", Ready: "True"})
	if have := b.ClusterAPINodes(); len(have) != 1 || len(have["default/workload"]) != 3 || !have["default/workload"]["one"] || have["default/workload"]["two"] {
		t.Errorf("have %v, want three nodes of one Cluster, the first without a type", have)
	}
	b.SetOffers(map[string]Offer{"one": {Type: "m5.large", Zone: "us-east-1a"}, "two": {Micro: 50_000}, "three": {Micro: 60_000}}, true)
	listed, _ := testPrices.Find("m5.large", "us-east-1a", "on-demand")
	check := func(when string, micro int64, unpriced int) {
		t.Helper()
		v := b.View(now)
		if v.Total.Micro != micro || v.Total.Unpriced != unpriced {
			t.Errorf("%s: %d micro-dollars, %d nodes without a price, want %d and %d", when, v.Total.Micro, v.Total.Unpriced, micro, unpriced)
		}
		for _, r := range v.Nodes {
			if r.Name == "one" && (r.Type != "m5.large" || r.Zone != "us-east-1a") {
				t.Errorf("%s: have %+v, want the type and zone of its template", when, r)
			}
		}
	}
	check("all read", listed.Micro+50_000+70_000, 1)
	b.SetOffers(map[string]Offer{"two": {Micro: 55_000}, "one": {Micro: 1}}, false)
	check("one template can't be read", listed.Micro+55_000+70_000, 1)
	b.SetOffers(map[string]Offer{}, false)
	check("nothing can be read", listed.Micro+55_000+70_000, 1)
	b.SetOffers(map[string]Offer{"one": {Type: "m5.large", Zone: "us-east-1a"}}, true)
	check("all read, one without an offer now", listed.Micro+70_000, 2)
}
