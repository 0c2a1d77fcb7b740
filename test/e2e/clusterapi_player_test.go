// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// clusterAPI is the path of Cluster API's objects.
const clusterAPI = "/apis/cluster.x-k8s.io/v1beta2/namespaces/"

// machinePlayer plays Cluster API's controllers and an infrastructure provider in one namespace: it makes and deletes Machines as their groups say.
// Of Machines that nothing marks, it deletes any.
type machinePlayer struct {
	t         *testing.T
	s         *sandbox.Sandbox
	api       *client.Client
	namespace string

	mu        sync.Mutex
	rng       *rand.Rand
	hold      bool            // Machines get no provider id
	exhausted map[string]bool // by group: Machines fail
	nodes     bool            // Machines become Nodes
	made      []string        // provider ids of all Machines that there ever were
	deleted   []string        // those of Machines that were deleted
	n         int
}

func playMachines(t *testing.T, s *sandbox.Sandbox, namespace string) *machinePlayer {
	t.Helper()
	api, err := client.Connect(t.Context(), s.Kubeconfig(sandbox.Admin), 0, 0, "machine-player", client.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	p := &machinePlayer{t: t, s: s, api: api, namespace: namespace, rng: rand.New(rand.NewPCG(1, 1)), exhausted: map[string]bool{}}
	if namespace != "default" {
		p.create("/api/v1/namespaces", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}})
	}
	p.create(clusterAPI+namespace+"/clusters", map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": map[string]any{"name": "workload"}, "spec": map[string]any{"infrastructureRef": infrastructureRef()}})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		for ctx.Err() == nil {
			if err := p.play(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
				t.Logf("play Machines, again in a moment: %v", err)
			}
			_ = cloud.Wall{}.Wait(ctx, 20*time.Millisecond)
		}
	})
	t.Cleanup(func() { cancel(); run.Wait() })
	return p
}

func infrastructureRef() map[string]any {
	return map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "PlayedMachineTemplate", "name": "played"}
}

// applyClusterAPI installs the CRDs of Cluster API, and the kind of infrastructure objects that groups refer to.
func applyClusterAPI(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	if err := s.ApplyClusterAPICRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	any := `{type: object, x-kubernetes-preserve-unknown-fields: true}`
	if err := s.CreateCRD(t.Context(), `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
		metadata: {name: playedmachinetemplates.infrastructure.cluster.x-k8s.io}, spec: {group: infrastructure.cluster.x-k8s.io, scope: Namespaced,
		names: {kind: PlayedMachineTemplate, listKind: PlayedMachineTemplateList, plural: playedmachinetemplates, singular: playedmachinetemplate},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: `+any+`}}]}}`); err != nil {
		t.Fatal(err)
	}
}

// addInfrastructure creates the infrastructure objects that groups refer to: a template of a type of machine, and a pool that has Machines.
func (p *machinePlayer) addInfrastructure(machineType string) {
	p.t.Helper()
	for _, text := range []string{
		`metadata: {name: played}, spec: {template: {spec: {instanceType: ` + machineType + `}}}`,
		`metadata: {name: pool}, spec: {template: {instanceType: ` + machineType + `}}, status: {infrastructureMachineKind: PlayedMachine}`,
	} {
		testwait.UntilFor(p.t, testwait.Limit, "the infrastructure object is taken", func() error {
			return p.s.Create(p.t.Context(), "/apis/infrastructure.cluster.x-k8s.io/v1/namespaces/"+p.namespace+"/playedmachinetemplates",
				`{apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: PlayedMachineTemplate, `+text+`}`)
		})
	}
}

