// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// checkLimits checks the limits of pools. Of each resource a machine counts with the largest of its choices.
func (c *checker) checkLimits() {
	for i := range c.in.Pools {
		p := &c.in.Pools[i]
		var used, kept model.Resources
		n, keptN := int64(0), int64(0)
		var over []int // machines that the limits do not allow beside those before them
		for j := range c.in.New {
			m := &c.in.New[j]
			if m.Pool != p.Name {
				continue
			}
			var most model.Resources
			for _, t := range m.Choices {
				most = most.Max(t.Capacity)
			}
			used, n = used.AddInto(most, 1), n+1
			beside := kept.Clone().AddInto(most, 1)
			if p.NodesLeft >= 0 && keptN+1 > p.NodesLeft || overdrawn(p, beside, kept) {
				over = append(over, j)
				continue
			}
			kept, keptN = beside, keptN+1
		}
		at := Site{Machines: over, Pool: p.Name}
		if p.NodesLeft >= 0 && n > p.NodesLeft {
			c.addViolation(Limits, nil, at, "buys %d nodes, %d are left", n, p.NodesLeft)
		}
		for d, limited := range p.HasLimit {
			d := model.Dim(d)
			if have := used.At(d); limited && have > 0 && have > p.Left.At(d) {
				c.addViolation(Limits, nil, at, "launches %s of %s, %s is left", model.FormatAmount(d, have), c.in.resourceName(d), model.FormatAmount(d, p.Left.At(d)))
			}
		}
	}
}

// overdrawn reports whether a pool's limits leave less of a resource than is used, of those that are used more than before.
func overdrawn(p *Pool, used, before model.Resources) bool {
	for d, limited := range p.HasLimit {
		if d := model.Dim(d); limited && used.At(d) > before.At(d) && used.At(d) > p.Left.At(d) {
			return true
		}
	}
	return false
}

// checkSharedLimits checks the limits that several pools share. A machine counts where any of the offerings that it may
// become has labels that the limit selects, with the most of each resource and the dearest price among them all.
func (c *checker) checkSharedLimits() {
	for i := range c.in.Limits {
		l := &c.in.Limits[i]
		all := sharedUse{l.Used.Clone(), l.UsedNodes, l.UsedMicro}
		kept := all
		var over []int // machines that the limit does not allow beside those before them
		for j := range c.in.New {
			m := &c.in.New[j]
			p, counts, dearest := c.pools[m.Pool], false, int64(0)
			if p == nil {
				continue
			}
			c.forEachOffering(p, m, func(_ *model.InstanceType, o *model.Offering, v *variant) {
				counts = counts || l.Matches(v.labels)
				dearest = max(dearest, o.PriceMicro)
			})
			if !counts {
				continue
			}
			var most model.Resources
			for _, t := range m.Choices {
				most = most.Max(t.Capacity)
			}
			all = all.with(most, dearest)
			if next := kept.with(most, dearest); len(next.violations(c.in, l)) == 0 {
				kept = next
			} else {
				over = append(over, j)
			}
		}
		for _, detail := range all.violations(c.in, l) {
			c.addViolation(Limits, nil, Site{Machines: over, Limit: l.Name}, "%s", detail)
		}
	}
}

// sharedUse is what is used of a limit that several pools share.
type sharedUse struct {
	used         model.Resources
	nodes, micro int64
}

// with is the use with one more node.
func (u sharedUse) with(most model.Resources, micro int64) sharedUse {
	return sharedUse{u.used.Clone().AddInto(most, 1), u.nodes + 1, u.micro + micro}
}

// violations says what of a limit is exceeded by what was not used before.
func (u sharedUse) violations(in *Input, l *model.LimitUse) (out []string) {
	if u.nodes > l.UsedNodes && l.Nodes >= 0 && u.nodes > l.Nodes {
		out = append(out, fmt.Sprintf("%d nodes including new ones, %d are allowed", u.nodes, l.Nodes))
	}
	if u.micro > l.UsedMicro && l.MicroPerHour >= 0 && u.micro > l.MicroPerHour {
		out = append(out, fmt.Sprintf("$%s/h including new nodes, $%s/h is allowed", model.Dollars(u.micro), model.Dollars(l.MicroPerHour)))
	}
	for d, limited := range l.HasMost {
		if d := model.Dim(d); limited && u.used.At(d) > l.Used.At(d) && u.used.At(d) > l.Most.At(d) {
			out = append(out, fmt.Sprintf("%s of %s including new nodes, %s is allowed", model.FormatAmount(d, u.used.At(d)), in.resourceName(d), model.FormatAmount(d, l.Most.At(d))))
		}
	}
	return out
}

