// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func wantErr(t *testing.T, err, want error, words string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), words) {
		t.Fatalf("got error %v, want %v that says %q", err, want, words)
	}
}

func (p *plane) makePool(t *testing.T, name string) *karpv1.NodePool {
	t.Helper()
	if err := kubetest.Kubectl([]byte(fmt.Sprintf(`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":%q},"spec":{"template":{
		"metadata":{"labels":{"team":"a"},"annotations":{"note":"b"}},"spec":{
		"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"},
		"requirements":[{"key":"kubernetes.io/arch","operator":"In","values":["amd64"]},{"key":"node.kubernetes.io/instance-type","operator":"Exists","minValues":2}],
		"taints":[{"key":"only","value":"us","effect":"NoSchedule"}],"terminationGracePeriod":"10m"}},
		"limits":{"cpu":"10","nodes":"3"}}}`, name)), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	var out karpv1.NodePool
	if err := p.admin.Karpenter.Get().Resource("nodepools").Name(name).Do(p.ctx).Into(&out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func (p *plane) makeNode(t *testing.T, name string, taints ...corev1.Taint) *corev1.Node {
	t.Helper()
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
	n.Name, n.Spec.Taints, n.Spec.ProviderID = name, taints, "test://"+name
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("4"), "pods": resource.MustParse("10")}
	var out corev1.Node
	if err := p.admin.Core.Post().Resource("nodes").Body(n).Do(p.ctx).Into(&out); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := p.admin.Core.Delete().Resource("nodes").Name(name).Do(context.Background()).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return &out
}

func (p *plane) makePod(t *testing.T, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	pod.Name, pod.Namespace, pod.Labels = name, "default", map[string]string{"app": name}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")},
	}}}
	if change != nil {
		change(pod)
	}
	var out corev1.Pod
	if err := p.admin.Core.Post().Namespace("default").Resource("pods").Body(pod).Do(p.ctx).Into(&out); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		zero := int64(0)
		err := p.admin.Core.Delete().Namespace("default").Resource("pods").Name(name).Body(&metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, GracePeriodSeconds: &zero}).Do(context.Background()).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return &out
}

func TestConnectNamesTheAddress(t *testing.T) {
	config := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n" +
		"contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	file := t.TempDir() + "/config"
	if err := writeFile(file, config); err != nil {
		t.Fatal(err)
	}
	_, err := client.Connect(t.Context(), file, 0, 0, "test", client.ReadWrite)
	if err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1") || !strings.Contains(err.Error(), "refused") {
		t.Fatalf("got %v, want an error that names the address and says that it refused", err)
	}
}