func (p *machinePlayer) create(path string, object map[string]any) {
	p.t.Helper()
	text, err := json.Marshal(object)
	if err == nil {
		err = p.s.Create(p.t.Context(), path, string(text))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// addGroup adds a node group of machines with some CPUs: a MachineDeployment, a MachineSet, or a MachinePool, whose infrastructure object "pool" has to
// say that it has Machines. Annotations are key and value in turn.
func (p *machinePlayer) addGroup(kind, name string, cpus int, labels map[string]string, annotations ...string) {
	p.t.Helper()
	var pairs []string
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	all := map[string]any{
		"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "0", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "30",
		"capacity.cluster-autoscaler.kubernetes.io/cpu": fmt.Sprint(cpus), "capacity.cluster-autoscaler.kubernetes.io/memory": fmt.Sprintf("%dGi", 4*cpus), "capacity.cluster-autoscaler.kubernetes.io/labels": strings.Join(pairs, ","),
	}
	for pair := range slices.Chunk(annotations, 2) {
		all[pair[0]] = pair[1]
	}
	infra := infrastructureRef()
	spec := map[string]any{"clusterName": "workload", "replicas": 0, "template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"group": name}},
		"spec":     map[string]any{"clusterName": "workload", "bootstrap": map[string]any{"dataSecretName": "none"}, "infrastructureRef": infra},
	}}
	if kind == "MachinePool" {
		infra["name"] = "pool"
	} else {
		spec["selector"] = map[string]any{"matchLabels": map[string]any{"group": name}}
	}
	p.create(clusterAPI+p.namespace+"/"+strings.ToLower(kind)+"s", map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": name, "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "workload", clusterapiv1alpha1.LabelMember: "", "group": name}, "annotations": all},
	})
}

