// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// daemonPod returns a pod of DaemonSet agent that asks for so much CPU, made from a template by generation and revision, at a second.
func daemonPod(name string, cpu int64, generation, revision string, second int) *model.Pod {
	p := pod(name, name+generation+revision, "n-"+name)
	p.Owner, p.Created = model.Owner{Kind: "DaemonSet", Name: "agent", UID: "d1"}, at(second)
	p.Class.Requests, p.Class.Daemon = model.Resources{cpu, 0, 0, 1}, true
	p.Class.Labels = model.Labels{model.LabelTemplateGeneration: generation, model.LabelRevisionHash: revision}
	return p
}

func TestNewestDaemonPod(t *testing.T) {
	s := fresh()
	cpu := func() int64 {
		t.Helper()
		all := s.Snapshot(at(0)).Daemons
		want(t, "DaemonSets", len(all), 1)
		return all[0].Pod().Requests[0]
	}
	daemon := func(generation string) {
		s.SetDaemon(&model.Daemon{Namespace: "default", Name: "agent", UID: "d1", Class: class("template"), Generation: generation})
	}
	s.SetPod(daemonPod("a", 100, "1", "x", 1)) // pods may be seen before the DaemonSet
	daemon("1")
	want(t, "one pod", cpu(), int64(100))
	s.SetPod(daemonPod("b", 200, "1", "x", 2))
	want(t, "a newer pod", cpu(), int64(200))
	before := s.ChangeCounts().Supply
	s.SetPod(daemonPod("c", 200, "1", "x", 3))
	want(t, "changes of what the cluster offers", s.ChangeCounts().Supply, before)
	gone := daemonPod("c", 200, "1", "x", 3)
	gone.Deleting = at(4)
	s.SetPod(gone)
	s.DeletePod("default/b")
	want(t, "newer pods are gone", cpu(), int64(100))
	daemon("2")
	want(t, "another template, no pod of it", cpu(), int64(1000))
	s.SetPod(daemonPod("d", 300, "2", "y", 5))
	s.SetPod(daemonPod("e", 400, "1", "x", 6))
	want(t, "a newer pod of the older template", cpu(), int64(300))
	daemon("3") // as 1 was: pods of its revision are today's again as soon as one of them tells
	s.SetPod(daemonPod("f", 500, "3", "x", 4))
	want(t, "a template taken back", cpu(), int64(400))
	other := daemonPod("g", 900, "3", "x", 9)
	other.Owner.UID = "d0"
	s.SetPod(other)
	want(t, "a pod of an earlier DaemonSet of the name", cpu(), int64(400))
	daemon("")
	want(t, "no generation is known", cpu(), int64(400))
	s.DeleteDaemon("default/agent")
	want(t, "DaemonSets", len(s.Snapshot(at(0)).Daemons), 0)
}