// A claim's whole life as the actor writes it and the watch shows it.
func TestClaim(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	object := p.makePool(t, "life")
	w.until("the pool", func(s *state.State) bool { return s.Pools.FindPool("life") != nil })
	pool := w.s.Pools.FindPool("life")
	if !pool.Ready || pool.NodeLimit != 3 || pool.Limits.At(model.CPU) != 10_000 || pool.TerminationGracePeriod != 10*time.Minute ||
		pool.ExpireAfter != 720*time.Hour || pool.ConsolidateAfter != 0 || len(pool.Budgets) != 1 || pool.Budgets[0].Nodes != 10 {
		t.Fatalf("pool came out as %+v", pool)
	}
	if h := must(object.Hash())(t); pool.Hash != h || h == "" {
		t.Fatalf("hash %q, want %q", pool.Hash, h)
	}

	gpu := p.objects.Table.Dim("example.com/gpu")
	slots := []model.Slot{{Class: "abc", Owner: "u1", Count: 2, Requests: model.Resources{500}.With(gpu, 1)}}
	create := plan.CreateClaim{
		Name: "life-1", Pool: pool, Requirements: pool.Requirements.With(model.OneOf(model.LabelZone, "z1")),
		Requests: model.Resources{1500, 1 << 30, 0, 3}.With(gpu, 1), Slots: slots, Reserved: true,
	}
	v := must(p.actor.CreateClaim(p.ctx, create))(t)
	if again := must(p.actor.CreateClaim(p.ctx, create))(t); again != v {
		t.Fatalf("a repeated create answered version %d, want %d", again, v)
	}
	w.until("the claim", func(s *state.State) bool { return s.FindClaim("life-1") != nil })
	c := w.s.FindClaim("life-1")
	if c.Pool != "life" || !c.HasFinalizer || !c.Reserved || len(c.Slots) != 1 || !reflect.DeepEqual(c.Slots, slots) || !c.Requests.Equal(create.Requests) ||
		c.Labels["team"] != "a" || c.Labels["karpenter.kwok.sh/kwoknodeclass"] != "default" || c.Annotations["note"] != "b" ||
		c.Annotations[karpv1.AnnotationNodePoolHash] != pool.Hash || c.Annotations[karpv1.AnnotationNodePoolHashVersion] != "v3" ||
		c.ExpireAfter != 720*time.Hour || c.TerminationGracePeriod != 10*time.Minute || len(c.Taints) != 1 {
		t.Fatalf("claim came out as %+v", c)
	}
	if got, want := c.Requirements.String(), create.Requirements.String(); got != want {
		t.Fatalf("requirements came out as\n%s\nwant\n%s", got, want)
	}

	claimed := func(want bool, m plan.Terminate) {
		t.Helper()
		if is := must(p.actor.Claimed(p.ctx, m))(t); is != want {
			t.Errorf("machine %+v is claimed: %t", m, is)
		}
	}
	claimed(true, plan.Terminate{ProviderID: "test://1", Of: c.Name, OfUID: c.UID})
	claimed(true, plan.Terminate{ProviderID: "test://1", OfUID: c.UID})
	claimed(false, plan.Terminate{ProviderID: "test://1", Of: c.Name, OfUID: "other"})
	claimed(false, plan.Terminate{ProviderID: "test://1", Of: "other", OfUID: "other"})
	v = must(p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{
		Claim: c.Name, UID: c.UID, ProviderID: "test://1", ImageID: "img", Labels: map[string]string{model.LabelZone: "z1"},
		Conditions: map[string]model.Condition{karpv1.ConditionLaunched: {Status: "True"}},
		Capacity:   model.Resources{4000, 8 << 30, 0, 110}, Allocatable: model.Resources{3900, 7 << 30, 0, 110},
	}))(t)
	// The next write builds on it at once, whether or not the watch has brought it.
	v2 := must(p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{
		Claim: c.Name, UID: c.UID, NodeName: "n1", Conditions: map[string]model.Condition{karpv1.ConditionRegistered: {Status: "True"}},
		SetSlots: true, Annotations: map[string]string{"note": plan.Unset},
	}))(t)
	if v2 <= v {
		t.Fatalf("version %d after %d", v2, v)
	}
	w.until("launch and registration", func(s *state.State) bool { return s.FindClaim("life-1").NodeName == "n1" })
	c = w.s.FindClaim("life-1")
	if c.ProviderID != "test://1" || c.ImageID != "img" || !c.Is(karpv1.ConditionLaunched) || !c.Is(karpv1.ConditionRegistered) ||
		c.Conditions[karpv1.ConditionInitialized].Status != "Unknown" || c.Conditions[karpv1.ConditionReady].Status != "Unknown" ||
		c.Conditions[karpv1.ConditionReady].Message != "Initialized=Unknown" || c.Labels[model.LabelZone] != "z1" ||
		c.Capacity.At(model.CPU) != 4000 || c.Allocatable.At(model.Memory) != 7<<30 || len(c.Slots) != 0 || c.Annotations["note"] != "" {
		t.Fatalf("claim came out as %+v", c)
	}
	claimed(true, plan.Terminate{ProviderID: "test://1", Of: c.Name, OfUID: "other"}) // restored from a copy, say
	claimed(false, plan.Terminate{ProviderID: "test://2", Of: c.Name, OfUID: c.UID})
	claimed(false, plan.Terminate{ProviderID: "test://2", OfUID: c.UID})
	since := c.Conditions[karpv1.ConditionLaunched].Since
	again := must(p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{
		Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{karpv1.ConditionRegistered: {Status: "True"}},
	}))(t)
	if again != v2 {
		t.Fatalf("a change that changes nothing made version %d of %d", again, v2)
	}
	must(p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{
		Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{karpv1.ConditionInitialized: {Status: "True"}},
	}))(t)
	w.until("Ready", func(s *state.State) bool { return s.FindClaim("life-1").Is(karpv1.ConditionReady) })
	if s := w.s.FindClaim("life-1").Conditions[karpv1.ConditionLaunched].Since; !s.Equal(since) {
		t.Fatalf("Launched moved from %v to %v", since, s)
	}

	_, err := p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{Claim: c.Name, UID: "other", NodeName: "x"})
	wantErr(t, err, plan.ErrGone, "life-1")
	_, err = p.actor.DeleteClaim(p.ctx, plan.DeleteClaim{Claim: c.Name, UID: "other"})
	wantErr(t, err, plan.ErrGone, "life-1")
	must(p.actor.DeleteClaim(p.ctx, plan.DeleteClaim{Claim: c.Name, UID: c.UID}))(t)
	w.until("its end asked for", func(s *state.State) bool { return !s.FindClaim("life-1").Deleting.IsZero() })
	must(p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{
		Claim: c.Name, UID: c.UID, RemoveFinalizer: true, Conditions: map[string]model.Condition{karpv1.ConditionDrained: {Status: "True"}},
	}))(t)
	w.until("its end", func(s *state.State) bool { return s.FindClaim("life-1") == nil })
	claimed(false, plan.Terminate{ProviderID: "test://1", Of: c.Name, OfUID: c.UID})
	_, err = p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{Claim: c.Name, UID: c.UID, NodeName: "x"})
	wantErr(t, err, plan.ErrGone, "life-1")

	bad := create
	bad.Name, bad.Requirements = "life-2", pool.Requirements.With(model.OneOf(corev1.LabelArchStable, "vax"))
	_, err = p.actor.CreateClaim(p.ctx, bad)
	wantErr(t, err, plan.ErrInvalid, "kubernetes.io/arch")
	bad = create
	bad.Name = "Life 3"
	_, err = p.actor.CreateClaim(p.ctx, bad)
	wantErr(t, err, plan.ErrInvalid, "Life 3")
}

