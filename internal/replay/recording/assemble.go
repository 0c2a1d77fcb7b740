// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/replay"
)

const (
	// lostWithin is how long after its node a pod may go that is lost with it.
	lostWithin = 2 * time.Minute
	// remadeWithin is how soon after a pod its successor comes, and remadeLate after one that was evicted.
	remadeWithin = 30 * time.Second
	remadeLate   = 10 * time.Minute
)

// assemble makes of single lives what follows from all of them.
func (r *reader) assemble() {
	t := r.out.Trace
	for _, k := range sorted(r.nodes) {
		r.addNode(r.nodes[k])
	}
	slices.SortStableFunc(t.Changes, func(a, b replay.Change) int { return a.At.Compare(b.At) })
	r.rehash()
	byName := map[string][]*replay.Node{}
	byProvider := map[string]*replay.Node{}
	for _, n := range t.Nodes {
		byName[n.Node.Name] = append(byName[n.Node.Name], n)
		if n.Node.ProviderID != "" {
			byProvider[n.Node.ProviderID] = n
		}
	}
	for _, x := range t.Claims {
		n := byProvider[x.Last.ProviderID]
		if n == nil && x.Last.NodeName != "" && len(byName[x.Last.NodeName]) > 0 {
			n = byName[x.Last.NodeName][0]
		}
		if n != nil {
			x.Node, n.Claim = n, x
			n.Pool = cmp.Or(x.Last.Pool, n.Pool)
		}
		t.Own = t.Own || x.Last.Annotations[model.AnnotationLaunchPrice] != ""
	}
	for _, o := range r.order {
		for _, p := range o.Pods {
			disruption(p, byName)
		}
		if s := r.sets[o.uid]; s != nil && slices.Contains(counted, o.Owner.Owner.Kind) {
			o.Wants = s.wants
			findRestarts(o.Owner)
		} else {
			findSlots(o.Owner)
		}
		t.Owners = append(t.Owners, o.Owner)
	}
}

// disruption says why a pod lost its node.
func disruption(p *replay.Pod, nodes map[string][]*replay.Node) {
	if p.Ended.IsZero() || p.Completed || p.Bound.IsZero() {
		return
	}
	var node *replay.Node
	for _, n := range nodes[p.Node] {
		if !n.Seen.After(p.Ended) && (n.Gone.IsZero() || !n.Gone.Before(p.Bound)) {
			node = n
		}
	}
	if p.Disrupted == "" {
		if node == nil || node.Gone.IsZero() || p.Ended.Before(node.Gone) || p.Ended.After(node.Gone.Add(lostWithin)) {
			return
		}
		p.Disrupted = "NodeLost"
	}
	switch {
	case p.Disrupted == "PreemptionByScheduler":
		p.Disrupted = "Preempted"
	case node != nil && node.Claim != nil && !node.Claim.Deleted.IsZero() && !node.Claim.Deleted.After(p.Ended):
		p.Disrupted = cmp.Or(node.Claim.Reason, interrupted(node.Claim), "Deleted")
	case p.Disrupted == "EvictionByEvictionAPI":
		p.Disrupted = "Evicted"
	}
}

func interrupted(x *replay.Claim) string {
	if x.Interrupted.IsZero() {
		return ""
	}
	return "Interrupted"
}

// findRestarts finds the pods that were deleted though as many were wanted as there were.
func findRestarts(o *replay.Owner) {
	type step struct {
		at   time.Time
		pod  *replay.Pod
		ends bool
	}
	var steps []step
	for _, p := range o.Pods {
		steps = append(steps, step{p.Born, p, false})
		if !p.Ended.IsZero() {
			steps = append(steps, step{p.Ended, p, true})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
	live, want, next := 0, 0, 0
	for _, s := range steps {
		for ; next < len(o.Wants) && !o.Wants[next].At.After(s.at); next++ {
			want = o.Wants[next].Count
		}
		if !s.ends {
			live++
			continue
		}
		s.pod.Restart = s.pod.Disrupted == "" && (s.pod.Completed || live <= want)
		live--
	}
}

// findSlots puts the pods of an owner that does not say how many it wants into slots: one that was made soon after another had gone took its
// place.
func findSlots(o *replay.Owner) {
	pods := slices.Clone(o.Pods)
	slices.SortStableFunc(pods, func(a, b *replay.Pod) int { return a.Born.Compare(b.Born) })
	for _, p := range pods {
		var place *replay.Slot
		for j, s := range o.Slots {
			last := s.Pods[len(s.Pods)-1]
			if o.Bare || last.Ended.IsZero() || last.Completed || last.Ended.After(p.Born) {
				continue
			}
			within := remadeWithin
			if last.Disrupted != "" {
				within = remadeLate
			}
			if p.Born.Sub(last.Ended) <= within {
				place = o.Slots[j]
				break
			}
		}
		if place != nil {
			place.Pods = append(place.Pods, p)
			continue
		}
		o.Slots = append(o.Slots, &replay.Slot{Owner: o, Pods: []*replay.Pod{p}})
	}
}

// rehash gives recorded NodeClaims the hash of their NodePool as it can be computed from what is recorded of it: recordings do not hold all that
// the original was computed from. Claims of earlier templates keep theirs, which differs.
func (r *reader) rehash() {
	hashes := map[string]string{} // by NodePool and recorded hash
	for _, x := range r.out.pools {
		if x.json == nil {
			continue
		}
		var o karpv1.NodePool
		if json.Unmarshal(x.json, &o) != nil {
			continue // Variant says what is wrong with it
		}
		if p := r.t.NodePool(&o); p.StatusHash != "" {
			hashes[p.Name+"/"+p.StatusHash] = p.Hash
		}
	}
	for _, x := range r.out.Trace.Claims {
		c := x.Claim
		if hash := hashes[c.Pool+"/"+c.Annotations[model.AnnotationPoolHash]]; hash != "" {
			c.Annotations = maps.Clone(c.Annotations)
			c.Annotations[model.AnnotationPoolHash], c.Annotations[model.AnnotationPoolHashVersion] = hash, model.PoolHashVersion
		}
	}
}
