// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demand

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// While pods stream in, every plan ends in some small machines for what its large ones did not hold, and a burst is
// many plans. So the pods of such machines are delayed to the next plan, two seconds at most: there they fill large
// machines together with those that come meanwhile. Every machine costs a dozen writes to the API server, which a burst
// keeps busy as it is, and is a node for long. The plan is solved again without the delayed pods, so that its cost, its
// bound and its check are those of what is bought.

// smallNodeDivisor is how much smaller than the largest machine of the stream, by price, a machine must be to wait.
const smallNodeDivisor = 4

// SmallNodes delays the pods of small machines while pods of their namespace are arriving in a stream.
type SmallNodes struct {
	Now       time.Time
	Delay     time.Duration   // maximum time that a pod waits for others to share a machine with
	Streaming map[string]bool // namespaces with a stream of new pods
}

// SmallNodeMemory is the state that SmallNodes keeps between steps. The zero value is valid.
type SmallNodeMemory struct {
	largestNode  largestNode
	delayedSince map[string]time.Time // by pod uid: since when it waits for others to share a machine with
}

// largestNode is the price of the largest machine that a stream has bought, and when it last bought.
type largestNode struct {
	priceMicro int64
	at         time.Time
}

// largestPrice returns the price of the largest of some machines and of those that the stream has bought lately.
func (sn *SmallNodes) largestPrice(mem SmallNodeMemory, nodes []solve.NewNode) (most int64) {
	if sn.Now.Sub(mem.largestNode.at) <= sn.Delay {
		most = mem.largestNode.priceMicro
	}
	for i := range nodes {
		most = max(most, nodes[i].PriceMicro)
	}
	return most
}

// Launched returns the memory with the launches of a plan that was made during a stream.
func (sn *SmallNodes) Launched(mem SmallNodeMemory, nodes []solve.NewNode) SmallNodeMemory {
	if len(nodes) > 0 {
		mem.largestNode = largestNode{sn.largestPrice(mem, nodes), sn.Now}
	}
	return mem
}

// DelayPods returns the demand without the pods that wait for others to share a machine with (the youngest of their class), and the
// number of waiting pods. No pod waits if pods depend on the placement of others or belong to a gang, because they must be decided
// together; nor if one would wait for longer than Delay: then all are launched. left is the demand that is not decided on in this
// step; its waiting times are kept.
func (sn *SmallNodes) DelayPods(mem SmallNodeMemory, demand, left []*model.Pod, nodes []solve.NewNode) (kept []*model.Pod, waiting int, next SmallNodeMemory) {
	next = mem.Forget(left)
	most := sn.largestPrice(mem, nodes)
	small := map[string]int{} // pods by class
	for i := range nodes {
		if n := &nodes[i]; n.PriceMicro*smallNodeDivisor < most {
			for _, p := range n.Pods {
				if sn.Streaming[p.Namespace] {
					small[p.Class.Key]++
				}
			}
		}
	}
	since, delayed := map[string]time.Time{}, map[*model.Pod]bool{}
	byClass := map[string][]*model.Pod{}
	for _, p := range demand {
		if p.Class.DependsOnOtherPods() || p.IsPlacedTogether() {
			return demand, 0, next
		}
		if small[p.Class.Key] > 0 {
			byClass[p.Class.Key] = append(byClass[p.Class.Key], p)
		}
	}
	for key, pods := range byClass {
		slices.SortFunc(pods, func(a, b *model.Pod) int {
			if a.Expected != b.Expected { // what is not there yet can wait best
				if a.Expected {
					return -1
				}
				return 1
			}
			return model.ComparePodAge(b, a)
		})
		for i, p := range pods {
			first, again := mem.delayedSince[p.UID]
			if !again {
				first = sn.Now
			}
			if i < small[key] {
				if p.Node != "" || !sn.Now.Before(first.Add(sn.Delay)) {
					return demand, 0, next
				}
				delayed[p] = true
			}
			if again || i < small[key] {
				since[p.UID] = first
			}
		}
	}
	maps.Copy(since, next.delayedSince)
	next.delayedSince = since
	return slices.DeleteFunc(slices.Clone(demand), func(p *model.Pod) bool { return delayed[p] }), len(delayed), next
}

// Forget returns the memory without waiting times, except those of undecided pods.
func (mem SmallNodeMemory) Forget(undecided []*model.Pod) SmallNodeMemory {
	var left map[string]time.Time
	for _, p := range undecided {
		if since, ok := mem.delayedSince[p.UID]; ok {
			if left == nil {
				left = map[string]time.Time{}
			}
			left[p.UID] = since
		}
	}
	mem.delayedSince = left
	return mem
}
