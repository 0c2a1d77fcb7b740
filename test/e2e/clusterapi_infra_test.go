// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const (
	infraGroup     = "infrastructure.cluster.x-k8s.io"
	infraMachines  = "/apis/" + infraGroup + "/v1/namespaces/default/kwokmachines"
	infraTemplates = "/apis/" + infraGroup + "/v1/namespaces/default/kwokmachinetemplates"
	infraFinalizer = infraGroup + "/kwok"
	// uninitializedTaint is what Cluster API's kubeadm bootstrap provider makes kubelets register with; the core manager takes it away.
	uninitializedTaint = "node.cluster.x-k8s.io/uninitialized"
)

// kwokInfra is an infrastructure provider of Cluster API: its machines are Nodes whose kubelets kwok plays. It is a control plane provider, too, of
// a control plane that is there already: the sandbox's.
type kwokInfra struct {
	t *testing.T
	s *sandbox.Sandbox

	mu        sync.Mutex
	hold      bool                   // machines do not come
	exhausted map[string]bool        // by template: machines fail
	never     map[string]int         // by template: so many of the next machines come without a node
	alone     map[string]bool        // names of machines that came without a node
	made      map[string]string      // by provider id of each machine that there ever was: its template
	deleted   map[string]bool        // by provider id: its machine was deleted
	shapes    map[string]corev1.Node // by template
	failed    map[string]bool        // names of machines that failed
}

// infraObject is what the provider reads of its machines.
type infraObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ProviderID string `json:"providerID"`
	} `json:"spec"`
	Status struct {
		Initialization struct {
			Provisioned bool `json:"provisioned"`
		} `json:"initialization"`
		FailureReason string `json:"failureReason"`
	} `json:"status"`
}

// startInfra installs the provider and a Cluster "workload" in namespace default whose nodes are the sandbox's own.
func startInfra(t *testing.T, s *sandbox.Sandbox) *kwokInfra {
	t.Helper()
	p := &kwokInfra{t: t, s: s, exhausted: map[string]bool{}, never: map[string]int{}, alone: map[string]bool{}, made: map[string]string{}, deleted: map[string]bool{}, shapes: map[string]corev1.Node{}, failed: map[string]bool{}}
	for _, kind := range []string{"KwokMachine", "KwokMachineTemplate", "KwokControlPlane"} {
		group := infraGroup
		if kind == "KwokControlPlane" {
			group = "controlplane.cluster.x-k8s.io"
		}
		name := strings.ToLower(kind)
		free := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		crd, err := json.Marshal(map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": name + "s." + group, "labels": map[string]any{"cluster.x-k8s.io/v1beta2": "v1"}},
			"spec": map[string]any{"group": group, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": name + "s", "singular": name, "categories": []any{"cluster-api"}},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": free, "status": free}}}}}},
		})
		p.must(err)
		p.must(s.CreateCRD(t.Context(), string(crd)))
	}
	planes := "/apis/controlplane.cluster.x-k8s.io/v1/namespaces/default/kwokcontrolplanes"
	p.create(planes, map[string]any{"apiVersion": "controlplane.cluster.x-k8s.io/v1", "kind": "KwokControlPlane", "metadata": map[string]any{"name": "workload"}, "spec": map[string]any{}})
	p.must(s.Patch(t.Context(), planes+"/workload/status", `{"status":{"initialization":{"controlPlaneInitialized":true}}}`))
	config, err := os.ReadFile(s.Kubeconfig(sandbox.Admin))
	p.must(err)
	p.create("/api/v1/namespaces/default/secrets", map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
		"metadata": map[string]any{"name": "workload-kubeconfig", "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "workload"}}, "data": map[string]any{"value": config}})
	p.create("/api/v1/namespaces/default/secrets", map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "none"}, "data": map[string]any{"value": []byte("none")}})
	p.create(clusterAPI+"default/clusters", map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"name": "workload"},
		"spec": map[string]any{"controlPlaneRef": map[string]any{"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KwokControlPlane", "name": "workload"}}})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		for ctx.Err() == nil {
			if err := p.play(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
				t.Logf("the infrastructure provider goes on in a moment: %v", err)
			}
			_ = cloud.Wall{}.Wait(ctx, 100*time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); run.Wait() })
	return p
}

func (p *kwokInfra) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// create creates an object, again while a webhook does not answer.
func (p *kwokInfra) create(path string, object map[string]any) {
	p.t.Helper()
	text, err := json.Marshal(object)
	p.must(err)
	p.must(waitFor(p.t.Context(), func(ctx context.Context) error {
		err := p.s.Create(ctx, path, string(text))
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}))
}

func (p *kwokInfra) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// addTemplate adds an infrastructure template, whose status says what its machines have.
func (p *kwokInfra) addTemplate(name, instanceType string, cpus int, labels map[string]string) {
	p.t.Helper()
	memory := fmt.Sprintf("%dGi", 4*cpus)
	have := maps.Clone(labels)
	maps.Copy(have, map[string]string{"kwok.x-k8s.io/node": "fake", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: instanceType})
	p.set(func() {
		p.shapes[name] = corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: have, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
			Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(cpus)), "memory": resource.MustParse(memory), "pods": resource.MustParse("110")}}}
	})
	p.create(infraTemplates, map[string]any{"apiVersion": infraGroup + "/v1", "kind": "KwokMachineTemplate", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"instanceType": instanceType, "template": name}}}})
	p.must(p.s.Patch(p.t.Context(), infraTemplates+"/"+name+"/status", fmt.Sprintf(`{"status":{"capacity":{"cpu":"%d","memory":%q},"nodeInfo":{"architecture":"amd64","operatingSystem":"linux"}}}`, cpus, memory)))
}

