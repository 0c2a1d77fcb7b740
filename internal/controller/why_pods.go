// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/explain"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// mostPendingAsked is how many workloads with pending pods are asked about one by one.
const mostPendingAsked = 50

// explainDeployment answers for a Deployment: how its pods stand, of the first that is pending why, and what keeps those that have a node
// from being rescheduled.
func (c *Controller) explainDeployment(v *view.View, now time.Time, subject string) (plan.Answer, error) {
	name := strings.TrimPrefix(subject, "deployment/")
	var pending []*model.Pod
	var related, nodes []string
	bound := 0
	is := func(p *model.Pod) bool { return p.Deployment != "" && p.Namespace+"/"+p.Deployment == name }
	for _, n := range v.Snap.Nodes {
		for _, p := range n.Pods {
			if is(p) {
				bound++
				related = append(related, "pod/"+p.Key())
				if !slices.Contains(nodes, n.Name) {
					nodes = append(nodes, n.Name)
				}
			}
		}
	}
	for _, p := range v.Snap.Pending {
		if is(p) {
			pending = append(pending, p)
			related = append(related, "pod/"+p.Key())
		}
	}
	if bound+len(pending) == 0 {
		return plan.Answer{Subject: subject, At: now}, &plan.NoSuchObject{Kind: "deployment with pods", Subject: subject, Near: explain.NearestName(v.Snap, subject)}
	}
	a := plan.Answer{At: now, Findings: []plan.Finding{}, Alternatives: []plan.Alternative{}, Ways: []plan.Way{}}
	facts := []plan.Fact{{Name: "pods on nodes", Value: strconv.Itoa(bound) + " on " + strconv.Itoa(len(nodes))}, {Name: "pods pending", Value: strconv.Itoa(len(pending))}}
	if len(pending) > 0 {
		var err error
		if a, err = explain.Why(v.Snap, v.Mem, now, c.Policy, "pod/"+pending[0].Key()); err != nil {
			return a, err
		}
		facts = append(facts, plan.Fact{Name: "what follows is of pod", Value: pending[0].Key()})
	}
	a.Findings = append(a.Findings, explain.PodObstacles(v.Snap, v.Mem, now, c.Policy, is)...)
	a.Subject, a.Facts, a.Related = subject, append(facts, a.Facts...), append(a.Related, related...)
	return a, nil
}

// ExplainPending says what pending pods wait for, those that wait for the same together. It may be called from anywhere
// and does its work in the caller's goroutine.
func (c *Controller) ExplainPending(ctx context.Context) (report.Pending, error) {
	v, done, err := c.openView(ctx)
	if err != nil {
		return report.Pending{}, err
	}
	defer done()
	out := report.Pending{At: time.Now(), Causes: []report.PendingCause{}}
	asked := map[string]report.PendingCause{} // by owner and class
	for _, p := range v.Snap.Pending {
		out.Pods++
		key := p.Owner.UID + "\x00" + p.Class.Key
		cause, ok := asked[key]
		if !ok {
			if len(asked) == mostPendingAsked {
				out.NotAsked++
				continue
			}
			a, err := explain.Why(v.Snap, v.Mem, out.At, c.Policy, "pod/"+p.Key())
			if err != nil {
				return out, err
			}
			cause = report.CauseOf(&a)
			asked[key] = cause
		}
		i := slices.IndexFunc(out.Causes, func(o report.PendingCause) bool { return o.Cause == cause.Cause })
		if i < 0 {
			i = len(out.Causes)
			out.Causes = append(out.Causes, cause)
		}
		out.Causes[i].Pods = append(out.Causes[i].Pods, p.Key())
	}
	slices.SortStableFunc(out.Causes, func(a, b report.PendingCause) int { return len(b.Pods) - len(a.Pods) })
	return out, nil
}
