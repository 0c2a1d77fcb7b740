// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// The bitmaps say what model.HostPort.Conflicts says of each pair of ports, whatever is on a node already.
func TestPorts(t *testing.T) {
	conflicts, allowed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		port := rapid.Custom(func(t *rapid.T) model.HostPort {
			return model.HostPort{IP: rapid.SampledFrom([]string{"", "0.0.0.0", "::", "10.0.0.1", "10.0.0.2"}).Draw(t, "ip"),
				Protocol: rapid.SampledFrom([]string{"TCP", "UDP"}).Draw(t, "protocol"), Port: int32(rapid.IntRange(1, 70).Draw(t, "port"))}
		})
		lists := rapid.SliceOfN(rapid.SliceOfN(port, 0, 5), 3, 8).Draw(t, "classes")
		outside := rapid.SliceOfN(port, 0, 5).Draw(t, "on the node") // of a pod that is not of the problem
		s := &problemCompiler{in: &Input{Given: &Problem{}}, inst: &Instance{}}
		for _, l := range lists {
			s.inst.Classes = append(s.inst.Classes, &Class{Spec: &model.Class{HostPorts: l}})
		}
		s.compilePorts()
		use := s.in.ports.useOf(outside)
		taken, there := TakenPorts(nil).Take(&use), slices.Clone(outside)
		for i, c := range s.inst.Classes {
			want := slices.ContainsFunc(c.Spec.HostPorts, func(p model.HostPort) bool { return slices.ContainsFunc(there, p.Conflicts) })
			if have := taken.Refuse(&c.Ports); have != want {
				t.Fatalf("class %d %v beside %v: refused %t, want %t", i, c.Spec.HostPorts, there, have, want)
			}
			for j, o := range s.inst.Classes {
				want := slices.ContainsFunc(c.Spec.HostPorts, func(p model.HostPort) bool { return slices.ContainsFunc(o.Spec.HostPorts, p.Conflicts) })
				if have := c.Ports.ConflictsWith(&o.Ports); have != want {
					t.Fatalf("class %d %v with class %d %v: conflict %t, want %t", i, c.Spec.HostPorts, j, o.Spec.HostPorts, have, want)
				}
			}
			if want {
				conflicts++
				continue
			}
			allowed++
			taken, there = taken.Take(&c.Ports), append(there, c.Spec.HostPorts...)
		}
	})
	if conflicts == 0 || allowed == 0 {
		t.Errorf("%d conflicts and %d classes beside each other: nothing was held against anything", conflicts, allowed)
	}
}
