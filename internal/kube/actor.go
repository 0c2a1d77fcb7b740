// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Actor carries out the actions of a plan. Each method does one action and answers the resource version that shows its effect, 0
// where there is none to wait for. An error wraps one of plan's where one applies: ErrGone, ErrConflict, ErrBlocked, ErrInvalid;
// any other means that the same call may work later. Methods may be called from several goroutines.
type Actor struct {
	c   *Client
	t   *translate.Translator
	now func() time.Time

	events *recorder
}

// NewActor makes an Actor that uses what Watch has seen of the same Client and writes by the same translation. now dates the
// conditions it writes.
func NewActor(c *Client, t *translate.Translator, now func() time.Time) *Actor {
	return &Actor{
		c: c, t: t, now: now,
		events: &recorder{c: c, now: now, last: map[[sha256.Size]byte]time.Time{}, queue: fairEvents{most: eventQueue}, tokens: eventBurst, filled: now()},
	}
}

// classify wraps an error of the API server with verb and object, and with what the caller should do about it.
func classify(err error, verb, kind, name string) error {
	if err == nil {
		return nil
	}
	var sort error
	switch {
	case apierrors.IsNotFound(err):
		sort = plan.ErrGone
	case apierrors.IsConflict(err):
		sort = plan.ErrConflict
		if strings.Contains(err.Error(), "Precondition failed: UID") || strings.Contains(err.Error(), "UID in the precondition") {
			sort = plan.ErrGone
		}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err),
		apierrors.IsRequestEntityTooLargeError(err):
		sort = plan.ErrInvalid
	default:
		return fmt.Errorf("%s %s %q: %w", verb, kind, name, err)
	}
	return fmt.Errorf("%s %s %q: %w: %w", verb, kind, name, sort, err)
}

func gone(verb, kind, name, uid string) error {
	return fmt.Errorf("%s %s %q: %w: no object with uid %s", verb, kind, name, plan.ErrGone, uid)
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// MarshalJSON keeps the value null of a test that something is absent.
func (o operation) MarshalJSON() ([]byte, error) {
	type full struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	type bare struct {
		Op   string `json:"op"`
		Path string `json:"path"`
	}
	if o.Op == "remove" {
		return json.Marshal(bare{o.Op, o.Path})
	}
	return json.Marshal(full(o))
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// kind is how to reach the objects of one kind.
type kind[T metav1.Object] struct {
	name     string // for messages
	resource string
	client   rest.Interface
	have     *objects[T]
	fresh    func() T
}

func (k kind[T]) get(ctx context.Context, name string) (T, error) {
	x := k.fresh()
	obj, err := k.client.Get().NamespaceIfScoped(translate.NamespaceOf(name), translate.NamespaceOf(name) != "").Resource(k.resource).Name(translate.NameOf(name)).Do(ctx).Get()
	if err != nil {
		return x, err
	}
	x, ok := obj.(T)
	if !ok {
		return x, fmt.Errorf("got a %T", obj)
	}
	return x, nil
}

func (k kind[T]) patch(ctx context.Context, name string, how types.PatchType, body any, subresource ...string) (T, error) {
	var none T
	data, err := json.Marshal(body)
	if err != nil {
		return none, fmt.Errorf("write patch: %w", err)
	}
	obj, err := k.client.Patch(how).NamespaceIfScoped(translate.NamespaceOf(name), translate.NamespaceOf(name) != "").Resource(k.resource).Name(translate.NameOf(name)).SubResource(subresource...).Body(data).Do(ctx).Get()
	if err != nil {
		return none, err
	}
	x, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("got a %T", obj)
	}
	newer(k.have, name, x)
	return x, nil
}

// edit runs a change on the object as last seen; when that turns out to be outdated, once more on the object as it is.
func (k kind[T]) edit(ctx context.Context, verb, name, uid string, change func(cur T) (T, error)) (uint64, error) {
	cur, ok := k.have.get(name)
	for attempt := 0; ; attempt++ {
		if !ok {
			var err error
			if cur, err = k.get(ctx, name); err != nil {
				return 0, classify(err, verb, k.name, name)
			}
		}
		if uid != "" && string(cur.GetUID()) != uid {
			if ok {
				ok = false // the watch may be behind
				continue
			}
			return 0, gone(verb, k.name, name, uid)
		}
		next, err := change(cur)
		if err == nil {
			return translate.ResourceVersion(next.GetResourceVersion()), nil
		}
		outdated := apierrors.IsConflict(err) || refusedPatch(err)
		if outdated && attempt == 0 {
			ok = false
			continue
		}
		if refusedPatch(err) {
			return 0, fmt.Errorf("%s %s %q: %w: %w", verb, k.name, name, plan.ErrConflict, err)
		}
		return 0, classify(err, verb, k.name, name)
	}
}

// refusedPatch reports whether a JSON patch could not be applied, which is to say that a test in it failed or a place in it is gone.
// The API server answers that with the code of an invalid object, but names no field.
func refusedPatch(err error) bool {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return false
	}
	st := s.Status()
	if st.Code != http.StatusUnprocessableEntity {
		return false
	}
	if st.Details != nil {
		for _, c := range st.Details.Causes {
			if c.Field != "" {
				return false
			}
		}
	}
	return true
}

