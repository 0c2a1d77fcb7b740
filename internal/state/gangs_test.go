// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"maps"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestGangsEnded counts the pods of gangs that have succeeded, while they are there.
func TestGangsEnded(t *testing.T) {
	s := New()
	set := func(name string, change func(*model.Pod)) {
		p := &model.Pod{Namespace: "default", Name: name, UID: name, Class: &model.Class{Key: "c"}, Gang: model.Gang{Name: "g", Least: 3}}
		change(p)
		s.SetPod(p)
	}
	want := func(step string, n map[string]int) {
		t.Helper()
		if got := s.Snapshot(time.Time{}).GangsEnded; !maps.Equal(got, n) {
			t.Errorf("%s: %v pods have ended, want %v", step, got, n)
		}
	}
	set("a", func(p *model.Pod) { p.Node = "n" })
	set("b", func(p *model.Pod) { p.Node = "n" })
	want("both run", nil)
	set("a", func(p *model.Pod) { p.Node, p.Terminal = "n", true })
	set("b", func(p *model.Pod) { p.Node, p.Terminal, p.Failed = "n", true, true })
	want("one has succeeded, one has failed", map[string]int{"g": 1})
	before := s.Snapshot(time.Time{}).GangsEnded
	set("c", func(p *model.Pod) { p.Terminal = true })
	want("another has succeeded", map[string]int{"g": 2})
	if before["g"] != 1 {
		t.Error("a Snapshot that was handed out has changed")
	}
	s.DeletePod("default/a")
	s.DeletePod("default/c")
	want("they are deleted", nil)
}