// addGroup adds a MachineDeployment of a template of its own. Annotations are key and value in turn.
func (p *kwokInfra) addGroup(name string, cpus int, labels map[string]string, annotations ...string) {
	p.t.Helper()
	p.addTemplate(name, "type-"+name, cpus, labels)
	var pairs []string
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	all := map[string]any{
		"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "0", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "60",
		"capacity.cluster-autoscaler.kubernetes.io/labels": strings.Join(pairs, ","),
	}
	for pair := range slices.Chunk(annotations, 2) {
		all[pair[0]] = pair[1]
	}
	p.create(clusterAPI+"default/machinedeployments", map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": map[string]any{"name": name, "annotations": all},
		"spec": map[string]any{"clusterName": "workload", "replicas": 0, "template": map[string]any{"spec": map[string]any{
			"clusterName": "workload", "bootstrap": map[string]any{"dataSecretName": "none"}, "infrastructureRef": map[string]any{"apiGroup": infraGroup, "kind": "KwokMachineTemplate", "name": name}}}},
	})
}

// play takes each machine a step further.
func (p *kwokInfra) play(ctx context.Context) error {
	list, err := sandbox.Get[struct{ Items []infraObject }](ctx, p.s, infraMachines)
	if err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, p.step(ctx, &list.Items[i]))
	}
	return errors.Join(errs...)
}

// step takes a machine further on its way: a Node, the provider id, provisioned; and the Node away once it is deleted.
func (p *kwokInfra) step(ctx context.Context, m *infraObject) error {
	at := infraMachines + "/" + m.Metadata.Name
	template := m.Metadata.Annotations["cluster.x-k8s.io/cloned-from-name"]
	id := "kwok-infra://" + string(m.Metadata.UID)
	p.mu.Lock()
	if m.Status.FailureReason != "" {
		p.failed[m.Metadata.Name] = true
	}
	hold, fails, shape, failed := p.hold, p.exhausted[template], p.shapes[template], p.failed[m.Metadata.Name]
	p.mu.Unlock()
	switch {
	case m.Metadata.DeletionTimestamp != nil:
		if !slices.Contains(m.Metadata.Finalizers, infraFinalizer) {
			return nil
		}
		if m.Spec.ProviderID != "" {
			p.set(func() { p.deleted[m.Spec.ProviderID] = true })
			if err := p.s.Kube.CoreV1().Nodes().Delete(ctx, m.Metadata.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return p.s.Patch(ctx, at, `{"metadata":{"finalizers":null}}`)
	case m.Status.Initialization.Provisioned:
		return nil
	case m.Spec.ProviderID != "":
		return p.s.Patch(ctx, at+"/status", `{"status":{"initialization":{"provisioned":true}}}`)
	case hold || failed || !slices.ContainsFunc(m.Metadata.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Machine" }):
		return nil // a MachineSet owns it first: who is killed before it makes the Machine makes another of both
	case fails:
		return p.s.Patch(ctx, at+"/status", `{"status":{"failureReason":"CreateError","failureMessage":"no capacity for `+template+`"}}`)
	case !slices.Contains(m.Metadata.Finalizers, infraFinalizer):
		return p.s.Patch(ctx, at, `{"metadata":{"finalizers":["`+infraFinalizer+`"]}}`)
	}
	if err := p.join(ctx, m.Metadata.Name, id, template, &shape); err != nil {
		return err
	}
	p.set(func() { p.made[id] = template })
	return p.s.Patch(ctx, at, `{"spec":{"providerID":"`+id+`"}}`)
}

// join makes the Node of a machine, unless it is one that comes without.
func (p *kwokInfra) join(ctx context.Context, name, id, template string, shape *corev1.Node) error {
	p.mu.Lock()
	if !p.alone[name] && p.never[template] > 0 {
		p.never[template]--
		p.alone[name] = true
	}
	alone := p.alone[name]
	p.mu.Unlock()
	if alone {
		return nil
	}
	node := shape.DeepCopy()
	node.Name, node.Spec.ProviderID, node.Spec.Taints = name, id, []corev1.Taint{{Key: uninitializedTaint, Effect: corev1.TaintEffectNoSchedule}}
	made, err := p.s.Kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err == nil {
		made.Status.Capacity, made.Status.Allocatable = shape.Status.Capacity, shape.Status.Capacity
		_, err = p.s.Kube.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// everMade returns how many machines there ever were, by template.
func (p *kwokInfra) everMade() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for _, template := range p.made {
		out[template]++
	}
	return out
}

// standing returns how many machines there are, by template.
func (p *kwokInfra) standing() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for id, template := range p.made {
		if !p.deleted[id] {
			out[template]++
		}
	}
	return out
}

// everDeleted returns the provider ids of all machines that were deleted.
func (p *kwokInfra) everDeleted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.deleted))
}

// coreGroup is what is read of a MachineDeployment of Cluster API's own.
type coreGroup struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Replicas           int                `json:"replicas"`
		Conditions         []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// groups returns all MachineDeployments, by name.
func (p *kwokInfra) groups() (map[string]coreGroup, error) {
	list, err := sandbox.Get[struct{ Items []coreGroup }](p.t.Context(), p.s, clusterAPI+"default/machinedeployments")
	if err != nil {
		return nil, err
	}
	out := map[string]coreGroup{}
	for _, g := range list.Items {
		out[g.Metadata.Name] = g
	}
	return out, nil
}
