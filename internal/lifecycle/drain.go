// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

var disrupted = model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule}

// ToleratesDrain reports whether a pod tolerates the drain taint and therefore is not evicted.
func ToleratesDrain(p *model.Pod) bool { return model.Tolerated(disrupted, p.Class.Tolerations) }

// drainNode moves a node's drain on, and reports whether it is over. No pod is evicted before the taint is on the node.
func drainNode(in *Input, n *model.Node, deadline time.Time, forced bool, out *Output) bool {
	c := in.Claim
	u := plan.UpdateNode{Node: n.Name, UID: n.UID, Labels: map[string]string{}}
	tainted := hasTaint(n.Taints, disrupted)
	if n.Labels[excludeBalancersLabel] == "" {
		u.Labels[excludeBalancersLabel] = "karpenter"
	}
	if !tainted {
		u.AddTaints = append(u.AddTaints, disrupted)
		u.AddFinalizer = !n.HasFinalizer && n.Deleting.IsZero()
	}
	if t := (model.Taint{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}); tainted && hasTaint(n.Taints, t) {
		u.RemoveTaints = append(u.RemoveTaints, t)
	}
	if len(u.AddTaints)+len(u.RemoveTaints)+len(u.Labels) > 0 {
		u.Why = plan.Reason{Code: plan.Draining, Pool: c.Pool}
		out.addActions(u)
	}
	if !tainted {
		return false // no pod is asked to go before the scheduler knows that none may come
	}
	if n.Deleting.IsZero() && n.HasFinalizer {
		out.addActions(plan.DeleteNode{Node: n.Name, UID: n.UID, Why: plan.Reason{Code: plan.Draining, Pool: c.Pool}})
	}
	tier, rest := splitByDrainTier(in, n, disrupted)
	for _, p := range tier {
		removePod(in, n, p, deadline, forced, out)
	}
	for _, p := range rest {
		if p.Deleting.IsZero() {
			out.holdPod(in, p, len(tier))
		}
	}
	for _, p := range rest { // the deadline is every tier's, whoever is still waited for
		if forced && !in.Now.Before(deadline.Add(-p.GracePeriod)) {
			removePod(in, n, p, deadline, forced, out)
		}
	}
	return len(tier) == 0
}

// splitByDrainTier are the pods to evict now, which are those of the first tier that has any, and those after them.
// Tiers: the bands of priorities that the pool's node groups have, the lowest first, else one of all pods; in each
// ordinary pods before critical ones, and of these the pods of workloads before those of DaemonSets. Pods that tolerate the taint, pods of DaemonSets that stay (keepsDaemonPod), and pods that have been deleting for too
// long, are in none.
func splitByDrainTier(in *Input, n *model.Node, taint model.Taint) (first, rest []*model.Pod) {
	const tiersOfBand = 4
	tiers := make([][]*model.Pod, tiersOfBand*(lastBand(in.Pool)+1))
	for _, p := range n.Pods {
		if p.Mirror || p.Terminal || model.Tolerated(taint, p.Class.Tolerations) || keepsDaemonPod(in, p) {
			continue
		}
		if !p.Deleting.IsZero() && in.Now.Sub(p.Deleting) > in.Policy.StuckPod {
			continue // its kubelet will not finish the work any more
		}
		band, _ := drainBand(in.Pool, p)
		i := tiersOfBand * band
		if p.Class.Daemon {
			i++
		}
		if p.Class.Critical {
			i += 2
		}
		tiers[i] = append(tiers[i], p)
	}
	for _, t := range tiers {
		if len(first) == 0 {
			first = t
		} else {
			rest = append(rest, t...)
		}
	}
	return first, rest
}

