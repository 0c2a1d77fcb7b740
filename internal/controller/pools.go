// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// offerings keeps what the provider offers to each NodePool up to date. Only the loop uses it.
type offerings struct {
	*edges
	classes   *nodeClasses
	onlyLooks func(*state.NodeClass) bool // nothing is made for a node class, nor its status written: see Controller.onlyLooksAt

	byPool map[string]*poolInfo
}

// poolInfo is what the provider last said about a pool and its node class.
type poolInfo struct {
	uid     string
	class   string // uid and generation of the node class it was asked with
	asking  bool
	again   bool      // something changed while it was asked
	due     time.Time // when to ask again
	types   []*model.InstanceType
	problem model.Condition // why the pool can't buy; empty status: it can
	fails   int
}

// updateOfferings keeps every pool's offerings and readiness up to date. It says when it has something to do next.
func (of *offerings) updateOfferings(ctx context.Context, now time.Time) time.Time {
	var next time.Time
	seen := map[string]bool{}
	changed := map[string][]*model.InstanceType{} // by pool
	for _, p := range of.state.Pools.ListPools() {
		seen[p.Name] = true
		if p.NotReady.Reason == "NodePoolValidationFailed" {
			continue
		}
		info := of.byPool[p.Name]
		if info == nil || info.uid != p.UID {
			info = &poolInfo{uid: p.UID, problem: notAsked}
			of.byPool[p.Name] = info
		}
		class := of.state.Pools.FindNodeClass(p.ClassGroup, p.ClassKind, p.ClassName)
		if class == nil {
			info.class, info.due, info.types = "", time.Time{}, nil
			info.problem = model.Condition{Status: "False", Reason: "NodeClassNotFound",
				Message: "spec.template.spec.nodeClassRef names " + p.ClassKind + "." + p.ClassGroup + " " + p.ClassName + ", which does not exist; create it"}
		} else if !class.Deleting.IsZero() {
			info.due = time.Time{} // nobody is asked any more
			info.problem = model.Condition{Status: "False", Reason: "NodeClassTerminating", Message: p.ClassKind + " " + p.ClassName + " is being deleted"}
		} else {
			of.askOfferings(ctx, now, p, class, info)
			of.state.Pools.SetClassGeneration(p.Name, class.Generation)
		}
		if len(info.types) > 0 && !shareTypes(info.types, of.state.Pools.OfferedTypes(p.Name)) {
			changed[p.Name] = info.types
		}
		problem := info.problem
		if problem.Status == "" {
			problem = notReadyClass(class)
		}
		of.state.Pools.SetReady(p.Name, problem.Status == "", problem)
		if !info.due.IsZero() && !info.asking && (next.IsZero() || info.due.Before(next)) {
			next = info.due
		}
	}
	of.state.Pools.SetTypesOfPools(changed)
	for name := range of.byPool {
		if !seen[name] {
			delete(of.byPool, name)
		}
	}
	return next
}

// notAsked is why nothing can be bought from a pool of whose node class nothing is known.
var notAsked = model.Condition{Status: "False", Reason: model.OfferingsNotAsked, Message: "its instance types are being read from the provider"}

// notReadyClass is why nothing may be launched with a node class, as its written condition Ready says, whoever wrote it;
// an empty status: it may.
func notReadyClass(class *state.NodeClass) model.Condition {
	ready := class.Conditions["Ready"]
	if ready.Status != "False" {
		return model.Condition{}
	}
	text := class.Kind + " " + class.Name + " is not Ready: " + ready.Reason
	if ready.Message != "" {
		text += ": " + ready.Message
	}
	return model.Condition{Status: "False", Reason: "NodeClassNotReady", Message: text}
}

// isOfClass reports whether the pool's information was read from this class, in any generation.
func (i *poolInfo) isOfClass(class *state.NodeClass) bool {
	return strings.HasPrefix(i.class, class.UID+"/")
}

