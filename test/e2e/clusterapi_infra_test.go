// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const (
	infraGroup     = "infrastructure.cluster.x-k8s.io"
	planeGroup     = "controlplane.cluster.x-k8s.io"
	infraMachines  = "/apis/" + infraGroup + "/v1/namespaces/default/kwokmachines"
	infraTemplates = "/apis/" + infraGroup + "/v1/namespaces/default/kwokmachinetemplates"
	infraFinalizer = infraGroup + "/kwok"
	// uninitializedTaint is what Cluster API's kubeadm bootstrap provider makes kubelets register with; the core manager takes it away.
	uninitializedTaint = "node.cluster.x-k8s.io/uninitialized"
)

// kwokInfra is an infrastructure provider of Cluster API: its machines are Nodes whose kubelets kwok plays. It is a control plane provider, too, of
// a control plane that is there already: the sandbox's.
type kwokInfra struct {
	t testing.TB
	s *sandbox.Sandbox

	mu        sync.Mutex
	hold      bool                    // machines do not come
	boot      time.Duration           // mean time from when a machine is made until its Node is, 10 % more or less as in the simulated cloud
	due       map[types.UID]time.Time // by machine: when its Node is made
	exhausted map[string]bool         // by template: machines fail
	never     map[string]int          // by template: so many of the next machines come without a node
	alone     map[string]bool         // names of machines that came without a node
	made      map[string]string       // by provider id of each machine that there ever was: its template
	deleted   map[string]bool         // by provider id: its machine was deleted
	shapes    map[string]corev1.Node  // by template
	failed    map[string]bool         // names of machines that failed
}

// infraObject is what the provider reads of its machines.
type infraObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ProviderID string `json:"providerID"`
		Template   string `json:"template"` // name of the template that it is a copy of, or a copy of a copy
	} `json:"spec"`
	Status struct {
		Initialization struct {
			Provisioned bool `json:"provisioned"`
		} `json:"initialization"`
		FailureReason string `json:"failureReason"`
	} `json:"status"`
}

// startInfra installs the provider and a Cluster "workload" in namespace default whose nodes are the sandbox's own.
func startInfra(t testing.TB, s *sandbox.Sandbox) *kwokInfra {
	t.Helper()
	p := &kwokInfra{t: t, s: s, due: map[types.UID]time.Time{}, exhausted: map[string]bool{}, never: map[string]int{}, alone: map[string]bool{}, made: map[string]string{}, deleted: map[string]bool{}, shapes: map[string]corev1.Node{}, failed: map[string]bool{}}
	p.addKinds(infraGroup, "KwokMachine", "KwokMachineTemplate")
	p.addKinds(planeGroup, "KwokControlPlane")
	planes := "/apis/" + planeGroup + "/v1/namespaces/default/kwokcontrolplanes"
	p.create(planes, map[string]any{"apiVersion": planeGroup + "/v1", "kind": "KwokControlPlane", "metadata": map[string]any{"name": "workload"}, "spec": map[string]any{}})
	p.must(s.Patch(t.Context(), planes+"/workload/status", `{"status":{"initialization":{"controlPlaneInitialized":true}}}`))
	p.addKubeconfig("workload")
	p.create("/api/v1/namespaces/default/secrets", map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "none"}, "data": map[string]any{"value": []byte("none")}})
	p.create(clusterAPI+"default/clusters", map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"name": "workload"},
		"spec": map[string]any{"controlPlaneRef": map[string]any{"apiGroup": planeGroup, "kind": "KwokControlPlane", "name": "workload"}}})
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

// addKinds adds kinds of objects whose spec and status are not checked.
func (p *kwokInfra) addKinds(group string, kinds ...string) {
	p.t.Helper()
	for _, kind := range kinds {
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
		p.must(p.s.CreateCRD(p.t.Context(), string(crd)))
	}
}

// addKubeconfig adds the Secret by which Cluster API reaches the nodes of a Cluster.
func (p *kwokInfra) addKubeconfig(cluster string) {
	p.t.Helper()
	config, err := os.ReadFile(p.s.Kubeconfig(sandbox.Admin))
	p.must(err)
	p.create("/api/v1/namespaces/default/secrets", map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
		"metadata": map[string]any{"name": cluster + "-kubeconfig", "labels": map[string]any{"cluster.x-k8s.io/cluster-name": cluster}}, "data": map[string]any{"value": config}})
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
		if apierrors.IsInvalid(err) {
			p.t.Fatalf("create %s: %v", path, err)
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
	p.addShape(name, instanceType, corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(cpus)), "memory": resource.MustParse(fmt.Sprintf("%dGi", 4*cpus)), "pods": resource.MustParse("110")}, labels)
}

// addShape adds an infrastructure template of machines with these resources.
func (p *kwokInfra) addShape(name, instanceType string, resources corev1.ResourceList, labels map[string]string) {
	p.t.Helper()
	have := maps.Clone(labels)
	maps.Copy(have, map[string]string{"kwok.x-k8s.io/node": "fake", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: instanceType})
	p.set(func() {
		p.shapes[name] = corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: have, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
			Status: corev1.NodeStatus{Capacity: resources}}
	})
	p.create(infraTemplates, map[string]any{"apiVersion": infraGroup + "/v1", "kind": "KwokMachineTemplate", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"instanceType": instanceType, "template": name}}}})
	capacity, err := json.Marshal(resources)
	p.must(err)
	p.must(p.s.Patch(p.t.Context(), infraTemplates+"/"+name+"/status", `{"status":{"capacity":`+string(capacity)+`,"nodeInfo":{"architecture":"amd64","operatingSystem":"linux"}}}`))
}

// addGroup adds a MachineDeployment of a template of its own. Annotations are key and value in turn.
func (p *kwokInfra) addGroup(name string, cpus int, labels map[string]string, annotations ...string) {
	p.t.Helper()
	p.addTemplate(name, "type-"+name, cpus, labels)
	p.addDeployment(name, labels, annotations...)
}

// addDeployment adds a MachineDeployment of the template of its name.
func (p *kwokInfra) addDeployment(name string, labels map[string]string, annotations ...string) {
	p.t.Helper()
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
	own := map[string]any{"cluster.x-k8s.io/cluster-name": "workload", deploymentLabel: name}
	p.create(clusterAPI+"default/machinedeployments", map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": map[string]any{"name": name, "labels": own, "annotations": all},
		"spec": map[string]any{"clusterName": "workload", "replicas": 0, "selector": map[string]any{"matchLabels": own}, "template": map[string]any{"metadata": map[string]any{"labels": own}, "spec": map[string]any{
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
	template := m.Spec.Template
	id := "kwok-infra://" + string(m.Metadata.UID)
	p.mu.Lock()
	if m.Status.FailureReason != "" {
		p.failed[m.Metadata.Name] = true
	}
	hold, fails, shape, failed := p.hold || p.boots(m.Metadata.UID), p.exhausted[template], p.shapes[template], p.failed[m.Metadata.Name]
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

// boots reports whether a machine still boots. p.mu is held.
func (p *kwokInfra) boots(machine types.UID) bool {
	if p.boot == 0 {
		return false
	}
	if _, seen := p.due[machine]; !seen {
		p.due[machine] = time.Now().Add(time.Duration(float64(p.boot) * (0.9 + 0.2*rand.Float64())))
	}
	return time.Now().Before(p.due[machine])
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
