// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/groupstatus"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// publishedStatus is the status as Cluster Autoscaler's API has it (1.30 and later): what reads it knows these fields, as
// these types, and no others.
type publishedStatus struct {
	Time             string `json:"time"`
	AutoscalerStatus string `json:"autoscalerStatus"`
	Message          string `json:"message"`
	ClusterWide      struct {
		Health struct {
			Status     string              `json:"status"`
			NodeCounts publishedNodeCounts `json:"nodeCounts"`
			publishedTimes
		} `json:"health"`
		ScaleUp   publishedScaleUp   `json:"scaleUp"`
		ScaleDown publishedScaleDown `json:"scaleDown"`
	} `json:"clusterWide"`
	NodeGroups []struct {
		Name   string `json:"name"`
		Health struct {
			Status              string              `json:"status"`
			NodeCounts          publishedNodeCounts `json:"nodeCounts"`
			CloudProviderTarget int                 `json:"cloudProviderTarget"`
			MinSize             int                 `json:"minSize"`
			MaxSize             int                 `json:"maxSize"`
			publishedTimes
		} `json:"health"`
		ScaleUp   publishedScaleUp   `json:"scaleUp"`
		ScaleDown publishedScaleDown `json:"scaleDown"`
	} `json:"nodeGroups"`
}

type publishedTimes struct {
	LastProbeTime      metav1.Time `json:"lastProbeTime"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
}

type publishedNodeCounts struct {
	Registered struct {
		Total        int `json:"total"`
		Ready        int `json:"ready"`
		NotStarted   int `json:"notStarted"`
		BeingDeleted int `json:"beingDeleted"`
		Unready      struct {
			Total           int `json:"total"`
			ResourceUnready int `json:"resourceUnready"`
		} `json:"unready"`
	} `json:"registered"`
	LongUnregistered int `json:"longUnregistered"`
	Unregistered     int `json:"unregistered"`
}

type publishedScaleUp struct {
	Status      string `json:"status"`
	BackoffInfo struct {
		ErrorCode    string `json:"errorCode"`
		ErrorMessage string `json:"errorMessage"`
	} `json:"backoffInfo"`
	publishedTimes
}

type publishedScaleDown struct {
	Status     string `json:"status"`
	Candidates int    `json:"candidates"`
	publishedTimes
}

// TestGroupStatus: with the chart's rights the status of node groups is written into a ConfigMap that is there or not, what
// others have in it stays, and what reads Cluster Autoscaler's reads it, strictly.
func TestGroupStatus(t *testing.T) {
	p := newPlane(t)
	if err := kubetest.Kubectl(nil, "apply", "-f", "../../charts/dovetail/optional/group-status.yaml"); err != nil {
		t.Fatal(err)
	}
	ctx := p.ctx
	now := time.Now()
	view := &groupstatus.View{Groups: []groupstatus.Group{
		{NodeGroup: model.NodeGroup{Name: "large", Min: 1, Max: 10, Desired: 4}, Nodes: groupstatus.Counts{Ready: 2, NotStarted: 1, Unregistered: 1, BeingDeleted: 1}, Candidates: 1},
		{NodeGroup: model.NodeGroup{Name: "small", Max: 3}, Backoff: true},
	}, Nodes: groupstatus.Counts{Ready: 2, NotStarted: 1, Unregistered: 1, BeingDeleted: 1}}
	first := groupstatus.Build(view, nil, now)
	g := write.NewGroupStatus(p.us, "kube-system", write.StatusConfigMap)
	if _, _, uid := g.StatusObject(); uid != "" {
		t.Errorf("before the ConfigMap was written its uid is %q", uid)
	}
	read := func() (*corev1.ConfigMap, publishedStatus) {
		t.Helper()
		var have corev1.ConfigMap
		if err := p.us.Core.Get().Namespace("kube-system").Resource("configmaps").Name(write.StatusConfigMap).Do(ctx).Into(&have); err != nil {
			t.Fatal(err)
		}
		var s publishedStatus
		if err := yaml.UnmarshalStrict([]byte(have.Data["status"]), &s); err != nil {
			t.Fatalf("%v\n%s", err, have.Data["status"])
		}
		return &have, s
	}
	if err := g.StoreGroupStatus(ctx, first); err != nil {
		t.Fatal(err)
	}
	have, s := read()
	if _, _, uid := g.StatusObject(); uid != string(have.UID) || have.Annotations["cluster-autoscaler.kubernetes.io/last-updated"] != s.Time || s.AutoscalerStatus != "Running" {
		t.Errorf("uid %q, annotations %v, status of %s: %s", uid, have.Annotations, s.Time, s.AutoscalerStatus)
	}
	large, small := s.NodeGroups[0], s.NodeGroups[1]
	if h := large.Health; large.Name != "large" || h.Status != "Healthy" || h.CloudProviderTarget != 4 || h.MinSize != 1 || h.MaxSize != 10 || h.NodeCounts.Registered.Total != 4 ||
		h.NodeCounts.Registered.BeingDeleted != 1 || h.NodeCounts.Unregistered != 1 || large.ScaleUp.Status != "InProgress" || large.ScaleDown.Status != "CandidatesPresent" {
		t.Errorf("group large is %+v", large)
	}
	if small.ScaleUp.Status != "Backoff" || small.ScaleUp.BackoffInfo.ErrorCode != "InsufficientCapacity" || small.ScaleDown.Status != "NoCandidates" {
		t.Errorf("group small is %+v", small)
	}
	if s.ClusterWide.ScaleUp.Status != "InProgress" || s.ClusterWide.ScaleDown.Candidates != 1 || s.ClusterWide.Health.NodeCounts.Registered.Ready != 2 {
		t.Errorf("the cluster is %+v", s.ClusterWide)
	}

	if err := kubetest.Kubectl(nil, "-n", "kube-system", "annotate", "configmap", write.StatusConfigMap, "team=web"); err != nil {
		t.Fatal(err)
	}
	view.Groups[1].Backoff = false
	later := groupstatus.Build(view, first, now.Add(time.Hour))
	if groupstatus.SaysSame(first, later) || !groupstatus.SaysSame(later, groupstatus.Build(view, later, now.Add(2*time.Hour))) {
		t.Error("a status that says the same is not known from one that says something else")
	}
	if err := g.StoreGroupStatus(ctx, later); err != nil {
		t.Fatal(err)
	}
	have, s = read()
	at := now.Truncate(time.Second)
	if x := s.NodeGroups[1].ScaleUp; have.Annotations["team"] != "web" || x.Status != "NoActivity" || !x.LastTransitionTime.Time.Equal(at.Add(time.Hour)) || !x.LastProbeTime.Time.Equal(at.Add(time.Hour)) {
		t.Errorf("annotations %v, group small %+v", have.Annotations, x)
	}
	if x := s.NodeGroups[0].Health; !x.LastTransitionTime.Time.Equal(at) || !x.LastProbeTime.Time.Equal(at.Add(time.Hour)) {
		t.Errorf("what did not change is %+v", x)
	}
	if err := write.NewGroupStatus(p.us, "kube-system", "another").StoreGroupStatus(ctx, later); err == nil {
		t.Error("a ConfigMap that the Role does not name may be read")
	}
}
