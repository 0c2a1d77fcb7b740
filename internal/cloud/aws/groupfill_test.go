// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
)

// TestGroupFilledToMinimum: a group with fewer members than minSize of its class is filled up to it where the class says
// so, and left as it is where the class does not.
func TestGroupFilledToMinimum(t *testing.T) {
	for fill, want := range map[string]int32{`{"fillToMinSize":true}`: 3, `{}`: 1} {
		clock := &skipping{}
		a := open(t, some(t, "m5.large"), clock)
		a.define(awstest.Group{Name: "web", Min: 1, Desired: 1, Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
		p := a.provider()
		class := groupClass(`{"selectorTerms":[{"name":"web","minSize":3}],"options":` + fill + `}`)
		if _, err := p.Offerings(t.Context(), nil, class); err != nil {
			t.Fatal(err)
		}
		if _, err := p.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := *a.group("web").DesiredCapacity; got != want {
			t.Errorf("options %s: the group should have %d members, want %d", fill, got, want)
		}
	}
}