func TestPoolAndClass(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	p.makePool(t, "status")
	if err := kubetest.Kubectl([]byte(`{"apiVersion":"karpenter.kwok.sh/v1alpha1","kind":"KWOKNodeClass","metadata":{"name":"slow"},"spec":{"nodeRegistrationDelay":"7s"}}`),
		"create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	class := func(s *state.State) *state.NodeClass {
		return s.Pools.FindNodeClass(kwokv1alpha1.Group, kwokv1alpha1.KindKWOKNodeClass, "slow")
	}
	w.until("pool and class", func(s *state.State) bool { return s.Pools.FindPool("status") != nil && class(s) != nil })
	if c := class(w.s); c.RegistrationDelay != 7*time.Second || string(c.Spec) != `{"nodeRegistrationDelay":"7s"}` || !c.Conditions["Ready"].True() {
		t.Fatalf("class came out as %+v", c)
	}
	pool := w.s.Pools.FindPool("status")
	u := plan.UpdatePool{
		Pool: "status", UID: pool.UID, Hash: pool.Hash, Nodes: 2, Resources: model.Resources{8000, 1 << 34, 0, 220},
		Conditions: map[string]model.Condition{
			karpv1.ConditionValidationSucceeded: {Status: "True"},
			karpv1.ConditionNodeClassReady:      {Status: "False", Reason: karpv1.ReasonNodeClassNotFound, Message: "no such class"},
		},
	}
	v := must(p.actor.UpdatePool(p.ctx, u))(t)
	if again := must(p.actor.UpdatePool(p.ctx, u))(t); again != v {
		t.Fatalf("a change that changes nothing made version %d of %d", again, v)
	}
	var out karpv1.NodePool
	if err := p.admin.Karpenter.Get().Resource("nodepools").Name("status").Do(p.ctx).Into(&out); err != nil {
		t.Fatal(err)
	}
	conds := translate.Conditions(out.Status.Conditions)
	cpu, nodes := out.Status.Resources["cpu"], out.Status.Resources["nodes"]
	if cpu.String() != "8" || nodes.String() != "2" || *out.Status.Nodes != 2 || out.Annotations[karpv1.AnnotationNodePoolHash] != pool.Hash ||
		conds[karpv1.ConditionReady].Status != "False" || conds[karpv1.ConditionReady].Message != "NodeClassReady=False" {
		t.Fatalf("pool came out as %+v", out)
	}
	must(p.actor.UpdateNodeClass(p.ctx, plan.UpdateNodeClass{
		Group: kwokv1alpha1.Group, Kind: kwokv1alpha1.KindKWOKNodeClass, Name: "slow",
		Conditions: map[string]model.Condition{"Ready": {Status: "False", Reason: "Broken", Message: "because"}},
	}))(t)
	w.until("class not ready", func(s *state.State) bool { return class(s).Conditions["Ready"].Status == "False" })
}

