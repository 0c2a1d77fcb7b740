// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// ForgetClaims stops following claims for now: what becomes of them meanwhile is not told.
func (rec *Recorder) ForgetClaims() { rec.claims.followed, rec.claims.last = false, nil }

// HourlyCost returns what all nodes of NodePools cost, in micro-dollars an hour, as the ledger counts them.
func (rec *Recorder) HourlyCost(snap *model.Snapshot) int64 { return rec.claims.sum(snap) }

// recordClaims tells which claims have ended since the step before, which of somebody else have been launched, and which somebody else has begun to delete. Then the
// cost that the next entries begin with is known.
func (rec *Recorder) recordClaims(now time.Time, snap *model.Snapshot, out *decide.Output) {
	h := &rec.claims
	var ended, deleted, made []*model.Claim
	if h.followed {
		nodes := map[string]*model.Node{} // by provider ID, those that nobody has deleted
		for _, n := range snap.Nodes {
			if n.ProviderID != "" && n.Deleting.IsZero() {
				nodes[n.ProviderID] = n
			}
		}
		model.CompareLists(h.last, snap.Claims, func(c *model.Claim) string { return c.Name }, func(was, is *model.Claim) {
			switch {
			case is == nil:
				delete(h.awaiting, was.Name)
			case is.ProviderID != "":
				delete(h.awaiting, is.Name)
			}
			if is != nil && is.Maker != "" && is.ProviderID != "" && (was == nil || was.UID != is.UID || was.ProviderID == "") && !h.handedOver[is.ProviderID] {
				made = append(made, is)
			}
			switch {
			case was == nil || was.Provisional:
			case (is == nil || is.UID != was.UID) && nodes[was.ProviderID] != nil: // its node stays, as when a NodePool is taken over or released
				h.handedOver[was.ProviderID] = true
			case is == nil || is.UID != was.UID:
				if have := rec.objects.FindClaim(was.Name); have == nil || have.UID != was.UID { // else it is only none of ours now
					ended = append(ended, was)
				}
			case was.Deleting.IsZero() && !is.Deleting.IsZero():
				if _, ours := h.asked[is.Name]; !ours {
					deleted = append(deleted, is)
				}
			}
		})
	}
	h.followed, h.last = true, snap.Claims
	if len(h.handedOver) > 0 {
		maps.DeleteFunc(h.handedOver, func(id string, _ bool) bool {
			return !slices.ContainsFunc(snap.Nodes, func(n *model.Node) bool { return n.ProviderID == id })
		})
	}
	if len(ended)+len(deleted)+len(made) == 0 && !changesNodes(out) {
		return
	}
	h.cost = h.sum(snap)
	for _, c := range ended {
		h.cost += h.price(c)
	}
	for _, c := range made {
		h.cost -= h.price(c)
	}
	for _, c := range made {
		e := rec.claimEntry(now, "create", c, plan.Reason{Code: plan.CreatedByOthers, Pool: c.Pool})
		h.cost += e.Micro
		e.After, e.Outcome = h.cost, "done"
		rec.ledger.Add(e)
	}
	for _, c := range ended {
		e := rec.claimEntry(now, "remove", c, rec.endReason(c))
		h.cost -= e.Micro
		e.After = h.cost
		rec.ledger.Add(e)
	}
	gone := func(name string) bool { return snap.FindClaim(name) == nil }
	maps.DeleteFunc(h.planned, func(name string, _ int64) bool { return gone(name) })
	maps.DeleteFunc(h.asked, func(name string, _ plan.Reason) bool { return gone(name) })
	for _, c := range deleted {
		why := plan.Reason{Code: plan.Deleted, Pool: c.Pool}
		h.asked[c.Name] = why
		rec.ledger.Add(rec.claimEntry(now, "delete", c, why))
	}
}

// claimEntry is an entry about a claim that leaves the cost as it is.
func (rec *Recorder) claimEntry(now time.Time, kind string, c *model.Claim, why plan.Reason) ledger.Entry {
	e := ledger.Entry{At: now, Kind: kind, Subject: "nodeclaim/" + c.Name, Why: []plan.Reason{why}, Type: c.Labels[model.LabelInstanceType], Micro: rec.claims.price(c),
		Before: rec.claims.cost, After: rec.claims.cost}
	if c.NodeName != "" {
		e.Related = []string{"node/" + c.NodeName}
	}
	return e
}

// endReason is why a claim has ended: what its deletion was asked for, as this process or the one before it has said.
func (rec *Recorder) endReason(c *model.Claim) plan.Reason {
	if why, ok := rec.claims.asked[c.Name]; ok {
		return why
	}
	if d := c.Conditions[lifecycle.Disrupted]; d.True() {
		return plan.Reason{Code: plan.Code(d.Reason), Pool: c.Pool}
	}
	return plan.Reason{Code: plan.Deleted, Pool: c.Pool}
}

// sum is what the nodes of a snapshot's claims cost an hour.
func (h *claimHistory) sum(snap *model.Snapshot) (micro int64) {
	h.pools = make(map[string]*model.NodePool, len(snap.Pools))
	for _, p := range snap.Pools {
		h.pools[p.Name] = p
	}
	for _, c := range snap.Claims {
		micro += h.price(c)
	}
	return micro
}

// price is what a claim's node costs an hour: by its offering, else what it cost when it was launched, else what it was
// decided to cost.
func (h *claimHistory) price(c *model.Claim) int64 {
	if p := h.pools[c.Pool]; p != nil {
		if o := disrupt.NodeOffering(p, c.Labels); o != nil {
			return o.PriceMicro
		}
	}
	if micro, ok := model.ParseDollars(c.Annotations[model.AnnotationLaunchPrice]); ok {
		return micro
	}
	return h.planned[c.Name]
}

// changesNodes reports whether a decision launches or removes nodes.
func changesNodes(out *decide.Output) bool {
	for _, a := range out.Actions {
		switch a.(type) {
		case plan.CreateClaim, plan.DeleteClaim:
			return true
		}
	}
	return len(out.Commands) > 0
}

// deploymentsOf are the Deployments of pods, each once, as the ledger names them.
func deploymentsOf(pods []*model.Pod) (names []string) {
	seen := map[string]bool{}
	for _, p := range pods {
		if name := "deployment/" + p.Namespace + "/" + p.Deployment; p.Deployment != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}
