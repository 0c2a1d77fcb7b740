// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// scalableEvery is how often the workloads that CapacityBuffers name are read again. A ReplicaSet that changes size tells of its
// Deployment at once.
const scalableEvery = 10 * time.Second

// bufferWatch keeps CapacityBuffers translated: whenever one, or something that it refers to, changes, all of its namespace are
// translated again, since they share the namespace's quotas.
type bufferWatch struct {
	w       *watcher
	changed client.Signal

	mu     sync.Mutex
	quotas byNamespace[*corev1.ResourceQuota]
	due    map[string]bool // namespaces to translate again

	told   map[string]translate.SizedBuffer // by key: what was last told; of translateDue alone, as are shapes and scales
	shapes map[string]translate.PodShape    // of workloads, by namespace and ScalableRef: what was last read of them
	scales map[string]string                // paths of kinds that have a scale subresource, by group and kind
}

func newBufferWatch(w *watcher) *bufferWatch {
	return &bufferWatch{w: w, quotas: byNamespace[*corev1.ResourceQuota]{}, due: map[string]bool{},
		told: map[string]translate.SizedBuffer{}, shapes: map[string]translate.PodShape{}, scales: map[string]string{}}
}

// markDue marks the buffers of a namespace for translation, of all namespaces if it is empty.
func (bw *bufferWatch) markDue(namespace string) {
	bw.mu.Lock()
	bw.due[namespace] = true
	bw.mu.Unlock()
	bw.changed.Raise()
}

// follow watches CapacityBuffers. wg is done after all initial buffers were passed.
func (bw *bufferWatch) follow(ctx context.Context, wg *sync.WaitGroup) {
	c := bw.w.c
	wg.Add(1)
	var first sync.WaitGroup
	follow(ctx, bw.w, &first, source{c.Buffers, "capacitybuffers", &bufferv1beta1.CapacityBuffer{}}, &sync.Mutex{},
		func(k string, b *bufferv1beta1.CapacityBuffer) {
			client.KeepSeen(&c.Seen.CapacityBuffers, k, b)
			bw.markDue(b.Namespace)
		},
		func(k string) {
			c.Seen.CapacityBuffers.Delete(k)
			bw.markDue(translate.NamespaceOf(k))
		})
	go func() {
		if !waitFor(ctx, &first) {
			return
		}
		bw.translateDue(ctx)
		wg.Done()
		if bw.w.once == nil {
			bw.run(ctx)
		}
	}()
}

// setQuota adds, changes or (nil) removes a ResourceQuota.
func (bw *bufferWatch) setQuota(k string, q *corev1.ResourceQuota) {
	bw.mu.Lock()
	if q == nil {
		bw.quotas.delete(k)
	} else {
		bw.quotas.set(k, q)
	}
	bw.mu.Unlock()
	bw.markDue(translate.NamespaceOf(k))
}

// run translates marked buffers until the context ends.
func (bw *bufferWatch) run(ctx context.Context) {
	tick := time.NewTicker(scalableEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-bw.changed.C():
		case <-tick.C:
			for _, b := range bw.w.c.Seen.CapacityBuffers.List() {
				if b.Spec.ScalableRef != nil {
					bw.markDue(b.Namespace)
				}
			}
		}
		bw.translateDue(ctx)
	}
}

// translateDue translates the buffers of the namespaces that are due, and tells of those that have changed.
func (bw *bufferWatch) translateDue(ctx context.Context) {
	bw.mu.Lock()
	due := bw.due
	bw.due = map[string]bool{}
	bw.mu.Unlock()
	if len(due) == 0 {
		return
	}
	byNamespace := map[string][]translate.SizedBuffer{}
	there := map[string]bool{}
	for _, b := range bw.w.c.Seen.CapacityBuffers.Sorted() {
		there[translate.Key(b)] = true
		if due[b.Namespace] || due[""] {
			byNamespace[b.Namespace] = append(byNamespace[b.Namespace], bw.w.t.CapacityBuffer(b, bw.shapeOf(ctx, b)))
		}
	}
	for k := range bw.told {
		if !there[k] {
			delete(bw.told, k)
			bw.w.emit(func(s *state.State) { s.DeleteBuffer(k) })
		}
	}
	for ns, list := range byNamespace {
		translate.ApplyQuotas(list, bw.quotasOf(ns))
		for _, b := range list {
			if reflect.DeepEqual(bw.told[b.Key()], b) {
				continue
			}
			bw.told[b.Key()] = b
			m, v := b.Buffer, b.Version
			bw.w.emit(func(s *state.State) { s.SetBuffer(m, v) })
		}
	}
}

// quotasOf are the ResourceQuotas of a namespace, by name.
func (bw *bufferWatch) quotasOf(namespace string) []*corev1.ResourceQuota {
	bw.mu.Lock()
	defer bw.mu.Unlock()
	return slices.SortedFunc(maps.Values(bw.quotas[namespace]), func(a, b *corev1.ResourceQuota) int { return strings.Compare(a.Name, b.Name) })
}

// shapeOf returns the pod shape of a buffer. If a workload cannot be read now, its last known state is used.
func (bw *bufferWatch) shapeOf(ctx context.Context, b *bufferv1beta1.CapacityBuffer) translate.PodShape {
	switch ref := b.Spec.ScalableRef; {
	case b.Spec.PodTemplateRef != nil:
		return translate.ShapeOfTemplate(b, bw.w.templates.get(b.Namespace, b.Spec.PodTemplateRef.Name))
	case ref == nil:
		return translate.ShapeWithoutReference()
	default:
		name := b.Namespace + " " + ref.APIGroup + " " + ref.Kind + " " + ref.Name
		limited, cancel := context.WithTimeout(ctx, client.AnswerLimit)
		defer cancel()
		shape, err := bw.readScalable(limited, b.Namespace, ref)
		switch {
		case apierrors.IsNotFound(err):
			shape = translate.ShapeOfMissing(b)
		case err != nil && bw.shapes[name].Template != nil:
			bw.w.c.Log.Warn("reading the workload of a CapacityBuffer failed, trying again", "capacitybuffer", translate.Key(b), "error", err)
			return bw.shapes[name]
		case err != nil:
			shape = translate.PodShape{Reason: translate.BufferResolutionFailed, Why: "spec.scalableRef: " + err.Error()}
		}
		bw.shapes[name] = shape
		return shape
	}
}

