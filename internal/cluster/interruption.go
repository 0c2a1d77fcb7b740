// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cluster

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Interruption is a machine whose cloud has said that it will take it away. Its pods are demand at once, all of them with those
// of every other machine interrupted in the same moment in one solve; its node takes no more pods; and it is drained as
// soon as each of its pods has a home that is ready, or when the time left is needed for the drain. Nothing takes it back
// and no budget holds it up: it goes in any case. PodDisruptionBudgets hold during the drain as always.
type Interruption struct {
	Claim    *model.Claim
	Node     *model.Node // nil: not registered yet, or gone
	Notice   Notice
	Deadline time.Time    // when it will be terminated
	Drain    time.Time    // when its drain must start, even if its pods have no other node
	Pods     []*model.Pod // pods on Node that need another node; in the order of Node.Pods
}

// ReadInterruptions finds the interrupted machines among the changed NodeClaims. Without a deadline from the cloud, a default
// applies. Only the View's owner calls it, before the View is read.
func (v *View) ReadInterruptions(stays time.Duration) {
	for _, c := range v.DirtyClaims {
		n, ok := ReadNotice(c)
		if !ok || c.Provisional {
			continue
		}
		x := &Interruption{Claim: c, Node: v.NodeFor(c), Notice: n, Deadline: n.At}
		if x.Deadline.IsZero() {
			x.Deadline = n.Seen.Add(stays)
		}
		need := stays / 8 // for evictions that are refused for a while, and for what is bound anew
		if x.Node != nil {
			for _, p := range x.Node.Pods {
				if v.IsReschedulable(p) {
					x.Pods = append(x.Pods, p)
					need = max(need, stays/8+p.GracePeriod)
				}
			}
		}
		x.Drain = x.Deadline.Add(-need)
		if half := n.Seen.Add(x.Deadline.Sub(n.Seen) / 2); x.Drain.Before(half) {
			x.Drain = half // a pod that takes very long to end doesn't take its replacement's time as well
		}
		if v.Interruptions == nil {
			v.Interruptions = map[string]*Interruption{}
		}
		v.Interruptions[c.Name] = x
	}
}
