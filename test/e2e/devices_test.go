// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

const (
	deviceClasses = "/apis/resource.k8s.io/v1/deviceclasses"
	overlays      = "/apis/karpenter.sh/v1alpha1/nodeoverlays"
)

// deviceDriver stands for a DRA driver: it publishes so many devices of each of the test's nodes, until the test ends or it is stopped.
func (e *env) deviceDriver(driver string, devices int) (stop func()) {
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan struct{})
	stop = func() { cancel(); <-done }
	e.t.Cleanup(stop)
	go func() {
		defer close(done)
		tick := time.NewTicker(poll)
		defer tick.Stop()
		for ctx.Err() == nil {
			nodes, err := e.s.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: testLabel + "=" + e.name})
			for i := 0; err == nil && i < len(nodes.Items); i++ {
				n := &nodes.Items[i]
				slice := &resourceapi.ResourceSlice{
					ObjectMeta: metav1.ObjectMeta{Name: n.Name + "-" + driver, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}},
					Spec:       resourceapi.ResourceSliceSpec{Driver: driver, NodeName: &n.Name, Pool: resourceapi.ResourcePool{Name: n.Name, Generation: 1, ResourceSliceCount: 1}},
				}
				for d := range devices {
					slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprintf("gpu-%d", d)})
				}
				if _, err := e.s.Kube.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
					e.t.Errorf("publish the devices of %s: %v", n.Name, err)
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return stop
}