func shareTypes(a, b []*model.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// askOfferings asks the provider about a pool when it is time to.
func (of *offerings) askOfferings(ctx context.Context, now time.Time, p *model.NodePool, class *state.NodeClass, info *poolInfo) {
	id := class.UID + "/" + time.Duration(class.Generation).String()
	if info.class != id {
		if !info.isOfClass(class) { // another class: what is offered for the one before is not for this one
			info.types, info.problem, info.fails = nil, notAsked, 0
		}
		info.class, info.due, info.again = id, time.Time{}, info.asking
	}
	if info.asking || now.Before(info.due) {
		return
	}
	looks := of.onlyLooks(class)
	if !looks && !of.classes.ensureFinalizer(now, class) {
		info.due = time.Time{} // its own change asks again
		return
	}
	info.asking = true
	nc := providerNodeClass(class)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, of.config.CallLimit)
		defer cancel()
		if looks {
			ctx = cloud.LookOnly(ctx)
		}
		types, err := of.provider.Offerings(ctx, p, nc)
		var status *cloud.ClassStatus
		if cs, ok := cloud.As[cloud.ClassStatuser](of.provider); ok && !looks && (err == nil || cloud.KindOf(err) == cloud.NotReady) {
			if st, serr := cs.ClassStatus(ctx, nc); serr == nil {
				status = &st
			} else if err == nil {
				err = serr
			}
		}
		of.metrics.CountCall("GetInstanceTypes", p.Name, time.Since(now), err)
		of.emit(func(s *state.State) { of.takeOfferings(s, info, class, types, status, err) })
	}()
}

// takeOfferings takes in the provider's answer.
func (of *offerings) takeOfferings(s *state.State, info *poolInfo, class *state.NodeClass, types []*model.InstanceType, status *cloud.ClassStatus, err error) {
	now := time.Now()
	info.asking = false
	if status != nil {
		of.classes.writeClassStatus(s, class, *status)
	}
	defer func() {
		if info.again {
			info.again, info.due = false, time.Time{}
		}
	}()
	if !info.isOfClass(class) {
		return // the pool names another by now
	}
	if err != nil {
		info.fails++
		info.due = now.Add(max(cloud.AfterOf(err), retryPause(info.fails, time.Second, time.Minute)))
		of.log.Warn("reading the offerings of a NodePool failed, trying again", "nodeClass", class.Name, "kind", string(cloud.KindOf(err)), "error", err.Error())
		if info.types == nil || cloud.KindOf(err) == cloud.NotReady {
			info.problem = model.Condition{Status: "False", Reason: "NodeClassNotReady", Message: err.Error()}
		}
		return
	}
	info.fails, info.types, info.problem = 0, types, model.Condition{}
	info.due = now.Add(of.config.OfferEvery)
	if len(types) == 0 {
		info.problem = model.Condition{Status: "False", Reason: "NodeClassNotReady", Message: "the provider offers no instance type for " + class.Kind + " " + class.Name}
	}
	if status == nil {
		return
	}
	ready := status.Conditions["Ready"]
	if ready.Status != "" && ready.Status != "True" {
		info.problem = model.Condition{Status: "False", Reason: "NodeClassNotReady", Message: class.Kind + " " + class.Name + ": " + ready.Message}
	}
}

// refreshClassOfferings has the offerings of a node class's pools asked for at once: how many machines its node groups have has changed.
func (of *offerings) refreshClassOfferings(group, kind, name string) {
	for _, p := range of.state.Pools.ListPools() {
		if info := of.byPool[p.Name]; info != nil && p.ClassGroup == group && p.ClassKind == kind && p.ClassName == name {
			info.due, info.again = time.Time{}, info.asking
		}
	}
}

// markUnavailable has the next decision know what launches have found without capacity. The provider is not asked.
func (of *offerings) markUnavailable() {
	if marker, ok := cloud.As[*cloud.SetAside](of.provider); ok {
		for _, p := range of.byPool {
			p.types = marker.Mark(p.types)
		}
	}
}

// refreshOfferings has the offerings of every pool asked for at once: what was set aside is to be seen by the next decision.
func (of *offerings) refreshOfferings() {
	for _, p := range of.byPool {
		p.due, p.again = time.Time{}, p.asking
	}
}

// setOfferingAside has the offering of a machine that is taken back not bought again for a while.
func (of *offerings) setOfferingAside(claim *model.Claim) {
	l := claim.Labels
	of.provider.Set(cloud.OfferingKey{InstanceType: l[model.LabelInstanceType], Zone: l[model.LabelZone], CapacityType: l[model.LabelCapacityType]})
	of.refreshOfferings()
}