// checkLimitedOfferings checks that no more machines are bought of an offering than there are, whichever pools offer
// it. A machine that several node groups may provide counts for none of them.
func (c *checker) checkLimitedOfferings() {
	type id struct{ t, zone, capacityType, labels string }
	used, left, over := map[id]int64{}, map[id]int64{}, map[id][]int{}
	for i := range c.in.New {
		m := &c.in.New[i]
		p := c.pools[m.Pool]
		if p == nil {
			continue
		}
		groups, free := map[string]bool{}, false
		c.forEachOffering(p, m, func(t *model.InstanceType, o *model.Offering, _ *variant) {
			switch g := o.Labels[model.LabelNodeGroup]; {
			case o.Remaining < 0:
				free = true
			case g != "":
				groups[g] = true
				if n, ok := left[id{labels: g}]; !ok || o.Remaining < n {
					left[id{labels: g}] = o.Remaining
				}
			default:
				k := id{t.Name, o.Zone, o.CapacityType, fmt.Sprint(o.Labels)}
				used[k]++
				if left[k] = o.Remaining; used[k] > o.Remaining {
					over[k] = append(over[k], i)
				}
			}
		})
		if len(groups) == 1 && !free { // one that several groups may make is counted for none
			for g := range groups {
				k := id{labels: g}
				if used[k]++; used[k] > left[k] {
					over[k] = append(over[k], i)
				}
			}
		}
	}
	before := len(c.found)
	for k, n := range used {
		if n > left[k] {
			c.addViolation(Limits, nil, Site{Machines: over[k]}, "%d machines of an offering of %s in %s of which %d are left", n, k.t+k.labels, k.zone, left[k])
		}
	}
	slices.SortFunc(c.found[before:], func(a, b Violation) int { return strings.Compare(a.String(), b.String()) })
}

// checkExclusiveVolumes checks that a volume for one pod (ReadWriteOncePod) is used by one pod.
func (c *checker) checkExclusiveVolumes() {
	if !slices.ContainsFunc(c.in.Demand, func(p *model.Pod) bool {
		return slices.ContainsFunc(p.Class.Volumes, func(v model.Volume) bool { return v.Exclusive })
	}) {
		return
	}
	used := map[string]string{}
	for i := range c.in.Nodes {
		if c.in.Nodes[i].Drained {
			continue
		}
		for _, p := range c.in.Nodes[i].Pods {
			for _, v := range p.Class.Volumes {
				if v.Exclusive {
					used[v.ID()] = p.Key()
				}
			}
		}
	}
	place := func(p *model.Pod, where Site) {
		for _, v := range p.Class.Volumes {
			if !v.Exclusive {
				continue
			}
			if by, taken := used[v.ID()]; taken {
				c.addViolation(Capacity, p, where, "volume %s is %s's alone", v.Claim, by)
			}
			used[v.ID()] = p.Key()
		}
	}
	for _, a := range c.in.OnNodes {
		for _, p := range a.Pods {
			place(p, Site{Node: a.Node})
		}
	}
	for i, m := range c.in.New {
		for _, p := range m.Pods {
			place(p, siteOf(i, &m))
		}
	}
}

// checkCost checks that the cost is the sum of the machines' prices, and that the bound is not above it.
func (c *checker) checkCost() {
	var sum int64
	for _, m := range c.in.New {
		sum += m.PriceMicro
	}
	if sum != c.in.Cost.NewMicroPerHour {
		c.addViolation(Price, nil, Site{}, "machines cost %d, the plan says %d", sum, c.in.Cost.NewMicroPerHour)
	}
	if c.in.Cost.BoundMicroPerHour > sum {
		c.addViolation(Price, nil, Site{}, "bound %d is above the cost %d", c.in.Cost.BoundMicroPerHour, sum)
	}
}