func (a *Actor) nodeKind() kind[*corev1.Node] {
	return kind[*corev1.Node]{"node", "nodes", a.c.Core, &a.c.Seen.nodes, func() *corev1.Node { return &corev1.Node{} }}
}

func (a *Actor) claimKind() kind[*karpv1.NodeClaim] {
	return kind[*karpv1.NodeClaim]{"nodeclaim", "nodeclaims", a.c.Karpenter, &a.c.Seen.claims, func() *karpv1.NodeClaim { return &karpv1.NodeClaim{} }}
}

func (a *Actor) poolKind() kind[*karpv1.NodePool] {
	return kind[*karpv1.NodePool]{"nodepool", "nodepools", a.c.Karpenter, &a.c.Seen.pools, func() *karpv1.NodePool { return &karpv1.NodePool{} }}
}

// CreateClaim makes a NodeClaim. One of that name that is there already is this one: its name says what it is for.
func (a *Actor) CreateClaim(ctx context.Context, c plan.CreateClaim) (uint64, error) {
	claim, err := a.t.ClaimObject(c)
	if err != nil {
		return 0, fmt.Errorf("create nodeclaim %q: %w: %w", c.Name, plan.ErrInvalid, err)
	}
	var out karpv1.NodeClaim
	err = a.c.Karpenter.Post().Resource("nodeclaims").Body(claim).Do(ctx).Into(&out)
	if apierrors.IsAlreadyExists(err) {
		have, err := a.claimKind().get(ctx, c.Name)
		if err != nil {
			return 0, classify(err, "create", "nodeclaim", c.Name)
		}
		return translate.ResourceVersion(have.ResourceVersion), nil
	}
	if err != nil {
		return 0, classify(err, "create", "nodeclaim", c.Name)
	}
	return translate.ResourceVersion(out.ResourceVersion), nil
}

// Claimed reports whether a machine is a NodeClaim's, as the API server knows it now, whatever the watch has shown.
func (a *Actor) Claimed(ctx context.Context, m plan.Terminate) (bool, error) {
	is := func(c *karpv1.NodeClaim) bool {
		return c.Status.ProviderID == m.ProviderID || c.Status.ProviderID == "" && string(c.UID) == m.OfUID
	}
	if m.Of != "" {
		have, err := a.claimKind().get(ctx, m.Of)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && is(have), classify(err, "look for", "nodeclaim", m.Of)
	}
	var all karpv1.NodeClaimList
	if err := a.c.Karpenter.Get().Resource("nodeclaims").Do(ctx).Into(&all); err != nil {
		return false, classify(err, "list for machine "+m.ProviderID, "nodeclaims", "")
	}
	return slices.ContainsFunc(all.Items, func(c karpv1.NodeClaim) bool { return is(&c) }), nil
}

