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
	"syscall"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// workers make objects at the same time.
const workers = 24

// frozen are the components that stand still while a cluster is filled and read: they would look at each object, and nothing here is about
// what they make of it.
var frozen = []string{"kube-controller-manager", "kube-scheduler", "kwok"}

// send sends a signal to the frozen components.
func send(s *sandbox.Sandbox, what syscall.Signal) error {
	for _, name := range frozen {
		all, err := s.Components(name)
		if err != nil {
			return err
		}
		for _, c := range all {
			if err := syscall.Kill(c.PID, what); err != nil {
				return fmt.Errorf("send %v to %s: %w", what, name, err)
			}
		}
	}
	return nil
}

// filling makes a cluster: a NodePool with its class, nodes with their NodeClaims, Deployments with a ReplicaSet each, and running pods. One pod of
// a hundred is pending.
type filling struct {
	s           *sandbox.Sandbox
	kube        *kubernetes.Clientset
	nodes, pods int
	types       []catalog.Type
}

const podsOfDeployment = 100

func fill(ctx context.Context, s *sandbox.Sandbox, nodes, pods int) error {
	config, err := s.Config(sandbox.Admin)
	if err != nil {
		return err
	}
	config.AcceptContentTypes, config.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	cat, err := catalog.Builtin()
	if err != nil {
		return err
	}
	f := &filling{s: s, kube: client, nodes: nodes, pods: pods}
	for _, name := range []string{"c6a.4xlarge", "m6a.4xlarge", "m6a.8xlarge", "r6a.4xlarge"} {
		t := cat.Find(name)
		if t == nil {
			return fmt.Errorf("the built-in catalog has no %s", name)
		}
		f.types = append(f.types, *t)
	}
	if err := f.pool(ctx); err != nil {
		return err
	}
	for _, of := range []struct {
		n    int
		make func(context.Context, int) error
	}{{nodes, f.node}, {pods / podsOfDeployment, f.workload}, {pods, f.pod}} {
		if err := each(ctx, of.n, of.make); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for 0 to n-1, several at a time, and returns the first error.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i := range n {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// pool makes what examples/nodepool.yaml says, except that only empty nodes are removed: consolidation would change the nodes that are measured.
func (f *filling) pool(ctx context.Context) error {
	root, err := sandbox.Root()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "examples", "nodepool.yaml"))
	if err != nil {
		return err
	}
	for _, doc := range strings.Split(strings.ReplaceAll(string(text), "WhenEmptyOrUnderutilized", "WhenEmpty"), "\n---\n") {
		path := "/apis/karpenter.sh/v1/nodepools"
		if strings.Contains(doc, "kind: KWOKNodeClass\n") {
			path = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
		}
		if err := f.s.Create(ctx, path, doc); err != nil {
			return fmt.Errorf("create the objects of examples/nodepool.yaml: %w", err)
		}
	}
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("ip-10-0-%d-%d.ec2.internal", i/250, i%250) }

// node makes a Node that is Ready, and its NodeClaim.
func (f *filling) node(ctx context.Context, i int) error {
	t := f.types[i%len(f.types)]
	amounts := func(a catalog.Amounts) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(a["cpu"], resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(a["memory"], resource.BinarySI), corev1.ResourcePods: *resource.NewQuantity(a["pods"], resource.DecimalSI)}
	}
	labels := map[string]string{karpv1.LabelNodePool: "default", karpv1.LabelCapacityType: "on-demand", corev1.LabelInstanceTypeStable: t.Name,
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelTopologyZone: "us-east-1" + string("abc"[i%3]),
		corev1.LabelTopologyRegion: "us-east-1", corev1.LabelHostname: nodeName(i),
		"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
	_, err := f.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("kwok://%s", nodeName(i))},
		Status: corev1.NodeStatus{Capacity: amounts(t.Capacity), Allocatable: amounts(t.Allocatable),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim := fmt.Sprintf("default-%05d", i)
	err = f.s.Create(ctx, "/apis/karpenter.sh/v1/nodeclaims", fmt.Sprintf(`{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: %s, labels: {karpenter.sh/nodepool: default}},
		spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}`, claim))
	if err != nil {
		return err
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{"nodeName": nodeName(i), "providerID": "kwok://" + nodeName(i)}})
	if err != nil {
		return err
	}
	return f.kube.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath("/apis/karpenter.sh/v1/nodeclaims/" + claim + "/status").Body(status).Do(ctx).Error()
}

func controller(kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("00000000-0000-0000-0000-" + name[len(name)-5:] + "0000000"), Controller: &yes}}
}

func workloadName(i int) string { return fmt.Sprintf("service-%05d", i) }

var replicas = int32(podsOfDeployment)

// workload makes a Deployment and its ReplicaSet.
func (f *filling) workload(ctx context.Context, i int) error {
	name := workloadName(i)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}, Spec: podSpec(i)}
	_, err := f.kube.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = f.kube.AppsV1().ReplicaSets("default").Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: controller("Deployment", name)},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector, Template: template}}, metav1.CreateOptions{})
	return err
}

// podSpec is of the i-th workload: some ask for much CPU, some for much memory.
func podSpec(i int) corev1.PodSpec {
	shape := [][2]string{{"250m", "512Mi"}, {"500m", "1Gi"}, {"1", "1Gi"}, {"250m", "4Gi"}}[i%4]
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(shape[0]), corev1.ResourceMemory: resource.MustParse(shape[1])}}}}}
}

// pod makes a pod that runs on a node, or one of a hundred that no node holds.
func (f *filling) pod(ctx context.Context, i int) error {
	workload := i / podsOfDeployment
	name := workloadName(workload)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%02d", name, i%podsOfDeployment), Labels: map[string]string{"app": name},
		OwnerReferences: controller("ReplicaSet", name)}, Spec: podSpec(workload)}
	pending := i%100 == 99
	if !pending {
		p.Spec.NodeName = nodeName((i * 7919) % f.nodes) // spread as chance would
	}
	made, err := f.kube.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if pending {
		made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: fmt.Sprintf("0/%d nodes are available: %[1]d Insufficient cpu.", f.nodes), LastTransitionTime: metav1.Now()}}
	} else {
		made.Status.Phase = corev1.PodRunning
		made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	}
	_, err = f.kube.CoreV1().Pods("default").UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}
