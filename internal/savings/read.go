// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savings

import (
	"cmp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// listedAfter is how long after its launch a machine is taken to run though the cloud does not list it.
const listedAfter = time.Minute

// Read returns the Observation of a Snapshot. Replicas are counted if count is set, or if a command is about to remove a node. ok
// is false if the machines have not been listed from the cloud yet.
func Read(now time.Time, snap *model.Snapshot, count bool) (o *Observation, ok bool) {
	if snap.InstancesAt.IsZero() {
		return nil, false
	}
	r := &reader{Snapshot: snap, out: &Observation{Now: now}, pools: map[string]*model.NodePool{},
		byClaim: map[string]*model.Instance{}, claims: map[string]bool{}}
	for _, p := range snap.Pools {
		r.pools[p.Name] = p
	}
	for _, i := range snap.Instances {
		if i.ClaimUID != "" && (r.byClaim[i.ClaimUID] == nil || !i.Gone) {
			r.byClaim[i.ClaimUID] = i
		}
	}
	for _, c := range snap.Claims {
		r.claims[c.UID] = true
	}
	for _, c := range snap.Claims {
		r.readClaim(c)
	}
	if count || len(r.out.Candidates) > 0 {
		r.out.Replicas = snap.CountReplicas()
	}
	return r.out, true
}

type reader struct {
	*model.Snapshot
	out     *Observation
	pools   map[string]*model.NodePool
	byClaim map[string]*model.Instance // those that run, by claim uid
	claims  map[string]bool            // by uid
}

// readClaim takes in a claim's machine, and what it has to do with a consolidation command.
func (r *reader) readClaim(c *model.Claim) {
	m, runs := r.machine(c)
	if !runs {
		return
	}
	r.out.Machines = append(r.out.Machines, m)
	if x, ok := cluster.ReadCommandRecord(c); ok && x.Cause == plan.Underutilized && slices.ContainsFunc(x.Claims, func(uid string) bool { return r.claims[uid] }) {
		r.out.Replacements = append(r.out.Replacements, Replacement{Command: string(x.ID), Machine: m})
	}
	id := RemovedBy(c)
	if id == "" {
		return
	}
	x := Candidate{Command: string(id), UID: c.UID, Series: m.Series, Rates: m.Rates, Leaving: !c.Deleting.IsZero(), Pods: r.shares(c)}
	if c.ExpireAfter >= 0 {
		x.Expires = c.Created.Add(c.ExpireAfter)
	}
	r.out.Candidates = append(r.out.Candidates, x)
}

// RemovedBy returns the consolidation command that will remove the node of a NodeClaim; empty: none.
func RemovedBy(c *model.Claim) plan.CommandID {
	if d := c.Conditions[lifecycle.Disrupted]; !d.True() || plan.Code(d.Reason) != plan.Underutilized {
		return ""
	}
	return cluster.DisruptedBy(c)
}

// machine returns a claim's machine, and whether it runs.
func (r *reader) machine(c *model.Claim) (m Machine, runs bool) {
	m = Machine{UID: c.UID, Series: Series{c.Pool, c.Labels[model.LabelCapacityType]}, Launched: c.Created}
	if l := c.Conditions[lifecycle.Launched]; l.True() {
		m.Launched = l.Since
	}
	switch i := r.byClaim[c.UID]; {
	case i != nil && i.Gone, c.Provisional, i == nil && c.ProviderID == "":
		return m, false
	case i != nil && !i.Launched.IsZero():
		m.Launched = i.Launched
	case i == nil && r.InstancesAt.After(m.Launched.Add(listedAfter)):
		return m, false
	}
	m.Rates = r.prices(c)
	return m, true
}

// prices returns what a claim's machine costs: by its offering, else what it cost when it was launched.
func (r *reader) prices(c *model.Claim) Rates {
	p := r.pools[c.Pool]
	if p == nil {
		return launchPrice(c)
	}
	o := disrupt.NodeOffering(p, c.Labels)
	if o == nil || o.PriceMicro == 0 {
		return launchPrice(c)
	}
	x := Rates{Paid: o.PriceMicro, Catalog: catalogPrice(o)}
	if o.CapacityType == model.OnDemand {
		x.OnDemand = x.Catalog
		return x
	}
	for i, t := 0, disrupt.FindInstanceType(p, c.Labels[model.LabelInstanceType]); i < len(t.Offerings); i++ { // NodeOffering has found it
		a := &t.Offerings[i]
		if a.CapacityType == model.OnDemand && (a.Zone == o.Zone || x.OnDemand == 0) {
			x.OnDemand = catalogPrice(a)
		}
	}
	return x
}

func launchPrice(c *model.Claim) Rates {
	micro, _ := model.ParseDollars(c.Annotations[model.AnnotationLaunchPrice])
	x := Rates{Paid: micro, Catalog: micro}
	if c.Labels[model.LabelCapacityType] == model.OnDemand {
		x.OnDemand = micro
	}
	return x
}

func catalogPrice(o *model.Offering) int64 {
	if o.PriceOverlay != "" {
		return o.ListPriceMicro
	}
	return o.PriceMicro
}

// shares returns which part of a claim's node the pods of workloads take, by workload.
func (r *reader) shares(c *model.Claim) (out []Share) {
	n := r.FindNode(c.NodeName)
	if n == nil {
		return nil
	}
	of := map[model.Workload]int64{}
	for _, p := range n.Pods {
		w, ok := p.Workload()
		if !ok || !p.IsWorkload() || p.Terminal {
			continue
		}
		most := int64(0)
		for d, q := range p.Class.Requests {
			if has := c.Allocatable.At(model.Dim(d)); has > 0 {
				most = max(most, int64(float64(q)/float64(has)*whole))
			}
		}
		of[w] += most
	}
	for w, ppm := range of {
		out = append(out, Share{w, ppm})
	}
	slices.SortFunc(out, func(a, b Share) int { return cmp.Or(a.Workload.Compare(b.Workload), cmp.Compare(a.PPM, b.PPM)) })
	return out
}
