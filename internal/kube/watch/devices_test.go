// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestTranslateDevices: what was translated before the objects that it claims devices by, or before pods claimed devices in another way, is
// translated again: DaemonSets, buffers, Headrooms and NodeClaims.
func TestTranslateDevices(t *testing.T) {
	s := state.New()
	c := &client.Client{}
	c.Seen.Devices = translate.NewDevices()
	w := &watcher{c: c, t: &translate.Translator{Table: s.Resources(), Lookup: c.Seen.Lookup()}, emit: func(x state.Change) { x(s) },
		daemons: map[string]*appsv1.DaemonSet{}, devicePods: map[string]*corev1.Pod{}}
	w.buffers = newBufferWatch(w)
	due := func() (buffers map[string]bool, headrooms bool) {
		buffers, w.buffers.due = w.buffers.due, map[string]bool{}
		select {
		case <-c.Seen.HeadroomChanged.C():
			headrooms = true
		default:
		}
		return buffers, headrooms
	}
	const large = `device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`
	claims := func(template string) corev1.PodSpec {
		return corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}, Containers: []corev1.Container{{Name: "c"}}}
	}
	set := func(name string, selectors ...resourceapi.DeviceSelector) {
		x := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		x.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu",
			AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1, Selectors: selectors}}}
		c.Seen.Devices.SetResourceClaimTemplate("a/"+name, x)
	}
	c.Seen.Devices.SetDeviceClass("gpu", &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "ds", UID: "ds"}}
	ds.Spec.Template.Spec = claims("any")
	w.daemons["a/ds"] = ds
	w.setDaemon(ds)
	node := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c", Annotations: map[string]string{translate.AnnotationDevices: `{"devices/gpu":2}`}}}
	client.KeepSeen(&c.Seen.Claims, "c", node)
	w.setClaim(node)
	w.translateDevices()
	due()

	gpu := s.Resources().Dim("devices/gpu")
	check := func(when string, requested, coming int64) {
		t.Helper()
		snap := s.Snapshot(metav1.Now().Time)
		if got := snap.Daemons[0].Class; got.Requests.At(gpu) != requested || (len(got.Unsolved) > 0) != (requested == 0) {
			t.Errorf("%s: the DaemonSet requests %d; %v", when, got.Requests.At(gpu), got.Unsolved)
		}
		if got := snap.Claims[0].Allocatable.At(gpu); got != coming {
			t.Errorf("%s: the node to come has %d", when, got)
		}
	}
	check("without a template", 0, 0)
	set("any")
	w.translateDevices()
	w.translateDevices()
	check("with its template", 1, 2)
	if buffers, headrooms := due(); !buffers[""] && !buffers["a"] || !headrooms {
		t.Errorf("with a template: buffers %v, headrooms %v are due", buffers, headrooms)
	}

	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: types.UID("p")}, Spec: claims("large")}
	set("large", resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: large}})
	w.rememberDevices("a/p", p)
	w.setPod(p)
	w.translateDevices()
	if buffers, headrooms := due(); !buffers[""] || !headrooms {
		t.Errorf("with other requests: buffers %v, headrooms %v are due", buffers, headrooms)
	}
	w.translateDevices()
	if buffers, headrooms := due(); len(buffers) > 0 || headrooms {
		t.Errorf("without a change: buffers %v, headrooms %v are due", buffers, headrooms)
	}
}

// TestNamedTemplate: a name in the template of a workload that a Headroom is for makes no pod of that name, which a shared claim would wait for.
func TestNamedTemplate(t *testing.T) {
	d := translate.NewDevices()
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shared"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
	d.SetDeviceClass("gpu", &resourceapi.DeviceClass{})
	d.SetResourceClaim("default/shared", claim)
	c := &client.Client{}
	c.Seen.Volumes, c.Seen.Devices = volume.NewIndex(), d
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
	NewHeadrooms(c, &translate.Translator{Table: state.NewResourceTable(), Lookup: c.Seen.Lookup()}).classOf("default", template)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: template.Spec}
	if need := d.OfPod(p); len(need.Unsupported) > 0 {
		t.Error(need.Unsupported)
	}
}