// A NodeOverlay comes through the watch and its conditions are written, by the controller's own rights.
func TestOverlayStatus(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	if err := kubetest.Kubectl([]byte(`{"apiVersion":"karpenter.sh/v1alpha1","kind":"NodeOverlay","metadata":{"name":"committed"},"spec":{"weight":5,
		"priceAdjustment":"-10%","capacity":{"example.com/fuse":"3"},"requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}`),
		"create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	overlay := func(s *state.State) *state.NodeOverlay {
		for _, o := range s.Pools.ListNodeOverlays() {
			if o.Name == "committed" {
				return o
			}
		}
		return nil
	}
	w.until("the overlay", func(s *state.State) bool { return overlay(s) != nil })
	o := overlay(w.s)
	if o.Weight != 5 || o.Price.Apply(100) != 90 || len(o.Capacity) != 1 || o.Capacity[0].Amount != 3 || o.Invalid != "" || len(o.Requirements) != 1 {
		t.Fatalf("came as %+v", o)
	}
	u := plan.UpdateNodeOverlay{Overlay: o.Name, UID: o.UID, Conditions: map[string]model.Condition{
		"ValidationSucceeded": {Status: "False", Reason: "Conflict", Message: "with another"}, "Ready": {Status: "False", Reason: "UnhealthyDependents"}}}
	v := must(p.actor.UpdateNodeOverlay(p.ctx, u))(t)
	w.until("its conditions", func(s *state.State) bool { return overlay(s).Conditions["ValidationSucceeded"].Reason == "Conflict" })
	if again := must(p.actor.UpdateNodeOverlay(p.ctx, u))(t); again != v {
		t.Fatalf("a change that changes nothing made version %d of %d", again, v)
	}
	if err := kubetest.Kubectl(nil, "delete", "nodeoverlay", "committed"); err != nil {
		t.Fatal(err)
	}
	w.until("its end", func(s *state.State) bool { return overlay(s) == nil })
}

