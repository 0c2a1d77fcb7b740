// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Read passes all objects of a cluster once. It lists and does not watch, so it needs only the right to list. It returns
// an error at the first kind that cannot be listed.
func Read(ctx context.Context, c *client.Client, t *translate.Translator, into *state.State) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	synced, err := watch(ctx, c, t, cancel, func(change state.Change) {
		mu.Lock()
		defer mu.Unlock()
		change(into)
	}, nil)
	if err != nil {
		return err
	}
	select {
	case <-synced:
		return nil
	case <-ctx.Done():
		mu.Lock() // and keep it: what is still under way must not change into any more
		return context.Cause(ctx)
	}
}

// Watch passes every change of the cluster to emit until the context ends. synced is closed after all initial objects
// were passed. emit is called from several goroutines, but never concurrently for the same object. It may block, which
// stops the watch of the kind until it returns. t looks up objects that the Client has seen. Call Watch once per Client.
// A Recorder, unless nil, receives the objects of the kinds of Watched before emit does.
func Watch(ctx context.Context, c *client.Client, t *translate.Translator, emit func(state.Change), to Recorder) (synced <-chan struct{}, err error) {
	return watch(ctx, c, t, nil, emit, to)
}

// watch is Watch; with once, kinds are listed once, and it is called with what went wrong.
func watch(ctx context.Context, c *client.Client, t *translate.Translator, once context.CancelCauseFunc, emit func(state.Change), to Recorder) (synced <-chan struct{}, err error) {
	for _, r := range []string{"nodepools", "nodeclaims"} {
		if err := await(ctx, c, r); err != nil {
			return nil, err
		}
	}
	hasProvisioners, err := c.Serves(ctx, karpv1alpha5.GroupVersion, "provisioners")
	if err != nil {
		return nil, err
	}
	hasTemplates, err := c.Serves(ctx, awsv1alpha1.GroupVersion, "awsnodetemplates")
	if err != nil {
		return nil, err
	}
	hasOverlays, err := c.Serves(ctx, karpv1alpha1.GroupVersion, "nodeoverlays")
	if err != nil {
		return nil, err
	}
	hasHeadrooms, err := c.Serves(ctx, dovetailv1alpha1.GroupVersion, "headrooms")
	if err != nil {
		return nil, err
	}
	hasBuffers, err := c.Serves(ctx, bufferv1beta1.GroupVersion, "capacitybuffers")
	if err != nil {
		return nil, err
	}
	hasQuotas, err := c.Serves(ctx, bufferv1beta1.GroupVersion, "capacityquotas")
	if err != nil {
		return nil, err
	}

	ctx = c.Logging(ctx)
	w := &watcher{c: c, t: t, emit: emit, once: once, daemons: map[string]*appsv1.DaemonSet{}, volumePods: map[string]*corev1.Pod{}, claimUsers: map[string]map[string]struct{}{},
		spreadPods: map[string]*corev1.Pod{}, gangPods: map[string]map[string]*corev1.Pod{}, gangOfPod: map[string]string{}, replicas: map[string]replicas{}, made: map[string]template{}}
	w.record(to)
	w.templates.templates = map[string]*corev1.PodTemplate{}
	w.buffers = newBufferWatch(w)
	w.failing = newFailingWatch(w)
	if hasBuffers {
		w.templates.changed = append(w.templates.changed, w.buffers.markDue)
	}
	classes, err := w.servedClasses(ctx)
	if err != nil {
		return nil, err
	}
	gangs, err := w.servedGangs(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.servesDevices(ctx); err != nil {
		return nil, err
	}
	done := make(chan struct{})

	// What a translation looks up comes first, so that no pod is translated twice at the start.
	var first sync.WaitGroup
	follow(ctx, w, &first, source{c.Core, "limitranges", &corev1.LimitRange{}}, &sync.Mutex{},
		func(k string, l *corev1.LimitRange) { c.Seen.LimitRanges.Set(k, l); w.defaultsChanged(l.Namespace) },
		func(k string) { c.Seen.LimitRanges.Delete(k); w.defaultsChanged(translate.NamespaceOf(k)) })
	follow(ctx, w, &first, source{c.Node, "runtimeclasses", &nodev1.RuntimeClass{}}, &sync.Mutex{},
		func(k string, r *nodev1.RuntimeClass) { c.Seen.RuntimeClasses.Set(k, r); w.defaultsChanged("") },
		func(k string) { c.Seen.RuntimeClasses.Delete(k); w.defaultsChanged("") })
	follow(ctx, w, &first, source{c.Scheduling, "priorityclasses", &schedulingv1.PriorityClass{}}, &sync.Mutex{},
		func(k string, p *schedulingv1.PriorityClass) {
			c.Seen.PriorityClasses.Set(k, p)
			w.defaultsChanged("")
		},
		func(k string) { c.Seen.PriorityClasses.Delete(k); w.defaultsChanged("") })
	w.followVolumes(ctx, &first)
	w.followDevices(ctx, &first)
	w.followSelectors(ctx, &first)
	if hasBuffers || w.requests != nil {
		w.followTemplates(ctx, &first)
	}
	for _, k := range gangs {
		k(ctx, &first)
	}
	go func() {
		defer close(done)
		if !waitFor(ctx, &first) {
			return
		}
		var rest sync.WaitGroup
		if hasQuotas {
			w.followQuotas(ctx, &rest)
		}
		if hasOverlays {
			w.followNodeOverlays(ctx, &rest)
		}
		if hasTemplates {
			w.followNodeTemplates(ctx, &rest)
		}
		if hasHeadrooms && w.once == nil { // what is read once is planned as it is
			w.followHeadrooms(ctx, &rest)
		}
		w.followRest(ctx, &rest, hasProvisioners, classes)
		waitFor(ctx, &rest)
		w.settleDevices()
		if w.once == nil {
			go w.keepDevices(ctx)
			go func() {
				w.awaitDevices(ctx)
				w.awaitUpgrade(ctx)
			}()
		}
		if hasBuffers { // after the quotas, which they stay within
			var buffers sync.WaitGroup
			w.buffers.follow(ctx, &buffers)
			waitFor(ctx, &buffers)
		}
	}()
	out := make(chan struct{})
	go func() {
		<-done
		if ctx.Err() == nil {
			close(out)
		}
	}()
	return out, nil
}

// await waits a little for a CRD that is being installed.
func await(ctx context.Context, c *client.Client, resource string) error {
	b := client.Backoff(100*time.Millisecond, time.Second)
	for range 12 {
		ok, err := c.Serves(ctx, karpv1.GroupVersion, resource)
		if err != nil {
			return err
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(b.Step()):
		}
	}
	return fmt.Errorf("API server %s does not serve %s.%s: install the CustomResourceDefinitions of charts/dovetail/crds", c.Address, resource, karpv1.GroupVersion)
}

func (w *watcher) followRest(ctx context.Context, wg *sync.WaitGroup, provisioners bool, classes []followClass) {
	c, t, emit := w.c, w.t, w.emit
	follow(ctx, w, wg, source{c.Core, "namespaces", &corev1.Namespace{}}, &sync.Mutex{},
		func(_ string, n *corev1.Namespace) {
			name, labels, deleting := n.Name, n.Labels, translate.DeletionTime(n)
			emit(func(s *state.State) { s.SetNamespace(name, labels, deleting) })
		},
		func(k string) { emit(func(s *state.State) { s.DeleteNamespace(k) }) })
	follow(ctx, w, wg, source{c.Core, "nodes", &corev1.Node{}}, &w.nodeMu,
		func(k string, n *corev1.Node) {
			client.KeepSeen(&c.Seen.Nodes, k, n)
			if w.devicePods != nil {
				w.learnDevices(k)
			}
			w.setNode(n)
		},
		func(k string) {
			c.Seen.Nodes.Delete(k)
			if w.devicePods != nil {
				c.Seen.Devices.ForgetNode(k)
			}
			emit(func(s *state.State) { s.DeleteNode(k) })
		})
	w.followReplicas(ctx, wg)
	w.followAttachments(ctx, wg)
	follow(ctx, w, wg, source{c.Apps, "daemonsets", &appsv1.DaemonSet{}}, &w.daemonMu,
		func(k string, d *appsv1.DaemonSet) { w.daemons[k] = d; w.setDaemon(d) },
		func(k string) { delete(w.daemons, k); emit(func(s *state.State) { s.DeleteDaemon(k) }) })
	follow(ctx, w, wg, source{c.Policy, "poddisruptionbudgets", &policyv1.PodDisruptionBudget{}}, &sync.Mutex{},
		func(_ string, p *policyv1.PodDisruptionBudget) {
			m := t.PDB(p)
			emit(func(s *state.State) { s.SetPDB(m) })
		},
		func(k string) { emit(func(s *state.State) { s.DeletePDB(k) }) })
	follow(ctx, w, wg, source{c.Karpenter, "nodepools", &karpv1.NodePool{}}, &sync.Mutex{},
		func(k string, p *karpv1.NodePool) {
			client.KeepSeen(&c.Seen.Pools, k, p)
			c.Seen.PoolChanged.Raise()
			c.Seen.GroupsChanged.Raise()
			m := t.NodePool(p)
			emit(func(s *state.State) { s.Pools.SetPool(m) })
		},
		func(k string) {
			c.Seen.Pools.Delete(k)
			if w.devicePods != nil {
				c.Seen.Devices.ForgetPool(k)
			}
			c.Seen.PoolChanged.Raise()
			c.Seen.GroupsChanged.Raise()
			emit(func(s *state.State) { s.Pools.DeletePool(k) })
		})
	follow(ctx, w, wg, source{c.Karpenter, "nodeclaims", &karpv1.NodeClaim{}}, &w.claimMu,
		func(k string, n *karpv1.NodeClaim) {
			client.KeepSeen(&c.Seen.Claims, k, n)
			w.setClaim(n)
		},
		func(k string) {
			c.Seen.Claims.Delete(k)
			c.Seen.GroupsChanged.Raise() // it may have been a pool's last
			emit(func(s *state.State) { s.DeleteClaim(k) })
		})
	w.followDeployments(ctx)
	for _, k := range classes {
		k(ctx, wg)
	}
	if provisioners {
		follow(ctx, w, wg, source{c.Provisioner, "provisioners", &karpv1alpha5.Provisioner{}}, &sync.Mutex{},
			func(k string, p *karpv1alpha5.Provisioner) {
				c.Seen.Provisioners.Set(k, p)
				c.Seen.ProvisionerChanged.Raise()
			},
			func(k string) { c.Seen.Provisioners.Delete(k); c.Seen.ProvisionerChanged.Raise() })
	}
	follow(ctx, w, wg, source{c.Core, "pods", &corev1.Pod{}}, &w.podMu,
		func(k string, p *corev1.Pod) {
			w.forgetVolumes(k)
			w.rememberGang(k, p)
			w.rememberDevices(k, p)
			if translate.LooksUpVolumes(p) {
				w.rememberVolumes(k, p)
			}
			if t.TakesDefaults(p) {
				w.spreadPods[k] = p
			}
			w.setPod(p)
		},
		func(k string) {
			w.forgetVolumes(k)
			w.forgetGang(k)
			w.forgetDevices(k)
			delete(w.spreadPods, k)
			emit(func(s *state.State) {
				s.DeletePod(k)
				s.PodFacts.Delete(translate.NamespaceOf(k), translate.NameOf(k))
			})
		})
}

// followNodeTemplates watches AWSNodeTemplates.
func (w *watcher) followNodeTemplates(ctx context.Context, wg *sync.WaitGroup) {
	c := w.c
	follow(ctx, w, wg, source{c.AWSAlpha, "awsnodetemplates", &awsv1alpha1.AWSNodeTemplate{}}, &sync.Mutex{},
		func(k string, n *awsv1alpha1.AWSNodeTemplate) {
			c.Seen.NodeTemplates.Set(k, n)
			c.Seen.ProvisionerChanged.Raise()
		},
		func(k string) { c.Seen.NodeTemplates.Delete(k); c.Seen.ProvisionerChanged.Raise() })
}
