// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// deviceDelay is how long changes of devices and of claims are gathered before what depends on them is translated again.
const deviceDelay = 50 * time.Millisecond

// servesDevices prepares for the devices of dynamic resource allocation if the API server has them and they may be listed.
func (w *watcher) servesDevices(ctx context.Context) error {
	served, err := w.c.Serves(ctx, resourceapi.SchemeGroupVersion, "resourceslices")
	if err != nil {
		return err
	}
	if !served {
		w.c.Seen.NoDevices = "the API server did not serve resource.k8s.io/v1 (Kubernetes 1.34 and later) when Dovetail started; upgrade it and restart Dovetail"
		return nil
	}
	w.taintRules, err = w.c.Serves(ctx, resourceapi.SchemeGroupVersion, "devicetaintrules") // since version 1.37
	if err != nil {
		return err
	}
	kinds := []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"}
	if w.taintRules {
		kinds = append(kinds, "devicetaintrules")
	}
	var denied []string
	for _, resource := range kinds {
		err := w.c.Resource.Get().Resource(resource).VersionedParams(&metav1.ListOptions{Limit: 1}, metav1.ParameterCodec).Do(ctx).Error()
		switch {
		case apierrors.IsForbidden(err):
			denied = append(denied, resource+"."+resourceapi.GroupName)
		case err != nil:
			return fmt.Errorf("list %s of API server %s: %w", resource, w.c.Address, err)
		}
	}
	if len(denied) > 0 { // most clusters have no devices
		w.c.Seen.NoDevices = "the right to list " + strings.Join(denied, ", ") + " was missing when Dovetail started; grant the verbs list and watch, and start Dovetail again"
		w.c.Log.Warn("no node is launched for a pod with resource claims: "+w.c.Seen.NoDevices, "server", w.c.Address)
		return nil
	}
	w.c.Seen.Devices, w.devicePods = translate.NewDevices(), map[string]*corev1.Pod{}
	return nil
}

// followDevices watches devices and the claims to them.
func (w *watcher) followDevices(ctx context.Context, wg *sync.WaitGroup) {
	c, d := w.c, w.c.Seen.Devices
	if d == nil {
		return
	}
	w.emit(func(s *state.State) { s.Pools.SetDevices(w.t.DevicesOfTypes(d)) })
	follow(ctx, w, wg, source{c.Resource, "deviceclasses", &resourceapi.DeviceClass{}}, &sync.Mutex{},
		func(k string, x *resourceapi.DeviceClass) { d.SetDeviceClass(k, x) },
		func(k string) { d.SetDeviceClass(k, nil) })
	if w.taintRules {
		follow(ctx, w, wg, source{c.Resource, "devicetaintrules", &resourceapi.DeviceTaintRule{}}, &sync.Mutex{},
			func(k string, x *resourceapi.DeviceTaintRule) { d.SetDeviceTaintRule(k, x) },
			func(k string) { d.SetDeviceTaintRule(k, nil) })
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

// learnDevices takes a node that is known as an example of its instance type.
func (w *watcher) learnDevices(node string) {
	if n, ok := w.c.Seen.Nodes.Get(node); ok {
		w.c.Seen.Devices.Learn(n)
	}
}

// keepDevices translates again what depends on devices and claims that have changed, until the context ends.
func (w *watcher) keepDevices(ctx context.Context) {
	d := w.c.Seen.Devices
	if d == nil {
		return
	}
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
	if d == nil {
		return
	}
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

// rememberDevices and forgetDevices keep which pods have claims. The caller holds podMu.
func (w *watcher) rememberDevices(key string, p *corev1.Pod) {
	if w.devicePods == nil {
		return
	}
	if len(p.Spec.ResourceClaims) == 0 {
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