// A ClusterAPINodeClass is seen, and its status is written and seen again. One of another uid is asked for before it passes for gone.
func TestClusterAPIClass(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	if err := kubetest.Kubectl([]byte(`{"apiVersion":"karpenter.cluster.x-k8s.io/v1alpha1","kind":"ClusterAPINodeClass","metadata":{"name":"members"},"spec":{
		"scalableResourceSelector":{"matchLabels":{"tier":"a"}}}}`), "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	class := func(s *state.State) *state.NodeClass {
		return s.Pools.FindNodeClass(clusterapiv1alpha1.Group, clusterapiv1alpha1.KindClusterAPINodeClass, "members")
	}
	w.until("the class", func(s *state.State) bool { return class(s) != nil })
	u := plan.UpdateNodeClass{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.KindClusterAPINodeClass, Name: "members", UID: class(w.s).UID,
		Status: []byte(`{"groups":[{"name":"g","min":1,"max":3,"desired":2}]}`), Conditions: map[string]model.Condition{"Ready": {Status: "True", Reason: "Ready"}}}
	v := must(p.actor.UpdateNodeClass(p.ctx, u))(t)
	w.until("its groups", func(s *state.State) bool { return len(class(s).Groups) == 1 && class(s).Groups[0].Max == 3 })
	if again := must(p.actor.UpdateNodeClass(p.ctx, u))(t); again != v {
		t.Fatalf("a change that changes nothing made version %d of %d", again, v)
	}
	// Another program's CustomResourceDefinition has conditions alone.
	const crd = "clusterapinodeclasses.karpenter.cluster.x-k8s.io"
	const schema = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/"
	if err := kubetest.Kubectl(nil, "patch", "customresourcedefinition", crd, "--type=json", "-p", `[{"op":"remove","path":"`+schema+`groups"},{"op":"remove","path":"`+schema+`rules"}]`); err != nil {
		t.Fatal(err)
	}
	stored := func(s *state.State) model.Condition { return class(s).Conditions["StatusStored"] }
	testwait.Until(t, "the class says that its status is not stored", func() error { // the API server takes the schema after a while
		u.Conditions["Ready"] = model.Condition{Status: "True", Reason: "Ready", Message: time.Now().String()}
		must(p.actor.UpdateNodeClass(p.ctx, u))(t)
		w.until("the class as it was written", func(s *state.State) bool {
			return class(s).Conditions["Ready"].Message == u.Conditions["Ready"].Message
		})
		if c := stored(w.s); c.Status != "False" || !strings.Contains(c.Message, "status.groups: not stored, because CustomResourceDefinition clusterapinodeclasses.karpenter.cluster.x-k8s.io") {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if err := kubetest.Kubectl(nil, "apply", "--server-side", "--force-conflicts", "-f", "../../charts/dovetail/crds/karpenter.cluster.x-k8s.io_clusterapinodeclasses.yaml"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the class says that its status is stored", func() error {
		u.Conditions["Ready"] = model.Condition{Status: "True", Reason: "Ready", Message: time.Now().String()}
		must(p.actor.UpdateNodeClass(p.ctx, u))(t)
		w.until("the class as it was written", func(s *state.State) bool {
			return class(s).Conditions["Ready"].Message == u.Conditions["Ready"].Message
		})
		if c := stored(w.s); c.Status != "True" || len(class(w.s).Groups) != 1 {
			return fmt.Errorf("%+v, groups %v", c, class(w.s).Groups)
		}
		return nil
	})
	other := u
	other.UID = "11111111-2222-3333-4444-555555555555"
	_, err := p.actor.UpdateNodeClass(p.ctx, other)
	wantErr(t, err, plan.ErrGone, "members")
}

// A node class that people made gets its provider's finalizer, keeps everybody else's, and goes when ours goes last. Of finalizers the
// controller's identity may touch that one only.
func TestClassFinalizer(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	if err := kubetest.Kubectl([]byte(`{"apiVersion":"karpenter.k8s.aws/v1","kind":"EC2NodeClass","metadata":{"name":"ends","finalizers":["example.com/theirs"]},"spec":{
		"role":"r","amiSelectorTerms":[{"alias":"al2023@latest"}],"subnetSelectorTerms":[{"id":"subnet-1"}],"securityGroupSelectorTerms":[{"id":"sg-1"}]}}`),
		"create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	class := func(s *state.State) *state.NodeClass {
		return s.Pools.FindNodeClass(awsv1.Group, awsv1.KindEC2NodeClass, "ends")
	}
	w.until("the class", func(s *state.State) bool { return class(s) != nil })
	u := plan.UpdateNodeClass{Group: awsv1.Group, Kind: awsv1.KindEC2NodeClass, Name: "ends", UID: class(w.s).UID, AddFinalizer: true}
	v := must(p.actor.UpdateNodeClass(p.ctx, u))(t)
	if again := must(p.actor.UpdateNodeClass(p.ctx, u))(t); again != v {
		t.Fatalf("a change that changes nothing made version %d of %d", again, v)
	}
	w.until("its finalizer", func(s *state.State) bool { return class(s).HasFinalizer })
	other := u
	other.UID = "11111111-2222-3333-4444-555555555555"
	_, err := p.actor.UpdateNodeClass(p.ctx, other)
	wantErr(t, err, plan.ErrGone, "ends")
	for what, list := range map[string]string{
		"take another's finalizer": `["karpenter.k8s.aws/termination"]`, "add another finalizer": `["karpenter.k8s.aws/termination","example.com/theirs","example.com/more"]`,
	} {
		_, err := p.us.AWS.Patch(types.MergePatchType).Resource("ec2nodeclasses").Name("ends").Body([]byte(`{"metadata":{"finalizers":` + list + `}}`)).Do(p.ctx).Get()
		if err == nil || !strings.Contains(err.Error(), "dovetail-own-objects") {
			t.Errorf("it may %s, or the policy does not say why not: %v", what, err)
		}
	}
	if err := kubetest.Kubectl(nil, "delete", "ec2nodeclass", "ends", "--wait=false"); err != nil {
		t.Fatal(err)
	}
	w.until("its end asked for", func(s *state.State) bool { return !class(s).Deleting.IsZero() })
	must(p.actor.UpdateNodeClass(p.ctx, plan.UpdateNodeClass{
		Group: u.Group, Kind: u.Kind, Name: u.Name, Conditions: map[string]model.Condition{"Ready": {Status: "False", Reason: "Waits", Message: "for claims"}},
	}))(t)
	u.AddFinalizer, u.RemoveFinalizer = false, true
	must(p.actor.UpdateNodeClass(p.ctx, u))(t)
	w.until("its finalizer gone", func(s *state.State) bool { return !class(s).HasFinalizer })
	if err := kubetest.Kubectl(nil, "patch", "ec2nodeclass", "ends", "--type=merge", "-p", `{"metadata":{"finalizers":[]}}`); err != nil {
		t.Fatal(err)
	}
	w.until("its end", func(s *state.State) bool { return class(s) == nil })
	_, err = p.actor.UpdateNodeClass(p.ctx, u)
	wantErr(t, err, plan.ErrGone, "ends")
	_, err = p.actor.UpdateNodeClass(p.ctx, plan.UpdateNodeClass{Group: kwokv1alpha1.Group, Kind: kwokv1alpha1.KindKWOKNodeClass, Name: "any", AddFinalizer: true})
	wantErr(t, err, plan.ErrInvalid, "finalizer")
}

func TestNode(t *testing.T) {
	p := newPlane(t)
	sent := p.countWrites()
	w := p.watch(t)
	n := p.makeNode(t, "node-a", corev1.Taint{Key: "karpenter.sh/unregistered", Effect: "NoExecute"})
	w.until("the node", func(s *state.State) bool { return len(s.Snapshot(time.Time{}).Nodes) > 0 })
	node := func(s *state.State) *model.Node {
		for _, n := range s.Snapshot(time.Time{}).Nodes {
			if n.Name == "node-a" {
				return n
			}
		}
		return nil
	}
	// Registration: one taint for another in one patch, labels, finalizer and owner with it.
	u := plan.UpdateNode{
		Node: n.Name, UID: string(n.UID), Labels: map[string]string{karpv1.LabelRegistered: "true", "team": "a"},
		Annotations: map[string]string{"x": "y"}, AddTaints: []model.Taint{{Key: model.TaintReserved, Value: "c1", Effect: model.NoSchedule}},
		RemoveTaints: []model.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}}, AddFinalizer: true,
		OwnerClaim: "c1", OwnerUID: "11111111-2222-3333-4444-555555555555",
	}
	must(p.actor.UpdateNode(p.ctx, u))(t)
	once := sent.Load()
	if once == 0 {
		t.Fatal("a change of a node was not sent")
	}
	// Its version would not tell: the node lifecycle controller may taint a node that is not Ready at any moment.
	must(p.actor.UpdateNode(p.ctx, u))(t)
	if again := sent.Load() - once; again != 0 {
		t.Fatalf("a change that changes nothing was sent, in %d requests", again)
	}
	// What another writer did since is kept: the actor's own copy is outdated now.
	if err := kubetest.Kubectl(nil, "taint", "node", "node-a", "other=1:NoSchedule"); err != nil {
		t.Fatal(err)
	}
	must(p.actor.UpdateNode(p.ctx, plan.UpdateNode{
		Node: n.Name, UID: string(n.UID), RemoveTaints: []model.Taint{{Key: model.TaintReserved, Effect: model.NoSchedule}},
		Labels: map[string]string{karpv1.LabelInitialized: "true", "team": plan.Unset, "node-role.kubernetes.io/worker": ""},
	}))(t)
	w.until("initialized", func(s *state.State) bool {
		x := node(s)
		return x != nil && x.Labels[karpv1.LabelInitialized] == "true"
	})
	x := node(w.s)
	_, team := x.Labels["team"]
	_, worker := x.Labels["node-role.kubernetes.io/worker"]
	if team || !worker || len(x.Taints) == 0 || x.Taints[0] != (model.Taint{Key: "other", Value: "1", Effect: "NoSchedule"}) || !x.HasFinalizer ||
		x.Annotations["x"] != "y" || x.ProviderID != "test://node-a" || x.Allocatable.At(model.CPU) != 4000 {
		t.Fatalf("node came out as %+v", x)
	}
	for _, y := range x.Taints {
		if y.Key == model.TaintReserved || y.Key == model.TaintUnregistered {
			t.Fatalf("taint %v is still there", y)
		}
	}
	_, err := p.actor.UpdateNode(p.ctx, plan.UpdateNode{Node: n.Name, UID: "other", AddFinalizer: true})
	wantErr(t, err, plan.ErrGone, "node-a")
	must(p.actor.DeleteNode(p.ctx, plan.DeleteNode{Node: n.Name, UID: string(n.UID)}))(t)
	w.until("its end asked for", func(s *state.State) bool { return !node(s).Deleting.IsZero() })
	must(p.actor.UpdateNode(p.ctx, plan.UpdateNode{Node: n.Name, UID: string(n.UID), RemoveFinalizer: true}))(t)
	w.until("its end", func(s *state.State) bool { return node(s) == nil })
	_, err = p.actor.DeleteNode(p.ctx, plan.DeleteNode{Node: n.Name, UID: string(n.UID)})
	wantErr(t, err, plan.ErrGone, "node-a")
}