// deviceClass makes a class of all devices of a driver, a template of claims that each take one of them, and a NodeOverlay that promises so many of
// them on each node of the test.
func (e *env) deviceClass(driver string, promised int) {
	e.must(e.s.Create(e.ctx, deviceClasses, fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %[1]s}, spec: {selectors: [{cel: {expression: 'device.driver == "%[1]s"'}}]}}`, driver)))
	e.must(e.s.Create(e.ctx, "/apis/resource.k8s.io/v1/namespaces/"+e.name+"/resourceclaimtemplates", fmt.Sprintf(
		`{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: %s}}]}}}}`, driver)))
	var devices []string
	for d := range promised {
		devices = append(devices, fmt.Sprintf("{name: gpu-%d}", d))
	}
	e.must(e.s.Create(e.ctx, overlays, fmt.Sprintf(`{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: %[1]s, annotations: {
		dovetail.sh/resource-slices: '[{driver: %[2]s, devices: [%[3]s]}]'}},
		spec: {requirements: [{key: karpenter.sh/nodepool, operator: In, values: [%[1]s]}]}}`, e.name, driver, strings.Join(devices, ", "))))
	e.t.Cleanup(func() {
		for _, object := range []string{overlays + "/" + e.name, deviceClasses + "/" + driver} {
			if err := e.s.Delete(context.Background(), object, ""); err != nil {
				e.t.Error(err)
			}
		}
	})
}

// A DRA driver is uninstalled, its devices with it, while pods that claim some are pending. Their nodes are launched once and are waited for; what they
// wait for is said, and pods without claims run meanwhile. When the driver is back, the pods run on these nodes.
func TestDriverDisappears(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "driver-gone")
	driver := e.name + ".example.com"
	e.deviceClass(driver, 2)
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	stop := e.deviceDriver(driver, 2)
	e.deploy("train", 4, e.pod("100m", "100Mi", claiming("one")))
	e.podsRun(4)

	stop()
	slices := s.Kube.ResourceV1().ResourceSlices()
	e.must(slices.DeleteCollection(e.ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.driver=" + driver}))
	e.scale("train", 8)
	e.claimsAre(4, "Registered", func(c *karpv1.NodeClaim) bool { return isTrue(c, "Registered") })
	e.deploy("web", 4, e.pod("3", "100Mi")) // one node each
	e.until("pods without claims run", func() error {
		running := 0
		for _, p := range e.pods() {
			if strings.HasPrefix(p.Name, "web-") && p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != 4 {
			return fmt.Errorf("%d of 4 run", running)
		}
		return nil
	})
	waiting := 0
	for _, c := range e.claims() {
		if !ready(&c) {
			waiting++
			e.names("nodeclaim/"+c.Name, plan.ResourceMissing, "devices/"+driver)
		}
	}
	if waiting == 0 {
		t.Error("every NodeClaim is Ready without the driver's devices")
	}
	e.deviceDriver(driver, 2)
	e.podsRun(12)
	if n := len(e.launches(e.name)); n > 8 {
		t.Errorf("%d nodes were launched for eight pods with two devices a node, and four others", n)
	}
}

// A DRA driver publishes fewer devices than were promised. Nodes are launched for the pods that found none, by what the nodes that came have.
func TestFewerDevicesThanPromised(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "devices-lie")
	driver := e.name + ".example.com"
	e.deviceClass(driver, 4)
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	e.deviceDriver(driver, 1)
	e.deploy("train", 4, e.pod("100m", "100Mi", claiming("one")))
	e.podsRun(4)
	if n := len(e.launches(e.name)); n > 5 {
		t.Errorf("%d nodes were launched for four pods with a device each", n)
	}
}

// claiming has a pod claim devices by a ResourceClaimTemplate.
func claiming(template string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		t.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}
}

// requesting has a pod request an extended resource.
func requesting(resource string, n int64) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		r, q := &t.Spec.Containers[0].Resources, *apiresource.NewQuantity(n, apiresource.DecimalSI)
		r.Requests[corev1.ResourceName(resource)] = q
		r.Limits = corev1.ResourceList{corev1.ResourceName(resource): q}
	}
}

// Pods that claim a device each get as many nodes as their devices take: by what a NodeOverlay says that nodes will publish, and without it by
// what nodes have published. kube-scheduler allocates the devices. A pod that claims more than a node has is refused, with the numbers. So it is for
// the extended resource that the class stands for.
func TestDevices(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "devices")
	driver := e.name + ".example.com"
	e.must(s.Create(e.ctx, deviceClasses, fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %[1]s}, spec: {extendedResourceName: %[1]s/gpu, selectors: [{cel: {expression: 'device.driver == "%[1]s"'}}]}}`, driver)))
	for name, count := range map[string]int{"one": 1, "three": 3} {
		e.must(s.Create(e.ctx, "/apis/resource.k8s.io/v1/namespaces/"+e.name+"/resourceclaimtemplates", fmt.Sprintf(
			`{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: %s}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: %s, count: %d}}]}}}}`, name, driver, count)))
	}
	e.must(s.Create(e.ctx, overlays, fmt.Sprintf(`{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: %[1]s, annotations: {
		dovetail.sh/resource-slices: '[{driver: %[2]s, devices: [{name: gpu-0}, {name: gpu-1}]}]'}},
		spec: {requirements: [{key: karpenter.sh/nodepool, operator: In, values: [%[1]s]}]}}`, e.name, driver)))
	t.Cleanup(func() {
		_ = s.Delete(context.Background(), overlays+"/"+e.name, "") // gone where the test came that far
		if err := s.Delete(context.Background(), deviceClasses+"/"+driver, ""); err != nil {
			t.Error(err)
		}
	})
	e.deviceDriver(driver, 2)
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge"), "spec.disruption.consolidateAfter": "0s"})

	e.deploy("train", 6, e.pod("100m", "100Mi", claiming("one")))
	e.podsRun(6)
	for _, c := range e.claimsAre(3, "Ready", ready) {
		for name := range c.Spec.Resources.Requests {
			if strings.HasPrefix(string(name), "devices/") {
				t.Errorf("nodeclaim %s requests %s, which is no resource of Kubernetes", c.Name, name)
			}
		}
	}
	big := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "big"}, Spec: e.pod("100m", "100Mi", claiming("three"), bare).Spec}
	_, err := s.Kube.CoreV1().Pods(e.name).Create(e.ctx, big, metav1.CreateOptions{})
	e.must(err)
	e.names("pod/"+e.name+"/big", plan.Resource, "devices/"+driver)
	e.event("Pod", "big", "FailedScheduling", "3 devices of class "+driver, "has 2")
	e.must(s.Kube.CoreV1().Pods(e.name).Delete(e.ctx, "big", metav1.DeleteOptions{}))

	// The nodes say it now, and nobody else need.
	e.must(s.Delete(e.ctx, overlays+"/"+e.name, ""))
	e.scale("train", 8)
	e.podsRun(8)
	e.claimsAre(4, "Ready", ready)
	e.deploy("old", 3, e.pod("100m", "100Mi", requesting(driver+"/gpu", 1)))
	e.podsRun(11)
	e.claimsAre(6, "Ready", ready)
	_, err = s.Kube.CoreV1().Pods(e.name).Create(e.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "big"}, Spec: e.pod("100m", "100Mi", requesting(driver+"/gpu", 3), bare).Spec}, metav1.CreateOptions{})
	e.must(err)
	e.event("Pod", "big", "FailedScheduling", "3 "+driver+"/gpu", "has 2")
	e.must(s.Kube.CoreV1().Pods(e.name).Delete(e.ctx, "big", metav1.DeleteOptions{}))
	e.scale("train", 0)
	e.scale("old", 0)
	e.givenBack()
	if n := len(e.launches(e.name)); n != 6 {
		t.Errorf("%d nodes with two devices each were launched for eleven pods", n)
	}
}
