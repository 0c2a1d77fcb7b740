// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"testing"
	"time"
)

// TestGroupScalingOf: what a group says itself takes the place of what its class says, and of that only what is said.
func TestGroupScalingOf(t *testing.T) {
	class := &GroupScaling{UtilizationPercent: 50, GPUPercent: 60, Unready: time.Minute, Provision: time.Hour, IgnoreDaemons: true, Groups: []NodeGroup{
		{Name: "a"}, {Name: "b", Options: &GroupOptions{UtilizationPercent: -1, GPUPercent: -1}},
		{Name: "c", Options: &GroupOptions{UtilizationPercent: 0, GPUPercent: 70, Unready: time.Second, Provision: time.Minute, SaysDaemons: true}},
	}}
	for _, name := range []string{"", "a", "b", "other"} {
		if s := class.Of(name); s.UtilizationPercent != 50 || s.GPUPercent != 60 || s.Unready != time.Minute || s.Provision != time.Hour || !s.IgnoreDaemons {
			t.Errorf("group %q: have %+v, want what the class says", name, s)
		}
	}
	if s := class.Of("c"); s.UtilizationPercent != 0 || s.GPUPercent != 70 || s.Unready != time.Second || s.Provision != time.Minute || s.IgnoreDaemons {
		t.Errorf("have %+v, want what group c says", s)
	}
}
