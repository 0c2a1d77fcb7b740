// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

const (
	conditionDrifted      = "Drifted"
	hashAnnotation        = "karpenter.sh/nodepool-hash"
	hashVersionAnnotation = "karpenter.sh/nodepool-hash-version"
	hashVersion           = "v3"
)

// writeDriftConditions keeps the condition Drifted of every machine: its pool's template has changed, it is not what its pool's requirements allow
// any more, or its type is no longer sold.
func (df *driftConditions) writeConditions() {
	for _, u := range df.candidates.dirty {
		c := u.Claim
		if df.isWriting(c) {
			continue // one write of a status at a time
		}
		if c.Annotations[hashAnnotation] != "" && c.Annotations[hashVersionAnnotation] != hashVersion && u.Pool.Hash != "" {
			// Another version's number can't be compared: it is taken to be today's.
			df.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{hashAnnotation: u.Pool.Hash, hashVersionAnnotation: hashVersion},
				Why: plan.Reason{Code: plan.Drifted, Pool: c.Pool, Key: hashVersionAnnotation, Want: hashVersion, Have: c.Annotations[hashVersionAnnotation]}})
			continue
		}
		key, text := df.reason(u)
		have := c.Conditions[conditionDrifted]
		want := model.Condition{Status: "True", Reason: key, Message: text}
		if key == "" {
			if !have.True() {
				continue
			}
			want = model.Condition{Status: "False", Reason: "NotDrifted"}
		}
		if have.Status == want.Status && have.Reason == want.Reason {
			continue
		}
		df.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{conditionDrifted: want},
			Why: plan.Reason{Code: plan.Drifted, Pool: c.Pool, Subject: "nodeclaim/" + c.Name, Key: key, Have: text}})
	}
}

func (df *driftConditions) reason(u *disrupt.Candidate) (reason, message string) {
	c, p := u.Claim, u.Pool
	if have := c.Annotations[hashAnnotation]; have != "" && p.Hash != "" && have != p.Hash {
		return "NodePoolDrifted", "spec.template of the NodePool has changed"
	}
	if u.UnmetRequirement != "" {
		return "RequirementsDrifted", "the NodePool requires " + u.UnmetRequirement
	}
	if old := c.Created.Add(time.Hour); len(p.Types) > 0 && u.PriceMicro < 0 && c.Labels[model.LabelZone] != "" && c.Labels[model.LabelCapacityType] != "" && !df.now.Before(old) {
		return "InstanceTypeNotFound", c.Labels[model.LabelInstanceType] + " is not offered any more in " + c.Labels[model.LabelZone] + " as " + c.Labels[model.LabelCapacityType]
	}
	if reason, asked := df.s.Drift[c.UID]; asked {
		if reason != "" {
			return reason, "the machine is not what " + c.ClassKind + " " + c.ClassName + " asks for now"
		}
	} else if d := c.Conditions[conditionDrifted]; d.True() && !slices.Contains(ownDriftReasons, d.Reason) {
		return d.Reason, d.Message // the provider's word, and it has not been asked again yet
	}
	return "", ""
}

// ownDriftReasons are the reasons that are found here.
var ownDriftReasons = []string{"NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound"}

// isWriting says whether a write to a claim is under way or decided on in this step.
func (dr *draft) isWriting(c *model.Claim) bool {
	key := plan.UpdateClaim{UID: c.UID}.Key()
	_, ok := dr.s.InFlight[key]
	return ok || dr.decided[key]
}

// isDeleting says whether a claim's deletion is under way or decided on in this step, though no object shows it yet.
func (dr *draft) isDeleting(c *model.Claim) bool {
	key := plan.DeleteClaim{UID: c.UID}.Key()
	_, ok := dr.s.InFlight[key]
	return ok || dr.decided[key]
}

