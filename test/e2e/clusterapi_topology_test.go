// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const (
	bootstrapGroup = "bootstrap.cluster.x-k8s.io"
	sizeAnnotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
)

// TestClusterAPITopology: Cluster API's own topology controller makes the MachineDeployments of a Cluster from a ClusterClass. Dovetail scales the one whose
// replicas the Cluster leaves unset, up and down to zero, and leaves the other alone, with a condition that names the field.
func TestClusterAPITopology(t *testing.T) {
	t.Parallel()
	verifyOnly(t)
	w := newCoreWorld(t, "topology")
	w.stop(syscall.SIGTERM)
	w.infra.addClass(w.name)
	w.stop = w.whole.controllerOf("--cloud", "clusterapi", "--cluster-api-cluster", "default/topology")
	w.must(w.s.Create(w.ctx, groupClasses, `{apiVersion: dovetail.sh/v1alpha1, kind: NodeGroupClass, metadata: {name: topology}, spec: {selectorTerms: [{tags: {topology.cluster.x-k8s.io/deployment-name: "*"}}]}}`))
	w.nodePool(map[string]any{
		"spec.template.spec.nodeClassRef": map[string]any{"group": "dovetail.sh", "kind": "NodeGroupClass", "name": "topology"},
		"spec.template.spec.requirements": []any{},
		"spec.disruption":                 map[string]any{"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": []any{map[string]any{"nodes": "100%"}}},
	})
	w.plansAt(0.2)
	w.deploy("app", 2, w.pod("3", "1Gi"))
	w.podsRun(2)
	of := func(md string) (name string, replicas int) {
		groups, err := w.infra.groups()
		w.must(err)
		for name, g := range groups {
			if strings.HasPrefix(name, "topology-"+md+"-") {
				return name, g.Spec.Replicas
			}
		}
		t.Fatalf("there is no MachineDeployment of %s: %v", md, groups)
		return "", 0
	}
	replicas := func(md string) int {
		_, n := of(md)
		return n
	}
	fixed, _ := of("fixed")
	w.must(w.s.Patch(w.ctx, clusterAPI+"default/machinedeployments/"+fixed, `{"metadata":{"annotations":{"`+sizeAnnotation+`min-size":"0","`+sizeAnnotation+`max-size":"9"}}}`))
	if free, fixed := replicas("free"), replicas("fixed"); free != 2 || fixed != 1 {
		t.Errorf("the groups are to have %d and %d machines, want 2 and 1", free, fixed)
	}
	w.until("the class names the field", func() error {
		class, err := sandbox.Get[dovetailv1alpha1.NodeGroupClass](w.ctx, w.s, groupClasses+"/topology")
		if err != nil {
			return err
		}
		if text := conditionsText(class.Status.Conditions); !strings.Contains(text, "Cluster default/topology: spec.topology.workers.machineDeployments[1].replicas: 1: the ClusterClass would undo each change of MachineDeployment topology-fixed-") {
			return errors.New(text)
		}
		return nil
	})
	w.scale("app", 0)
	w.until("the group has no machines", func() error {
		if n := replicas("free"); n > 0 {
			return fmt.Errorf("it is to have %d", n)
		}
		return nil
	})
	w.until("the machines are gone", func() error {
		if have := w.infra.standing(); have["free"] != 0 || have["fixed"] != 1 {
			return fmt.Errorf("there are %v", have)
		}
		return nil
	})
}

// plansAt waits until "dovetail plan --live" launches nodes for two pods that take one each, at the price of the MachineDeployment.
func (w *coreWorld) plansAt(usdPerHour float64) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "pods.yaml")
	var text strings.Builder
	for i := range 2 {
		fmt.Fprintf(&text, "---\n{apiVersion: v1, kind: Pod, metadata: {name: planned-%d, namespace: default}, spec: {nodeSelector: {%s: %s}, containers: [{name: c, image: c, resources: {requests: {cpu: 3}}}]}}\n", i, testLabel, w.name)
	}
	w.must(os.WriteFile(file, []byte(text.String()), 0o600))
	_, bin, err := sandbox.Binaries()
	w.must(err)
	want := fmt.Sprintf("To launch: 2 nodes for 2 pods, $%.4f/h", usdPerHour)
	w.until("dovetail plan says "+want, func() error {
		out, err := exec.CommandContext(w.ctx, bin, "plan", "--live", "--kubeconfig", w.s.Kubeconfig(sandbox.Admin), "--cluster-api-cluster", "default/topology", "-f", file).CombinedOutput()
		if !strings.Contains(string(out), want) {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	})
}

