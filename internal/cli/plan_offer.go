// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/fleet"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// offerer gives pools the instance types of a catalog, as their node classes say.
type offerer struct {
	types     []*model.InstanceType
	estimator *fleet.Estimator
	live      bool
	groups    cloud.Provider        // of Cluster API; nil: its node groups can't be read
	used      []*model.InstanceType // of node groups
	unknown   []string              // what had to be assumed of node classes
}

// offer gives every pool what its node class would offer from the catalog. A pool of a node class that files do not hold is
// taken as ready: whoever plans with files need not have one. In a cluster the simulated cloud's own kind must be there. A pool of node groups
// takes no part if these can't be read: which types, labels and sizes they have only the cloud can tell, and a plan of guesses would be believed.
func (f *offerer) offer(ctx context.Context, s *state.State) {
	types := map[string][]*model.InstanceType{} // by pool
	for _, p := range s.Pools.ListPools() {
		types[p.Name] = f.types
		class := s.Pools.FindNodeClass(p.ClassGroup, p.ClassKind, p.ClassName)
		switch {
		case p.OfGroups && f.groups == nil:
			s.Pools.SetReady(p.Name, false, model.Condition{Status: "False", Reason: "NodeGroupsNotRead",
				Message: "plan doesn't know what the node groups of " + p.ClassKind + " " + p.ClassName + " may launch: their types, labels and sizes are in the cloud; " +
					"ask the running controller: dovetail why nodepool/" + p.Name + ". For Cluster API, use --live with --cluster-api-cluster"})
		case f.live && p.Ready && p.ClassGroup == kwokv1alpha1.Group && class == nil:
			s.Pools.SetReady(p.Name, false, classNotFound(p))
		case class != nil && (!class.Deleting.IsZero() || class.Conditions["Ready"].Status == "False"):
			s.Pools.SetReady(p.Name, false, notReady(class))
		case p.OfGroups:
			if list, ok := f.offerGroups(ctx, s, p, class); ok {
				types[p.Name] = list
			}
		case p.ClassGroup == awsv1.Group && p.ClassKind == awsv1.KindEC2NodeClass:
			list, err := f.offerEC2(ctx, p, class)
			if err != nil {
				s.Pools.SetReady(p.Name, false, model.Condition{Status: "False", Reason: "NodeClassNotReady", Message: err.Error()})
			} else {
				types[p.Name] = list
			}
		case p.ClassGroup != kwokv1alpha1.Group:
			f.assume("NodePool " + p.Name + ": offerings of " + p.ClassKind + "." + p.ClassGroup + " " + p.ClassName + ": all instance types with a known price are assumed")
		}
	}
	s.Pools.SetTypesOfPools(types)
}

// notReady returns why nothing is launched with a class: it is being deleted, or its controller says that it is not ready.
func notReady(class *state.NodeClass) model.Condition {
	if !class.Deleting.IsZero() {
		return model.Condition{Status: "False", Reason: "NodeClassTerminating", Message: class.Kind + " " + class.Name + " is being deleted"}
	}
	ready := class.Conditions["Ready"]
	return model.Condition{Status: "False", Reason: "NodeClassNotReady", Message: class.Kind + " " + class.Name + ": " + cmp.Or(ready.Message, ready.Reason, "its condition Ready is False")}
}

// offerEC2 returns what the EC2NodeClass of a pool offers, as far as that is known without its account.
func (f *offerer) offerEC2(ctx context.Context, p *model.NodePool, class *state.NodeClass) ([]*model.InstanceType, error) {
	if class == nil {
		f.assume("EC2NodeClass " + p.ClassName + " of NodePool " + p.Name + " is not in the input: nodes with the defaults of AL2023 in every zone are assumed")
		return f.types, nil
	}
	e, err := f.estimator.Offerings(ctx, p, providerClass(class), class.Status)
	if err != nil {
		return nil, err
	}
	for _, what := range e.Unknown {
		f.assume("EC2NodeClass " + class.Name + ": " + what)
	}
	return e.Types, nil
}

// providerClass returns a node class as providers take it.
func providerClass(c *state.NodeClass) cloud.NodeClass {
	return cloud.NodeClass{Group: c.Group, Kind: c.Kind, Name: c.Name, UID: c.UID, Generation: c.Generation, Annotations: c.Annotations, Spec: c.Spec}
}

func (f *offerer) assume(what string) {
	if !slices.Contains(f.unknown, what) {
		f.unknown = append(f.unknown, what)
	}
}

// unknowns are what a plan can't know, and what is assumed instead.
func unknowns(m *manifests.Set, f *offerer, files bool) (out []string) {
	if files {
		out = append(out, "effects of webhooks, admission policies and ResourceQuotas that are not in the input; available cloud capacity")
	}
	for _, what := range m.Missing {
		out = append(out, what+" is not in the input and is ignored")
	}
	if len(m.Custom) > 0 {
		out = append(out, "objects created or changed by the controllers of "+strings.Join(m.Custom, ", ")+" are not planned")
	}
	return append(append(out, m.Assumed...), f.unknown...)
}