// DeleteClaim asks for a claim's end; its finalizer holds it until its machine is gone.
func (a *Actor) DeleteClaim(ctx context.Context, d plan.DeleteClaim) (uint64, error) {
	err := a.c.Karpenter.Delete().Resource("nodeclaims").Name(d.Claim).Body(deleteOptions(d.UID, nil)).Do(ctx).Error()
	return 0, classify(err, "delete", "nodeclaim", d.Claim)
}

// DeleteNode deletes a node object.
func (a *Actor) DeleteNode(ctx context.Context, d plan.DeleteNode) (uint64, error) {
	err := a.c.Core.Delete().Resource("nodes").Name(d.Node).Body(deleteOptions(d.UID, nil)).Do(ctx).Error()
	return 0, classify(err, "delete", "node", d.Node)
}

func deleteOptions(uid string, grace *int64) *metav1.DeleteOptions {
	out := &metav1.DeleteOptions{GracePeriodSeconds: grace}
	out.APIVersion, out.Kind = "v1", "DeleteOptions"
	if uid != "" {
		u := types.UID(uid)
		out.Preconditions = &metav1.Preconditions{UID: &u}
	}
	return out
}

// UpdateClaim changes a claim's metadata and its status, in at most two calls: none for what is so already.
func (a *Actor) UpdateClaim(ctx context.Context, u plan.UpdateClaim) (uint64, error) {
	k := a.claimKind()
	return k.edit(ctx, "update", u.Claim, u.UID, func(cur *karpv1.NodeClaim) (*karpv1.NodeClaim, error) {
		meta, err := claimMetadata(a.t, cur, u)
		if err != nil {
			return nil, err
		}
		status := a.claimStatus(cur, u)
		// What lets the object go comes last, what makes a step durable before the status that speaks of it.
		if !u.RemoveFinalizer && meta != nil {
			if cur, err = k.patch(ctx, u.Claim, types.MergePatchType, meta); err != nil {
				return nil, err
			}
			meta = nil
		}
		if status != nil {
			body := map[string]any{"metadata": map[string]any{"uid": cur.UID, "resourceVersion": cur.ResourceVersion}, "status": status}
			if cur, err = k.patch(ctx, u.Claim, types.MergePatchType, body, "status"); err != nil {
				return nil, err
			}
		}
		if meta != nil {
			m := meta["metadata"].(map[string]any)
			m["resourceVersion"] = cur.ResourceVersion
			if cur, err = k.patch(ctx, u.Claim, types.MergePatchType, meta); err != nil {
				return nil, err
			}
		}
		return cur, nil
	})
}

