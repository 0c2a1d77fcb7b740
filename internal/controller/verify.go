// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/verify"
)

// Opinion is what the second opinion has against a decision. A move that is wrong says nothing against what is bought for pods, and the
// other way round.
type Opinion struct {
	Demand error         // what is placed and bought for pending pods; nil: nothing is wrong
	Moves  []RefusedMove // moves begun that are wrong
}

// RefusedMove is a move that is not begun.
type RefusedMove struct {
	decide.MoveBegun
	Err error
}

// Verified asks the second opinion about a plan (contract 2).
func Verified(out *decide.Output) Opinion {
	var o Opinion
	if out.Problem != nil {
		o.Demand = violations(verify.Plan(verifyInput(out.Problem, out.Result)))
	}
	for _, m := range out.Moves {
		if m.Problem == nil {
			continue
		}
		if err := violations(verify.Plan(verifyInput(m.Problem, m.Result))); err != nil {
			o.Moves = append(o.Moves, RefusedMove{m, err})
		}
	}
	return o
}

// Err is all that is wrong; nil: nothing is.
func (o Opinion) Err() error {
	errs := []error{o.Demand}
	for _, m := range o.Moves {
		errs = append(errs, fmt.Errorf("move %s: %w", m.ID, m.Err))
	}
	return errors.Join(errs...)
}

func violations(found []verify.Violation) error {
	if len(found) == 0 {
		return nil
	}
	text := make([]string, 0, 4)
	for i, v := range found {
		if i == 3 {
			text = append(text, fmt.Sprintf("and %d more", len(found)-i))
			break
		}
		text = append(text, v.String())
	}
	return errors.New(strings.Join(text, "; "))
}

// verifyInput is a plan in the values of verify, which shares no code with solve.
func verifyInput(p *solve.Problem, r *solve.Result) *verify.Input {
	in := &verify.Input{
		ResourceNames: p.ResourceNames, Daemons: p.Daemons, Namespaces: p.Namespaces, Demand: p.Demand, Cost: r.Cost,
		Rooms: p.Rooms, Pools: make([]verify.Pool, len(p.Pools)),
	}
	for i, x := range p.Pools {
		in.Pools[i] = verify.Pool{NodePool: x.NodePool, Left: x.Left, NodesLeft: x.NodesLeft}
	}
	for _, a := range r.OnRooms {
		in.OnRooms = append(in.OnRooms, verify.Placement{Room: a.Room, Pods: a.Pods})
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
