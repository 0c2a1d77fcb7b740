// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A disruption command keeps the nodes that its pods are to go to for them. kube-scheduler may bind these pods sooner,
// and then to the capacity that is held for virtual pods, which is free to it. So what the command has kept comes free,
// and the virtual pods have to do with that. Where they can't, a node would be launched for them, the kept capacity
// removed as empty, and the same found anew: without end, and without a saving.

// mostHostWait is how long a lost place is not sought for while nodes host disruption commands.
const mostHostWait = 10 * time.Second

// hostWaitEnd is until when lost places are not sought for, since a node hosts a disruption command; zero: none does, or
// none was lost. A pod of the command that kube-scheduler binds elsewhere takes a virtual pod's place there, and leaves
// the capacity that its host has reserved for it: a node bought before that comes free would be one too many.
func (bu *buffers) hostWaitEnd() time.Time {
	if bu.mem.lostFirst.IsZero() || !bu.commands.HaveHosts() {
		return time.Time{}
	}
	return bu.mem.lostFirst.Add(mostHostWait)
}

// wouldBuyAgain reports whether the pods of a consolidation command may take capacity of virtual pods for which there would
// be no other once the command is carried out, and until when.
func (bu *buffers) wouldBuyAgain(m *disrupt.Command) (bool, time.Time) {
	if len(bu.byNode) == 0 {
		return false, time.Time{}
	}
	going, hosted := map[string]bool{}, map[string][]*model.Pod{}
	var real []*model.Pod
	for _, u := range m.Candidates {
		going[u.Node.Name] = true
		real = append(real, model.RealPods(u.Pods)...)
	}
	for _, a := range m.OnExisting {
		hosted[a.Node] = a.Pods
	}
	var staying, holding []solve.ExistingNode // holding: with virtual pods. A host's reservation may end before all pods have come
	all, _, until := bu.nodes.list()
	for _, r := range all {
		if r.Closed || going[r.Name] {
			continue
		}
		staying = append(staying, r)
		if len(bu.byNode[string(bu.targetOf(r.Name))]) > 0 {
			holding = append(holding, r)
		}
	}
	taken := bu.takenByScheduler(real, holding)
	var displaced []*model.Pod
	for i := range staying {
		r := &staying[i]
		r.Free = r.Free.Sub(taken.at[r.Name])
		for _, p := range slices.Concat(taken.remaining(hosted[r.Name]), bu.byNode[string(bu.targetOf(r.Name))]) {
			if p.IsVirtual() && !p.Class.Requests.Fits(r.Free) {
				displaced = append(displaced, p)
				continue
			}
			r.Free = r.Free.Sub(p.Class.Requests)
		}
	}
	if len(displaced) == 0 {
		return false, until
	}
	for i := range m.Replacements {
		staying = append(staying, bu.replacementNode(&m.Replacements[i], taken))
	}
	res, _ := solve.Solve(&solve.Problem{ResourceNames: bu.Snapshot.ResourceNames, Demand: displaced, Nodes: staying, Daemons: bu.Snapshot.Daemons, Namespaces: bu.Snapshot.Namespaces}, solve.Memory{}, bu.pol.Solve)
	return len(res.Refused) > 0, until
}

// takenCapacity is what pods take that kube-scheduler binds to capacity of virtual pods.
type takenCapacity struct {
	at   map[string]model.Resources // by node
	pods map[*model.Pod]bool
}

// remaining returns those of some pods that don't take capacity of virtual pods.
func (tc takenCapacity) remaining(pods []*model.Pod) (out []*model.Pod) {
	for _, p := range pods {
		if !tc.pods[p] {
			out = append(out, p)
		}
	}
	return out
}

// takenByScheduler is which pods kube-scheduler may bind to nodes that hold virtual pods, and what they take there.
func (bu *buffers) takenByScheduler(pods []*model.Pod, held []solve.ExistingNode) takenCapacity {
	out := takenCapacity{at: map[string]model.Resources{}, pods: map[*model.Pod]bool{}}
	if len(pods) == 0 || len(held) == 0 {
		return out
	}
	res, _ := solve.Solve(&solve.Problem{ResourceNames: bu.Snapshot.ResourceNames, Demand: pods, Nodes: held, Daemons: bu.Snapshot.Daemons, Namespaces: bu.Snapshot.Namespaces}, solve.Memory{}, bu.pol.Solve)
	for _, a := range res.OnNodes {
		for _, p := range a.Pods {
			out.at[a.Node] = out.at[a.Node].AddInto(p.Class.Requests, 1)
			out.pods[p] = true
		}
	}
	return out
}

// replacementNode is a node that a command launches, as it is when it has come and some of its pods are elsewhere.
func (bu *buffers) replacementNode(n *solve.NewNode, taken takenCapacity) solve.ExistingNode {
	r := solve.ExistingNode{Name: "replacement/" + n.Pool + "/" + n.Pods[0].Key(), Allocatable: n.Type.Allocatable, Free: n.Type.Allocatable.Sub(n.Requests),
		Labels: model.MergeLabels(n.Type.Labels, n.Offering.Labels)}
	r.Labels = model.MergeLabels(model.MergeLabels(r.Labels, model.RegisteredLabels()), model.Labels{model.LabelNodePool: n.Pool, model.LabelZone: n.Offering.Zone, model.LabelCapacityType: n.Offering.CapacityType})
	if p := bu.Pool(n.Pool); p != nil {
		r.Labels, r.Taints = model.MergeLabels(r.Labels, p.Labels), p.Taints
	}
	for _, p := range n.Pods {
		if taken.pods[p] {
			r.Free = r.Free.Add(p.Class.Requests)
		}
	}
	return r
}