func claimMetadata(t *translate.Translator, cur *karpv1.NodeClaim, u plan.UpdateClaim) (map[string]any, error) {
	annotations := u.Annotations
	if u.SetSlots {
		annotations = maps.Clone(annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[translate.AnnotationSlots] = plan.Unset
		if len(u.Slots) > 0 {
			s, err := t.SlotsText(u.Slots)
			if err != nil {
				return nil, err
			}
			annotations[translate.AnnotationSlots] = s
		}
	}
	m := map[string]any{}
	if d := difference(cur.Annotations, annotations); len(d) > 0 {
		m["annotations"] = d
	}
	if d := difference(cur.Labels, u.Labels); len(d) > 0 {
		m["labels"] = d
	}
	if u.OwnerPool != "" && !slices.ContainsFunc(cur.OwnerReferences, translate.IsNodePool) {
		m["ownerReferences"] = append(slices.Clone(cur.OwnerReferences), translate.PoolReference(u.OwnerPool, u.OwnerUID))
		m["resourceVersion"] = cur.ResourceVersion // as below
	}
	if f, changed := finalizers(cur.Finalizers, karpv1.FinalizerTermination, u.AddFinalizer, u.RemoveFinalizer); changed {
		m["finalizers"] = f
		m["resourceVersion"] = cur.ResourceVersion // the list is replaced: nobody else's may be lost
	}
	if len(m) == 0 {
		return nil, nil
	}
	m["uid"] = cur.UID
	return map[string]any{"metadata": m}, nil
}

// difference is what a merge patch must say to have the wanted values: null for what is to be removed.
func difference(have, want map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range want {
		h, ok := have[k]
		switch {
		case v == plan.Unset && ok:
			out[k] = nil
		case v != plan.Unset && (!ok || h != v):
			out[k] = v
		}
	}
	return out
}

func finalizers(have []string, name string, add, remove bool) ([]string, bool) {
	is := slices.Contains(have, name)
	switch {
	case add && !is:
		return append(slices.Clone(have), name), true
	case remove && is:
		return slices.DeleteFunc(slices.Clone(have), func(s string) bool { return s == name }), true
	}
	return have, false
}

func (a *Actor) claimStatus(cur *karpv1.NodeClaim, u plan.UpdateClaim) map[string]any {
	out := map[string]any{}
	if u.NodeName != "" && u.NodeName != cur.Status.NodeName {
		out["nodeName"] = u.NodeName
	}
	if u.ProviderID != "" && u.ProviderID != cur.Status.ProviderID {
		out["providerID"] = u.ProviderID
	}
	if u.ImageID != "" && u.ImageID != cur.Status.ImageID {
		out["imageID"] = u.ImageID
	}
	if !u.LastPodEvent.IsZero() {
		out["lastPodEventTime"] = metav1.NewTime(u.LastPodEvent)
	}
	if u.Capacity != nil && !a.t.Resources(cur.Status.Capacity, 0).Equal(u.Capacity) {
		out["capacity"] = replaceList(cur.Status.Capacity, a.t.ResourceList(u.Capacity))
	}
	if u.Allocatable != nil && !a.t.Resources(cur.Status.Allocatable, 0).Equal(u.Allocatable) {
		out["allocatable"] = replaceList(cur.Status.Allocatable, a.t.ResourceList(u.Allocatable))
	}
	if len(u.Conditions) > 0 {
		list, changed := mergeConditions(cur.Status.Conditions, u.Conditions, cur.Generation, a.now(),
			karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized)
		if changed {
			out["conditions"] = list
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// replaceList is a merge patch that leaves nothing of the list before.
func replaceList(have, want corev1.ResourceList) map[string]any {
	out := map[string]any{}
	for k := range have {
		out[string(k)] = nil
	}
	for k, q := range want {
		out[string(k)] = q.String()
	}
	return out
}

// mergeConditions writes conditions into a list; the time of transition changes with the status only, and one with an empty status
// is taken away. parts are the conditions that Ready sums up; those not decided yet are Unknown, as a reader of the API expects.
func mergeConditions(have []metav1.Condition, want map[string]model.Condition, generation int64, now time.Time, parts ...string) ([]metav1.Condition, bool) {
	out := slices.Clone(have)
	changed := false
	set := func(c metav1.Condition) {
		c.Reason = cmp.Or(c.Reason, c.Type)
		c.ObservedGeneration = generation
		if len(c.Message) > 32768 {
			c.Message = c.Message[:32768]
		}
		i := slices.IndexFunc(out, func(o metav1.Condition) bool { return o.Type == c.Type })
		if i < 0 {
			c.LastTransitionTime = metav1.NewTime(now)
			out, changed = append(out, c), true
			return
		}
		c.LastTransitionTime = out[i].LastTransitionTime
		if out[i].Status != c.Status {
			c.LastTransitionTime = metav1.NewTime(now)
		}
		if out[i] != c {
			out[i], changed = c, true
		}
	}
	for _, p := range parts {
		if _, given := want[p]; !given && !slices.ContainsFunc(out, func(o metav1.Condition) bool { return o.Type == p }) {
			set(metav1.Condition{
				Type: p, Status: metav1.ConditionUnknown, Reason: karpv1.ReasonAwaitingReconciliation, Message: "object is awaiting reconciliation",
			})
		}
	}
	for _, t := range slices.Sorted(maps.Keys(want)) {
		c := want[t]
		if c.Status == "" {
			n := len(out)
			out = slices.DeleteFunc(out, func(o metav1.Condition) bool { return o.Type == t })
			changed = changed || len(out) != n
			continue
		}
		set(metav1.Condition{Type: t, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message})
	}
	if _, given := want[karpv1.ConditionReady]; len(parts) > 0 && !given {
		ready := metav1.Condition{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue, Reason: karpv1.ConditionReady}
		var not []string
		for _, p := range parts {
			i := slices.IndexFunc(out, func(o metav1.Condition) bool { return o.Type == p })
			if i < 0 || out[i].Status == metav1.ConditionTrue {
				continue
			}
			not = append(not, p+"="+string(out[i].Status))
			if ready.Status == metav1.ConditionTrue || out[i].Status == metav1.ConditionFalse {
				ready.Status = out[i].Status
			}
		}
		if len(not) > 0 {
			ready.Reason, ready.Message = karpv1.ReasonUnhealthyDependents, strings.Join(not, ", ")
		}
		set(ready)
	}
	return out, changed
}

// UpdateNode changes a node in one patch, all or nothing. Lists are tested to be as they were when the patch was made, so that no
// other writer's taint, finalizer or owner is lost.
func (a *Actor) UpdateNode(ctx context.Context, u plan.UpdateNode) (uint64, error) {
	k := a.nodeKind()
	return k.edit(ctx, "update", u.Node, u.UID, func(cur *corev1.Node) (*corev1.Node, error) {
		if u.OwnerClaim != "" && cur.Labels[model.LabelRegistered] == "true" {
			return cur, nil // somebody registered it meanwhile: startup taints that are gone must not come back
		}
		ops := nodePatch(cur, u)
		if len(ops) == 0 {
			return cur, nil
		}
		return k.patch(ctx, u.Node, types.JSONPatchType, append([]operation{{"test", "/metadata/uid", cur.UID}}, ops...))
	})
}

func nodePatch(cur *corev1.Node, u plan.UpdateNode) []operation {
	var ops []operation
	ops = mapPatch(ops, "/metadata/labels", cur.Labels, u.Labels)
	ops = mapPatch(ops, "/metadata/annotations", cur.Annotations, u.Annotations)

	taints := slices.DeleteFunc(slices.Clone(cur.Spec.Taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(u.RemoveTaints, func(r model.Taint) bool { return r.Key == t.Key && r.Effect == string(t.Effect) })
	})
	cordon, add := cur.Spec.Unschedulable, u.AddTaints
	if changesReservation(u) {
		taints, cordon = translate.WithoutReservation(taints, cordon)
		if u.DaemonsOnly && !cordon { // somebody else's cordon stays somebody else's: the taint is written beside it
			add, cordon = asCordon(add), true
		}
	}
	for _, t := range add {
		w := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		i := slices.IndexFunc(taints, func(h corev1.Taint) bool { return h.Key == w.Key && h.Effect == w.Effect })
		switch {
		case i < 0:
			taints = append(taints, w)
		case taints[i].Value != w.Value:
			taints[i] = w
		}
	}
	if !sameJSON(cur.Spec.Taints, taints) {
		ops = listPatch(ops, "/spec/taints", cur.Spec.Taints, taints)
	}
	switch {
	case cordon && !cur.Spec.Unschedulable:
		ops = append(ops, operation{"test", "/spec/unschedulable", nil}, operation{"add", "/spec/unschedulable", true})
	case cur.Spec.Unschedulable && (u.Uncordon || !cordon):
		ops = append(ops, operation{"test", "/spec/unschedulable", true}, operation{"replace", "/spec/unschedulable", false})
	}
	if f, changed := finalizers(cur.Finalizers, karpv1.FinalizerTermination, u.AddFinalizer, u.RemoveFinalizer); changed {
		ops = listPatch(ops, "/metadata/finalizers", cur.Finalizers, f)
	}
	if u.OwnerClaim != "" && !slices.ContainsFunc(cur.OwnerReferences, func(o metav1.OwnerReference) bool { return string(o.UID) == u.OwnerUID }) {
		yes := true
		ops = listPatch(ops, "/metadata/ownerReferences", cur.OwnerReferences, append(slices.Clone(cur.OwnerReferences), metav1.OwnerReference{
			APIVersion: karpv1.GroupVersion.String(), Kind: "NodeClaim", Name: u.OwnerClaim, UID: types.UID(u.OwnerUID), BlockOwnerDeletion: &yes,
		}))
	}
	return ops
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func mapPatch(ops []operation, path string, have, want map[string]string) []operation {
	if have == nil {
		set := map[string]string{}
		for k, v := range want {
			if v != plan.Unset {
				set[k] = v
			}
		}
		if len(set) > 0 {
			ops = append(ops, operation{"test", path, nil}, operation{"add", path, set})
		}
		return ops
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		h, ok := have[k]
		switch {
		case want[k] == plan.Unset && ok:
			ops = append(ops, operation{"remove", path + "/" + pointer.Replace(k), nil})
		case want[k] != plan.Unset && (!ok || h != want[k]):
			ops = append(ops, operation{"add", path + "/" + pointer.Replace(k), want[k]})
		}
	}
	return ops
}

func listPatch[T any](ops []operation, path string, have, want []T) []operation {
	if len(have) == 0 {
		return append(ops, operation{"test", path, nil}, operation{"add", path, want})
	}
	ops = append(ops, operation{"test", path, have})
	if len(want) == 0 {
		return append(ops, operation{"remove", path, nil})
	}
	return append(ops, operation{"replace", path, want})
}

// Bind binds a pod to a node. A pod that is bound already, is being deleted or has scheduling gates answers ErrConflict: whoever asked looks
// at it again. The event that people look for is written later, when no pod is being bound.
func (a *Actor) Bind(ctx context.Context, b plan.Bind) (uint64, error) {
	body := &corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.Pod, UID: types.UID(b.UID)},
		Target:     corev1.ObjectReference{Kind: "Node", Name: b.Node},
	}
	a.events.bindings.Add(1)
	err := a.c.Core.Post().Namespace(b.Namespace).Resource("pods").Name(b.Pod).SubResource("binding").Body(body).Do(ctx).Error()
	a.events.bindings.Add(-1)
	if err != nil {
		return 0, classify(err, "bind", "pod", b.Namespace+"/"+b.Pod)
	}
	a.events.scheduled(b)
	return 0, nil
}

// Tolerate adds to a pod the toleration of a claim's reservation. Nothing else of the pod is touched.
func (a *Actor) Tolerate(ctx context.Context, t plan.Tolerate) (uint64, error) {
	name := t.Namespace + "/" + t.Pod
	toleration := corev1.Toleration{Key: model.TaintReserved, Operator: corev1.TolerationOpEqual, Value: t.Claim, Effect: corev1.TaintEffectNoSchedule}
	patch := func(ops ...operation) error {
		data, err := json.Marshal(append([]operation{{"test", "/metadata/uid", t.UID}}, ops...))
		if err != nil {
			return fmt.Errorf("write patch: %w", err)
		}
		// A thousand of these may be under way: the answer need not hold the pod, the watch will show it.
		return a.c.Core.Patch(types.JSONPatchType).SetHeader("Accept", partialMetadata).Namespace(t.Namespace).Resource("pods").Name(t.Pod).
			Body(data).Do(ctx).Error()
	}
	err := patch(operation{"add", "/spec/tolerations/-", toleration})
	if err != nil && refusedPatch(err) {
		// Another pod of that name, or one that tolerates nothing: admission gives nearly every pod two tolerations.
		var cur corev1.Pod
		if err := a.c.Core.Get().Namespace(t.Namespace).Resource("pods").Name(t.Pod).Do(ctx).Into(&cur); err != nil {
			return 0, classify(err, "tolerate reservation on", "pod", name)
		}
		if string(cur.UID) != t.UID {
			return 0, gone("tolerate reservation on", "pod", name, t.UID)
		}
		if len(cur.Spec.Tolerations) > 0 {
			return 0, fmt.Errorf("tolerate reservation on pod %q: %w: %w", name, plan.ErrConflict, err)
		}
		err = patch(operation{"test", "/spec/tolerations", nil}, operation{"add", "/spec/tolerations", []corev1.Toleration{toleration}})
	}
	if err != nil {
		return 0, classify(err, "tolerate reservation on", "pod", name)
	}
	return 0, nil
}

// partialMetadata asks for an answer without spec and status.
const partialMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Evict asks the eviction API to remove a pod. A PodDisruptionBudget in the way is ErrBlocked with the budget's own words, and so is whoever
// else refuses it: an admission webhook may do so until it has prepared the pod's end.
func (a *Actor) Evict(ctx context.Context, e plan.Evict) (uint64, error) {
	name := e.Namespace + "/" + e.Pod
	body := &policyv1.Eviction{
		TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta:    metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Pod},
		DeleteOptions: deleteOptions(e.UID, nil),
	}
	if e.Grace > 0 {
		seconds := int64(e.Grace / time.Second)
		body.DeleteOptions.GracePeriodSeconds = &seconds
	}
	// No retries in here: the server may say "in 10 seconds", and the loop has better things to do than wait for that.
	err := a.c.Core.Post().MaxRetries(0).Namespace(e.Namespace).Resource("pods").Name(e.Pod).SubResource("eviction").Body(body).Do(ctx).Error()
	switch {
	case apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		said := blockedBy(err)
		if budget, ok := budgetOf(said); ok {
			return 0, fmt.Errorf("evict pod %q: %w", name, &plan.BudgetBlocks{Budget: e.Namespace + "/" + budget, Said: said})
		}
		return 0, fmt.Errorf("evict pod %q: %w: %s", name, plan.ErrBlocked, said)
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget"), apierrors.IsForbidden(err), apierrors.IsInvalid(err),
		apierrors.IsTooManyRequests(err) && strings.Contains(err.Error(), "admission webhook"):
		return 0, fmt.Errorf("evict pod %q: %w: %w", name, plan.ErrBlocked, err)
	case apierrors.IsConflict(err):
		return 0, fmt.Errorf("evict pod %q: %w: %w", name, plan.ErrGone, err)
	}
	return 0, classify(err, "evict", "pod", name)
}

// blockedBy is the cause's own message, which names the budget; the status' is the same for every budget.
func blockedBy(err error) string {
	var s apierrors.APIStatus
	if errors.As(err, &s) && s.Status().Details != nil {
		for _, c := range s.Status().Details.Causes {
			if c.Type == policyv1.DisruptionBudgetCause && c.Message != "" {
				return c.Message
			}
		}
	}
	return err.Error()
}

// budgetOf is the name of the budget in the API server's words: "The disruption budget NAME needs …", or "… is still …".
func budgetOf(said string) (string, bool) {
	_, rest, ok := strings.Cut(said, "disruption budget ")
	name, _, _ := strings.Cut(rest, " ")
	return name, ok && name != ""
}

// Restart has a Deployment make its pods anew, by the annotation that kubectl uses. One that has been restarted since, by whomever, is left
// alone: its pods come anew in any case.
func (a *Actor) Restart(ctx context.Context, r plan.Restart) (uint64, error) {
	name := r.Namespace + "/" + r.Deployment
	var cur appsv1.Deployment
	if err := a.c.Apps.Get().Namespace(r.Namespace).Resource("deployments").Name(r.Deployment).Do(ctx).Into(&cur); err != nil {
		return 0, classify(err, "restart", "deployment", name)
	}
	if string(cur.UID) != r.UID {
		return 0, gone("restart", "deployment", name, r.UID)
	}
	if cur.Spec.Template.Annotations[model.AnnotationRestartedAt] != r.From {
		return 0, nil
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.UID, "resourceVersion": cur.ResourceVersion},
		"spec":     map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": map[string]string{model.AnnotationRestartedAt: r.To}}}},
	})
	if err != nil {
		return 0, fmt.Errorf("write patch: %w", err)
	}
	return 0, classify(a.c.Apps.Patch(types.MergePatchType).Namespace(r.Namespace).Resource("deployments").Name(r.Deployment).Body(data).Do(ctx).Error(),
		"restart", "deployment", name)
}