func TestTolerate(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	for _, c := range []struct {
		name string
		bare bool
	}{{"usual", false}, {"bare", true}} {
		t.Run(c.name, func(t *testing.T) {
			pod := p.makePod(t, "tolerate-"+c.name, nil)
			if c.bare {
				// Admission's two tolerations can't be taken away again, so a pod without any is made where admission leaves it alone.
				pod = p.makePod(t, "tolerate-none", func(p *corev1.Pod) { p.Spec.Tolerations = nil; p.Spec.HostNetwork = false })
			}
			key := "default/" + pod.Name
			w.until("the pod", func(s *state.State) bool { return s.FindPod(key) != nil })
			class := w.s.FindPod(key).Class
			must(p.actor.Tolerate(p.ctx, plan.Tolerate{Namespace: "default", Pod: pod.Name, UID: string(pod.UID), Claim: "c1"}))(t)
			w.until("the toleration", func(s *state.State) bool { return s.FindPod(key).ReservedFor == "c1" })
			if w.s.FindPod(key).Class != class {
				t.Fatalf("the pod's class changed from\n%s\nto\n%s", class.Key, w.s.FindPod(key).Class.Key)
			}
			must(p.actor.Tolerate(p.ctx, plan.Tolerate{Namespace: "default", Pod: pod.Name, UID: string(pod.UID), Claim: "c2"}))(t)
			w.until("the second toleration", func(s *state.State) bool { return s.FindPod(key).ReservedFor == "c2" })
			if r := w.s.FindPod(key).Reservations; len(r) != 2 {
				t.Fatalf("reservations %v", r)
			}
		})
	}
	pod := p.makePod(t, "tolerate-other", nil)
	_, err := p.actor.Tolerate(p.ctx, plan.Tolerate{Namespace: "default", Pod: pod.Name, UID: "other", Claim: "c1"})
	wantErr(t, err, plan.ErrGone, "default/tolerate-other")
	_, err = p.actor.Tolerate(p.ctx, plan.Tolerate{Namespace: "default", Pod: "no-such", UID: "other", Claim: "c1"})
	wantErr(t, err, plan.ErrGone, "default/no-such")
	_, err = p.actor.Tolerate(p.ctx, plan.Tolerate{Namespace: "default", Pod: pod.Name, UID: string(pod.UID), Claim: "not a label value"})
	wantErr(t, err, plan.ErrInvalid, "default/tolerate-other")
}

