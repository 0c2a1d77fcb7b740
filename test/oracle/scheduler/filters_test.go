// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
)

// filters are the filters of kube-scheduler with its default configuration, run in this process without an API server. They see the nodes
// and pods that setNode and addPod put into kube-scheduler's own cache.
type filters struct {
	ctx      context.Context
	client   kubernetes.Interface
	whole    *kubescheduler.Scheduler
	cache    schedulercache.Cache
	snapshot *schedulercache.Snapshot
	profile  schedulerframework.Framework
	nodes    map[string]*corev1.Node
	fixed    map[reflect.Type]*fixedInformer
	pods     []*corev1.Pod
}

// newFilters starts a kube-scheduler that schedules nothing of itself. others are the objects that filters look up beside nodes and pods:
// namespaces and all that has to do with volumes. They stay as they are.
func newFilters(ctx context.Context, others []runtime.Object) (*filters, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "nobody.invalid"}) // it is never called
	if err != nil {
		return nil, err
	}
	return newFiltersWith(ctx, client, others)
}

// newFiltersWith is newFilters with a client that takes what plugins write when they bind a pod.
func newFiltersWith(ctx context.Context, client kubernetes.Interface, others []runtime.Object) (*filters, error) {
	ctx = klog.NewContext(ctx, logr.Discard())
	factory := informers.NewSharedInformerFactory(client, 0)
	fixed := map[reflect.Type]*fixedInformer{}
	byType := map[reflect.Type][]runtime.Object{}
	for _, o := range others {
		byType[reflect.TypeOf(o)] = append(byType[reflect.TypeOf(o)], o)
	}
	for _, list := range byType {
		informer, err := newFixedInformer(list)
		if err != nil {
			return nil, err
		}
		fixed[reflect.TypeOf(list[0])] = informer
		factory.InformerFor(list[0], func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return informer })
	}
	record := func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }
	s, err := kubescheduler.New(ctx, client, factory, nil, record, kubescheduler.WithParallelism(1))
	if err != nil {
		return nil, err
	}
	f := &filters{ctx: ctx, client: client, whole: s, cache: s.Cache, profile: s.Profiles[corev1.DefaultSchedulerName], nodes: map[string]*corev1.Node{}, fixed: fixed}
	snapshot, ok := f.profile.SnapshotSharedLister().(*schedulercache.Snapshot)
	if !ok {
		return nil, fmt.Errorf("kube-scheduler's snapshot is a %T", f.profile.SnapshotSharedLister())
	}
	f.snapshot = snapshot
	return f, nil
}

// change changes one of the objects that filters look up, or adds one of a kind that was there from the beginning.
func (f *filters) change(o runtime.Object) error {
	i := f.fixed[reflect.TypeOf(o)]
	if i == nil {
		return fmt.Errorf("a %T was not among the objects", o)
	}
	return i.change(o)
}

// setNode adds or changes a node.
func (f *filters) setNode(n *corev1.Node) {
	if old := f.nodes[n.Name]; old != nil {
		f.cache.UpdateNode(logr.Discard(), old, n)
	} else {
		f.cache.AddNode(logr.Discard(), n)
	}
	f.nodes[n.Name] = n
}

// addPod adds a pod that is bound to a node. kube-scheduler does not see pods that have ended.
func (f *filters) addPod(p *corev1.Pod) error {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	f.pods = append(f.pods, p)
	return f.cache.AddPod(logr.Discard(), p)
}

// removePod takes a pod that addPod added out of kube-scheduler's cache.
func (f *filters) removePod(p *corev1.Pod) error { return f.cache.RemovePod(logr.Discard(), p) }

// refusal is the plugin that keeps a pod off a node, and its message. Both are empty where every filter accepts. The node is asked about as
// given, whatever the cache has of it.
func (f *filters) refusal(p *corev1.Pod, n *corev1.Node) (plugin, message string, err error) {
	if old := f.nodes[n.Name]; old != n {
		f.setNode(n)
		defer f.setNode(old)
	}
	return f.filter(schedulerframework.NewCycleState(), p, n)
}

