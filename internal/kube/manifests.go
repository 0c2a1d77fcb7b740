// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Manifests are API objects read from files, as people write them or as kubectl prints them, for use without a cluster. What the
// API server would default is defaulted, and what controllers would make of a workload or a Provisioner is made.
type Manifests struct {
	// Skipped are the kinds that were read and say nothing to an autoscaler, each with the object's name.
	Skipped []string

	objects []runtime.Object
	pvcs    map[string]*corev1.PersistentVolumeClaim
	pvs     map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	csi     map[string]*storagev1.CSINode
	limits  []*corev1.LimitRange
}

var strict = func() runtime.Decoder {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme,
		karpv1.AddToScheme, karpv1alpha5.AddToScheme, kwokv1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // the same kinds twice: a mistake in this file
		}
	}
	return serializer.NewCodecFactory(s, serializer.EnableStrict).UniversalDeserializer()
}()

// ReadManifests reads a stream of YAML or JSON documents. name is the stream's, for messages.
func ReadManifests(name string, data []byte) (*Manifests, error) {
	m := &Manifests{
		pvcs: map[string]*corev1.PersistentVolumeClaim{}, pvs: map[string]*corev1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{}, csi: map[string]*storagev1.CSINode{},
	}
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for i := 1; ; i++ {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: document %d: %w", name, i, err)
		}
		var object map[string]any
		if err := yaml.Unmarshal(doc, &object); err != nil {
			return nil, fmt.Errorf("read %s: document %d: %w", name, i, err)
		}
		if len(object) == 0 {
			continue
		}
		if err := m.add(object); err != nil {
			return nil, fmt.Errorf("read %s: document %d: %w", name, i, err)
		}
	}
}

func (m *Manifests) add(object map[string]any) error {
	if items, ok := object["items"].([]any); ok {
		for _, item := range items {
			o, ok := item.(map[string]any)
			if !ok {
				return errors.New("a list with an item that is no object")
			}
			if err := m.add(o); err != nil {
				return err
			}
		}
		return nil
	}
	kind, _ := object["kind"].(string)
	group, _ := object["apiVersion"].(string)
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	ours := group == karpv1.GroupVersion.String()
	if ours {
		defaults(kind, object)
	}
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s %q: %w", kind, name, err)
	}
	obj, _, err := strict.Decode(data, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		m.Skipped = append(m.Skipped, kind+" "+name)
		return nil
	case runtime.IsStrictDecodingError(err) && obj != nil && !ours:
		// A field of a Kubernetes newer than this program, on an object that a cluster has taken.
	case err != nil:
		return fmt.Errorf("%s %q: %w", kind, name, err)
	}
	if x, ok := obj.(metav1.Object); ok {
		if x.GetName() == "" && x.GetGenerateName() != "" {
			x.SetName(x.GetGenerateName() + "0")
		}
		if x.GetName() == "" {
			return fmt.Errorf("%s without metadata.name", kind)
		}
		if x.GetNamespace() == "" && namespaced(obj) {
			x.SetNamespace(metav1.NamespaceDefault)
		}
		if x.GetUID() == "" {
			x.SetUID(types.UID("file:" + kind + "/" + key(x)))
		}
	}
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		m.pvcs[key(o)] = o
	case *corev1.PersistentVolume:
		m.pvs[o.Name] = o
	case *storagev1.StorageClass:
		m.classes[o.Name] = o
	case *storagev1.CSINode:
		m.csi[o.Name] = o
	case *corev1.LimitRange:
		m.limits = append(m.limits, o)
	case *corev1.Pod, *corev1.Node, *corev1.Namespace, *appsv1.DaemonSet, *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.StatefulSet,
		*batchv1.Job, *policyv1.PodDisruptionBudget, *karpv1.NodePool, *karpv1.NodeClaim, *kwokv1alpha1.KWOKNodeClass, *karpv1alpha5.Provisioner:
		m.objects = append(m.objects, obj)
	default:
		m.Skipped = append(m.Skipped, kind+" "+name)
	}
	return nil
}

func namespaced(obj runtime.Object) bool {
	switch obj.(type) {
	case *corev1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSINode, *corev1.Node, *corev1.Namespace,
		*karpv1.NodePool, *karpv1.NodeClaim, *kwokv1alpha1.KWOKNodeClass, *karpv1alpha5.Provisioner:
		return false
	}
	return true
}

// defaults are those of the CustomResourceDefinitions. They must be set before decoding: a duration that is absent can't be told
// from Never afterwards.
func defaults(kind string, object map[string]any) {
	at := func(m map[string]any, path ...string) map[string]any {
		for _, p := range path {
			next, ok := m[p].(map[string]any)
			if !ok {
				if _, there := m[p]; there {
					return map[string]any{} // of the wrong type; decoding says so
				}
				next = map[string]any{}
				m[p] = next
			}
			m = next
		}
		return m
	}
	set := func(m map[string]any, key string, v any) {
		if _, ok := m[key]; !ok {
			m[key] = v
		}
	}
	switch kind {
	case "NodePool":
		set(at(object, "spec", "template", "spec"), "expireAfter", "720h")
		d := at(object, "spec", "disruption")
		set(d, "consolidateAfter", "0s")
		set(d, "consolidationPolicy", string(karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized))
		set(d, "budgets", []any{map[string]any{"nodes": "10%"}})
	case "NodeClaim":
		set(at(object, "spec"), "expireAfter", "720h")
	}
}

