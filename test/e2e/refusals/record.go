// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package refusals finds what Dovetail should have known before it launched a node: pods that kube-scheduler refuses although a node that was
// launched for them is open to them, and pods that a kubelet rejects.
//
// A Record is what was seen of one API server, in order. It decides nothing while it is filled; Judge does, once everything that belongs together
// was seen. It knows the API's objects and nothing of Dovetail but the NodeClaim's slots and the taints of nodes. Start reading at Record.Judge.
package refusals

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// slotsAnnotation lists, on a NodeClaim, how many pods of which owner it was launched for.
const slotsAnnotation = "dovetail.sh/slots"

// nodeAffinity is why a kubelet rejects a pod whose node lacks labels that it needs.
const nodeAffinity = "NodeAffinity"

// Record is what was seen of one API server. Its methods may be called side by side.
type Record struct {
	mu     sync.Mutex
	pods   map[types.UID]*pod
	nodes  map[string]*node
	claims map[string]*claim
}

// pod is what was seen of a pod.
type pod struct {
	namespace, name string
	owner           string // as slots name it
	node            string // of a pod of a DaemonSet: the node it is for; else the node it is bound to
	daemon          bool
	created         time.Time
	bound, gone     time.Time // zero: not
	told            []time.Time
	refused         []refusal
	last            *corev1.Pod
	rejected        string // by which check of a kubelet, when it was bound
	boundVersion    string // its resource version then
	beside          string // the pods that the node had then, to tell why
	lateTaint       bool   // it was deleted for a NoExecute taint that its node did not have any more
}

// refusal is an answer of kube-scheduler.
type refusal struct {
	at      time.Time
	message string
}

// node is what was seen of a node.
type node struct {
	claim  string
	states []nodeState
	last   *corev1.Node
	pods   map[types.UID]bool // bound to it, and not gone or ended
}

// nodeState is what a node was like from an instant on.
type nodeState struct {
	at     time.Time
	usable bool // Ready, and not being deleted
	taints []corev1.Taint
}

// claim is what was seen of a NodeClaim.
type claim struct {
	created, gone time.Time      // gone zero: not
	slots         map[string]int // by owner
}

// NewRecord returns an empty record.
func NewRecord() *Record {
	return &Record{pods: map[types.UID]*pod{}, nodes: map[string]*node{}, claims: map[string]*claim{}}
}