// Deletion costs are set, changed and removed, but for those that a user has set.
func TestDeletionCostsWritten(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	write := func(pod *corev1.Pod, cost string) error {
		return p.actor.WriteDeletionCost(p.ctx, deletioncost.Write{Namespace: "default", Pod: pod.Name, UID: string(pod.UID), Cost: cost})
	}
	until := func(pod *corev1.Pod, cost, own string) {
		t.Helper()
		w.until("deletion cost "+cost, func(s *state.State) bool {
			x := s.FindPod("default/" + pod.Name)
			return x != nil && x.DeletionCost == cost && x.OwnDeletionCost == own
		})
	}
	pod := p.makePod(t, "cost", nil)
	for _, cost := range []string{"-3", "-2147483648", ""} {
		for range 2 { // twice is once
			if err := write(pod, cost); err != nil {
				t.Fatal(err)
			}
		}
		until(pod, cost, cost)
	}
	users := p.makePod(t, "cost-of-user", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "7"} })
	wantErr(t, write(users, "-3"), plan.ErrConflict, "default/cost-of-user")
	until(users, "7", "")
	if err := write(pod, "-3"); err != nil {
		t.Fatal(err)
	}
	if err := p.admin.Core.Patch(types.MergePatchType).Namespace("default").Resource("pods").Name(pod.Name).
		Body([]byte(`{"metadata":{"annotations":{"controller.kubernetes.io/pod-deletion-cost":"7"}}}`)).Do(p.ctx).Error(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, write(pod, "-4"), plan.ErrConflict, "default/cost")
	if err := write(pod, ""); err != nil {
		t.Fatal(err)
	}
	until(pod, "7", "")
	pod.UID = "other"
	if err := write(pod, "-4"); err == nil {
		t.Fatal("the cost of another pod was written")
	}
}