// DeletePod deletes a pod, PodDisruptionBudgets or not. The grace period is at least a second: none at all would take the pod off
// the API server while its containers may still run.
func (a *Actor) DeletePod(ctx context.Context, d plan.DeletePod) (uint64, error) {
	grace := max(1, int64((d.Grace+time.Second-1)/time.Second))
	err := a.c.Core.Delete().Namespace(d.Namespace).Resource("pods").Name(d.Pod).Body(deleteOptions(d.UID, &grace)).Do(ctx).Error()
	return 0, classify(err, "delete", "pod", d.Namespace+"/"+d.Pod)
}

// UpdatePool writes a pool's status and its hash annotations.
func (a *Actor) UpdatePool(ctx context.Context, u plan.UpdatePool) (uint64, error) {
	k := a.poolKind()
	return k.edit(ctx, "update", u.Pool, u.UID, func(cur *karpv1.NodePool) (*karpv1.NodePool, error) {
		var err error
		if u.Hash != "" {
			want := map[string]string{karpv1.AnnotationNodePoolHash: u.Hash, karpv1.AnnotationNodePoolHashVersion: karpv1.NodePoolHashVersion}
			if d := difference(cur.Annotations, want); len(d) > 0 {
				body := map[string]any{"metadata": map[string]any{"uid": cur.UID, "annotations": d}}
				if cur, err = k.patch(ctx, u.Pool, types.MergePatchType, body); err != nil {
					return nil, err
				}
			}
		}
		status := map[string]any{}
		if want := a.poolResources(u.Resources, u.Nodes); !sameJSON(cur.Status.Resources, want) {
			status["resources"] = replaceList(cur.Status.Resources, want)
		}
		if cur.Status.Nodes == nil || *cur.Status.Nodes != u.Nodes {
			status["nodes"] = u.Nodes
		}
		if u.ClassGeneration != 0 && cur.Status.NodeClassObservedGeneration != u.ClassGeneration {
			status["nodeClassObservedGeneration"] = u.ClassGeneration
		}
		if len(u.Conditions) > 0 {
			list, changed := mergeConditions(cur.Status.Conditions, u.Conditions, cur.Generation, a.now(),
				karpv1.ConditionValidationSucceeded, karpv1.ConditionNodeClassReady)
			if changed {
				status["conditions"] = list
			}
		}
		if len(status) == 0 {
			return cur, nil
		}
		body := map[string]any{"metadata": map[string]any{"uid": cur.UID, "resourceVersion": cur.ResourceVersion}, "status": status}
		return k.patch(ctx, u.Pool, types.MergePatchType, body, "status")
	})
}

// poolResources has the resources that every pool has also where they are zero, as a reader of the API expects.
func (a *Actor) poolResources(r model.Resources, nodes int64) corev1.ResourceList {
	out := a.t.ResourceList(r)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		if _, ok := out[name]; !ok {
			out[name] = *resource.NewQuantity(0, resource.DecimalSI)
		}
	}
	out[karpv1.ResourceNodes] = *resource.NewQuantity(nodes, resource.DecimalSI)
	return out
}
