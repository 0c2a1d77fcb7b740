// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package landing

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// BindRefusal returns why Dovetail does not bind a pod; an empty code: it does. It binds pods whose constraints concern no other
// node; verify.BindingCheck checks this independently. names are the resource names by model.Dim.
func (pol Policy) BindRefusal(p *model.Pod, names []string) plan.Reason {
	c := p.Class
	because := func(d plan.OfNotBindable) plan.Reason {
		return plan.Reason{Code: plan.NotBindable, Subject: plan.ObjectOf("pod", p.Key()), Detail: d}
	}
	refuse := func(field, value string) plan.Reason { return because(plan.OfNotBindable{Field: field, Value: value}) }
	switch {
	case pol.Mode != Bind:
		return refuse("--landing", string(pol.Mode))
	case p.Unbindable:
		return plan.Reason{Code: plan.BindingRefused, Subject: plan.ObjectOf("pod", p.Key())}
	case !slices.Contains(pol.Schedulers, c.Scheduler):
		return refuse("spec.schedulerName", c.Scheduler)
	case p.Gang.LeftToScheduler:
		return refuse("gang", p.Gang.Name)
	case len(c.Unsolved) > 0:
		return refuse("spec", c.Unsolved[0])
	case c.HasClaims:
		return refuse(c.ClaimsField(), "")
	case c.VolumeProblem() != nil:
		return refuse("spec.volumes", c.VolumeProblem().Claim)
	case c.Excess.What != "":
		return because(plan.OfNotBindable{Field: "spec", TooMany: c.Excess.What})
	}
	for _, t := range c.Affinity {
		if !t.IsOfGang() { // else its node was chosen by it, and nobody else heeds it
			return refuse("spec.affinity.podAffinity", t.TopologyKey)
		}
	}
	for _, t := range c.AntiAffinity {
		if t.TopologyKey != model.LabelHostname {
			return refuse("spec.affinity.podAntiAffinity", t.TopologyKey)
		}
	}
	for _, s := range c.Spread {
		if s.Hard && s.TopologyKey != model.LabelHostname {
			return refuse("spec.topologySpreadConstraints", s.TopologyKey)
		}
	}
	for _, v := range c.Volumes {
		if v.Unmade || v.Exclusive {
			return refuse("spec.volumes", v.Claim)
		}
	}
	for d := int(model.FirstExtended); d < len(c.Requests); d++ {
		if c.Requests[d] > 0 {
			return refuse("spec.containers[*].resources.requests", names[d])
		}
	}
	return plan.Reason{}
}

// ReservationRefusal returns the reason why a new NodeClaim cannot be reserved for its pods. The reason has an empty
// code if it can. pods must not be empty; names are the resource names, indexed by model.Dim.
func (pol Policy) ReservationRefusal(pool *model.NodePool, requests model.Resources, pods []*model.Pod, names []string) plan.Reason {
	if pol.Mode == Off {
		return plan.Reason{Code: plan.LandingOff, Pool: pool.Name}
	}
	for d := int(model.FirstExtended); d < len(requests); d++ {
		if requests[d] > 0 {
			return plan.Reason{Code: plan.ExtendedResource, Pool: pool.Name, Detail: plan.OfExtendedResource{Resource: names[d]}}
		}
	}
	if len(pool.StartupTaints) > 0 {
		return plan.Reason{Code: plan.StartupTaints, Pool: pool.Name, Detail: plan.OfNodeTaint{Key: pool.StartupTaints[0].Key}}
	}
	if why := SpreadRefusal(pool.Name, pods); why.Code != "" {
		return why
	}
	strict := false
	why := plan.Reason{Code: plan.TolerateAll, Pool: pool.Name, Subject: plan.ObjectOf("pod", pods[0].Key())}
	for _, p := range pods {
		if p.Unreservable && pol.BindRefusal(p, names).Code != "" {
			why = plan.Reason{Code: plan.PatchRefused, Pool: pool.Name, Subject: plan.ObjectOf("pod", p.Key())}
			continue
		}
		strict = strict || !p.Class.ToleratesEverything()
	}
	if !strict {
		return why
	}
	return plan.Reason{}
}

// SpreadRefusal returns why no node of a NodePool, existing or new, is reserved for pods: one of them counts only domains with
// nodes whose taints it tolerates, and requires a minimum number of domains, so a reserved node could remove a domain for similar
// pods. An empty code: there is no such pod.
func SpreadRefusal(pool string, pods []*model.Pod) plan.Reason {
	for _, p := range pods {
		for _, s := range p.Class.Spread {
			if s.Hard && s.HonorTaints && s.MinDomains > 0 {
				return plan.Reason{Code: plan.SpreadTaints, Pool: pool, Subject: plan.ObjectOf("pod", p.Key()), Detail: plan.OfSpreadTaints{TopologyKey: s.TopologyKey}}
			}
		}
	}
	return plan.Reason{}
}

// Mode defines how pods are placed on the nodes launched for them.
type Mode string

// The modes of landing.
const (
	Bind     Mode = "bind"     // Dovetail binds them when the node is ready, except pods that only kube-scheduler can place
	Tolerate Mode = "tolerate" // they get a toleration for the reservation, and kube-scheduler binds them
	Off      Mode = "off"      // nodes are not reserved: kube-scheduler places all pods
)

// Policy configures landing.
type Policy struct {
	Mode       Mode
	Schedulers []string // by spec.schedulerName: schedulers whose pods Dovetail may bind
}
