// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// workloads are the kinds of workloads that Why supports.
var workloads = []string{"deployment", "statefulset", "job"}

// workloadOf returns the namespace/name of the workload with the given kind that owns a pod, or an empty string if
// there is none.
func workloadOf(p *model.Pod, kind string) string {
	switch {
	case kind == "deployment" && p.Deployment != "":
		return p.Namespace + "/" + p.Deployment
	case kind != "deployment" && p.Owner.Name != "" && strings.ToLower(p.Owner.Kind) == kind:
		return p.Namespace + "/" + p.Owner.Name
	}
	return ""
}

// explainWorkload explains a Deployment, StatefulSet or Job: the number of running and pending pods, why some pods are
// not created, why the first pending pod has no node, and what prevents bound pods from being rescheduled.
func explainWorkload(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, subject string) (plan.Answer, error) {
	kind, name, _ := strings.Cut(subject, "/")
	var pending []*model.Pod
	var related, nodes []string
	bound := 0
	is := func(p *model.Pod) bool { of := workloadOf(p, kind); return of != "" && of == name }
	for _, n := range s.Nodes {
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
	for _, p := range s.Pending {
		if is(p) {
			pending = append(pending, p)
			related = append(related, "pod/"+p.Key())
		}
	}
	var missing []*model.FailingReplicas
	for _, f := range s.Failing {
		if kind == "deployment" && f.Deployment != "" && f.Namespace+"/"+f.Deployment == name {
			missing = append(missing, f)
		}
	}
	if bound+len(pending)+len(missing) == 0 {
		return plan.Answer{Subject: subject, At: now}, &plan.NoSuchObject{Kind: kind + " with pods", Subject: subject, Near: nearestName(s, subject)}
	}
	a := newAnswer(subject, now)
	facts := []plan.Fact{{Name: "pods on nodes", Value: model.Count(bound, "pod") + " on " + model.Count(len(nodes), "node")}, {Name: "pods pending", Value: strconv.Itoa(len(pending))}}
	for _, f := range missing {
		facts = append(facts, plan.Fact{Name: "pods that can't be created", Value: strconv.Itoa(f.Missing) + " of replicaset/" + f.Namespace + "/" + f.ReplicaSet})
	}
	ex := newExplanation(s, mem, now, pol)
	if len(pending) > 0 {
		shown := pending[max(0, slices.IndexFunc(pending, func(p *model.Pod) bool { return !s.IsSuperseded(p) }))]
		var err error
		if a, err = Why(s, mem, now, pol, "pod/"+shown.Key()); err != nil {
			return a, err
		}
		facts = append(facts, plan.Fact{Name: "details are for pod", Value: shown.Key()})
		if n := ex.countOtherReasons(pending, shown); n > 0 {
			facts = append(facts, plan.Fact{Name: "pending for other reasons", Value: model.Count(n, "pod") + "; 'dovetail why pods --pending' lists them"})
		}
	}
	a.Findings = append(slices.Insert(a.Findings, 0, refusedCreations(missing)...), ex.obstaclesOf(is)...)
	a.Subject, a.Facts, a.Related = subject, append(facts, a.Facts...), append(a.Related, related...)
	return a, nil
}

// countOtherReasons returns the number of pods whose first reason differs from that of the pod one.
func (ex *explanation) countOtherReasons(pods []*model.Pod, one *model.Pod) (n int) {
	first := map[string]plan.Reason{} // by UID
	for _, d := range ex.answers().Decisions() {
		if d.Outcome == plan.Refused && len(d.Reasons) > 0 {
			first[d.Pod.UID] = d.Reasons[0]
		}
	}
	for _, p := range pods {
		if r, refused := first[p.UID]; refused && !r.IsLike(first[one.UID]) {
			n++
		}
	}
	return n
}

// refusedCreations returns the reasons why pods cannot be created. The findings contain the ResourceQuota amounts that
// would allow all of them.
func refusedCreations(list []*model.FailingReplicas) (out []plan.Finding) {
	for _, f := range list {
		for _, why := range f.Why {
			finding := plan.Finding{Of: plan.PodsNotCreated, Reason: plan.Reason{Code: plan.PodsNotCreated, Subject: plan.ObjectOf("replicaset", f.Namespace+"/"+f.ReplicaSet),
				Detail: plan.OfPodsNotCreated{Count: f.Missing, Said: plan.Words(why.Said)}}}
			if why.Quota != "" {
				finding.Change = &plan.Change{Object: "resourcequota/" + f.Namespace + "/" + why.Quota, Field: "spec.hard[" + why.Resource + "]", Op: plan.Set, Value: why.Enough}
			}
			out = append(out, finding)
		}
	}
	return out
}

// obstaclesOf returns the obstacles to moving the pods for which isMeant returns true. Pods on nodes that are being
// drained come first.
func (ex *explanation) obstaclesOf(isMeant func(*model.Pod) bool) (out []plan.Finding) {
	for _, n := range ex.s.Nodes {
		c := ex.Claim(n.Claim)
		if c == nil || ex.Pool(c.Pool) == nil || !slices.ContainsFunc(n.Pods, isMeant) {
			continue
		}
		u := disrupt.NewCandidate(c, n, ex.Pool(c.Pool), ex.Cutoff())
		for _, p := range n.Pods {
			if isMeant(p) {
				out = append(out, ex.podObstacles(u, p)...)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b plan.Finding) int { return strings.Compare(string(a.Of), string(b.Of)) })
	return out
}
