// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import "testing"

// TestInZones: a cluster in zones that the catalog does not have gets its offerings under the names of its own zones.
func TestInZones(t *testing.T) {
	c, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if same, elsewhere := c.InZones([]string{"us-east-1b", "z"}); elsewhere || same != c {
		t.Error("the catalog is changed though one of the zones is its own")
	}
	local, elsewhere := c.InZones([]string{"x1", "x2", "x3", "x1", ""})
	if !elsewhere || len(local.Types) != len(c.Types) {
		t.Fatalf("%t, %d types of %d", elsewhere, len(local.Types), len(c.Types))
	}
	if have, was := local.Types[0].Offerings, c.Types[0].Offerings; len(have) != len(was) || have[0].Zone != "x1" || was[0].Zone != "us-east-1a" {
		t.Errorf("%+v of %+v", have, was)
	}
}
