// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/internal/replay"
)

func (r *reader) pod(c record.Change, snapshot bool) error {
	have := r.pods[c.Key]
	if c.Object == nil {
		r.podGone(have)
		delete(r.pods, c.Key)
		return nil
	}
	p, err := decode[corev1.Pod](c)
	if err != nil {
		return err
	}
	if have != nil && have.uid != string(p.UID) {
		r.podGone(have)
		have = nil
	}
	if have == nil {
		have = r.newPod(p, snapshot)
		r.pods[c.Key] = have
	}
	if have.Pod == nil {
		return nil
	}
	r.updatePod(have, p)
	return nil
}

// newPod begins the life of a pod.
func (r *reader) newPod(p *corev1.Pod, snapshot bool) *podLife {
	out := &podLife{uid: string(p.UID)}
	if r.dirty {
		r.lookup.Volumes().Settle()
		r.dirty = false
	}
	q := r.t.Pod(p)
	q.Class = r.intern(q.Class)
	life := &replay.Pod{Pod: q, First: r.first, Born: r.now, Node: ""}
	if snapshot {
		life.Born = q.Created
	}
	switch {
	case q.Mirror:
		if life.First && q.Node != "" {
			life.Node = q.Node
			r.out.Trace.Static = append(r.out.Trace.Static, life)
		}
		return out
	case q.Class.Daemon, q.Terminal && snapshot, !q.Deleting.IsZero() && snapshot:
		return out
	}
	out.Pod, out.gated = life, q.Gated
	q.Node, q.Nominated, q.Bound, q.Unschedulable, q.Refusal, q.Deleting = "", "", time.Time{}, time.Time{}, "", time.Time{}
	q.Ready, q.ReadySince, q.Starting, q.Terminal, q.Failed, q.Gated = false, time.Time{}, false, false, false, false
	q.Reservations, q.ReservedFor, q.Finalizers = nil, "", nil
	life.Owner = r.ownerOf(q).Owner
	life.Owner.Pods = append(life.Owner.Pods, life)
	return out
}

// ownerOf returns the owner of a pod, a new one if it is its first.
func (r *reader) ownerOf(p *model.Pod) *ownerLife {
	key, bare := p.Owner.Kind+"/"+p.Namespace+"/"+p.Owner.Name+"/"+p.Owner.UID, p.Owner.Kind == ""
	if bare {
		key = "Pod/" + p.Key() + "/" + p.UID
	}
	if r.owners[key] == nil {
		o := &ownerLife{&replay.Owner{Key: key, Owner: p.Owner, Bare: bare}, p.Owner.UID}
		r.owners[key] = o
		r.order = append(r.order, o)
	}
	return r.owners[key]
}

func (r *reader) updatePod(x *podLife, p *corev1.Pod) {
	if x.gated && len(p.Spec.SchedulingGates) == 0 {
		x.gated, x.Born = false, r.now
	}
	if p.Spec.NodeName != "" && x.Bound.IsZero() {
		x.Node, x.Bound = p.Spec.NodeName, r.now
		if r.first {
			x.Bound = model.LaterOf(x.Born, boundAt(p))
		}
	}
	for i := range p.Status.Conditions {
		if k := &p.Status.Conditions[i]; k.Type == corev1.DisruptionTarget && k.Status == corev1.ConditionTrue {
			x.kubeletSays = k.Reason
		}
	}
	switch {
	case !x.Ended.IsZero():
	case p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed:
		x.Ended, x.Gone, x.Completed = r.now, r.now, true
		if x.Bound.IsZero() {
			x.Bound = x.Born
		}
	case p.DeletionTimestamp != nil:
		x.Ended = r.now
	}
	if x.kubeletSays != "" && !x.Ended.IsZero() && !x.Completed {
		x.Disrupted = x.kubeletSays
	}
}

func boundAt(p *corev1.Pod) time.Time {
	for i := range p.Status.Conditions {
		if k := &p.Status.Conditions[i]; k.Type == corev1.PodScheduled && k.Status == corev1.ConditionTrue {
			return k.LastTransitionTime.Time
		}
	}
	return p.CreationTimestamp.Time
}

