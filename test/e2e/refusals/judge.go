// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package refusals

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// rejected reports whether a kubelet has rejected a pod when it came, for whatever reason: OutOfcpu, NodeAffinity, NodePorts and others. A pod that
// failed by itself, or was evicted, has another message.
func rejected(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && strings.HasPrefix(p.Status.Message, "Pod was rejected: ")
}

// longestWait is how long a pod for which kube-scheduler found no node may wait once a node is open to it: its back-off of at most ten seconds,
// once more for a try that comes to nothing because others are being placed.
const longestWait = 20 * time.Second

// Report is what a record comes to.
type Report struct {
	Pods     int // seen
	Bound    int // to nodes that Dovetail has launched
	Verdicts int // of kube-scheduler's against a pod, each text once
	Rejected int // by kubelets: pods that were bound to nodes that Dovetail has launched

	// LateTaints are the pods that kube-controller-manager has deleted for a NoExecute taint after it was gone, by namespace and name: it had heard of the
	// pod and not yet of the node's change, as pods and nodes are watched apart.
	LateTaints []string

	// Wrong are the refusals that Dovetail did not foretell.
	Wrong []Refusal
}

// Refusal is a pod that was refused by a node that was launched for it, or that it was bound to.
type Refusal struct {
	Namespace, Pod, Node string
	By                   string // kube-scheduler or kubelet
	Message              string
	Beside               string // of a kubelet's: what the node had and holds
}

func (r Refusal) String() string {
	text := fmt.Sprintf("pod %s/%s was refused on node %s by %s: %s", r.Namespace, r.Pod, r.Node, r.By, r.Message)
	if r.Beside != "" {
		text += "; " + r.Beside
	}
	return text
}

// Judge returns the refusals that Dovetail did not foretell.
//
// kube-scheduler refuses a node if it says of a pod that it is unschedulable while a node is open to the pod (Ready, all taints tolerated) and was
// launched for the pod: its NodeClaim has more slots of the pod's owner than pods of that owner are bound there, and the pod is no younger than the
// node is open. It has to say so when the node has been open for lag, or leave it at that for longestWait more: so long it may take until
// it looks at the pod again, and it says nothing new if it finds the same. A node is open to a pod whose topology spread or pod affinity looks at
// other pods once all nodes that were launched for those are open, and none of those pods was bound since: in zone b a pod can wait for a node in zone a.
// A pod of a DaemonSet is refused by the one node that it was made for. Nothing is counted
// if Dovetail had told the pod before that it gets no node, or if the pod is bound within lag after: the one had not seen the other.
//
// A kubelet refuses a pod that it has rejected, and one that it would reject because of the resources of the pods on the node or the node's labels.
func (r *Record) Judge(now time.Time, lag time.Duration) (out Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		out.Pods++
		out.Verdicts += len(p.refused)
		n := r.nodes[p.node]
		if !p.bound.IsZero() && n != nil && n.claim != "" {
			out.Bound++
			why := p.rejected
			if rejected(p.last) {
				out.Rejected++
				why = p.last.Status.Reason
			}
			if why != "" {
				out.Wrong = append(out.Wrong, Refusal{p.namespace, p.name, p.node, "kubelet", why, p.beside})
			}
		}
		if p.lateTaint {
			out.LateTaints = append(out.LateTaints, p.namespace+"/"+p.name)
		}
		for i, x := range p.refused {
			until := now // the answer stands
			for _, end := range []time.Time{p.bound, p.gone} {
				if !end.IsZero() && end.Before(until) {
					until = end
				}
			}
			if i+1 < len(p.refused) {
				until = p.refused[i+1].at
			}
			name := r.refusing(p, x.at, x.at, lag, lag)
			if name == "" {
				name = r.refusing(p, until, x.at, longestWait+lag, lag)
			}
			if name != "" {
				out.Wrong = append(out.Wrong, Refusal{p.namespace, p.name, name, "kube-scheduler", x.message, ""})
				break // the same again says nothing new
			}
		}
	}
	slices.Sort(out.LateTaints)
	slices.SortFunc(out.Wrong, func(a, b Refusal) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// refusing returns the node that was launched for a pod and that kube-scheduler refuses it at an instant; empty: there is none. The node must have been
// open, and the answer been given, for so long; the answer is not counted for what happens within lag after it.
func (r *Record) refusing(p *pod, at, answered time.Time, long, lag time.Duration) string {
	if !p.bound.IsZero() && p.bound.Before(answered.Add(lag)) || !p.gone.IsZero() && p.gone.Before(answered.Add(lag)) {
		return ""
	}
	settled, ok := r.settledSince(p, at)
	if !ok {
		return ""
	}
	for name, n := range r.nodes {
		c := r.claims[n.claim]
		if c == nil || p.daemon && p.node != name {
			continue
		}
		opened, open := n.openSince(at, p.last)
		since := opened
		if settled.After(since) {
			since = settled
		}
		if at.After(answered) && answered.After(since) {
			since = answered
		}
		if !open || at.Sub(since) < long {
			continue
		}
		told := slices.ContainsFunc(p.told, func(t time.Time) bool { return t.After(c.created) && t.Before(at.Add(lag)) })
		if told || !p.daemon && (p.created.After(opened) || c.slots[p.owner] <= r.boundOf(p.owner, name, at)) {
			continue
		}
		return name
	}
	return ""
}

// settledSince returns since when, seen from an instant, all nodes have been open that were launched for pods at which a pod's topology spread or pod
// affinity looks, and those pods where they are; zero if it looks at none, and false if such a node is still to come.
func (r *Record) settledSince(p *pod, at time.Time) (since time.Time, ok bool) {
	selectors := looksAt(p.last)
	if len(selectors) == 0 {
		return time.Time{}, true
	}
	later := func(t time.Time) {
		if t.After(since) && !t.After(at) {
			since = t
		}
	}
	owners := map[string]bool{}
	for _, q := range r.pods {
		if slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(q.last.Labels)) }) {
			owners[q.owner] = true
			later(q.bound)
			later(q.gone)
		}
	}
	nodes := map[string]*node{} // by claim
	for _, n := range r.nodes {
		nodes[n.claim] = n
	}
	for name, c := range r.claims {
		launchedFor := slices.ContainsFunc(slices.Collect(maps.Keys(c.slots)), func(owner string) bool { return owners[owner] })
		if !launchedFor || c.created.After(at) || !c.gone.IsZero() && !c.gone.After(at) {
			continue
		}
		n := nodes[name]
		if n == nil {
			return time.Time{}, false
		}
		opened, open := n.openSince(at, p.last)
		if !open {
			return time.Time{}, false
		}
		later(opened)
	}
	return since, true
}

// looksAt returns the selectors of the pods on which it depends where a pod may run: those of its topology spread constraints that are not mere
// preferences, and of its required pod affinity.
func looksAt(p *corev1.Pod) (out []labels.Selector) {
	add := func(s *metav1.LabelSelector) {
		if selector, err := metav1.LabelSelectorAsSelector(s); err == nil { // the API server has accepted it
			out = append(out, selector)
		}
	}
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			add(c.LabelSelector)
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		for _, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			add(t.LabelSelector)
		}
	}
	return out
}

// boundOf counts the pods of an owner that were bound to a node by an instant.
func (r *Record) boundOf(owner, node string, by time.Time) (n int) {
	for _, p := range r.pods {
		if p.owner == owner && p.node == node && !p.bound.IsZero() && !p.bound.After(by) {
			n++
		}
	}
	return n
}
