// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A buffer may have fewer virtual pods than it asks for: buffers of one group share capacity, so that only the largest
// of them holds any, and one that names a price holds no more than can be had for it.

// pricedPod is a virtual pod with its part of what its node costs.
type pricedPod struct {
	pod          *model.Pod
	microPerHour float64
}

// share is the part of a node that a pod takes: of the resource that it asks for most of.
func share(requests, allocatable model.Resources) (most float64) {
	for d, n := range requests {
		if a := allocatable.At(model.Dim(d)); a > 0 {
			most = max(most, float64(n)/float64(a))
		}
	}
	return min(most, 1)
}

// priceVirtual gives each of the virtual pods of a node its part of the node's price: its share, and where no real pod
// is there all of the price is theirs.
func priceVirtual(out []pricedPod, pods []*model.Pod, hasReal bool, allocatable model.Resources, microPerHour int64) []pricedPod {
	sum := 0.0
	for _, p := range pods {
		sum += share(p.Class.Requests, allocatable)
	}
	if hasReal || sum == 0 {
		sum = 1
	}
	for _, p := range pods {
		out = append(out, pricedPod{p, float64(microPerHour) * share(p.Class.Requests, allocatable) / sum})
	}
	return out
}

// priceHeld prices virtual pods by the machines, there or coming, that they are on.
func (bu *buffers) priceHeld(byNode map[string][]*model.Pod) (out []pricedPod) {
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		c := bu.Claim(name)
		if c == nil || bu.Pool(c.Pool) == nil {
			continue // a node that nobody launched here costs the same without them
		}
		n, pool := bu.NodeFor(c), bu.Pool(c.Pool)
		price, allocatable, hasReal := int64(0), c.Allocatable, len(c.Slots) > 0
		if n != nil {
			allocatable, hasReal = n.Allocatable, hasReal || disrupt.HasWorkloadPods(n)
			if o := disrupt.NodeOffering(pool, disrupt.MachineLabels(c, n)); o != nil {
				price = o.PriceMicro
			}
		} else {
			price = cheapestOf(pool, c)
			if allocatable.IsZero() {
				allocatable, _, _ = bu.nodes.purchases.sizeRange(c)
			}
		}
		out = priceVirtual(out, byNode[name], hasReal, allocatable, price)
	}
	return out
}

// cheapestOf is the least that the machine of a claim may cost an hour; 0 where nothing is known of it.
func cheapestOf(pool *model.NodePool, c *model.Claim) (least int64) {
	for _, t := range pool.Types {
		if q := c.Requirements.Get(model.LabelInstanceType); q != nil && !q.Matches(t.Name, true) {
			continue
		}
		for i := range t.Offerings {
			if o := &t.Offerings[i]; pool.MayBuyOffering(o) && (least == 0 || o.PriceMicro < least) {
				least = o.PriceMicro
			}
		}
	}
	return least
}

// findTooDear returns, of the buffers that name a price, the virtual pods that it does not pay for: the dearest ones.
func (bu *buffers) findTooDear(priced []pricedPod) map[*model.Pod]bool {
	out := map[*model.Pod]bool{}
	for _, b := range bu.Snapshot.Buffers {
		if b.MaxHourMicro < 0 {
			continue
		}
		var own []pricedPod
		for _, x := range priced {
			if x.pod.Buffer == b.Key() {
				own = append(own, x)
			}
		}
		slices.SortStableFunc(own, func(x, y pricedPod) int {
			return cmp.Or(cmp.Compare(x.microPerHour, y.microPerHour), strings.Compare(x.pod.UID, y.pod.UID))
		})
		sum := 0.0
		for _, x := range own {
			if sum += x.microPerHour; sum > float64(b.MaxHourMicro)+0.5 { // shares add up to a node's price but for the last bits
				out[x.pod] = true
			}
		}
	}
	return out
}

// dropTooDear gives up places that have become dearer than their buffers pay for.
func (bu *buffers) dropTooDear() {
	if !slices.ContainsFunc(bu.Snapshot.Buffers, func(b *model.Buffer) bool { return b.MaxHourMicro >= 0 }) {
		return
	}
	if bu.dear = bu.findTooDear(bu.priceHeld(bu.byNode)); len(bu.dear) > 0 {
		bu.markTooDear()
		bu.listByNode()
		if bu.mem.triedAt.IsZero() {
			bu.mem.triedAt = bu.Now
		}
	}
}

// markTooDear takes down which virtual pods are too dear.
func (bu *buffers) markTooDear() {
	next := make(map[string]virtualPods, len(bu.mem.byUID))
	for uid, v := range bu.mem.byUID {
		v.at = slices.Clone(v.at)
		for i, p := range v.pods {
			if bu.dear[p] {
				v.at[i] = tooDear
			}
		}
		next[uid] = v
	}
	bu.mem.byUID = next
}

// maxPricedSolves is how often demand is packed again without pods that are too dear; after that a buffer that is still
// too dear is given nothing new.
const maxPricedSolves = 3

// withoutTooDear returns the demand without the virtual pods that would cost more than their buffers pay for, as packed
// in a result, and whether there were any. all: without every virtual pod of these buffers.
func (bu *buffers) withoutTooDear(demand []*model.Pod, res *solve.Result, all bool) ([]*model.Pod, bool) {
	held := maps.Clone(bu.byNode)
	for _, a := range res.OnNodes {
		t := string(bu.targetOf(a.Node))
		held[t] = slices.Concat(held[t], model.VirtualPods(a.Pods))
	}
	priced := bu.priceHeld(held)
	for i := range res.New {
		n := &res.New[i]
		virtual := model.VirtualPods(n.Pods)
		priced = priceVirtual(priced, virtual, len(virtual) < len(n.Pods), n.Type.Allocatable, n.PriceMicro)
	}
	dear := bu.findTooDear(priced)
	if len(dear) == 0 {
		return demand, false
	}
	if all {
		over := map[string]bool{}
		for p := range dear {
			over[p.Buffer] = true
		}
		for _, x := range priced {
			dear[x.pod] = dear[x.pod] || over[x.pod.Buffer]
		}
	}
	if bu.dear == nil {
		bu.dear = map[*model.Pod]bool{}
	}
	kept := slices.DeleteFunc(slices.Clone(demand), func(p *model.Pod) bool {
		if dear[p] {
			bu.dear[p] = true
		}
		return dear[p]
	})
	return kept, len(kept) < len(demand)
}
