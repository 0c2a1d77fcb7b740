// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const (
	gpuDriver   = "gpu.example.com"
	resourceAPI = "/apis/resource.k8s.io/v1/"
	overlayPath = "/apis/karpenter.sh/v1alpha1/nodeoverlays"
)

// gpusOf is how many devices the driver publishes for a node, by instance type.
var gpusOf = map[string]int{"m5.xlarge": 2, "c5.2xlarge": 4}

// deviceCluster is a sandbox with Dovetail and Karpenter's DRA driver for kwok nodes, and a Deployment whose pods claim a device each.
type deviceCluster struct {
	*testing.T
	ctx context.Context
	s   *sandbox.Sandbox
}

// TestDRADriver runs the controller of Karpenter's DRA driver for kwok nodes. Pods that claim a device each get nodes from zero by the devices that
// a NodeOverlay promises, and then, without it, by those that the driver has published. kube-scheduler allocates a device to each pod, and as many
// devices are launched as are claimed.
func TestDRADriver(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles Karpenter's DRA driver and starts a control plane")
	}
	t.Parallel() // it mostly waits
	if _, _, err := sandbox.Binaries(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "dradriver")
	if _, err := goCommand(t.Context(), "build", "-o", binary, "./dradriver"); err != nil {
		t.Fatal(err)
	}
	module, err := goCommand(t.Context(), "list", "-m", "-f", "{{.Dir}}", karpenterModule)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.Up(t.Context(), filepath.Join(dir, "sb"), "--boot", "1s", "--pull", "0")
	if err != nil {
		t.Fatal(err)
	}
	c := &deviceCluster{T: t, ctx: t.Context(), s: s}
	defer func() {
		if t.Failed() {
			driverLog, _ := os.ReadFile(filepath.Join(dir, "driver.log")) // it may not have been started
			t.Logf("the driver's log ends with:\n%s", driverLog[max(0, len(driverLog)-2000):])
			t.Log("Dovetail's log ends with:\n" + s.LogTail(sandbox.Controller, 30, ""))
		}
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	}()
	c.must(s.ApplyCRDs(c.ctx, filepath.Join(strings.TrimSpace(module), draConfigs)))
	c.configure()
	driver, err := s.StartDRADriver(binary, filepath.Join(dir, "driver.log"))
	c.must(err)
	defer driver.Stop()

	began := time.Now()
	c.scale(6)
	c.runs(6)
	t.Logf("6 pods run %.0f s after they were created, on nodes whose devices a NodeOverlay promised", time.Since(began).Seconds())
	c.must(s.Delete(c.ctx, overlayPath, "test=devices"))
	began = time.Now()
	c.scale(10)
	c.runs(10)
	t.Logf("4 more run after %.0f s, on nodes whose devices the driver published before", time.Since(began).Seconds())
}

