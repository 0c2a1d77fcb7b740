// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"maps"
	"testing"
	"time"
)

// TestCountReplicas counts what is to be made, and leaves out what ends and what nobody makes again.
func TestCountReplicas(t *testing.T) {
	class := &Class{}
	pod := func(kind, name string) *Pod {
		return &Pod{Namespace: "n", Class: class, Owner: Owner{Kind: kind, Name: name, UID: "x"}}
	}
	ending, ended, daemon, alone, deployed := pod("ReplicaSet", "a"), pod("ReplicaSet", "a"), pod("DaemonSet", "d"), pod("", ""), pod("ReplicaSet", "b-1")
	ending.Deleting, ended.Terminal, alone.Owner.UID, deployed.Deployment = time.Now(), true, "", "b"
	daemon.Class = &Class{Daemon: true}
	snap := &Snapshot{
		Nodes:   []*Node{{Pods: []*Pod{pod("ReplicaSet", "a"), ending, ended, daemon, alone, deployed, pod("Job", "j")}}},
		Pending: []*Pod{pod("ReplicaSet", "a"), deployed},
		Making:  []Making{{Like: deployed, Have: 2, Want: 300}, {Like: pod("ReplicaSet", "a"), Have: 5, Want: 2}},
	}
	want := map[Workload]int{{Namespace: "n", Kind: "ReplicaSet", Name: "a"}: 2, {Namespace: "n", Kind: "Deployment", Name: "b"}: 300}
	if got := snap.CountReplicas(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
