// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/testwait"
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

// deviceServer answers as an API server: with devices once it serves them and their kinds may be listed. It is of version 1.35 until it is upgraded to 1.37.
type deviceServer struct {
	serves, grants, upgraded atomic.Bool
	rules                    atomic.Bool // its rules that taint devices are watched
}

func (d *deviceServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, x any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(x) // the client says what is missing
	}
	refuse := func(code int32, reason metav1.StatusReason) {
		answer(int(code), metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason})
	}
	kinds := map[string]string{"deviceclasses": "DeviceClass", "resourceclaims": "ResourceClaim", "resourceclaimtemplates": "ResourceClaimTemplate", "resourceslices": "ResourceSlice"}
	minor := "35"
	if d.upgraded.Load() {
		kinds["devicetaintrules"], minor = "DeviceTaintRule", "37"
	}
	kind := kinds[path.Base(r.URL.Path)]
	group := "/apis/" + resourceapi.SchemeGroupVersion.String()
	switch {
	case r.URL.Path == "/version":
		answer(http.StatusOK, map[string]any{"major": "1", "minor": minor})
	case !strings.HasPrefix(r.URL.Path, group):
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	case !d.serves.Load():
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.URL.Path == group:
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: resourceapi.SchemeGroupVersion.String()}
		for name, kind := range kinds {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kind})
		}
		answer(http.StatusOK, list)
	case !d.grants.Load() && kind == "ResourceSlice":
		refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	case r.URL.Query().Get("sendInitialEvents") != "":
		refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	case r.URL.Query().Get("watch") != "":
		if kind == "DeviceTaintRule" {
			d.rules.Store(true)
		}
		<-r.Context().Done()
	default:
		items := []any{}
		switch kind {
		case "DeviceClass":
			items = append(items, resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gpu"}})
		case "ResourceClaimTemplate":
			x := resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one", UID: "one"}}
			x.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu",
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
			items = append(items, x)
		}
		answer(http.StatusOK, map[string]any{"kind": kind + "List", "apiVersion": resourceapi.SchemeGroupVersion.String(), "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	}
}

// TestDevicesLater: pods with claims are refused with what is missing while the API server does not serve devices, or does not let them be listed. When
// it does, they are served, without a restart. So are extended resources of a DeviceClass, and rules that taint devices, once the API server is upgraded.
func TestDevicesLater(t *testing.T) {
	was := deviceBackoff
	deviceBackoff = [2]time.Duration{time.Millisecond, 10 * time.Millisecond}
	defer func() { deviceBackoff = was }()
	server := &deviceServer{}
	answers := httptest.NewServer(server)
	defer answers.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // before the server is closed, which waits for watches
	c, err := client.New(ctx, &rest.Config{Host: answers.URL, QPS: -1}, client.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	c.Log = slog.New(slog.DiscardHandler)
	s := state.New()
	var mu sync.Mutex
	w := &watcher{c: c, t: &translate.Translator{Table: s.Resources(), Lookup: c.Seen.Lookup()}, daemons: map[string]*appsv1.DaemonSet{}, emit: func(x state.Change) {
		mu.Lock()
		defer mu.Unlock()
		x(s)
	}}
	w.buffers = newBufferWatch(w)
	template := "one"
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "p"}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	missing := func(text string) {
		t.Helper()
		if err := testwait.Poll(ctx, testwait.Scale(time.Minute), time.Millisecond, func(context.Context) error {
			if got := c.Seen.Devices.Missing(); !strings.Contains(got, text) {
				return errors.New("missing is " + got)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.translateDevices()
		w.translateDevices()
		mu.Lock()
		defer mu.Unlock()
		class := s.Snapshot(time.Time{}).Pending[0].Class
		if len(class.Unsolved) != 1 || !strings.Contains(class.Unsolved[0], text) {
			t.Errorf("the pod is refused for %q, want %s", class.Unsolved, text)
		}
	}
	if err := w.servesDevices(ctx); err != nil {
		t.Fatal(err)
	}
	w.rememberDevices("a/p", p)
	w.setPod(p)
	done := make(chan struct{})
	go func() { defer close(done); w.awaitDevices(ctx) }()
	missing("does not serve resource.k8s.io/v1")
	server.serves.Store(true)
	missing("the right to list resourceslices.resource.k8s.io is missing")
	server.grants.Store(true)
	testwait.Receive(t, "devices to be read", done)
	w.translateDevices()
	w.translateDevices()
	mu.Lock()
	class := s.Snapshot(time.Time{}).Pending[0].Class
	mu.Unlock()
	if got := class.Requests.At(s.Resources().Dim("devices/gpu")); len(class.Unsolved) > 0 || got != 1 {
		t.Errorf("with devices, the pod requests %d of class gpu and is refused for %q", got, class.Unsolved)
	}
	upgrade(t, server, w)
}

// upgrade upgrades the API server of a watcher, whose devices are read from then on as the new version serves them.
func upgrade(t *testing.T, server *deviceServer, w *watcher) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "extended", UID: "extended"}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + "gpu"): resource.MustParse("1")}}}}
	requests := func() error {
		if x := w.c.Seen.Devices.OfPod(p); x.Extended == nil {
			return fmt.Errorf("the pod requests %+v", x)
		}
		return nil
	}
	if requests() == nil {
		t.Error("an extended resource of a DeviceClass is served by version 1.35")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); w.awaitUpgrade(ctx) }()
	server.upgraded.Store(true)
	testwait.Receive(t, "the upgrade to be noticed", done)
	if err := requests(); err != nil {
		t.Error(err)
	}
	if err := testwait.Poll(ctx, testwait.Scale(time.Minute), time.Millisecond, func(context.Context) error {
		if !server.rules.Load() {
			return errors.New("rules that taint devices are not watched")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