// scaleStaticPools keeps pools with spec.replicas at that number. It says whether it bought.
func (sp *staticPools) scale() bool {
	bought := false
	for _, p := range sp.s.Pools {
		if p.Replicas < 0 {
			continue
		}
		var live []*model.Claim
		all := int64(0)
		for _, c := range sp.s.Claims {
			if c.Pool != p.Name {
				continue
			}
			all++
			if c.Deleting.IsZero() && sp.commands.ofClaim[c.Name] == "" && sp.interruptions.byClaim[c.Name] == nil && !sp.isDeleting(c) {
				live = append(live, c)
			}
		}
		want := p.Replicas
		if p.Deleting {
			want = min(want, int64(len(live)))
		}
		for n := int64(len(live)); n < want && p.Ready; n++ {
			if p.NodeLimit >= 0 && all >= p.NodeLimit {
				break
			}
			a, ok := sp.purchases.staticClaim(p, plan.Reason{Code: plan.Replicas, Pool: p.Name, Key: "spec.replicas", Want: strconv.FormatInt(want, 10), Have: strconv.FormatInt(n, 10)})
			if !ok {
				break
			}
			if _, flying := sp.s.InFlight[a.Key()]; flying {
				break // under way, or refused: the other pools' moves go on
			}
			sp.addAction(a)
			sp.purchases.namedClaims[a.Name] = true
			all++
			bought = true
		}
		if n := len(live) - int(want); n > 0 {
			sp.scaleDown(p, live, n)
		}
	}
	return bought
}

// scaleDownStaticPool deletes what disturbs least: not launched, then empty, then of least weight, what says not to be disrupted last.
func (sp *staticPools) scaleDown(p *model.NodePool, live []*model.Claim, n int) {
	weight := func(c *model.Claim) int64 {
		u := sp.candidates.ofClaim(c)
		switch {
		case u == nil:
			return -1
		case len(u.Pods) == 0:
			return 0
		}
		w := u.DisruptionWeight()
		if u.Node.Annotations[disrupt.DoNotDisrupt] == "true" || c.Annotations[disrupt.DoNotDisrupt] == "true" || slices.ContainsFunc(u.Node.Pods, func(p *model.Pod) bool {
			held, _ := p.Held(sp.now)
			return held
		}) {
			w += 1 << 40
		}
		return w
	}
	slices.SortStableFunc(live, func(a, b *model.Claim) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), strings.Compare(a.Name, b.Name))
	})
	for _, c := range live[:n] {
		if c.UID == "" {
			continue
		}
		sp.addAction(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.ScaledDown, Pool: p.Name, Subject: "nodeclaim/" + c.Name,
			Key: "spec.replicas", Want: strconv.FormatInt(p.Replicas, 10), Have: strconv.Itoa(len(live))}})
	}
}

// staticClaim is a claim of a pool that is for no pod in particular: whatever the pool allows, the cheapest first.
func (pu *purchases) staticClaim(p *model.NodePool, why plan.Reason) (plan.CreateClaim, bool) {
	types, zones, capacity, price := disrupt.BuyableTypes(p, pu.pol.Solve.MaxTypes)
	if len(types) == 0 {
		return plan.CreateClaim{}, false
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.Name
	}
	prefix := p.Name
	if len(prefix) > 52 {
		prefix = strings.TrimRight(prefix[:52], "-.")
	}
	name := ""
	for i := 0; name == "" || pu.claimNamed(name) != nil || pu.namedClaims[name]; i++ {
		name = prefix + "-" + hashName(10, p.UID, "static", strconv.Itoa(i))
	}
	return plan.CreateClaim{
		Name: name, Pool: p, Type: types[0].Name, Types: types, PriceMicro: price, Zone: zones[0], CapacityType: capacity[0], Why: why,
		NoReserve: plan.Reason{Code: plan.Static, Pool: p.Name},
		Requirements: p.Requirements.With(model.OneOf(model.LabelInstanceType, names...), model.OneOf(model.LabelZone, zones...),
			model.OneOf(model.LabelCapacityType, capacity...)),
	}, true
}

// replaceStatic is the move of a static pool's machine: one like it comes first, where the pool's node limit leaves room for both.
func (sp *staticPools) replace(u *disrupt.Candidate, cause plan.Code) *disrupt.Command {
	p := u.Pool
	all := int64(0)
	for _, c := range sp.s.Claims {
		if c.Pool == p.Name {
			all++
		}
	}
	if p.NodeLimit >= 0 && all >= p.NodeLimit || !p.Ready || p.Deleting {
		return nil
	}
	return &disrupt.Command{Cause: cause, Candidates: []*disrupt.Candidate{u}, OneForOne: true}
}

// candidateOf is a claim's unit; nil: it has none.
func (ca *candidates) ofClaim(c *model.Claim) *disrupt.Candidate {
	n := ca.nodeOf(c)
	if n == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(ca.all, n.Name, func(u *disrupt.Candidate, name string) int { return strings.Compare(u.Node.Name, name) })
	for ; i < len(ca.all) && ca.all[i].Node == n; i++ {
		if ca.all[i].Claim == c {
			return ca.all[i]
		}
	}
	return nil
}