// addClass adds a ClusterClass, and a Cluster of it with two topologies of MachineDeployments: free, whose nodes hold the pods of a test, and fixed, which
// has replicas.
func (p *kwokInfra) addClass(test string) {
	p.t.Helper()
	p.addKinds(infraGroup, "KwokCluster", "KwokClusterTemplate")
	p.addKinds(planeGroup, "KwokControlPlaneTemplate")
	p.addKinds(bootstrapGroup, "KwokConfig", "KwokConfigTemplate")
	p.addKubeconfig("topology")
	p.addTemplate("free", "type-free", 4, map[string]string{testLabel: test})
	p.addTemplate("fixed", "type-fixed", 4, map[string]string{})
	for kind, group := range map[string]string{"KwokClusterTemplate": infraGroup, "KwokControlPlaneTemplate": planeGroup, "KwokConfigTemplate": bootstrapGroup} {
		p.create("/apis/"+group+"/v1/namespaces/default/"+strings.ToLower(kind)+"s", map[string]any{"apiVersion": group + "/v1", "kind": kind, "metadata": map[string]any{"name": "kwok"},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}})
	}
	reference := func(group, kind, name string) map[string]any {
		return map[string]any{"templateRef": map[string]any{"apiVersion": group + "/v1", "kind": kind, "name": name}}
	}
	var classes, topologies []any
	for _, name := range []string{"free", "fixed"} {
		classes = append(classes, map[string]any{"class": name, "bootstrap": reference(bootstrapGroup, "KwokConfigTemplate", "kwok"), "infrastructure": reference(infraGroup, "KwokMachineTemplate", name)})
		annotations := map[string]any{"dovetail.sh/price-per-hour": "0.1", "capacity.cluster-autoscaler.kubernetes.io/cpu": "4", "capacity.cluster-autoscaler.kubernetes.io/memory": "16Gi",
			"capacity.cluster-autoscaler.kubernetes.io/labels": "node.kubernetes.io/instance-type=type-" + name + "," + testLabel + "=" + test}
		topology := map[string]any{"class": name, "name": name, "metadata": map[string]any{"annotations": annotations}}
		if name == "free" {
			annotations[sizeAnnotation+"min-size"], annotations[sizeAnnotation+"max-size"] = "0", "9"
		} else {
			topology["replicas"] = 1 // Cluster API's webhook rejects it with these annotations in the same place
		}
		topologies = append(topologies, topology)
	}
	p.create(clusterAPI+"default/clusterclasses", map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": map[string]any{"name": "kwok"}, "spec": map[string]any{
		"infrastructure": reference(infraGroup, "KwokClusterTemplate", "kwok"), "controlPlane": reference(planeGroup, "KwokControlPlaneTemplate", "kwok"), "workers": map[string]any{"machineDeployments": classes}}})
	p.create(clusterAPI+"default/clusters", map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"name": "topology"}, "spec": map[string]any{
		"topology": map[string]any{"classRef": map[string]any{"name": "kwok"}, "version": "v1.37.2", "workers": map[string]any{"machineDeployments": topologies}}}})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		for ctx.Err() == nil {
			if err := p.playClass(ctx); err != nil && ctx.Err() == nil {
				p.t.Logf("the providers of the ClusterClass go on in a moment: %v", err)
			}
			_ = cloud.Wall{}.Wait(ctx, 200*time.Millisecond)
		}
	})
	p.t.Cleanup(func() { cancel(); run.Wait() })
}

// playClass makes the control planes, infrastructures and bootstrap configurations of Clusters ready.
func (p *kwokInfra) playClass(ctx context.Context) error {
	for _, of := range []struct{ group, kinds, status string }{
		{infraGroup, "kwokclusters", `{"initialization":{"provisioned":true}}`},
		{planeGroup, "kwokcontrolplanes", `{"initialization":{"controlPlaneInitialized":true},"version":"v1.37.2"}`},
		{bootstrapGroup, "kwokconfigs", `{"initialization":{"dataSecretCreated":true},"dataSecretName":"none"}`},
	} {
		at := "/apis/" + of.group + "/v1/namespaces/default/" + of.kinds
		list, err := sandbox.Get[struct {
			Items []struct {
				Metadata struct{ Name string }
				Status   struct{ Initialization map[string]bool }
			}
		}](ctx, p.s, at)
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if len(o.Status.Initialization) == 0 {
				if err := p.s.Patch(ctx, at+"/"+o.Metadata.Name+"/status", `{"status":`+of.status+`}`); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