func (c *deviceCluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// configure creates what the driver is to publish, a NodeOverlay that promises it, and a NodePool, a DeviceClass and a Deployment of no pods.
func (c *deviceCluster) configure() {
	c.Helper()
	var pools []string
	for instanceType, n := range gpusOf {
		var devices []string
		for i := range n {
			devices = append(devices, fmt.Sprintf(`{"name":"gpu-%d","attributes":{"model":{"string":"a"}},"capacity":{"memory":{"value":"80Gi"}}}`, i))
		}
		all := strings.Join(devices, ",")
		pools = append(pools, fmt.Sprintf(`{"name":"gpus-%[3]d","nodeSelectorTerms":[{"matchExpressions":[{"key":"node.kubernetes.io/instance-type","operator":"In","values":[%[1]q]}]}],"resourceSlices":[{"devices":[%[2]s]}]}`, instanceType, all, n))
		promise, err := json.Marshal(fmt.Sprintf(`[{"driver":%q,"devices":[%s]}]`, gpuDriver, all))
		c.must(err)
		c.must(c.s.Create(c.ctx, overlayPath, fmt.Sprintf(`{"apiVersion":"karpenter.sh/v1alpha1","kind":"NodeOverlay","metadata":{"name":"gpus-%d","labels":{"test":"devices"},"annotations":{"dovetail.sh/resource-slices":%s}},"spec":{"requirements":[{"key":"node.kubernetes.io/instance-type","operator":"In","values":[%q]}]}}`, n, promise, instanceType)))
	}
	c.must(c.s.Create(c.ctx, "/apis/test.karpenter.sh/v1alpha1/draconfigs", fmt.Sprintf(`{"apiVersion":"test.karpenter.sh/v1alpha1","kind":"DRAConfig","metadata":{"name":"gpus"},"spec":{"driver":%q,"pools":[%s]}}`, gpuDriver, strings.Join(pools, ","))))
	c.must(c.s.Create(c.ctx, "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {}}"))
	c.must(c.s.Create(c.ctx, poolPath, `{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"gpus"},"spec":{"template":{"spec":{"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"},
		"requirements":[{"key":"node.kubernetes.io/instance-type","operator":"In","values":["m5.xlarge","c5.2xlarge"]},{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}},
		"disruption":{"consolidationPolicy":"WhenEmpty","consolidateAfter":"Never"}}}`))
	c.must(c.s.Create(c.ctx, resourceAPI+"deviceclasses", fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: 'device.driver == "%[1]s" && device.attributes["%[1]s"].model == "a"'}}]}}`, gpuDriver)))
	c.must(c.s.Create(c.ctx, resourceAPI+"namespaces/default/resourceclaimtemplates", "{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one}, spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}}"))
	labels, zero, template := map[string]string{"app": "train"}, int32(0), "one"
	_, err := c.s.Kube.AppsV1().Deployments("default").Create(c.ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: appsv1.DeploymentSpec{
		Replicas: &zero, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}},
			Containers: []corev1.Container{{Name: "c", Image: "pause", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}, Claims: []corev1.ResourceClaim{{Name: "gpu"}}}}}}}}}, metav1.CreateOptions{})
	c.must(err)
}

func (c *deviceCluster) scale(pods int) {
	c.Helper()
	c.must(c.s.Patch(c.ctx, "/apis/apps/v1/namespaces/default/deployments/train", fmt.Sprintf(`{"spec":{"replicas":%d}}`, pods)))
}

// runs waits until so many pods run. Each then has a device of the driver on its node, no device is allocated twice, and the nodes that were launched
// have as many devices.
func (c *deviceCluster) runs(pods int) {
	c.Helper()
	var list *corev1.PodList
	err := testwait.Poll(c.ctx, testwait.Scale(5*time.Minute), 200*time.Millisecond, func(ctx context.Context) (err error) {
		if list, err = c.s.Kube.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=train"}); err != nil {
			return err
		}
		running := 0
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != pods || len(list.Items) != pods {
			return fmt.Errorf("%d of %d pods run, want %d", running, len(list.Items), pods)
		}
		return nil
	})
	c.must(err)
	nodeOf := map[string]string{}
	for _, p := range list.Items {
		nodeOf[p.Name] = p.Spec.NodeName
	}
	claims, err := c.s.Kube.ResourceV1().ResourceClaims("default").List(c.ctx, metav1.ListOptions{})
	c.must(err)
	taken := map[string]bool{}
	for _, claim := range claims.Items {
		if claim.Status.Allocation == nil || len(claim.Status.Allocation.Devices.Results) != 1 || len(claim.Status.ReservedFor) != 1 {
			c.Errorf("claim %s: status %+v, want one device for one pod", claim.Name, claim.Status)
			continue
		}
		got := claim.Status.Allocation.Devices.Results[0]
		if want := gpuDriver + "/" + nodeOf[claim.Status.ReservedFor[0].Name]; got.Driver != gpuDriver || got.Pool != want {
			c.Errorf("claim %s has a device of pool %s, want one of %s", claim.Name, got.Pool, want)
		}
		if id := got.Pool + "/" + got.Device; taken[id] {
			c.Errorf("device %s is allocated twice", id)
		} else {
			taken[id] = true
		}
	}
	records, err := c.s.Journal(c.ctx)
	c.must(err)
	launched, devices := map[string]int{}, 0
	for _, r := range records {
		if r.Kind == machines.RecordLaunched {
			launched[r.Instance.InstanceType]++
			devices += gpusOf[r.Instance.InstanceType]
		}
	}
	if len(taken) != pods || devices != pods {
		c.Errorf("%d devices are allocated, and nodes with %d were launched (%v); want %d of both", len(taken), devices, launched, pods)
	}
}