// The chart's policy: our identity may add our toleration to a pod and nothing else.
func TestPodPolicy(t *testing.T) {
	p := newPlane(t)
	pod := p.makePod(t, "policy", func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists", Effect: "NoSchedule"}}
	})
	label := `[{"op":"add","path":"/metadata/labels/x","value":"y"}]`
	patched := func(who *client.Client, patch string) error {
		return who.Core.Patch(types.JSONPatchType).Namespace("default").Resource("pods").Name(pod.Name).Param("dryRun", "All").Body([]byte(patch)).Do(p.ctx).Error()
	}
	testwait.Until(t, "the policy is in force", func() error { // a young API server does not know its policies yet
		if patched(p.us, label) == nil {
			return errors.New("a label was taken")
		}
		return nil
	})
	for _, c := range []struct{ name, patch string }{
		{"label", label},
		{"annotation", `[{"op":"add","path":"/metadata/annotations","value":{"x":"y"}}]`},
		{"finalizer", `[{"op":"add","path":"/metadata/finalizers","value":["a.b/c"]}]`},
		{"image", `[{"op":"replace","path":"/spec/containers/0/image","value":"other"}]`},
		{"deadline", `[{"op":"add","path":"/spec/activeDeadlineSeconds","value":5}]`},
		{"another toleration", `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"b","operator":"Exists"}}]`},
		{"a toleration of everything", `[{"op":"add","path":"/spec/tolerations/-","value":{"operator":"Exists"}}]`},
		{"our key with another effect", `[{"op":"add","path":"/spec/tolerations/-","value":{"key":"dovetail.sh/reserved","operator":"Exists","effect":"NoExecute"}}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := patched(p.admin, c.patch)
			if err != nil && !strings.Contains(err.Error(), "dovetail-reserved-tolerations") { // nobody else may add our key at all
				t.Fatalf("as administrator, to know that the patch is a good one: %v", err)
			}
			err = patched(p.us, c.patch)
			const says = "dovetail-pod-updates' denied request: dovetail may only add tolerations of dovetail.sh/reserved"
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Fatalf("got %v, want a refusal that says %q", err, says)
			}
		})
	}
}

func TestEvict(t *testing.T) {
	p := newPlane(t)
	p.makeNode(t, "node-evict")
	bind := func(pod *corev1.Pod) { pod.Spec.NodeName = "node-evict" }
	free := p.makePod(t, "evict-free", bind)
	// The API server itself tries this one again for ten seconds.
	_, err := p.actor.Evict(p.ctx, plan.Evict{Namespace: "default", Pod: free.Name, UID: "00000000-0000-0000-0000-000000000000"})
	wantErr(t, err, plan.ErrGone, "default/evict-free")
	must(p.actor.Evict(p.ctx, plan.Evict{Namespace: "default", Pod: free.Name, UID: string(free.UID)}))(t)
	_, err = p.actor.Evict(p.ctx, plan.Evict{Namespace: "default", Pod: "no-such", UID: "x"})
	wantErr(t, err, plan.ErrGone, "default/no-such")

	held := p.makePod(t, "evict-held", bind)
	p.setReady(t, held.Name)
	for _, name := range []string{"one", "two"} {
		one := intstr.FromInt32(1)
		b := &policyv1.PodDisruptionBudget{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}}
		b.Name, b.Namespace, b.Spec.MinAvailable = "budget-"+name, "default", &one
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "evict-held"}}
		if err := p.admin.Policy.Post().Namespace("default").Resource("poddisruptionbudgets").Body(b).Do(p.ctx).Error(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.admin.Policy.Delete().Namespace("default").Resource("poddisruptionbudgets").Name(b.Name).Do(context.Background()).Error(); err != nil {
				t.Error(err)
			}
		})
		_, err = p.actor.Evict(p.ctx, plan.Evict{Namespace: "default", Pod: held.Name, UID: string(held.UID)})
		if name == "one" {
			wantErr(t, err, plan.ErrBlocked, "budget-one")
			var by *plan.BudgetBlocks
			if !errors.As(err, &by) || by.Budget != "default/budget-one" {
				t.Errorf("the budget of %v is %+v, want default/budget-one", err, by)
			}
		} else {
			wantErr(t, err, plan.ErrBlocked, "more than one PodDisruptionBudget")
		}
	}
	must(p.actor.DeletePod(p.ctx, plan.DeletePod{Namespace: "default", Pod: held.Name, UID: string(held.UID), Grace: 0}))(t)
	_, err = p.actor.DeletePod(p.ctx, plan.DeletePod{Namespace: "default", Pod: held.Name, UID: "00000000-0000-0000-0000-000000000000", Grace: time.Second})
	wantErr(t, err, plan.ErrGone, "default/evict-held")
}

// An eviction that a policy refuses, as admission webhooks do until they have prepared a pod's end, is one to try again.
func TestEvictRefused(t *testing.T) {
	p := newPlane(t)
	p.makeNode(t, "node-refuse")
	objects := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"no-evictions-NAME"},"spec":{"failurePolicy":"Fail",
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods/eviction"]}]},
		"matchConditions":[{"name":"these","expression":"request.name.startsWith('refuse-NAME-')"}],
		"validations":[{"expression":"false","message":"its operator is not ready","reason":"REASON"}]}}
		{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"no-evictions-NAME"},
		"spec":{"policyName":"no-evictions-NAME","validationActions":["Deny"]}}`
	for _, reason := range []string{"Forbidden", "Invalid"} {
		text := []byte(strings.NewReplacer("REASON", reason, "NAME", strings.ToLower(reason)).Replace(objects))
		if err := kubetest.Kubectl(text, "create", "-f", "-"); err != nil {
			t.Fatal(err)
		}
		var err error
		n := 0
		testwait.Until(t, "the policy is in force", func() error { // a moment after it was made
			n++
			pod := p.makePod(t, fmt.Sprintf("refuse-%s-%d", strings.ToLower(reason), n), func(pod *corev1.Pod) { pod.Spec.NodeName = "node-refuse" })
			if _, err = p.actor.Evict(p.ctx, plan.Evict{Namespace: "default", Pod: pod.Name, UID: string(pod.UID)}); err == nil {
				return fmt.Errorf("%d pods were evicted", n)
			}
			return nil
		})
		wantErr(t, err, plan.ErrBlocked, "its operator is not ready")
		if err := kubetest.Kubectl(text, "delete", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *plane) setReady(t *testing.T, pod string) {
	t.Helper()
	patch := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	if err := p.admin.Core.Patch(types.StrategicMergePatchType).Namespace("default").Resource("pods").Name(pod).SubResource("status").Body([]byte(patch)).
		Do(p.ctx).Error(); err != nil {
		t.Fatal(err)
	}
}