// podGone ends the life of a pod.
func (r *reader) podGone(x *podLife) {
	if x == nil || x.Pod == nil {
		return
	}
	if x.Ended.IsZero() {
		x.Ended = r.now
		if x.kubeletSays != "" {
			x.Disrupted = x.kubeletSays
		}
	}
	if x.Gone.IsZero() {
		x.Gone = r.now
	}
}

func (r *reader) node(c record.Change) error {
	have := r.nodes[c.Key]
	if c.Object == nil {
		if have != nil {
			have.Gone = r.now
			have.changes = append(have.changes, replay.Change{At: r.now, NodeGone: c.Key})
			r.addNode(have)
			delete(r.nodes, c.Key)
		}
		return nil
	}
	o, err := decodeNode(c)
	if err != nil {
		return err
	}
	n := r.t.Node(o)
	if have != nil && have.Node.Node.UID != n.UID {
		have.Gone = r.now
		have.changes = append(have.changes, replay.Change{At: r.now, NodeGone: c.Key})
		r.addNode(have)
		have = nil
	}
	if have == nil {
		have = &nodeLife{Node: &replay.Node{Node: n, Seen: r.now, First: r.first}}
		if have.First {
			have.Seen = n.Created
		}
		r.nodes[c.Key] = have
	}
	have.Type, have.Zone, have.CapacityType, have.Pool = n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone], cmp.Or(model.CapacityTypeOf(n.Labels), model.OnDemand), n.Labels[model.LabelNodePool]
	have.managed = have.managed || have.Pool != "" || slices.ContainsFunc(o.OwnerReferences, func(x metav1.OwnerReference) bool { return x.Kind == "NodeClaim" })
	if n.Ready && have.Ready.IsZero() {
		if have.Ready = r.now; have.First {
			have.Ready = n.ReadySince
		}
	}
	if have.last == nil || differs(have.last, n) {
		if have.last != nil && !have.last.HasTaint(model.TaintDisrupted) && n.HasTaint(model.TaintDisrupted) {
			r.out.Trace.Marked = append(r.out.Trace.Marked, r.now)
		}
		have.last = n
		have.changes = append(have.changes, replay.Change{At: r.now, Node: n})
	}
	return nil
}

// differs reports whether a node changed in what decisions look at.
func differs(a, b *model.Node) bool {
	return a.Ready != b.Ready || a.Deleting != b.Deleting || !slices.Equal(a.Taints, b.Taints) || !maps.Equal(a.Labels, b.Labels) ||
		!maps.Equal(a.Annotations, b.Annotations) || !reflect.DeepEqual(a.Allocatable, b.Allocatable) || !maps.Equal(a.CSILimits, b.CSILimits) || !slices.Equal(a.CSIDrivers, b.CSIDrivers)
}

// addNode adds a node whose life is known to the trace.
func (r *reader) addNode(x *nodeLife) {
	r.out.Trace.Nodes = append(r.out.Trace.Nodes, x.Node)
	if !x.managed {
		r.out.Trace.Changes = append(r.out.Trace.Changes, x.changes...)
	}
}

func (r *reader) claim(c record.Change) error {
	have := r.claims[c.Key]
	if c.Object == nil {
		if have != nil {
			have.Gone = r.now
			delete(r.claims, c.Key)
		}
		return nil
	}
	o, err := decode[karpv1.NodeClaim](c)
	if err != nil {
		return err
	}
	x := r.t.NodeClaim(o)
	if have != nil && have.Last.UID != x.UID {
		have.Gone, have = r.now, nil
	}
	if have == nil {
		have = &replay.Claim{Claim: x, Seen: r.now, First: r.first}
		if have.First {
			have.Seen = x.Created
		}
		r.claims[c.Key] = have
		r.out.Trace.Claims = append(r.out.Trace.Claims, have)
	}
	have.Last = x
	since := func(k string) time.Time {
		switch cond := x.Conditions[k]; {
		case !cond.True():
			return time.Time{}
		case r.first:
			return cond.Since
		}
		return r.now
	}
	if have.Launched.IsZero() {
		have.Launched = since(lifecycle.Launched)
	}
	if have.Deleted.IsZero() && !x.Deleting.IsZero() {
		have.Deleted = r.now
	}
	if d := x.Conditions[lifecycle.Disrupted]; d.True() {
		have.Reason = d.Reason
	}
	if n, ok := cluster.ReadNotice(x); ok && have.Interrupted.IsZero() {
		if have.Interrupted = r.now; have.First {
			have.Interrupted = n.Seen
		} else {
			r.out.Trace.Changes = append(r.out.Trace.Changes, replay.Change{At: r.now, Interrupt: have})
		}
	}
	if text := x.Annotations[model.AnnotationLaunchPrice]; text != "" {
		have.PriceMicro, _ = model.ParseDollars(text)
	}
	return nil
}

