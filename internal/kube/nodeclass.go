// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// nodeClassKind is a kind of node class that can be watched and whose status can be written.
type nodeClassKind interface {
	is(group, kind string) bool
	where() (gv schema.GroupVersion, resource string)
	follow(ctx context.Context, wg *sync.WaitGroup, t *Translator, emit func(state.Change))
	update(ctx context.Context, u plan.UpdateNodeClass, now time.Time) (uint64, error)
}

// nodeClassKinds are all of them, whether the API server has them or not.
func (c *Client) nodeClassKinds() []nodeClassKind {
	return []nodeClassKind{
		classOf[*kwokv1alpha1.KWOKNodeClass]{
			c: c, gv: kwokv1alpha1.GroupVersion, kindName: kwokv1alpha1.KindKWOKNodeClass,
			kind: kind[*kwokv1alpha1.KWOKNodeClass]{
				"kwoknodeclass", "kwoknodeclasses", c.KWOK, &c.kwokClasses, func() *kwokv1alpha1.KWOKNodeClass { return &kwokv1alpha1.KWOKNodeClass{} },
			},
			translate: (*Translator).KWOKNodeClass,
			status:    func(k *kwokv1alpha1.KWOKNodeClass) ([]metav1.Condition, any) { return k.Status.Conditions, nil },
		},
		classOf[*awsv1.EC2NodeClass]{
			c: c, gv: awsv1.GroupVersion, kindName: awsv1.KindEC2NodeClass,
			kind: kind[*awsv1.EC2NodeClass]{
				"ec2nodeclass", "ec2nodeclasses", c.AWS, &c.ec2Classes, func() *awsv1.EC2NodeClass { return &awsv1.EC2NodeClass{} },
			},
			translate: (*Translator).EC2NodeClass, finalizer: awsv1.FinalizerTermination,
			status: func(k *awsv1.EC2NodeClass) ([]metav1.Condition, any) {
				rest := k.Status
				rest.Conditions = nil
				return k.Status.Conditions, rest
			},
		},
		classOf[*dovetailv1alpha1.NodeGroupClass]{
			c: c, gv: dovetailv1alpha1.GroupVersion, kindName: dovetailv1alpha1.KindNodeGroupClass,
			kind: kind[*dovetailv1alpha1.NodeGroupClass]{
				"nodegroupclass", "nodegroupclasses", c.Dovetail, &c.groupClasses, func() *dovetailv1alpha1.NodeGroupClass { return &dovetailv1alpha1.NodeGroupClass{} },
			},
			translate: (*Translator).NodeGroupClass,
			status: func(k *dovetailv1alpha1.NodeGroupClass) ([]metav1.Condition, any) {
				rest := k.Status
				rest.Conditions = nil
				return k.Status.Conditions, rest
			},
		},
	}
}

// servedClasses are the kinds of node class that the API server has. One that is missing is said, and not waited for: it may not be
// wanted.
func (c *Client) servedClasses(ctx context.Context) ([]nodeClassKind, error) {
	var out []nodeClassKind
	for _, k := range c.nodeClassKinds() {
		gv, resource := k.where()
		ok, err := c.Serves(ctx, gv, resource)
		if err != nil {
			return nil, err
		}
		if !ok {
			c.Log.Warn("a node class kind is not installed and is left out: to use it, apply its CustomResourceDefinition from charts/dovetail/crds and restart",
				"resource", resource+"."+gv.Group, "server", c.Address)
			continue
		}
		out = append(out, k)
	}
	return out, nil
}

// classOf is a nodeClassKind of one type.
type classOf[T interface {
	metav1.Object
	runtime.Object
}] struct {
	c         *Client
	gv        schema.GroupVersion
	kindName  string
	kind      kind[T]
	translate func(*Translator, T) state.NodeClass
	finalizer string                                            // of its provider; empty: nothing is made for classes of this kind
	status    func(T) (conditions []metav1.Condition, rest any) // rest nil: there is nothing else
}

func (k classOf[T]) is(group, kind string) bool { return group == k.gv.Group && kind == k.kindName }

func (k classOf[T]) where() (schema.GroupVersion, string) { return k.gv, k.kind.resource }

func (k classOf[T]) follow(ctx context.Context, wg *sync.WaitGroup, t *Translator, emit func(state.Change)) {
	follow(ctx, k.c, wg, source{k.kind.client, k.kind.resource, k.kind.fresh()}, &sync.Mutex{},
		func(name string, x T) {
			trim(x)
			seen(k.kind.have, name, x)
			k.c.groupsChanged.raise()
			m := k.translate(t, x)
			emit(func(s *state.State) { s.Pools.SetNodeClass(m) })
		},
		func(name string) {
			k.kind.have.delete(name)
			k.c.groupsChanged.raise()
			emit(func(s *state.State) { s.Pools.DeleteNodeClass(k.gv.Group, k.kindName, name) })
		})
}

