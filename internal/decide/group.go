// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// groups are the node groups of which something has to be minded, and how many of their machines nothing is being done to. A machine that
// no claim was made for does not count: it is better to keep one too many.
func (st *step) groups() map[string]*disrupt.Group {
	out := map[string]*disrupt.Group{}
	for _, p := range st.s.Pools {
		if p.Scaling == nil {
			continue
		}
		for _, g := range p.Scaling.Groups {
			if x := out[g.Name]; x == nil {
				out[g.Name] = &disrupt.Group{Min: g.Min, Refresh: g.Refresh}
			} else {
				x.Min = max(x.Min, g.Min)
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, c := range st.s.Claims {
		if x := out[c.Labels[model.LabelNodeGroup]]; x != nil && c.ProviderID != "" && c.Deleting.IsZero() && st.moveOf[c.Name] == "" && st.taken[c.Name] == nil {
			x.Stay++
		}
	}
	return out
}

// spare is how many more machines of each group may go.
func (st *step) spare() map[string]int64 {
	out := make(map[string]int64, len(st.guard.Groups))
	for name, x := range st.guard.Groups {
		out[name] = max(0, x.Stay-x.Min)
	}
	return out
}

// refreshing says whether the cloud is replacing the machines of a group.
func (st *step) refreshing(group string) bool {
	x := st.guard.Groups[group]
	return x != nil && x.Refresh != ""
}

// unrefreshed are pools that buy nothing from groups whose machines are being replaced. Those given stay as they are.
func (st *step) unrefreshed(pools []solve.Pool) []solve.Pool {
	away := func(o *model.Offering) bool { return o.Available && st.refreshing(o.Labels[model.LabelNodeGroup]) }
	for i := range pools {
		var types []*model.InstanceType
		for j, t := range pools[i].Types {
			if !slices.ContainsFunc(t.Offerings, func(o model.Offering) bool { return away(&o) }) {
				continue
			}
			if types == nil {
				types = slices.Clone(pools[i].Types)
			}
			x := *t
			x.Offerings = slices.Clone(t.Offerings)
			for k := range x.Offerings {
				if o := &x.Offerings[k]; away(o) {
					o.Available = false
				}
			}
			types[j] = &x
		}
		if types != nil {
			p := *pools[i].NodePool
			p.Types = types
			pools[i].NodePool = &p
		}
	}
	return pools
}