// SetPod notes how a pod is seen at an instant.
func (r *Record) SetPod(at time.Time, p *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.pods[p.UID]
	if x == nil {
		x = &pod{namespace: p.Namespace, name: p.Name, owner: ownerOf(p), created: p.CreationTimestamp.Time}
		if o := metav1.GetControllerOf(p); o != nil && o.Kind == "DaemonSet" {
			x.daemon, x.node = true, daemonNode(p)
		}
		r.pods[p.UID] = x
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && p.Spec.NodeName == "" &&
			(len(x.refused) == 0 || x.refused[len(x.refused)-1].message != c.Message) {
			x.refused = append(x.refused, refusal{at, c.Message})
		}
	}
	x.last = p
	n := r.nodes[p.Spec.NodeName]
	if p.Spec.NodeName == "" {
		return
	}
	if n == nil {
		n = r.newNode(p.Spec.NodeName)
	}
	if x.bound.IsZero() {
		x.bound, x.node, x.boundVersion = at, p.Spec.NodeName, p.ResourceVersion
		if x.rejected = r.kubeletRefusal(n, p); x.rejected != "" {
			x.beside = r.inhabitants(n, at)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Reason == "DeletionByTaintManager" && n.last != nil {
			x.lateTaint = x.lateTaint || !slices.ContainsFunc(n.last.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
		}
	}
	if ended(p) {
		delete(n.pods, p.UID)
	} else {
		n.pods[p.UID] = true
	}
}

// DeletePod notes that a pod is gone.
func (r *Record) DeletePod(at time.Time, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.pods[uid]; x != nil {
		x.gone = at
		if n := r.nodes[x.node]; n != nil {
			delete(n.pods, uid)
		}
	}
}

// SetNode notes how a node is seen at an instant.
func (r *Record) SetNode(at time.Time, n *corev1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.nodes[n.Name]
	if x == nil {
		x = r.newNode(n.Name)
	}
	for _, o := range n.OwnerReferences {
		if o.Kind == "NodeClaim" {
			x.claim = o.Name
		}
	}
	s := nodeState{at: at, taints: keepsPodsOut(n)}
	for _, c := range n.Status.Conditions {
		s.usable = s.usable || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && n.DeletionTimestamp == nil
	}
	x.last = n
	x.acceptLate(r.pods)
	if was := x.states; len(was) == 0 || was[len(was)-1].usable != s.usable || !slices.Equal(was[len(was)-1].taints, s.taints) {
		x.states = append(x.states, s)
	}
}

// acceptLate takes back the rejection of pods whose node had the labels they need when they were bound, and is seen so only now: nodes and pods are
// watched apart.
func (n *node) acceptLate(pods map[types.UID]*pod) {
	for uid := range n.pods {
		x := pods[uid]
		if x.rejected != nodeAffinity {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(n.last.ResourceVersion, x.boundVersion); err != nil || order >= 0 {
			continue
		}
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(x.last).Match(n.last); err == nil && ok {
			x.rejected = ""
		}
	}
}

// DeleteNode notes that a node is gone.
func (r *Record) DeleteNode(at time.Time, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.nodes[name]; x != nil {
		x.states = append(x.states, nodeState{at: at})
	}
}

func (r *Record) newNode(name string) *node {
	x := &node{pods: map[types.UID]bool{}}
	r.nodes[name] = x
	return x
}

// SetClaim notes for which pods a NodeClaim was made. Slots that it has lost since count: the node was launched for them.
func (r *Record) SetClaim(o metav1.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.claims[o.GetName()]
	if x == nil {
		x = &claim{created: o.GetCreationTimestamp().Time, slots: map[string]int{}}
		r.claims[o.GetName()] = x
	}
	var slots []struct {
		Owner string `json:"owner"`
		Count int    `json:"count"`
	}
	if json.Unmarshal([]byte(o.GetAnnotations()[slotsAnnotation]), &slots) != nil {
		return // it has none
	}
	have := map[string]int{}
	for _, s := range slots {
		have[s.Owner] += s.Count
	}
	for owner, n := range have {
		x.slots[owner] = max(x.slots[owner], n)
	}
}

// DeleteClaim notes that a NodeClaim is gone.
func (r *Record) DeleteClaim(at time.Time, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.claims[name]; x != nil {
		x.gone = at
	}
}

// SetTold notes that Dovetail has told a pod that it gets no node.
func (r *Record) SetTold(at time.Time, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.pods[uid]; x != nil {
		x.told = append(x.told, at)
	}
}

// ownerOf is a pod's owner as slots name it: its Deployment, its controller, or itself.
func ownerOf(p *corev1.Pod) string {
	o := metav1.GetControllerOf(p)
	if o == nil {
		return string(p.UID)
	}
	if hash := p.Labels["pod-template-hash"]; o.Kind == "ReplicaSet" && hash != "" {
		return "deployment/" + p.Namespace + "/" + strings.TrimSuffix(o.Name, "-"+hash)
	}
	return string(o.UID)
}

// daemonNode is the node that the DaemonSet controller has made a pod for.
func daemonNode(p *corev1.Pod) string {
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range t.MatchFields {
			if f.Key == metav1.ObjectNameField && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// keepsPodsOut are the taints by which a node refuses new pods, a cordon among them.
func keepsPodsOut(n *corev1.Node) (out []corev1.Taint) {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if n.Spec.Unschedulable {
		out = append(out, cordon)
	}
	for _, t := range n.Spec.Taints {
		if t.TimeAdded = nil; t.Effect != corev1.TaintEffectPreferNoSchedule && (t != cordon || !n.Spec.Unschedulable) {
			out = append(out, t)
		}
	}
	return out
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// openSince returns since when, seen from an instant, a node has let a pod in; false: it does not then.
func (n *node) openSince(at time.Time, p *corev1.Pod) (since time.Time, open bool) {
	for _, s := range n.states {
		if s.at.After(at) {
			break
		}
		is := s.usable && !slices.ContainsFunc(s.taints, func(t corev1.Taint) bool {
			return !slices.ContainsFunc(p.Spec.Tolerations, func(own corev1.Toleration) bool { return own.ToleratesTaint(klog.Background(), &t, true) })
		})
		if is && !open {
			since = s.at
		}
		open = is
	}
	return since, open
}

// inhabitants lists the pods of a node, with what each asks for, how long before an instant it was bound, and whether it is being deleted.
func (r *Record) inhabitants(n *node, at time.Time) string {
	var out []string
	for uid := range n.pods {
		x := r.pods[uid]
		asked := podresources.PodRequests(x.last, podresources.PodResourcesOptions{})
		text := fmt.Sprintf("%s/%s (cpu %s, bound %s before, phase %s", x.namespace, x.name, asked.Cpu(), at.Sub(x.bound).Round(time.Millisecond), x.last.Status.Phase)
		if x.last.DeletionTimestamp != nil {
			text += ", being deleted"
		}
		out = append(out, text+")")
	}
	slices.Sort(out)
	return fmt.Sprintf("%s allocatable; there: %s", n.last.Status.Allocatable.Cpu(), strings.Join(out, ", "))
}

// kubeletRefusal returns by which check a kubelet would reject a pod that was just bound to its node, which holds others; empty: by none. It
// makes two of a kubelet's checks, as simulated nodes make none.
func (r *Record) kubeletRefusal(n *node, p *corev1.Pod) string {
	if n.last == nil {
		return "" // it was not seen yet
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n.last); err != nil || !ok {
		return nodeAffinity
	}
	asked := podresources.PodRequests(p, podresources.PodResourcesOptions{})
	for uid := range n.pods {
		for name, q := range podresources.PodRequests(r.pods[uid].last, podresources.PodResourcesOptions{}) {
			sum := asked[name]
			sum.Add(q)
			asked[name] = sum
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if have, ok := n.last.Status.Allocatable[name]; ok {
			if q := asked[name]; q.Cmp(have) > 0 {
				return "OutOf" + string(name)
			}
		}
	}
	if have, ok := n.last.Status.Allocatable[corev1.ResourcePods]; ok && int64(len(n.pods))+1 > have.Value() {
		return "OutOfpods"
	}
	return ""
}
