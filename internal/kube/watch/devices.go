// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// deviceDelay is how long changes of devices and of claims are gathered before what depends on them is translated again.
const deviceDelay = 50 * time.Millisecond

// deviceBackoff is how long it takes to look again whether the API server serves devices and they may be listed: from the first to the last.
var deviceBackoff = [2]time.Duration{10 * time.Second, 5 * time.Minute}

// servesDevices prepares for the devices of dynamic resource allocation.
func (w *watcher) servesDevices(ctx context.Context) error {
	missing, denied, err := w.missingDevices(ctx)
	if err != nil {
		return err
	}
	if denied { // most clusters have no devices
		w.c.Log.Warn("no node is launched for a pod with resource claims: "+missing, "server", w.c.Address)
	}
	w.c.Seen.Devices, w.devicePods = translate.NewDevices(), map[string]*corev1.Pod{}
	w.c.Seen.Devices.SetMissing(missing)
	return nil
}

// missingDevices returns what is missing to read devices, and what to do about it; empty: nothing. Denied says that it is a right.
func (w *watcher) missingDevices(ctx context.Context) (missing string, denied bool, err error) {
	served, err := w.c.Serves(ctx, resourceapi.SchemeGroupVersion, "resourceslices")
	if err != nil {
		return "", false, err
	}
	if !served {
		return "the API server does not serve resource.k8s.io/v1 (Kubernetes 1.34 and later); upgrade it", false, nil
	}
	w.taintRules, err = w.c.Serves(ctx, resourceapi.SchemeGroupVersion, "devicetaintrules") // since version 1.37
	if err != nil {
		return "", false, err
	}
	kinds := []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}
	if w.taintRules {
		kinds = append(kinds, "devicetaintrules")
	}
	version, err := w.c.Version(ctx)
	if err != nil {
		return "", false, err
	}
	w.extendedUnserved = version == "1.34" || version == "1.35" // from version 1.36, the gate is on
	var rights []string
	for _, resource := range kinds {
		err := w.c.Resource.Get().Resource(resource).VersionedParams(&metav1.ListOptions{Limit: 1}, metav1.ParameterCodec).Do(ctx).Error()
		switch {
		case apierrors.IsForbidden(err):
			rights = append(rights, resource+"."+resourceapi.GroupName)
		case err != nil:
			return "", false, fmt.Errorf("list %s of API server %s: %w", resource, w.c.Address, err)
		}
	}
	if len(rights) == 0 {
		return "", false, nil
	}
	return "the right to list " + strings.Join(rights, ", ") + " is missing; grant the verbs list and watch", true, nil
}

// awaitDevices looks again for what was missing to read devices, more and more rarely, until it is there or the context ends. Then it reads them, and
// all that depends on them is translated again.
func (w *watcher) awaitDevices(ctx context.Context) {
	d := w.c.Seen.Devices
	backoff := client.Backoff(deviceBackoff[0], deviceBackoff[1])
	for d.Missing() != "" {
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff.Step()):
		}
		missing, _, err := w.missingDevices(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			w.c.Log.Warn("can't read whether the API server has devices, trying again", "server", w.c.Address, "error", err)
		case err != nil:
			return
		case missing != "":
			d.SetMissing(missing)
		default:
			var lists sync.WaitGroup
			w.readDevices(ctx, &lists)
			if !waitFor(ctx, &lists) {
				return
			}
			d.SetMissing("")
			w.c.Log.Info("dynamic resource allocation is available: devices are counted", "server", w.c.Address)
		}
	}
}

// awaitUpgrade looks now and then whether the control plane has been upgraded, until nothing of what Dovetail reads of devices depends on that any more, or
// the context ends: to a version that serves extended resources of a DeviceClass by default, or rules that taint devices.
func (w *watcher) awaitUpgrade(ctx context.Context) {
	for w.extendedUnserved || !w.taintRules {
		select {
		case <-ctx.Done():
			return
		case <-time.After(deviceBackoff[1]):
		}
		had, unserved := w.taintRules, w.extendedUnserved
		missing, _, err := w.missingDevices(ctx)
		if err == nil && missing != "" {
			err = errors.New(missing)
		}
		if err != nil {
			w.taintRules, w.extendedUnserved = had, unserved
			if ctx.Err() == nil {
				w.c.Log.Warn("can't read whether the API server has devices, trying again", "server", w.c.Address, "error", err)
			}
			continue
		}
		switch { // of several API servers one may still be older
		case had:
			w.taintRules = true // they are followed
		case w.taintRules:
			var list sync.WaitGroup
			w.followTaintRules(ctx, &list)
			if !waitFor(ctx, &list) {
				return
			}
		}
		w.c.Seen.Devices.SetExtendedUnserved(w.extendedUnserved)
	}
}

// followDevices watches devices and the claims to them, if they can be read.
func (w *watcher) followDevices(ctx context.Context, wg *sync.WaitGroup) {
	d := w.c.Seen.Devices
	w.emit(func(s *state.State) { s.Pools.SetDevices(w.t.DevicesOfTypes(d)) })
	if d.Missing() == "" {
		w.readDevices(ctx, wg)
	}
}

