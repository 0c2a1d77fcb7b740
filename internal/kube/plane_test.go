// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// A Provisioner becomes a NodePool that follows it and goes with it, and says what it became.
func TestProvisioners(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	ctx, cancel := context.WithCancel(p.ctx)
	done := make(chan error)
	go func() {
		done <- write.Provisioners(ctx, p.us, translate.ProvisionerDefaults{}, slog.New(slog.DiscardHandler))
	}()
	defer func() {
		cancel()
		if err := testwait.Receive(t, "the end of Provisioners", done); err != nil {
			t.Error(err)
		}
	}()
	apply := func(name, spec string) {
		t.Helper()
		if err := kubetest.Kubectl([]byte(`{"apiVersion":"karpenter.sh/v1alpha5","kind":"Provisioner","metadata":{"name":"`+name+`"},"spec":`+spec+`}`), "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	apply("old", `{"ttlSecondsAfterEmpty":30,"limits":{"resources":{"cpu":"100"}},"kubeletConfiguration":{"maxPods":5},"labels":{"team":"a"}}`)
	w.until("its pool", func(s *state.State) bool { return s.Pools.FindPool("old") != nil })
	pool := w.s.Pools.FindPool("old")
	if !pool.Ready || pool.Provisioner != "old" || pool.Labels[model.LabelProvisioner] != "old" || pool.ConsolidateAfter != 30*time.Second ||
		pool.ConsolidationPolicy != "WhenEmpty" || pool.ExpireAfter != -1 || pool.Limits.At(model.CPU) != 100_000 ||
		len(pool.Budgets) != 1 || pool.Budgets[0].Nodes != 100 || pool.ClassName != "default" {
		t.Fatalf("pool came out as %+v", pool)
	}
	w.until("the default node class", func(s *state.State) bool {
		return s.Pools.FindNodeClass(kwokv1alpha1.Group, kwokv1alpha1.KindKWOKNodeClass, "default") != nil
	})
	// A claim for it is one that the API takes, and bears the Provisioner's label.
	must(p.actor.CreateClaim(p.ctx, plan.CreateClaim{Name: "old-1", Pool: pool, Requirements: pool.Requirements}))(t)
	w.until("its claim", func(s *state.State) bool { return s.FindClaim("old-1") != nil })
	if c := w.s.FindClaim("old-1"); c.Labels[model.LabelProvisioner] != "old" || c.ExpireAfter != -1 || c.NoReserve == "" {
		t.Fatalf("claim came out as %+v", c)
	}
	must(p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{Claim: "old-1", UID: w.s.FindClaim("old-1").UID, RemoveFinalizer: true}))(t)

	// The pool's status is the Provisioner's too.
	must(p.actor.UpdatePool(p.ctx, plan.UpdatePool{
		Pool: "old", UID: pool.UID, Nodes: 1, Resources: model.Resources{2000},
		Conditions: map[string]model.Condition{karpv1.ConditionValidationSucceeded: {Status: "True"}, karpv1.ConditionNodeClassReady: {Status: "True"}},
	}))(t)
	status := func(name, condition, want string) karpv1alpha5.ProvisionerStatus {
		t.Helper()
		var out karpv1alpha5.Provisioner
		if err := kubetest.Kubectl(nil, "wait", "provisioner/"+name, "--timeout=90s",
			"--for=jsonpath={.status.conditions[?(@.type==\""+condition+"\")].reason}="+want); err != nil {
			t.Fatal(err)
		}
		if err := p.admin.Provisioner.Get().Resource("provisioners").Name(name).Do(p.ctx).Into(&out); err != nil {
			t.Fatal(err)
		}
		return out.Status
	}
	s := status("old", karpv1alpha5.ConditionReady, "Ready")
	cpu := s.Resources["cpu"]
	if cpu.String() != "2" || s.LastScaleTime == nil || s.Translation == nil || len(s.Translation.Untranslated) != 1 ||
		translate.Conditions(s.Conditions)[karpv1alpha5.ConditionTranslated].Reason != karpv1alpha5.ReasonPartlyTranslated {
		t.Fatalf("status came out as %+v", s)
	}

	apply("old", `{"consolidation":{"enabled":true}}`)
	w.until("the pool changed", func(s *state.State) bool {
		x := s.Pools.FindPool("old")
		return x.ConsolidationPolicy == "WhenEmptyOrUnderutilized" && x.ConsolidateAfter == 0 && x.Limits == nil
	})
	status("old", karpv1alpha5.ConditionTranslated, karpv1alpha5.ReasonTranslated)

	p.makePool(t, "taken")
	apply("taken", `{}`)
	status("taken", karpv1alpha5.ConditionTranslated, karpv1alpha5.ReasonNodePoolConflict)

	// It goes with its Provisioner: Kubernetes sees to that by the owner reference.
	var object karpv1.NodePool
	if err := p.admin.Karpenter.Get().Resource("nodepools").Name("old").Do(p.ctx).Into(&object); err != nil {
		t.Fatal(err)
	}
	if len(object.OwnerReferences) != 1 || !*object.OwnerReferences[0].Controller || object.OwnerReferences[0].Kind != "Provisioner" {
		t.Fatalf("owners: %+v", object.OwnerReferences)
	}
	object = karpv1.NodePool{}
	if err := p.admin.Karpenter.Get().Resource("nodepools").Name("taken").Do(p.ctx).Into(&object); err != nil {
		t.Fatal(err)
	}
	if len(object.OwnerReferences) != 0 || object.Spec.Template.Labels["team"] != "a" {
		t.Fatalf("a pool that was not the Provisioner's was changed: %+v", object)
	}
}

// The controller has no right to make a Node: it makes NodeClaims, and machines register themselves.
func TestNoRightToMakeNodes(t *testing.T) {
	p := newPlane(t)
	err := p.us.Core.Post().Resource("nodes").Body(&corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "made"}}).Do(p.ctx).Error()
	if !apierrors.IsForbidden(err) {
		t.Fatalf("the controller made a node: %v", err)
	}
}