// notCreated are the pods that the API server would refuse.
func notCreated(m *manifests.Set) (out []report.NotCreated) {
	for _, n := range m.NotMade {
		out = append(out, report.NotCreated{Owner: n.Owner, Pods: n.Pods, Message: n.Why})
	}
	return out
}

// reported hands a decision over to report. static are the claims that pools with spec.replicas lack.
func reported(snap *model.Snapshot, out *decide.Output, static []plan.CreateClaim) *report.Plan {
	p := &report.Plan{ResourceNames: snap.ResourceNames, Cost: out.Cost, Stats: out.Stats}
	if out.Result != nil {
		for _, n := range out.Result.New {
			p.New = append(p.New, report.Machine{Pool: n.Pool, Type: n.Type, Offering: n.Offering, Choices: n.Choices, Zones: n.Zones,
				Pods: n.Pods, Requests: n.Requests, PriceMicro: n.PriceMicro})
		}
	}
	nodes := map[string]string{} // by claim
	for _, n := range snap.Nodes {
		if n.Claim != "" {
			nodes[n.Claim] = n.Name
		}
	}
	standing := map[string][]*model.Pod{}
	for _, d := range out.Pods {
		switch d.Outcome {
		case plan.OnNode:
			standing[d.Target] = append(standing[d.Target], d.Pod)
		case plan.OnClaim:
			at := cmp.Or(nodes[d.Target], d.Target)
			standing[at] = append(standing[at], d.Pod)
		case plan.Refused:
			p.Refused = append(p.Refused, d)
		case plan.NotOurs:
			p.Ignored = append(p.Ignored, d)
		}
	}
	for _, c := range static {
		p.New = append(p.New, staticMachine(c, standing[c.Name]))
		p.Cost.NewMicroPerHour += c.PriceMicro
		p.Cost.BoundMicroPerHour += c.PriceMicro // they are launched whatever the pods are
		delete(standing, c.Name)
	}
	for node, pods := range standing {
		p.Existing = append(p.Existing, report.Standing{Node: node, Pods: pods})
	}
	slices.SortFunc(p.Existing, func(a, b report.Standing) int { return cmp.Compare(a.Node, b.Node) })
	return p
}

// lackingPools returns the static NodePools of a Snapshot, which has the claims that they launch now, that have too few nodes all the same.
func lackingPools(snap *model.Snapshot, now time.Time, pol decide.Policy) (out []report.LackingPool) {
	glance := decide.Glance(snap, now, pol)
	for _, p := range snap.Pools {
		have := glance.CountReplicas(p)
		if have >= p.Replicas || p.Deleting { // negative: it is not static
			continue
		}
		why := glance.StaticRefusal(p)
		if l, is := why.Detail.(plan.OfLimit); is && l.Replacing != "" { // no node is replaced
			why.Detail = plan.OfLimit{Resource: "nodes", Need: 1}
		}
		if why.Code != "" {
			out = append(out, report.LackingPool{Pool: p.Name, Have: have, Want: p.Replicas, Why: why})
		}
	}
	return out
}

// staticMachine is a node that a pool with spec.replicas lacks, with the pods that land on it.
func staticMachine(c plan.CreateClaim, pods []*model.Pod) report.Machine {
	t := c.Types[0]
	m := report.Machine{Pool: c.Pool.Name, Type: t, Choices: c.Types, Pods: pods, PriceMicro: c.PriceMicro, Static: true,
		Offering: model.Offering{Zone: c.Zone, CapacityType: c.CapacityType, PriceMicro: c.PriceMicro}}
	for _, o := range t.Offerings {
		if o.CapacityType == c.CapacityType {
			m.Zones = append(m.Zones, o.Zone)
			if o.Zone == c.Zone {
				m.Offering = o
			}
		}
	}
	for _, p := range pods {
		m.Requests = m.Requests.AddInto(p.Class.Requests, 1)
	}
	return m
}

type planFlags struct {
	clusterFlags
	files                   []string
	live, compare, headroom bool
	clusterAPI              clusterAPIFlags
	priceFlags
	output, maxGap, scheduler string
	work                      int64
	demand                    demandFlags
	limits                    limitFlags
}

// classNotFound is the condition of a NodePool whose node class does not exist.
func classNotFound(p *model.NodePool) model.Condition {
	return model.Condition{Status: "False", Reason: "NodeClassNotFound",
		Message: "spec.template.spec.nodeClassRef names " + p.ClassKind + "." + p.ClassGroup + " " + p.ClassName + ", which does not exist; create it"}
}
