// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A Deployment without any pod is explained by what its ReplicaSets can't create, with the ResourceQuota to change; those of others are not told.
func TestWhyNotCreated(t *testing.T) {
	why := func(said, resource, enough string) model.CreationRefusal {
		if resource == "" {
			return model.CreationRefusal{Said: said}
		}
		return model.CreationRefusal{Said: said, Quota: "compute", Resource: resource, Enough: enough}
	}
	s := &model.Snapshot{Failing: []*model.FailingReplicas{
		{Namespace: "shop", ReplicaSet: "web-1", Deployment: "web", Missing: 3, Why: []model.CreationRefusal{why("too little cpu", "requests.cpu", "6"), why("too little memory", "requests.memory", "7Gi")}},
		{Namespace: "shop", ReplicaSet: "web-2", Deployment: "web", Missing: 1, Why: []model.CreationRefusal{why("denied by a webhook", "", "")}},
		{Namespace: "shop", ReplicaSet: "alone", Missing: 9, Why: []model.CreationRefusal{why("alone", "pods", "9")}},
		{Namespace: "other", ReplicaSet: "web-1", Deployment: "web", Missing: 9, Why: []model.CreationRefusal{why("other", "pods", "9")}},
	}}
	a, err := Why(s, decide.Memory{}, time.Unix(1, 0), decide.Policy{}, "deployment/shop/web")
	if err != nil {
		t.Fatal(err)
	}
	type finding struct {
		Subject plan.Object
		Missing int
		Said    plan.Words
		Change  plan.Change
	}
	var got []finding
	for _, f := range a.Findings {
		d := plan.DetailOf[plan.OfPodsNotCreated](f.Reason)
		x := finding{f.Reason.Subject, d.Count, d.Said, plan.Change{}}
		if f.Change != nil {
			x.Change = *f.Change
		}
		got = append(got, x)
	}
	raise := func(resource, enough string) plan.Change {
		return plan.Change{Object: "resourcequota/shop/compute", Field: "spec.hard[" + resource + "]", Op: plan.Set, Value: enough}
	}
	want := []finding{{"replicaset/shop/web-1", 3, "too little cpu", raise("requests.cpu", "6")}, {"replicaset/shop/web-1", 3, "too little memory", raise("requests.memory", "7Gi")},
		{"replicaset/shop/web-2", 1, "denied by a webhook", plan.Change{}}}
	if len(got) != len(want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
	var none *plan.NoSuchObject
	if _, err := Why(s, decide.Memory{}, time.Unix(1, 0), decide.Policy{}, "deployment/shop/wep"); !errors.As(err, &none) || none.Near != "deployment/shop/web" {
		t.Errorf("of a Deployment that isn't there: %v, want its neighbour named", err)
	}
}

// TestEmptyLists writes answers as JSON: a list without anything is empty, never null, whether nothing is wrong or something is.
func TestEmptyLists(t *testing.T) {
	s := waitingCluster()
	running := &model.Pod{Namespace: "n", Name: "runs", UID: "runs", Deployment: "healthy", Node: "a", Created: epoch,
		Class: &model.Class{Key: "runs", Namespace: "n", Scheduler: model.DefaultScheduler, Requests: model.Resources{1000, 0, 0, 1}}}
	s.Nodes = []*model.Node{{Name: "a", Pods: []*model.Pod{running}}}
	addPending(s, "waits", 1000, true).Deployment = "waits"
	addPending(s, "too large", 99_000, true).Deployment = "large"
	s.Failing = []*model.FailingReplicas{{Namespace: "n", ReplicaSet: "r", Deployment: "refused", Missing: 1, Why: []model.CreationRefusal{{Said: "denied"}}}}
	for _, subject := range []string{"deployment/n/healthy", "deployment/n/waits", "deployment/n/large", "deployment/n/refused", "pod/n/runs", "pod/n/w000", "pod/n/w001", "node/a", "nodepool/p"} {
		a, err := Why(s, decide.Memory{}, epoch, decide.DefaultPolicy(), subject)
		if err != nil {
			t.Errorf("%s: %v", subject, err)
			continue
		}
		if out, err := json.Marshal(a); err != nil || strings.Contains(string(out), "null") {
			t.Errorf("%s: %s, %v", subject, out, err)
		}
	}
}

// The answer about a Deployment says how many of its pods are pending for another reason than the pod that it explains.
func TestDeploymentWithSeveralReasons(t *testing.T) {
	s := waitingCluster()
	for _, milliCPU := range []int64{50_000, 50_000, 99_000} {
		addPending(s, "web", milliCPU, true).Deployment = "web"
	}
	a, err := Why(s, decide.Memory{}, epoch, decide.DefaultPolicy(), "deployment/n/web")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Facts {
		if f.Name == "pending for other reasons" && strings.HasPrefix(f.Value, "1 pod;") {
			return
		}
	}
	t.Errorf("facts %+v, want one pod that is pending for another reason", a.Facts)
}
