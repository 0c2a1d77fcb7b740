// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// watcher holds what must be translated again when something it refers to changes.
type watcher struct {
	c    *client.Client
	t    *translate.Translator
	emit func(state.Change)
	once context.CancelCauseFunc // set: kinds are listed once, and this is called with what went wrong

	recorder Recorder              // nil: nothing is recorded
	kinds    map[string]objectKind // that are recorded, by API version and resource

	daemonMu sync.Mutex
	daemons  map[string]*appsv1.DaemonSet

	podMu            sync.Mutex
	volumePods       map[string]*corev1.Pod            // pods with volumes that are looked up
	claimUsers       map[string]map[string]struct{}    // their keys, by the claim they use
	spreadPods       map[string]*corev1.Pod            // pods that their scheduler's default constraints spread
	gangPods         map[string]map[string]*corev1.Pod // pods that name the object of a gang, by the gang and by key
	gangOfPod        map[string]string                 // their gangs, by key
	devicePods       map[string]*corev1.Pod            // pods with resource claims, or resources that a DeviceClass may stand for
	taintRules       bool                              // the API server has rules that taint devices
	extendedUnserved bool                              // extended resources of a DeviceClass are behind a gate that is off by default
	replicas         map[string]replicas               // by namespace/name of the ReplicaSet
	made             map[string]template               // the same

	nodeMu  sync.Mutex
	claimMu sync.Mutex // of NodeClaims

	buffers   *bufferWatch
	failing   *failingWatch
	templates templateWatch
	requests  *requestWatch // nil: the API server has no ProvisioningRequests
}

// setPod translates a pod. One that claims devices in a way that no pod did before is left to translateDevices, which comes soon: it would be
// refused because nodes and instance types don't have such devices yet.
func (w *watcher) setPod(p *corev1.Pod) {
	m, f := w.t.Pod(p), w.t.PodFacts(p)
	if m.Class.HasClaims && w.c.Seen.Devices.IsAllStale() {
		return
	}
	w.emit(func(s *state.State) {
		s.SetPod(m)
		s.PodFacts.Set(f)
	})
}

func (w *watcher) setNode(n *corev1.Node) {
	m, v := w.t.Node(n), translate.ResourceVersion(n.ResourceVersion)
	w.emit(func(s *state.State) { s.SetNode(m, v) })
}

func (w *watcher) setClaim(n *karpv1.NodeClaim) {
	m, v := w.t.NodeClaim(n), translate.ResourceVersion(n.ResourceVersion)
	w.emit(func(s *state.State) { s.SetClaim(m, v) })
}

func (w *watcher) setDaemon(d *appsv1.DaemonSet) {
	m := w.t.DaemonSet(d)
	w.emit(func(s *state.State) { s.SetDaemon(m) })
}

// defaultsChanged translates again what is created from the templates of a namespace, of all if it is empty, because
// admission defaults or the places of volumes have changed.
func (w *watcher) defaultsChanged(namespace string) {
	w.buffers.markDue(namespace)
	if w.requests != nil {
		w.requests.templateChanged(namespace)
	}
	w.daemonMu.Lock()
	defer w.daemonMu.Unlock()
	for _, d := range w.daemons {
		if namespace == "" || d.Namespace == namespace {
			w.setDaemon(d)
		}
	}
}