func (w *watcher) readDevices(ctx context.Context, wg *sync.WaitGroup) {
	c, d := w.c, w.c.Seen.Devices
	d.SetExtendedUnserved(w.extendedUnserved)
	follow(ctx, w, wg, source{c.Resource, "deviceclasses", &resourceapi.DeviceClass{}}, &sync.Mutex{},
		func(k string, x *resourceapi.DeviceClass) { d.SetDeviceClass(k, x) },
		func(k string) { d.SetDeviceClass(k, nil) })
	if w.taintRules {
		w.followTaintRules(ctx, wg)
	}
	follow(ctx, w, wg, source{c.Resource, "resourceclaimtemplates", &resourceapi.ResourceClaimTemplate{}}, &sync.Mutex{},
		func(k string, x *resourceapi.ResourceClaimTemplate) { d.SetResourceClaimTemplate(k, x) },
		func(k string) { d.SetResourceClaimTemplate(k, nil) })
	follow(ctx, w, wg, source{c.Resource, "resourceclaims", &resourceapi.ResourceClaim{}}, &sync.Mutex{},
		func(k string, x *resourceapi.ResourceClaim) { d.SetResourceClaim(k, x) },
		func(k string) { d.SetResourceClaim(k, nil) })
	follow(ctx, w, wg, source{c.Resource, "resourceslices", &resourceapi.ResourceSlice{}}, &sync.Mutex{},
		func(k string, x *resourceapi.ResourceSlice) {
			d.SetSlice(k, x)
			if x.Spec.NodeName != nil {
				w.learnDevices(*x.Spec.NodeName)
			}
		},
		func(k string) { d.SetSlice(k, nil) })
}

// followTaintRules watches the rules that taint devices.
func (w *watcher) followTaintRules(ctx context.Context, wg *sync.WaitGroup) {
	d := w.c.Seen.Devices
	follow(ctx, w, wg, source{w.c.Resource, "devicetaintrules", &resourceapi.DeviceTaintRule{}}, &sync.Mutex{},
		func(k string, x *resourceapi.DeviceTaintRule) { d.SetDeviceTaintRule(k, x) },
		func(k string) { d.SetDeviceTaintRule(k, nil) })
}

// learnDevices takes a node that is known as an example of its instance type.
func (w *watcher) learnDevices(node string) {
	if n, ok := w.c.Seen.Nodes.Get(node); ok {
		w.c.Seen.Devices.Learn(n)
	}
}

// keepDevices translates again what depends on devices and claims that have changed, until the context ends.
func (w *watcher) keepDevices(ctx context.Context) {
	d := w.c.Seen.Devices
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.Changed():
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(deviceDelay):
		}
		w.translateDevices()
	}
}

// settleDevices is translateDevices for all that was there at the start.
func (w *watcher) settleDevices() {
	for range 3 { // the second time finds nothing, as a rule
		w.translateDevices()
	}
}

// translateDevices translates again what depends on devices and claims that have changed: nodes and instance types before pods, which may have
// waited for them.
func (w *watcher) translateDevices() {
	d := w.c.Seen.Devices
	x := d.Stale()
	if x.IsEmpty() {
		return
	}
	w.nodeMu.Lock()
	nodes := x.Nodes
	if x.All {
		nodes = map[string]bool{}
		for _, n := range w.c.Seen.Nodes.List() {
			nodes[n.Name] = true
		}
	}
	for name := range nodes {
		if n, ok := w.c.Seen.Nodes.Get(name); ok {
			w.setNode(n)
		}
	}
	w.nodeMu.Unlock()
	if x.All {
		w.claimMu.Lock()
		for _, n := range w.c.Seen.Claims.List() {
			w.setClaim(n)
		}
		w.claimMu.Unlock()
	}
	if x.All || x.Types {
		w.emit(func(s *state.State) { s.Pools.SetDevices(w.t.DevicesOfTypes(d)) })
	}
	templates := map[string]bool{} // namespaces whose templates ask for something else now
	for key := range x.Pods {
		if translate.IsTemplateKey(key) {
			templates[translate.NamespaceOf(key)] = true
		}
	}
	if x.All {
		templates = map[string]bool{"": true}
	}
	for namespace := range templates {
		w.defaultsChanged(namespace)
	}
	if len(templates) > 0 {
		w.c.Seen.HeadroomChanged.Raise()
	}
	w.podMu.Lock()
	for key, p := range w.devicePods {
		if x.All || x.Pods[key] {
			w.setPod(p)
		}
	}
	w.podMu.Unlock()
}

// rememberDevices and forgetDevices keep which pods have claims, or resources that a DeviceClass may stand for. The caller holds podMu.
func (w *watcher) rememberDevices(key string, p *corev1.Pod) {
	if len(p.Spec.ResourceClaims) == 0 && !devices.RequestsExtended(p) {
		w.forgetDevices(key)
		return
	}
	w.devicePods[key] = p
}

func (w *watcher) forgetDevices(key string) {
	if _, ok := w.devicePods[key]; ok {
		delete(w.devicePods, key)
		w.c.Seen.Devices.ForgetPod(key)
	}
}