// readScalable reads a workload: its pod template and its replicas.
func (bw *bufferWatch) readScalable(ctx context.Context, namespace string, ref *bufferv1beta1.ScalableRef) (translate.PodShape, error) {
	c := bw.w.c
	read := func(resource string, into runtime.Object) error {
		return c.Apps.Get().Namespace(namespace).Resource(resource).Name(ref.Name).VersionedParams(&metav1.GetOptions{ResourceVersion: "0"}, metav1.ParameterCodec).Do(ctx).Into(into)
	}
	switch {
	case ref.APIGroup == appsv1.GroupName && ref.Kind == "Deployment":
		var d appsv1.Deployment
		err := read("deployments", &d)
		return translate.ShapeOfWorkload(&d.Spec.Template, d.Spec.Replicas), err
	case ref.APIGroup == appsv1.GroupName && ref.Kind == "StatefulSet":
		var d appsv1.StatefulSet
		err := read("statefulsets", &d)
		return translate.ShapeOfWorkload(&d.Spec.Template, d.Spec.Replicas), err
	case ref.APIGroup == appsv1.GroupName && ref.Kind == "ReplicaSet":
		var d appsv1.ReplicaSet
		err := read("replicasets", &d)
		return translate.ShapeOfWorkload(&d.Spec.Template, d.Spec.Replicas), err
	}
	return bw.readScale(ctx, namespace, ref)
}

// readScale reads a workload of any kind by its scale subresource. Its pods look like the youngest that the selector there selects.
func (bw *bufferWatch) readScale(ctx context.Context, namespace string, ref *bufferv1beta1.ScalableRef) (translate.PodShape, error) {
	path, err := bw.findScalePath(ctx, ref)
	if err != nil {
		return translate.PodShape{}, err
	}
	raw, err := bw.w.c.Core.Get().AbsPath(strings.ReplaceAll(strings.ReplaceAll(path, "{namespace}", namespace), "{name}", ref.Name)).
		SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return translate.PodShape{}, err
	}
	var scale autoscalingv1.Scale
	if err := json.Unmarshal(raw, &scale); err != nil {
		return translate.PodShape{}, fmt.Errorf("read the scale of %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	if scale.Status.Selector == "" {
		return translate.PodShape{}, fmt.Errorf("the scale of %s %s/%s has no selector, so its pods are not known; use podTemplateRef", ref.Kind, namespace, ref.Name)
	}
	var pods corev1.PodList
	err = bw.w.c.Core.Get().Namespace(namespace).Resource("pods").
		VersionedParams(&metav1.ListOptions{LabelSelector: scale.Status.Selector, ResourceVersion: "0"}, metav1.ParameterCodec).Do(ctx).Into(&pods)
	if err != nil {
		return translate.PodShape{}, fmt.Errorf("list the pods of %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	var youngest *corev1.Pod
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp == nil && (youngest == nil || youngest.CreationTimestamp.Before(&p.CreationTimestamp) ||
			youngest.CreationTimestamp.Equal(&p.CreationTimestamp) && youngest.Name < p.Name) {
			youngest = p
		}
	}
	if youngest == nil {
		return translate.PodShape{}, fmt.Errorf("%s %s/%s has no pod whose requests could be read; scale it to 1, or use podTemplateRef", ref.Kind, namespace, ref.Name)
	}
	return translate.PodShape{Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: youngest.Labels}, Spec: youngest.Spec}, Replicas: scale.Spec.Replicas}, nil
}

// findScalePath asks the API server for the path of a kind's scale subresource.
func (bw *bufferWatch) findScalePath(ctx context.Context, ref *bufferv1beta1.ScalableRef) (string, error) {
	kind := ref.APIGroup + "/" + ref.Kind
	if path, ok := bw.scales[kind]; ok {
		return path, nil
	}
	ask := func(path string, into any) error {
		raw, err := bw.w.c.Core.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, into)
	}
	versions := []string{"/api/v1"}
	if ref.APIGroup != "" {
		var g metav1.APIGroup
		if err := ask("/apis/"+ref.APIGroup, &g); err != nil {
			return "", err
		}
		versions = []string{"/apis/" + g.PreferredVersion.GroupVersion}
		for _, v := range g.Versions {
			if v.GroupVersion != g.PreferredVersion.GroupVersion {
				versions = append(versions, "/apis/"+v.GroupVersion)
			}
		}
	}
	for _, v := range versions {
		var list metav1.APIResourceList
		if err := ask(v, &list); err != nil {
			return "", err
		}
		has := func(name string) bool {
			return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name })
		}
		for _, r := range list.APIResources {
			if r.Kind == ref.Kind && !strings.Contains(r.Name, "/") && r.Namespaced && has(r.Name+"/scale") {
				bw.scales[kind] = v + "/namespaces/{namespace}/" + r.Name + "/{name}/scale"
				return bw.scales[kind], nil
			}
		}
	}
	return "", fmt.Errorf("kind %s of group %q has no scale subresource; use podTemplateRef", ref.Kind, ref.APIGroup)
}