func (k classOf[T]) update(ctx context.Context, u plan.UpdateNodeClass, now time.Time) (uint64, error) {
	if k.finalizer == "" && (u.AddFinalizer || u.RemoveFinalizer) {
		return 0, fmt.Errorf("update %s %q: %w: this kind has no finalizer", k.kind.name, u.Name, plan.ErrInvalid)
	}
	return k.kind.edit(ctx, "update", u.Name, u.UID, func(cur T) (T, error) {
		if list, changed := finalizers(cur.GetFinalizers(), k.finalizer, u.AddFinalizer, u.RemoveFinalizer); changed {
			// The list is replaced: nobody else's may be lost.
			meta := map[string]any{"uid": cur.GetUID(), "resourceVersion": cur.GetResourceVersion(), "finalizers": list}
			next, err := k.kind.patch(ctx, u.Name, types.MergePatchType, map[string]any{"metadata": meta})
			if err != nil || u.RemoveFinalizer {
				return next, err
			}
			cur = next
		}
		status := map[string]any{}
		have, rest := k.status(cur)
		if list, changed := mergeConditions(have, u.Conditions, cur.GetGeneration(), now); changed {
			status["conditions"] = list
		}
		if rest != nil && len(u.Status) > 0 {
			if err := statusPatch(rest, u.Status, status); err != nil {
				return cur, fmt.Errorf("%w: status: %w", plan.ErrInvalid, err)
			}
		}
		if len(status) == 0 {
			return cur, nil
		}
		body := map[string]any{"metadata": map[string]any{"uid": cur.GetUID(), "resourceVersion": cur.GetResourceVersion()}, "status": status}
		return k.kind.patch(ctx, u.Name, types.MergePatchType, body, "status")
	})
}

// statusPatch adds to patch what makes one status the other: fields that differ, and null for those that are gone.
func statusPatch(have any, want []byte, patch map[string]any) error {
	raw, err := json.Marshal(have)
	if err != nil {
		return err
	}
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal(raw, &before); err != nil {
		return err
	}
	if err := json.Unmarshal(want, &after); err != nil {
		return err
	}
	for field, v := range after {
		if string(before[field]) != string(v) {
			patch[field] = v
		}
	}
	for field := range before {
		if _, ok := after[field]; !ok {
			patch[field] = nil
		}
	}
	return nil
}

// UpdateNodeClass writes a node class's status, or its finalizer.
func (a *Actor) UpdateNodeClass(ctx context.Context, u plan.UpdateNodeClass) (uint64, error) {
	for _, k := range a.c.nodeClassKinds() {
		if k.is(u.Group, u.Kind) {
			return k.update(ctx, u, a.now())
		}
	}
	return 0, fmt.Errorf("update node class %s/%s %q: %w: not a kind this program writes", u.Group, u.Kind, u.Name, plan.ErrInvalid)
}

// KWOKNodeClass translates the node class of simulated machines.
func (t *Translator) KWOKNodeClass(k *kwokv1alpha1.KWOKNodeClass) state.NodeClass {
	out := nodeClass(k, kwokv1alpha1.Group, kwokv1alpha1.KindKWOKNodeClass, k.Spec, k.Status.Conditions)
	out.RegistrationDelay = k.Spec.NodeRegistrationDelay.Duration
	return out
}

// EC2NodeClass translates the node class of EC2's machines.
func (t *Translator) EC2NodeClass(k *awsv1.EC2NodeClass) state.NodeClass {
	out := nodeClass(k, awsv1.Group, awsv1.KindEC2NodeClass, k.Spec, k.Status.Conditions)
	out.HasFinalizer = slices.Contains(k.Finalizers, awsv1.FinalizerTermination)
	rest := k.Status
	rest.Conditions = nil
	if status, err := json.Marshal(rest); err == nil { // of plain fields: it can't fail
		out.Status = status
	}
	return out
}