// filter is refusal of a node that is in the cache. The cycle's state then has what plugins need to bind the pod.
func (f *filters) filter(cycle framework.CycleState, p *corev1.Pod, n *corev1.Node) (plugin, message string, err error) {
	if err := f.cache.UpdateSnapshot(logr.Discard(), f.snapshot); err != nil {
		return "", "", err
	}
	among, status, by := f.profile.RunPreFilterPlugins(f.ctx, cycle, p)
	switch {
	case status.Code() == framework.Error:
		return "", "", status.AsError()
	case !status.IsSuccess():
		return status.Plugin(), status.Message(), nil
	case !among.AllNodes() && !among.NodeNames.Has(n.Name):
		return strings.Join(by.UnsortedList(), ","), "another node is asked for", nil
	}
	info, err := f.snapshot.Get(n.Name)
	if err != nil {
		return "", "", err
	}
	if status := f.profile.RunFilterPlugins(f.ctx, cycle, p, info); !status.IsSuccess() {
		if status.Code() == framework.Error {
			return "", "", status.AsError()
		}
		return status.Plugin(), status.Message(), nil
	}
	return "", "", nil
}

// repelledFrom reports whether some pod on a node has required anti-affinity over the topology key that selects the pod.
func (f *filters) repelledFrom(p *corev1.Pod, key string, namespace labels.Set) (bool, error) {
	list, err := f.snapshot.HavePodsWithRequiredAntiAffinityList()
	if err != nil {
		return false, err
	}
	for _, n := range list {
		for _, q := range n.GetPodsWithRequiredAntiAffinity() {
			for _, t := range q.GetRequiredAntiAffinityTerms() {
				if t.TopologyKey == key && t.Matches(p, namespace) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// fixedInformer is an informer over objects that change only by its method change. It tells a new handler of all of them before AddEventHandler
// returns, so that nobody has to wait for it.
type fixedInformer struct {
	cache.SharedIndexInformer
	handlers []cache.ResourceEventHandler
}

func newFixedInformer(list []runtime.Object) (*fixedInformer, error) {
	i := &fixedInformer{SharedIndexInformer: cache.NewSharedIndexInformer(&cache.ListWatch{}, list[0], 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	for _, o := range list {
		if err := i.GetIndexer().Add(o); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// AddEventHandler implements cache.SharedInformer.
func (i *fixedInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, o := range i.GetIndexer().List() {
		h.OnAdd(o, true)
	}
	i.handlers = append(i.handlers, h)
	return i.SharedIndexInformer.AddEventHandler(h) // it is never run, and tells nothing more
}

// AddEventHandlerWithOptions implements cache.SharedInformer.
func (i *fixedInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// change changes or adds an object, and tells all handlers of it.
func (i *fixedInformer) change(o runtime.Object) error {
	old, exists, err := i.GetIndexer().Get(o)
	if err != nil {
		return err
	}
	if err := i.GetIndexer().Update(o); err != nil {
		return err
	}
	for _, h := range i.handlers {
		if exists {
			h.OnUpdate(old, o)
		} else {
			h.OnAdd(o, false)
		}
	}
	return nil
}

// remove takes a node away, with the pods on it.
func (f *filters) remove(n *corev1.Node) {
	for _, p := range f.podsOn(n.Name) {
		if err := f.cache.RemovePod(logr.Discard(), p); err != nil {
			panic(err) // it is in the cache: podsOn has found it there
		}
	}
	if err := f.cache.RemoveNode(logr.Discard(), n); err != nil {
		panic(err) // it was set by setNode
	}
	delete(f.nodes, n.Name)
}

// podsOn are the pods on a node.
func (f *filters) podsOn(node string) (out []*corev1.Pod) {
	for _, p := range f.pods {
		if p.Spec.NodeName == node {
			out = append(out, p)
		}
	}
	f.pods = slices.DeleteFunc(f.pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == node })
	return out
}