// playedObject is what the player reads.
type playedObject struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replicas   int    `json:"replicas"`
		Paused     bool   `json:"paused"`
		ProviderID string `json:"providerID"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

func (p *machinePlayer) list(ctx context.Context, resource string) ([]playedObject, error) {
	data, err := p.api.Read(ctx, clusterAPI+p.namespace+"/"+resource, nil)
	if err != nil {
		return nil, err
	}
	var out struct{ Items []playedObject }
	err = json.Unmarshal(data, &out)
	return out.Items, err
}

// group returns a group by name.
func (p *machinePlayer) group(resource, name string) playedObject {
	p.t.Helper()
	list, err := p.list(p.t.Context(), resource)
	if err != nil {
		p.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(o playedObject) bool { return o.Metadata.Name == name })
	if i < 0 {
		p.t.Fatalf("there is no group %s", name)
	}
	return list[i]
}

func (p *machinePlayer) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *machinePlayer) everMade() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.made)
}

func (p *machinePlayer) everDeleted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.deleted)
}

// play takes one step: groups first, then each Machine.
func (p *machinePlayer) play(ctx context.Context) error {
	groups := map[string][]playedObject{}
	for _, resource := range []string{"machinedeployments", "machinesets", "machinepools"} {
		list, err := p.list(ctx, resource)
		if err != nil {
			return err
		}
		groups[resource] = list
	}
	machines, err := p.list(ctx, "machines") // after the groups: what was marked before a group was lowered is seen
	if err != nil {
		return err
	}
	for resource, list := range groups {
		for i := range list {
			if g := &list[i]; !g.Spec.Paused {
				if err := p.scale(ctx, resource, g, machines); err != nil {
					return err
				}
			}
		}
	}
	for i := range machines {
		if err := p.step(ctx, &machines[i]); err != nil {
			return err
		}
	}
	return nil
}

// scale makes or deletes Machines of a group.
func (p *machinePlayer) scale(ctx context.Context, resource string, g *playedObject, machines []playedObject) error {
	var own []playedObject
	for _, m := range machines {
		if m.Metadata.Labels["group"] == g.Metadata.Name {
			own = append(own, m)
		}
	}
	for range g.Spec.Replicas - len(own) {
		p.mu.Lock()
		p.n++
		name := fmt.Sprintf("%s-%d", g.Metadata.Name, p.n)
		p.mu.Unlock()
		labels := map[string]any{"cluster.x-k8s.io/cluster-name": "workload", "group": g.Metadata.Name}
		kind := "MachineSet"
		switch resource {
		case "machinedeployments":
			labels["cluster.x-k8s.io/deployment-name"] = g.Metadata.Name
			kind = "MachineDeployment"
		case "machinepools":
			labels["cluster.x-k8s.io/pool-name"] = g.Metadata.Name
			kind = "MachinePool"
		}
		text, err := json.Marshal(map[string]any{
			"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
			"metadata": map[string]any{"name": name, "labels": labels, "finalizers": []any{"example.com/played"}, "ownerReferences": []any{map[string]any{
				"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": g.Metadata.Name, "uid": g.Metadata.UID, "controller": true}}},
			"spec": map[string]any{"clusterName": "workload", "bootstrap": map[string]any{"dataSecretName": "none"}, "infrastructureRef": infrastructureRef()},
		})
		if err != nil {
			return err
		}
		if err := p.s.Create(ctx, clusterAPI+p.namespace+"/machines", string(text)); err != nil {
			return err
		}
	}
	if len(own) <= g.Spec.Replicas {
		return nil
	}
	p.mu.Lock()
	p.rng.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	p.mu.Unlock()
	rank := func(m playedObject) int {
		_, marked := m.Metadata.Annotations["cluster.x-k8s.io/delete-machine"]
		switch {
		case m.Metadata.DeletionTimestamp != nil:
			return 0
		case marked:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(own, func(a, b playedObject) int { return rank(a) - rank(b) })
	for _, m := range own[:len(own)-g.Spec.Replicas] {
		if m.Metadata.DeletionTimestamp == nil {
			if err := p.s.Delete(ctx, clusterAPI+p.namespace+"/machines/"+m.Metadata.Name, ""); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// step takes a Machine further on its way.
func (p *machinePlayer) step(ctx context.Context, m *playedObject) error {
	path := clusterAPI + p.namespace + "/machines/" + m.Metadata.Name
	p.mu.Lock()
	hold, fails, nodes := p.hold, p.exhausted[m.Metadata.Labels["group"]], p.nodes
	p.mu.Unlock()
	switch {
	case m.Metadata.DeletionTimestamp != nil && len(m.Metadata.Finalizers) > 0:
		if m.Spec.ProviderID != "" {
			p.set(func() { p.deleted = append(p.deleted, m.Spec.ProviderID) })
			if err := p.s.Kube.CoreV1().Nodes().Delete(ctx, m.Metadata.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return p.s.Patch(ctx, path, `{"metadata":{"finalizers":null}}`)
	case m.Metadata.DeletionTimestamp != nil || m.Spec.ProviderID != "" || m.Status.Phase != "" || hold:
		return nil
	case fails:
		return p.s.Patch(ctx, path+"/status", `{"status":{"phase":"Failed","deprecated":{"v1beta1":{"failureReason":"CreateError","failureMessage":"no capacity"}}}}`)
	}
	id := "played://" + p.namespace + "/" + m.Metadata.Name
	if nodes {
		if err := p.node(ctx, id, m); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	p.set(func() { p.made = append(p.made, id) })
	return p.s.Patch(ctx, path, `{"spec":{"providerID":"`+id+`"}}`)
}

// node makes the Node of a Machine. kwok plays its kubelet.
func (p *machinePlayer) node(ctx context.Context, id string, m *playedObject) error {
	capacity := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110")}
	made, err := p.s.Kube.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Metadata.Name, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}, Labels: map[string]string{
			"kwok.x-k8s.io/node": "fake", model.LabelArch: "amd64", model.LabelOS: "linux", testLabel: p.nodeLabel(), model.LabelZone: "z1", model.LabelInstanceType: m.Metadata.Labels["group"]}},
		Spec: corev1.NodeSpec{ProviderID: id},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Capacity, made.Status.Allocatable = capacity, capacity
	_, err = p.s.Kube.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// nodeLabel is what the pods of the live test select nodes by.
func (p *machinePlayer) nodeLabel() string { return "capi" }