func (r *reader) set(c record.Change) error {
	k, uid, want := c.Kind+" "+c.Key, "", 0
	if c.Object != nil {
		var err error
		if uid, want, err = decodeReplicas(c); err != nil {
			return err
		}
		r.last[k] = uid
	} else {
		uid, _ = r.last[k].(string)
	}
	s := r.sets[uid]
	if s == nil {
		s = &setLife{}
		r.sets[uid] = s
	}
	if n := len(s.wants); n == 0 || s.wants[n-1].Count != want {
		s.wants = append(s.wants, replay.Want{At: r.now, Count: want})
	}
	return nil
}

func (r *reader) pool(c record.Change) error {
	k := c.Kind + " " + c.Key
	if c.Object == nil {
		delete(r.generations, k)
		r.out.pools = append(r.out.pools, poolLine{at: r.now, name: c.Key})
		return nil
	}
	if same, err := r.sameGeneration(k, c.Object); same || err != nil {
		return err
	}
	r.out.pools = append(r.out.pools, poolLine{r.now, c.Key, c.Object})
	return nil
}

// sameGeneration reports whether an object has changed in its status alone.
func (r *reader) sameGeneration(key string, object json.RawMessage) (bool, error) {
	var o struct {
		Metadata struct {
			Generation int64 `json:"generation"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return false, err
	}
	was, ok := r.generations[key]
	r.generations[key] = o.Metadata.Generation
	return ok && was == o.Metadata.Generation, nil
}

func (r *reader) budget(c record.Change) error {
	k := c.Kind + " " + c.Key
	if c.Object == nil {
		delete(r.last, k)
		r.out.Trace.Changes = append(r.out.Trace.Changes, replay.Change{At: r.now, PDBGone: c.Key})
		return nil
	}
	o, err := decode[policyv1.PodDisruptionBudget](c)
	if err != nil {
		return err
	}
	o.Status = policyv1.PodDisruptionBudgetStatus{}
	if was, ok := r.last[k].(policyv1.PodDisruptionBudgetSpec); ok && reflect.DeepEqual(was, o.Spec) {
		return nil
	}
	r.last[k] = o.Spec
	r.out.Trace.Changes = append(r.out.Trace.Changes, replay.Change{At: r.now, PDB: r.t.PDB(o)})
	return nil
}

func (r *reader) daemon(c record.Change) error {
	k := c.Kind + " " + c.Key
	if c.Object == nil {
		delete(r.generations, k)
		r.out.Trace.Changes = append(r.out.Trace.Changes, replay.Change{At: r.now, DaemonGone: c.Key})
		return nil
	}
	if same, err := r.sameGeneration(k, c.Object); same || err != nil {
		return err
	}
	o, err := decode[appsv1.DaemonSet](c)
	if err != nil {
		return err
	}
	d := r.t.DaemonSet(o)
	d.Class = r.intern(d.Class)
	r.out.Trace.Changes = append(r.out.Trace.Changes, replay.Change{At: r.now, Daemon: d})
	return nil
}

func (r *reader) namespace(c record.Change) error {
	if c.Object == nil {
		return nil // its pods go one by one
	}
	o, err := decode[corev1.Namespace](c)
	if err != nil {
		return err
	}
	labels := model.Labels{corev1.LabelMetadataName: o.Name}
	maps.Copy(labels, o.Labels)
	k := c.Kind + " " + c.Key
	if was, ok := r.last[k].(model.Labels); ok && maps.Equal(was, labels) {
		return nil
	}
	r.last[k] = labels
	r.out.Trace.Changes = append(r.out.Trace.Changes, replay.Change{At: r.now, Namespace: o.Name, Labels: labels})
	return nil
}