// PersistentVolumeClaim implements Lookup.
func (m *Manifests) PersistentVolumeClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	return m.pvcs[namespace+"/"+name]
}

// PersistentVolume implements Lookup.
func (m *Manifests) PersistentVolume(name string) *corev1.PersistentVolume { return m.pvs[name] }

// StorageClass implements Lookup.
func (m *Manifests) StorageClass(name string) *storagev1.StorageClass { return m.classes[name] }

// CSINode implements Lookup.
func (m *Manifests) CSINode(node string) *storagev1.CSINode { return m.csi[node] }

// LimitRanges implements Lookup.
func (m *Manifests) LimitRanges(namespace string) []*corev1.LimitRange {
	var out []*corev1.LimitRange
	for _, l := range m.limits {
		if l.Namespace == namespace {
			out = append(out, l)
		}
	}
	return out
}

// Feed hands all objects to a State. Workloads become the pods that are not among the objects already.
func (m *Manifests) Feed(s *state.State) {
	t := &Translator{Table: s.Resources(), Lookup: m}
	there := map[types.UID]int{} // pods by their controller
	for _, obj := range m.objects {
		if p, ok := obj.(*corev1.Pod); ok {
			if o := metav1.GetControllerOfNoCopy(p); o != nil {
				there[o.UID]++
			}
		}
	}
	for _, obj := range m.objects {
		switch o := obj.(type) {
		case *corev1.Pod:
			q := o.DeepCopy()
			t.applyDefaults(q)
			s.SetPod(demand(t.Pod(q)))
		case *corev1.Node:
			s.SetNode(t.Node(o), version(o.ResourceVersion))
		case *corev1.Namespace:
			s.SetNamespace(o.Name, o.Labels)
		case *appsv1.DaemonSet:
			s.SetDaemon(t.DaemonSet(o))
		case *policyv1.PodDisruptionBudget:
			s.SetPDB(t.PDB(o))
		case *karpv1.NodePool:
			s.SetPool(t.NodePool(o))
		case *karpv1.NodeClaim:
			s.SetClaim(t.NodeClaim(o), version(o.ResourceVersion))
		case *kwokv1alpha1.KWOKNodeClass:
			s.SetNodeClass(t.KWOKNodeClass(o))
		case *karpv1alpha5.Provisioner:
			pool, _ := TranslateProvisioner(o)
			pool.UID = "file:NodePool/" + types.UID(o.Name)
			s.SetPool(t.NodePool(pool))
			if r := pool.Spec.Template.Spec.NodeClassRef; r.Group == kwokv1alpha1.Group && s.NodeClass(r.Group, r.Kind, r.Name) == nil {
				s.SetNodeClass(t.KWOKNodeClass(&kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}))
			}
		case *appsv1.Deployment:
			m.pods(s, t, o, "ReplicaSet", o.Spec.Replicas, &o.Spec.Template, there[o.UID])
		case *appsv1.ReplicaSet:
			m.pods(s, t, o, "ReplicaSet", o.Spec.Replicas, &o.Spec.Template, there[o.UID])
		case *appsv1.StatefulSet:
			m.pods(s, t, o, "StatefulSet", o.Spec.Replicas, &o.Spec.Template, there[o.UID])
		case *batchv1.Job:
			m.pods(s, t, o, "Job", o.Spec.Parallelism, &o.Spec.Template, there[o.UID])
		}
	}
}

// pods makes the pods of a workload as its controller would. Those of a Deployment that a cluster runs belong to its ReplicaSet, so
// a Deployment with a status is left to that.
func (m *Manifests) pods(s *state.State, t *Translator, o metav1.Object, kind string, replicas *int32, template *corev1.PodTemplateSpec, there int) {
	if d, ok := o.(*appsv1.Deployment); ok && d.Status.ObservedGeneration > 0 {
		return
	}
	n := 1
	if replicas != nil {
		n = int(*replicas)
	}
	for i := there; i < n; i++ {
		yes := true
		p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		p.Name, p.Namespace = o.GetName()+"-"+strconv.Itoa(i), o.GetNamespace()
		p.UID = types.UID("file:Pod/" + p.Namespace + "/" + p.Name)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: &yes}}
		if kind == "StatefulSet" {
			labels := map[string]string{appsv1.StatefulSetPodNameLabel: p.Name, appsv1.PodIndexLabel: strconv.Itoa(i)}
			for k, v := range p.Labels {
				labels[k] = v
			}
			p.Labels = labels
		}
		p.CreationTimestamp = o.GetCreationTimestamp()
		t.applyDefaults(p)
		s.SetPod(demand(t.Pod(p)))
	}
}

// demand says of a pod that is bound to no node what kube-scheduler would say if there were one.
func demand(p *model.Pod) *model.Pod {
	if p.Node == "" && p.Unschedulable.IsZero() {
		p.Unschedulable = p.Created
		if p.Unschedulable.IsZero() {
			p.Unschedulable = time.Unix(0, 0)
		}
	}
	return p
}

var _ Lookup = (*Manifests)(nil)