// One leads, the other waits; the second leads after the first has stopped, and not before.
func TestLead(t *testing.T) {
	p := newPlane(t)
	l := client.DefaultLease()
	l.Duration, l.Renew, l.Retry = testwait.Scale(3*time.Second), testwait.Scale(2*time.Second), 100*time.Millisecond
	events := make(chan string, 8)
	run := func(name string) (context.CancelFunc, chan error) {
		ctx, cancel := context.WithCancel(p.ctx)
		t.Cleanup(cancel)
		done := make(chan error, 1)
		go func() {
			done <- client.Lead(ctx, p.us, l, func(held context.Context) {
				events <- name + " leads"
				<-held.Done()
				events <- name + " stops"
			})
		}()
		return cancel, done
	}
	want := func(s string) {
		t.Helper()
		select {
		case e := <-events:
			if e != s {
				t.Fatalf("got %q, want %q", e, s)
			}
		case <-p.ctx.Done():
			t.Fatalf("never: %q", s)
		}
	}
	stopA, doneA := run("a")
	want("a leads")
	_, doneB := run("b")
	stopA()
	want("a stops")
	if err := testwait.Receive(t, "the end of a", doneA); err != nil {
		t.Fatal(err)
	}
	want("b leads")
	// Somebody takes the lease away: b must stop and say so.
	if err := kubetest.Kubectl(nil, "-n", l.Namespace, "patch", "lease", l.Name, "--type=merge", "-p",
		`{"spec":{"holderIdentity":"thief","leaseDurationSeconds":3600,"renewTime":"2099-01-01T00:00:00.000000Z"}}`); err != nil {
		t.Fatal(err)
	}
	want("b stops")
	if err := testwait.Receive(t, "the end of b", doneB); err == nil || !strings.Contains(err.Error(), "dovetail-system/dovetail-leader") {
		t.Fatalf("got %v, want an error that names the lease", err)
	}
	if err := kubetest.Kubectl(nil, "-n", l.Namespace, "delete", "lease", l.Name); err != nil {
		t.Fatal(err)
	}
	l.Retry = l.Renew // whatever the machine's factor is
	if err := client.Lead(p.ctx, p.us, l, nil); err == nil || !strings.Contains(err.Error(), "retry period "+l.Retry.String()) {
		t.Fatalf("got %v, want an error that names the value", err)
	}
}

