// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import "testing"

// A node's labels come from its offering first, then from its type. What is not known of an offering is no label.
func TestInstanceTypeLabel(t *testing.T) {
	x := &InstanceType{Name: "m5.large", Labels: Labels{"size": "large", "both": "type"}}
	in := &Offering{Zone: "a", CapacityType: Spot, Labels: Labels{"both": "offering", "empty": ""}}
	named := &InstanceType{Name: "m5.large", Labels: Labels{LabelInstanceType: "m5.large-2"}}
	for _, c := range []struct {
		of   *InstanceType
		from *Offering
		key  string
		want string
		has  bool
	}{
		{x, in, LabelZone, "a", true},
		{x, in, LabelCapacityType, Spot, true},
		{x, &Offering{}, LabelZone, "", false},
		{x, &Offering{}, LabelCapacityType, "", false},
		{x, in, "size", "large", true},
		{x, in, "both", "offering", true},
		{x, in, "empty", "", true},
		{x, in, "other", "", false},
		{x, in, LabelInstanceType, "m5.large", true},
		{named, in, LabelInstanceType, "m5.large-2", true},
	} {
		if v, ok := c.of.Label(c.key, c.from); v != c.want || ok != c.has {
			t.Errorf("label %s of %+v from %+v: %q, %t, want %q, %t", c.key, c.of, c.from, v, ok, c.want, c.has)
		}
	}
}

// Instance type, zone and capacity type are the cloud's on any node; other labels where a type or an offering has them.
func TestIsCloudLabel(t *testing.T) {
	types := []*InstanceType{{Name: "small", Labels: Labels{"arch": "arm64"}}, {Name: "large", Labels: Labels{"size": "large"}, Offerings: []Offering{{Labels: Labels{"reservation": "r"}}}}}
	for key, want := range map[string]bool{LabelZone: true, LabelCapacityType: true, LabelInstanceType: true, "arch": true, "size": true, "reservation": true, "team": false} {
		if got := IsCloudLabel(key, types); got != want {
			t.Errorf("label %s: %t, want %t", key, got, want)
		}
	}
	if !IsCloudLabel(LabelZone, nil) {
		t.Error("a zone is the cloud's though no type is known")
	}
}