// NodeGroupClass translates the node class of node groups.
func (t *Translator) NodeGroupClass(k *dovetailv1alpha1.NodeGroupClass) state.NodeClass {
	out := nodeClass(k, dovetailv1alpha1.Group, dovetailv1alpha1.KindNodeGroupClass, k.Spec, k.Status.Conditions)
	rest := k.Status
	rest.Conditions = nil
	if status, err := json.Marshal(rest); err == nil { // of plain fields: it can't fail
		out.Status = status
	}
	out.Scaling = t.scaling(k)
	for _, g := range k.Status.Groups {
		out.Groups = append(out.Groups, model.NodeGroup{Name: g.Name, Min: int64(g.Min), Max: int64(g.Max), Desired: int64(g.Desired), Problem: g.Problem, Refresh: g.Refresh})
	}
	slices.SortFunc(out.Groups, func(a, b model.NodeGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// gpus are the resources that are GPUs.
var gpus = []string{"nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/gaudi"}

func (t *Translator) scaling(k *dovetailv1alpha1.NodeGroupClass) *model.GroupScaling {
	out := &model.GroupScaling{UtilizationPercent: -1, GPUPercent: -1}
	if meta.FindStatusCondition(k.Status.Conditions, dovetailv1alpha1.ConditionGroupsResolved) == nil {
		out.Unread = true
	} else {
		out.Chosen = []string{} // it may choose none
	}
	for _, g := range k.Status.Groups {
		if !out.Unread {
			out.Chosen = append(out.Chosen, g.Name)
		}
		if g.Min > 0 || g.Refresh != "" {
			out.Groups = append(out.Groups, model.NodeGroup{Name: g.Name, Min: int64(g.Min), Refresh: g.Refresh})
		}
	}
	slices.Sort(out.Chosen)
	o := k.Spec.Options
	if o == nil {
		return out
	}
	if o.UtilizationThresholdPercent != nil {
		out.UtilizationPercent = *o.UtilizationThresholdPercent
	}
	if o.GPUUtilizationThresholdPercent != nil {
		out.GPUPercent = *o.GPUUtilizationThresholdPercent
		for _, name := range gpus {
			out.GPUs = append(out.GPUs, t.Table.Dim(name))
		}
	}
	out.IgnoreDaemons = o.IgnoreDaemonSetsUtilization != nil && *o.IgnoreDaemonSetsUtilization
	out.IgnoreMirrors = boolOf(o.IgnoreMirrorPodsUtilization)
	if o.UnreadyTime != nil {
		out.Unready = o.UnreadyTime.Duration
	}
	for _, e := range o.Expanders {
		out.Expanders = append(out.Expanders, string(e))
	}
	for _, p := range o.Priorities {
		x := model.GroupPriority{Priority: p.Priority}
		for _, name := range p.Names {
			if re, err := regexp.Compile(name); err == nil { // one that is none is told by the class's status
				x.Names = append(x.Names, re)
			}
		}
		out.Priorities = append(out.Priorities, x)
	}
	if out.Balance = o.BalanceSimilarGroups != nil && *o.BalanceSimilarGroups; out.Balance {
		out.Ignore = slices.Concat(balancingIgnored, o.BalancingIgnoreLabels)
	}
	if o.MaxNodeProvisionTime != nil {
		out.Provision = o.MaxNodeProvisionTime.Duration
	}
	groupRules(o, out)
	return out
}

// groupRules translates which pods keep a node, and which pods get nodes launched.
func groupRules(o *dovetailv1alpha1.NodeGroupOptions, out *model.GroupScaling) {
	if e := o.Eviction; e != nil {
		out.Eviction = model.EvictionRules{
			LocalStorage: boolOf(e.KeepLocalStorage), CustomControllers: boolOf(e.KeepCustomControllers), SystemPods: durationOf(e.KeepSystemPods),
			KeepEmptyDaemons: boolOf(e.KeepDaemonSetsOfEmptyNodes), KeepOtherDaemons: boolOf(e.KeepDaemonSetsOfOccupiedNodes), DrainBands: drainBands(e),
		}
		if e.KeepBelowReplicas != nil {
			out.Eviction.MinReplicas = *e.KeepBelowReplicas
		}
	}
	out.Delays = model.ScaleDownDelays{AfterAdd: durationOf(o.DelayAfterAdd), AfterDelete: durationOf(o.DelayAfterDelete),
		AfterFailure: durationOf(o.DelayAfterFailure), PerGroup: boolOf(o.DelaysPerGroup)}
	out.TaintDelay, out.PodDelay = durationOf(o.DelayAfterTaint), durationOf(o.NewPodDelay)
	if o.DeletionDelayTimeout != nil {
		if out.DeletionDelay = o.DeletionDelayTimeout.Duration; out.DeletionDelay == 0 {
			out.DeletionDelay = -1
		}
	}
	if o.PriorityCutoff != nil {
		out.Cutoff = model.PriorityCutoff{Set: true, Below: *o.PriorityCutoff}
	}
}

// drainBands translates how pods are grouped for eviction: a longest grace period alone is one group of all pods.
func drainBands(e *dovetailv1alpha1.NodeGroupEviction) (out []model.DrainBand) {
	for _, p := range e.DrainPriorities {
		out = append(out, model.DrainBand{Priority: p.Priority, MaxGrace: p.GracePeriod.Duration})
	}
	slices.SortFunc(out, func(a, b model.DrainBand) int { return cmp.Compare(a.Priority, b.Priority) })
	if most := durationOf(e.MaxGracePeriod); len(out) == 0 && most > 0 {
		out = []model.DrainBand{{MaxGrace: most}}
	}
	return out
}

// boolOf is a bool that may be left out; false then.
func boolOf(b *bool) bool { return b != nil && *b }

// durationOf is a duration that may be left out; 0 then.
func durationOf(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

func nodeClass(k metav1.Object, group, kind string, spec any, have []metav1.Condition) state.NodeClass {
	raw, err := json.Marshal(spec)
	if err != nil {
		raw = nil // of plain fields: it can't fail
	}
	out := state.NodeClass{
		Group: group, Kind: kind, Name: k.GetName(), UID: string(k.GetUID()), Generation: k.GetGeneration(), Created: k.GetCreationTimestamp().Time, Version: version(k.GetResourceVersion()),
		Annotations: k.GetAnnotations(), Spec: raw, Conditions: conditions(have),
	}
	if at := k.GetDeletionTimestamp(); at != nil {
		out.Deleting = at.Time
	}
	return out
}