func TestEvents(t *testing.T) {
	p := newPlane(t)
	w, err := p.admin.Core.Get().Namespace("default").Resource("events").Param("fieldSelector", "source=dovetail").Param("watch", "true").Watch(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for range 3 {
		p.actor.Event("NodeClaim", "", "some-claim", "u-1", true, "InsufficientCapacityError", "no m5.large in z1")
	}
	p.actor.Event("Pod", "default", "some-pod", "u-2", false, "Nominated", strings.Repeat("x", 2000))
	// They are written in order, so when the last one is there no other is to come.
	var list corev1.EventList
	for e := range w.ResultChan() {
		list.Items = append(list.Items, *e.Object.(*corev1.Event))
		if list.Items[len(list.Items)-1].Reason == "Nominated" {
			break
		}
	}
	if len(list.Items) != 2 {
		t.Fatalf("%d events, want 2: equal ones are one", len(list.Items))
	}
	for _, e := range list.Items {
		switch e.InvolvedObject.Kind {
		case "NodeClaim":
			if e.Type != "Warning" || e.Reason != "InsufficientCapacityError" || e.InvolvedObject.APIVersion != "karpenter.sh/v1" {
				t.Errorf("event came out as %+v", e)
			}
		default:
			if e.Type != "Normal" || e.InvolvedObject.Name != "some-pod" || len(e.Message) != 1024 {
				t.Errorf("event came out as %+v", e)
			}
		}
	}
}

// Volumes are looked up again when what they refer to changes.
func TestVolumesFollow(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	pod := p.makePod(t, "with-volume", func(x *corev1.Pod) {
		x.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "with-volume"},
		}}}
	})
	key := "default/" + pod.Name
	w.until("the pod, refused", func(s *state.State) bool {
		x := s.FindPod(key)
		return x != nil && x.Class.VolumeProblem() != nil && x.Class.VolumeProblem().Problem.Kind == model.ClaimMissing
	})
	if err := kubetest.Kubectl([]byte(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: test.csi
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [z1]}]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: with-volume, namespace: default}
spec: {storageClassName: late, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	w.until("the pod with its volume's zone", func(s *state.State) bool {
		x := s.FindPod(key).Class
		return x.VolumeProblem() == nil && len(x.Volumes) == 1 && len(x.Volumes[0].Topology) == 1 && x.Volumes[0].Driver == "test.csi"
	})
	if err := kubetest.Kubectl([]byte(`
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: test.csi}
spec: {storageCapacity: true}
`), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	w.until("no node that is there has storage", func(s *state.State) bool {
		v := s.FindPod(key).Class.Volumes[0]
		return v.Reported == "late" && len(v.Standing) == 1 && v.Standing[0].Get(model.LabelHostname) != nil
	})
	if err := kubetest.Kubectl([]byte(`
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {name: z1, namespace: default}
storageClassName: late
capacity: 5Gi
nodeTopology: {matchLabels: {topology.kubernetes.io/zone: z1}}
`), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	w.until("nodes in z1 have storage", func(s *state.State) bool {
		v := s.FindPod(key).Class.Volumes[0]
		return v.Reported == "late" && len(v.OnStanding(false)) == 1 && v.OnStanding(false)[0].Get(model.LabelZone) != nil
	})
	if err := kubetest.Kubectl(nil, "delete", "persistentvolumeclaim", "with-volume", "--wait=false"); err != nil {
		t.Fatal(err)
	}
	w.until("the pod, refused for the claim that goes", func(s *state.State) bool {
		v := s.FindPod(key).Class.VolumeProblem()
		return v != nil && (v.Problem.Kind == model.ClaimDeleting || v.Problem.Kind == model.ClaimMissing)
	})
}
