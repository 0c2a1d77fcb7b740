// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/verify"
)

// verifyInput is the plan as verify wants it.
func verifyInput(p *Problem, r Result) *verify.Input {
	in := &verify.Input{ResourceNames: p.ResourceNames, Daemons: p.Daemons, Namespaces: p.Namespaces, Demand: p.Demand, Cost: r.Cost, Nodes: p.Nodes, Limits: p.Limits}
	for _, x := range p.Pools {
		in.Pools = append(in.Pools, verify.Pool{NodePool: x.NodePool, Left: x.Left, NodesLeft: x.NodesLeft, RelaxMinValues: x.RelaxMinValues})
	}
	for _, a := range r.OnNodes {
		in.OnNodes = append(in.OnNodes, verify.Placement{Node: a.Node, Pods: a.Pods})
	}
	for _, n := range r.New {
		in.New = append(in.New, verify.Machine{Pool: n.Pool, Type: n.Type, Choices: n.Choices, Zones: n.Zones, CapacityTypes: n.CapacityTypes,
			Requirements: n.Requirements, Pods: n.Pods, PriceMicro: n.PriceMicro})
	}
	for _, x := range r.Refused {
		in.Refused = append(in.Refused, verify.Refusal{Pod: x.Pod, Reasons: x.Reasons})
	}
	return in
}

// check has every result of every test looked at by verify.
func check(t testing.TB, p *Problem, r Result) {
	t.Helper()
	for _, v := range violations(p, r) {
		t.Error(v)
	}
}

func violations(p *Problem, r Result) (out []string) {
	for _, v := range verify.Plan(verifyInput(p, r)) {
		out = append(out, v.String())
	}
	return out
}