// removePod evicts a pod, or waits: for one that is annotated to stay, or for its successor. Within its grace period
// of the deadline it deletes the pod.
func removePod(in *Input, n *model.Node, p *model.Pod, deadline time.Time, forced bool, out *Output) {
	if forced {
		last := deadline.Add(-p.GracePeriod)
		if !in.Now.Before(last) {
			if p.Deleting.IsZero() || p.Deleting.After(deadline) {
				out.addActions(plan.DeletePod{Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Node: n.Name, Grace: max(deadline.Sub(in.Now), time.Second),
					Why: plan.Reason{Code: plan.Draining, Pool: in.Claim.Pool, Detail: plan.OfGracePeriod{Ends: true}}})
			}
			if !p.Deleting.IsZero() {
				until := p.Deleting.Add(in.Policy.StuckPod + time.Second)
				out.holdTerminating(in, p, until)
				out.lookAgainAt(until)
			}
			return
		}
		out.lookAgainAt(last)
	}
	if !p.Deleting.IsZero() {
		until := p.Deleting.Add(in.Policy.StuckPod + time.Second)
		out.holdTerminating(in, p, until)
		out.lookAgainAt(until)
		return
	}
	if held, until := p.Held(in.Now); held {
		if !until.IsZero() {
			out.lookAgainAt(until)
		}
		return // the drain waits; only the node's termination grace period ends that
	}
	why := plan.Reason{Code: plan.Draining, Pool: in.Claim.Pool}
	if r, ok := in.Rollouts[p.UID]; ok {
		if why = r.Refused; why.Code == "" {
			if awaitRollout(in, n, p, r, out) {
				return
			}
			why = plan.Reason{Code: plan.NoSurge, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfNoSurge{Field: "time", Waited: r.evictBy(in).Sub(in.Claim.Deleting), Late: true}}
		}
		why.Pool = in.Claim.Pool
	}
	out.addActions(plan.Evict{Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Node: n.Name, Grace: shortenedGrace(in.Pool, p), Why: why})
}

// keepsDaemonPod reports whether the eviction rules of node groups keep a pod of a DaemonSet on its node until the instance is
// terminated, instead of evicting it.
func keepsDaemonPod(in *Input, p *model.Pod) bool {
	c := in.Claim.Conditions[Disrupted]
	return in.Pool.KeepsDaemonPod(p, c.True() && c.Reason == string(plan.Empty))
}

// drainBand is the band in which a pool's node groups have a pod evicted, by position, and the longest grace period
// there; 0: as long as it asks for.
func drainBand(pool *model.NodePool, p *model.Pod) (int, time.Duration) {
	if pool == nil || pool.Scaling == nil {
		return 0, 0
	}
	return pool.Scaling.Eviction.DrainBand(p.Class.Priority)
}

// lastBand is the position of the last band of priorities that a pool has.
func lastBand(pool *model.NodePool) int {
	if pool == nil || pool.Scaling == nil {
		return 0
	}
	return max(len(pool.Scaling.Eviction.DrainBands)-1, 0)
}

// shortenedGrace is how long an evicted pod has to end where its pool's node groups allow less than it asks for; 0: as
// long as it asks for.
func shortenedGrace(pool *model.NodePool, p *model.Pod) time.Duration {
	if _, most := drainBand(pool, p); most > 0 && most < p.GracePeriod {
		return most
	}
	return 0
}

// awaitRollout restarts a pod's Deployment, so that the pod's successor comes before it goes, and reports whether there is
// time left to wait for that.
func awaitRollout(in *Input, n *model.Node, p *model.Pod, r Rollout, out *Output) bool {
	limit := r.evictBy(in)
	if !in.Now.Before(limit) {
		return false
	}
	out.lookAgainAt(limit)
	out.hold(in, plan.Draining, limit, plan.Reason{Code: plan.SuccessorFirst, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfSuccessorFirst{Deployment: plan.ObjectOf("deployment", r.Deployment.Key())}})
	if !r.Begun {
		d := r.Deployment
		out.addActions(plan.Restart{Namespace: d.Namespace, Deployment: d.Name, UID: d.UID, From: d.RestartedAt, To: in.Now.UTC().Format(time.RFC3339Nano),
			Pod: p.Name, Node: n.Name, Why: plan.Reason{Code: plan.Draining, Pool: in.Claim.Pool, Subject: plan.ObjectOf("pod", p.Key())}})
	}
	return true
}

// evictBy is until when a pod's successor is waited for.
func (r *Rollout) evictBy(in *Input) time.Time {
	limit := in.Claim.Deleting.Add(in.Policy.SurgeTimeout)
	if !r.By.IsZero() && r.By.Before(limit) {
		return r.By
	}
	return limit
}

func hasTaint(ts []model.Taint, t model.Taint) bool { return slices.Contains(ts, t) }
