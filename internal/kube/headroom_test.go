// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// With the controller's own rights: a Headroom is seen as it was written, its target as it is; its CapacityBuffers
// come, change and go, twice as well as once; its status is written and read again; what is gone or may not be read is
// a Problem.
func TestHeadrooms(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	x := write.NewHeadrooms(p.us, p.objects, time.Now)
	apply := func(text string) {
		t.Helper()
		if err := kubetest.Kubectl([]byte(text), "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	apply(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"hr-web"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"hr-web"}},
		"template":{"metadata":{"labels":{"app":"hr-web"}},"spec":{"containers":[{"name":"c","image":"x","resources":{"requests":{"cpu":"500m"}}}]}}}}`)
	apply(`{"apiVersion":"dovetail.sh/v1alpha1","kind":"Headroom","metadata":{"name":"hr"},"spec":{"target":{"workload":{"kind":"Deployment","name":"hr-web"}},"mode":"Active",
		"calendar":[{"name":"a","schedule":"0 8 * * *","timeZone":"Europe/Berlin","duration":"1h","replicas":10}],"limits":{"replicas":20,"resources":{"cpu":"4"},"dollarsPerHour":"1.50"}}}`)
	find := func() (o headroom.Object) {
		for _, o = range x.List() {
			if o.Name == "hr" {
				return o
			}
		}
		return headroom.Object{}
	}
	w.until("the Headroom", func(*state.State) bool {
		select { // it is no change of the State: what it announces is
		case <-x.Changed():
		case <-time.After(10 * time.Millisecond):
		}
		w.changes <- func(*state.State) {}
		return find().UID != ""
	})
	o := find()
	if win := o.Calendar[0]; o.Mode != headroom.Active || len(o.Problems) > 0 || win.Replicas != 10 || win.Percent != -1 || win.Duration != time.Hour || win.TimeZone != "Europe/Berlin" ||
		o.Limits.Replicas != 20 || o.Limits.MicroPerHour != 1_500_000 || o.Limits.Resources[0].Most != 4000 || o.Learned.WaitingCost != -1 {
		t.Fatalf("headroom came out as %+v", o)
	}
	targets, err := x.Targets(p.ctx, &o.Spec)
	if err != nil || len(targets) != 1 || targets[0].Replicas != 3 || targets[0].Class.Requests[0] != 500 {
		t.Fatalf("targets: %+v, %v", targets, err)
	}

	buffers := func() map[string]int32 {
		t.Helper()
		raw, err := p.admin.Core.Get().AbsPath("/apis/" + bufferv1beta1.GroupVersion.String() + "/namespaces/default/capacitybuffers").Do(p.ctx).Raw()
		var list bufferv1beta1.CapacityBufferList
		if err == nil {
			err = json.Unmarshal(raw, &list)
		}
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int32{}
		for _, b := range list.Items {
			if slices.ContainsFunc(b.OwnerReferences, func(r metav1.OwnerReference) bool { return string(r.UID) == o.UID }) {
				out[b.Spec.ScalableRef.APIGroup+" "+b.Spec.ScalableRef.Kind+" "+b.Spec.ScalableRef.Name] = *b.Spec.Replicas
			}
		}
		return out
	}
	for _, held := range []int{7, 7, 5, 0, 0} {
		if err := x.WriteBuffers(p.ctx, &o.Spec, []headroom.Hold{{Workload: targets[0].WorkloadName, Held: held}}); err != nil {
			t.Fatal(err)
		}
		if have := buffers(); len(have) != min(held, 1) || have["apps Deployment hr-web"] != int32(held) {
			t.Fatalf("%d held: buffers %v", held, have)
		}
	}

	opens := time.Date(2026, 3, 1, 7, 0, 0, 0, time.UTC)
	hold := headroom.Hold{Workload: targets[0].WorkloadName, Replicas: 3, Wanted: 7, Held: 7, For: "a", Windows: []headroom.PreparedWindow{{Name: "a", Opens: opens, Replicas: 3}}}
	status := &headroom.Status{
		Spec: &o.Spec, Lead: 40 * time.Second, Output: headroom.Output{Holds: []headroom.Hold{hold}, Held: 7, Micro: 250_000, Priced: true},
		Memory: headroom.Memory{At: opens, Days: []headroom.Day{{Date: "2026-03-01", Record: headroom.Record{Hits: 2, SparedSeconds: 1200, Micro: 500_000}}}},
	}
	for range 2 {
		if err := x.WriteStatus(p.ctx, status); err != nil {
			t.Fatal(err)
		}
	}
	var have dovetailv1alpha1.Headroom
	if err := p.us.Dovetail.Get().Namespace("default").Resource("headrooms").Name("hr").Do(p.ctx).Into(&have); err != nil {
		t.Fatal(err)
	}
	s := &have.Status
	if len(s.Conditions) != 3 || s.Held != 7 || s.HeldDollarsPerHour != "0.2500" || s.LeadSeconds != 40 || s.LastWeek.Hits != 2 || s.Workloads[0].For != "a" {
		t.Fatalf("status came out as %+v", s)
	}
	kept := p.objects.Headroom(&have).Kept
	if m := kept.Workloads[targets[0].WorkloadName]; !kept.IsHolding() || m.Replicas != 3 || !m.Windows[0].Opens.Equal(opens) || kept.Days[0].Record != status.Memory.Days[0].Record {
		t.Fatalf("kept of the status: %+v", kept)
	}

	if err := kubetest.Kubectl(nil, "delete", "deployment", "hr-web"); err != nil {
		t.Fatal(err)
	}
	var problem headroom.Problem
	if _, err := x.Targets(p.ctx, &o.Spec); !errors.As(err, &problem) || problem.Reason != headroom.TargetNotFound {
		t.Fatalf("a target that is gone: %v", err)
	}
	if err := kubetest.Kubectl([]byte(`{"apiVersion":"dovetail.sh/v1alpha1","kind":"Headroom","metadata":{"name":"none"},"spec":{"target":{}}}`), "apply", "-f", "-"); err == nil {
		t.Error("a Headroom without a target is taken")
	}
}

// A buffer with the total of its workload names both, for the decision to count the workload's pods.
func TestBufferOfTotal(t *testing.T) {
	replicas := int32(20)
	tr := &translate.Translator{Table: state.NewResourceTable()}
	for _, c := range []struct {
		total string
		want  int
	}{{"20", 20}, {"60", 60}, {"many", -1}} {
		b := &bufferv1beta1.CapacityBuffer{}
		b.Namespace, b.Name, b.Annotations = "shop", "b", map[string]string{model.AnnotationTotalReplicas: c.total}
		b.Spec.Replicas, b.Spec.ScalableRef = &replicas, &bufferv1beta1.ScalableRef{APIGroup: "apps", Kind: "Deployment", Name: "web"}
		got := tr.CapacityBuffer(b, translate.PodShape{Template: &corev1.PodTemplateSpec{}, Replicas: 10})
		if got.Ready.True() != (c.want >= 0) || got.Total != c.want ||
			c.want >= 0 && (got.Replicas != 20 || got.Workload != model.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}) {
			t.Errorf("total %s: %d replicas of %d for %s, %+v", c.total, got.Replicas, got.Total, got.Workload, got.Ready)
		}
	}
}
