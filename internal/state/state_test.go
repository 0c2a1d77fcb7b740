// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

func class(key string) *model.Class {
	return &model.Class{Key: key, Namespace: "default", Requests: model.Resources{1000, 1 << 30, 0, 1}}
}

func pod(name, key, node string) *model.Pod {
	return &model.Pod{Namespace: "default", Name: name, UID: "uid-" + name, Class: class(key), Node: node}
}

func claim(name, provider string) *model.Claim {
	return &model.Claim{Name: name, UID: "uid-" + name, ProviderID: provider}
}

// fresh is a State at an instant.
func fresh() *State {
	s := New()
	s.SetNow(at(0))
	return s
}

func names(pods []*model.Pod) []string {
	out := []string{}
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return out
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}

func TestEqualClassesAreOnePointer(t *testing.T) {
	s := fresh()
	s.SetPod(pod("a", "k", ""))
	s.SetPod(pod("b", "k", ""))
	s.SetPod(pod("c", "other", ""))
	s.SetDaemon(&model.Daemon{Namespace: "default", Name: "d", Class: class("k")})
	snap := s.Snapshot(at(0))
	if snap.Pending[0].Class != snap.Pending[1].Class || snap.Pending[0].Class != snap.Daemons[0].Class {
		t.Error("pods and a DaemonSet of one class have different ones")
	}
	if snap.Pending[0].Class == snap.Pending[2].Class {
		t.Error("different classes are one")
	}
}

func TestClassesThatNoPodIsOfAreForgotten(t *testing.T) {
	s := fresh()
	s.SetPod(pod("stays", "stays", ""))
	kept := s.Snapshot(at(0)).Pending[0].Class
	for i := range 5000 {
		p := pod("p", fmt.Sprint("class", i), "")
		s.SetPod(p)
		s.DeletePod(p.Key())
	}
	if len(s.classes) > 2000 {
		t.Errorf("%d classes are kept for one pod", len(s.classes))
	}
	s.SetPod(pod("again", "stays", ""))
	if s.Snapshot(at(0)).Pending[0].Class != kept {
		t.Error("a class that is in use was made anew")
	}
}

func TestResourcesAreInternedInTheOrderTheyCome(t *testing.T) {
	r := NewResourceTable()
	before := r.Names()
	want(t, "cpu", r.Dim("cpu"), model.CPU)
	want(t, "gpu", r.Dim("gpu"), model.FirstExtended)
	want(t, "fpga", r.Dim("fpga"), model.FirstExtended+1)
	want(t, "gpu again", r.Dim("gpu"), model.FirstExtended)
	want(t, "names", r.Names(), []string{"cpu", "memory", "ephemeral-storage", "pods", "gpu", "fpga"})
	want(t, "names handed out before", before, []string{"cpu", "memory", "ephemeral-storage", "pods"})
}

func TestPodsBeforeTheirNode(t *testing.T) {
	s := fresh()
	s.SetPod(pod("b", "k", "n"))
	s.SetPod(pod("a", "k", "n"))
	s.SetPod(pod("gone", "k", "n"))
	changed := pod("a", "k", "n")
	changed.Ready = true
	s.SetPod(changed)
	s.DeletePod("default/gone")
	want(t, "nodes", len(s.Snapshot(at(0)).Nodes), 0)
	s.SetNode(&model.Node{Name: "n"}, 1)
	n := s.Snapshot(at(0)).Nodes[0]
	want(t, "pods", names(n.Pods), []string{"a", "b"})
	want(t, "a is Ready", n.Pods[0].Ready, true)
	want(t, "used", n.Used, model.Resources{2000, 2 << 30, 0, 2})
	s.DeleteNode("n")
	want(t, "nodes", len(s.Snapshot(at(0)).Nodes), 0)
	s.SetNode(&model.Node{Name: "n"}, 2)
	want(t, "pods of the node come back", names(s.Snapshot(at(0)).Nodes[0].Pods), []string{"a", "b"})
}

func TestAPodThatEndsGivesItsRoomBack(t *testing.T) {
	s := fresh()
	s.SetNode(&model.Node{Name: "n"}, 1)
	s.SetPod(pod("a", "k", "n"))
	want(t, "used", s.Snapshot(at(0)).Nodes[0].Used.At(model.CPU), 1000)
	ended := pod("a", "k", "n")
	ended.Terminal = true
	s.SetPod(ended)
	want(t, "used", s.Snapshot(at(0)).Nodes[0].Used.At(model.CPU), 0)
	again := *ended // its object changes once more, a finalizer goes for instance
	s.SetPod(&again)
	s.SetNode(&model.Node{Name: "n", Ready: true}, 2)
	want(t, "used", s.Snapshot(at(0)).Nodes[0].Used.At(model.CPU), 0)
}

func TestPending(t *testing.T) {
	s := fresh()
	for _, name := range []string{"b", "a", "ended", "deleted", "bound"} {
		p := pod(name, "k", "")
		switch name {
		case "ended":
			p.Terminal = true
		case "deleted":
			p.Deleting = at(1)
		case "bound":
			p.Node = "n"
		}
		s.SetPod(p)
	}
	want(t, "pending", names(s.Snapshot(at(0)).Pending), []string{"a", "b"})
	s.SetPod(pod("b", "k", "n"))
	want(t, "pending", names(s.Snapshot(at(0)).Pending), []string{"a"})
	s.DeletePod("default/a")
	s.DeletePod("default/never was")
	want(t, "pending", len(s.Snapshot(at(0)).Pending), 0)
	want(t, "pods", len(s.pods.byKey), 4)
}

// A pod without a node is being deleted with its namespace, whichever of the two is read first.
func TestPodsEndWithTheirNamespace(t *testing.T) {
	s := fresh()
	s.SetPod(pod("before", "k", ""))
	s.SetPod(pod("bound", "k", "n"))
	s.SetNamespace("default", nil, time.Time{})
	want(t, "pending", names(s.Snapshot(at(0)).Pending), []string{"before"})
	s.SetNamespace("default", nil, at(1))
	s.SetPod(pod("after", "k", ""))
	snap := s.Snapshot(at(2))
	want(t, "pending", len(snap.Pending), 0)
	want(t, "ending", snap.Ending["default"], at(1))
	for _, name := range []string{"before", "after"} {
		p := s.FindPod("default/" + name)
		want(t, name, p.Deleting, at(1))
		want(t, name, p.EndsWithNamespace, true)
	}
	want(t, "bound", s.FindPod("default/bound").Deleting, time.Time{})
	s.DeleteNamespace("default")
	want(t, "ending", len(s.Snapshot(at(3)).Ending), 0)
	want(t, "ending before", len(snap.Ending), 1)
}

func TestAPodOfTheSameNameIsAnotherOne(t *testing.T) {
	s := fresh()
	s.SetNode(&model.Node{Name: "n"}, 1)
	s.SetPod(pod("a", "k", "n"))
	p := pod("a", "k", "")
	p.UID = "uid-a-2"
	s.SetPod(p) // the deletion of the first was never heard of
	snap := s.Snapshot(at(0))
	want(t, "on the node", len(snap.Nodes[0].Pods), 0)
	want(t, "pending", snap.Pending[0].UID, "uid-a-2")
}

func TestANodeIsItsClaims(t *testing.T) {
	of := func(s *State) string { return s.Snapshot(at(0)).Nodes[0].Claim }
	s := fresh()
	s.SetNode(&model.Node{Name: "n", ProviderID: "m1"}, 1)
	want(t, "nobody's", of(s), "")
	s.SetClaim(claim("c", ""), 1)
	want(t, "not known yet", of(s), "")
	s.SetClaim(claim("c", "m1"), 2)
	want(t, "known", of(s), "c")
	s.SetClaim(claim("c", "m2"), 3)
	want(t, "another machine", of(s), "")
	s.SetClaim(claim("d", "m1"), 4)
	want(t, "another claim", of(s), "d")
	s.DeleteClaim("d")
	want(t, "gone", of(s), "")
	s.SetNode(&model.Node{Name: "n", ProviderID: "m2"}, 2)
	want(t, "another provider id", of(s), "c")
}

func TestLastPodEvent(t *testing.T) {
	s := fresh()
	event := func() time.Time { return s.Snapshot(at(0)).Nodes[0].LastPodEvent }
	s.SetNode(&model.Node{Name: "n"}, 1)
	want(t, "nothing came", event().IsZero(), true)
	bound := pod("a", "k", "n")
	bound.Bound = at(-100)
	s.SetPod(bound)
	want(t, "when it was bound, not when that was heard of", event(), at(-100))
	daemon := pod("d", "daemon", "n")
	daemon.Class.Daemon = true
	s.SetNow(at(10))
	s.SetPod(daemon)
	want(t, "a daemon's is none", event(), at(-100))
	s.SetNow(at(20))
	ready := *bound
	ready.Ready = true
	s.SetPod(&ready)
	want(t, "to become Ready is none", event(), at(-100))
	s.SetNow(at(30))
	leaving := ready
	leaving.Deleting = at(60)
	s.SetPod(&leaving)
	want(t, "it is being deleted", event(), at(30))
	s.SetNow(at(40))
	s.DeletePod("default/a")
	want(t, "it has left", event(), at(40))

	s.SetNow(at(50))
	spare := pod("spare", "low", "n")
	spare.Class.Priority = -11
	groups := &model.NodePool{Name: "groups", Scaling: &model.GroupScaling{Cutoff: model.PriorityCutoff{Set: true, Below: -10}}}
	s.Pools.SetPool(groups)
	s.SetPod(spare)
	want(t, "an expendable pod comes", event(), at(40))
	s.DeletePod("default/spare")
	want(t, "and leaves", event(), at(40))
	s.Pools.SetPool(&model.NodePool{Name: "other"})
	s.SetPod(spare)
	want(t, "it might get a node of another pool", event(), at(50))
}

func TestFlights(t *testing.T) {
	flying := func(s *State, seconds int) []string {
		out := []string{}
		for k := range s.Snapshot(at(seconds)).InFlight {
			out = append(out, string(k))
		}
		slices.Sort(out)
		return out
	}
	begin := func() *State {
		s := fresh()
		s.SetClaim(claim("c", ""), 5)
		s.InFlight.BeginAction("claim/uid-c", "claim/c", at(60))
		return s
	}
	s := begin()
	want(t, "begun", flying(s, 0), []string{"claim/uid-c"})
	want(t, "given up", flying(s, 60), []string{})
	s.InFlight.RecordAnswer("claim/uid-c", 7, at(0), at(15))
	want(t, "answered, not read back", flying(s, 1), []string{"claim/uid-c"})
	s.SetClaim(claim("c", ""), 6)
	want(t, "an older version was read", flying(s, 1), []string{"claim/uid-c"})
	s.SetClaim(claim("c", ""), 7)
	want(t, "read back", flying(s, 1), []string{})

	s = begin()
	s.SetClaim(claim("c", ""), 7)
	s.InFlight.RecordAnswer("claim/uid-c", 7, at(0), at(15))
	want(t, "read before the answer came", flying(s, 1), []string{})

	s = begin()
	s.InFlight.RecordAnswer("claim/uid-c", 7, at(0), at(15))
	s.ExpireActions(at(15))
	want(t, "never read back", flying(s, 15), []string{})

	s = begin()
	s.DeleteClaim("c")
	want(t, "its object is gone", flying(s, 1), []string{})

	s = fresh()
	s.InFlight.BeginAction("create/c", "", at(60))
	s.SetClaim(claim("c", ""), 1)
	want(t, "a claim that was to be made is there", flying(s, 1), []string{})

	s = fresh()
	s.SetClaim(claim("c", ""), 1)
	s.InFlight.BeginAction("delete/uid-c", "", at(60))
	d := claim("c", "")
	d.Deleting = at(1)
	s.SetClaim(d, 2)
	want(t, "a claim that was to go goes", flying(s, 1), []string{})

	s = fresh()
	s.SetPod(pod("a", "k", "n"))
	s.InFlight.BeginAction("evict/uid-a", "", at(60))
	p := pod("a", "k", "n")
	p.Deleting = at(1)
	s.SetPod(p)
	want(t, "a pod that was to go goes", flying(s, 1), []string{})

	s.InFlight.RecordAnswer("never begun", 1, at(0), at(1))
	s.InFlight.EndAction("never begun")
	want(t, "nothing", flying(s, 1), []string{})
}

func TestFailuresAreHiddenLongerAndLonger(t *testing.T) {
	s := fresh()
	retry := func(from int) func(int) time.Time { return func(n int) time.Time { return at(from + n*10) } }
	s.InFlight.BeginAction("launch/u", "claim/c", at(60))
	want(t, "first", s.InFlight.RecordFailure("launch/u", retry(0)), 1)
	want(t, "hidden", s.InFlight.HasAction("launch/u", at(9)), true)
	want(t, "next to be looked at", s.ExpireActions(at(5)), at(10))
	want(t, "may be repeated", s.InFlight.HasAction("launch/u", at(10)), false)
	s.ExpireActions(at(10))
	s.InFlight.BeginAction("launch/u", "claim/c", at(70))
	want(t, "second", s.InFlight.RecordFailure("launch/u", retry(10)), 2)
	want(t, "hidden longer", s.InFlight.HasAction("launch/u", at(29)), true)
	s.ExpireActions(at(29 + 61 + 1))
	want(t, "after a quiet minute", s.InFlight.RecordFailure("launch/u", retry(100)), 1)
	s.InFlight.BeginAction("launch/u", "claim/c", at(200))
	s.InFlight.RecordAnswer("launch/u", 0, at(0), at(115))
	s.ExpireActions(at(115))
	want(t, "after it went well", s.InFlight.RecordFailure("launch/u", retry(120)), 1)
}

// TestUndoneThoughCallsAreSlowOrFail writes the same again and again where answers take longer than what was undone is remembered otherwise, and
// where half of the calls fail or their answers are lost.
func TestUndoneThoughCallsAreSlowOrFail(t *testing.T) {
	play := func(fails func(i int) bool) (pauses []int) {
		s, now := fresh(), 0
		u := plan.UpdateNode{Node: "n", UID: "uid-n", Labels: map[string]string{"ours": "true"}}
		for i := range 12 {
			s.Begin(u, at(now), at(now+60))
			now += 9
			s.ExpireActions(at(now)) // as each step does meanwhile
			if fails(i) {
				s.InFlight.RecordFailure(u.Key(), func(int) time.Time { return at(now + 10) })
				now += 10
				s.ExpireActions(at(now))
				continue
			}
			s.InFlight.RecordAnswer(u.Key(), uint64(now), at(now), at(now+15))
			s.SetNode(&model.Node{Name: "n", UID: "uid-n"}, uint64(now))
			pause := 0
			for s.InFlight.HasAction(u.Key(), at(now+pause)) {
				pause++
			}
			now += pause
			s.ExpireActions(at(now))
			pauses = append(pauses, pause)
		}
		return pauses
	}
	want(t, "slow", play(func(int) bool { return false }), []int{0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30})
	want(t, "every second fails", play(func(i int) bool { return i%2 == 1 }), []int{0, 0, 0, 0, 1, 2})
}

// TestUndoneChangesAreRepeatedLessAndLess writes the same into a node again and again, as where somebody else removes it each time.
func TestUndoneChangesAreRepeatedLessAndLess(t *testing.T) {
	write := func(s *State, value string, now int) (pause int) {
		u := plan.UpdateNode{Node: "n", UID: "uid-n", Labels: map[string]string{"ours": value}, Annotations: map[string]string{"written-at": strconv.Itoa(now)}, Why: plan.Reason{Pool: strconv.Itoa(now)}}
		s.Begin(u, at(now), at(now+60))
		s.SetNode(&model.Node{Name: "n", UID: "uid-n"}, uint64(now+1)) // it is seen before the answer comes
		s.InFlight.RecordAnswer(u.Key(), uint64(now+1), at(now), at(now+15))
		s.SetNode(&model.Node{Name: "n", UID: "uid-n"}, uint64(now+2)) // somebody removes it
		for s.InFlight.HasAction(u.Key(), at(now+pause)) {
			pause++
		}
		s.ExpireActions(at(now + pause))
		return pause
	}
	s := fresh()
	now, pauses := 0, []int{}
	for range 12 {
		pause := write(s, "true", now)
		pauses, now = append(pauses, pause), now+max(1, pause)
	}
	want(t, "the same again and again", pauses, []int{0, 0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30})
	u := plan.UpdateNode{Node: "n", UID: "uid-n", Labels: map[string]string{"ours": "true"}, Annotations: map[string]string{"written-at": "now"}}
	s.Begin(u, at(now), at(now+60))
	s.InFlight.RecordAnswer(u.Key(), uint64(now), at(now), at(now+15))
	want(t, "what is told of it", s.Snapshot(at(now)).Undone, map[model.ActionKey]model.UndoneChange{"node/uid-n": {Times: 12, Since: at(0)}})
	now += 30
	want(t, "something else", write(s, "false", now), 0)
	want(t, "what was undone before", write(s, "true", now+1), 30)
	want(t, "after some quiet seconds", write(s, "true", now+31+5), 0)
	for i := range 3 {
		write(s, "true", now+37+i)
	}
	s.DeleteNode("n")
	want(t, "another node of that name", write(s, "true", now+41), 0)

	s = fresh()
	now, pauses = 0, nil
	for i := range 14 {
		pause := write(s, []string{"true", "false"}[i%2], now)
		pauses, now = append(pauses, pause), now+max(1, pause)
	}
	want(t, "two changes that undo each other", pauses, []int{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 4, 4})
}

func TestProvisionalClaims(t *testing.T) {
	show := func(s *State) string {
		out := ""
		for _, c := range s.Snapshot(at(0)).Claims {
			out += fmt.Sprintf("%s provisional=%t ", c.Name, c.Provisional)
		}
		return out
	}
	provisional := &model.Claim{Name: "c", Provisional: true}
	s := fresh()
	s.InFlight.BeginAction("create/c", "", at(60))
	s.Overlay.AddProvisionalClaim(provisional)
	want(t, "shown", show(s), "c provisional=true ")
	s.SetClaim(claim("c", ""), 1)
	want(t, "has come", show(s), "c provisional=false ")
	s.Overlay.DropProvisionalClaim("c")
	want(t, "what has come stays", show(s), "c provisional=false ")
	s.Overlay.AddProvisionalClaim(provisional)
	want(t, "what is there is not shadowed", show(s), "c provisional=false ")

	s = fresh()
	s.InFlight.BeginAction("create/c", "", at(60))
	s.Overlay.AddProvisionalClaim(provisional)
	s.Overlay.DropProvisionalClaim("c")
	want(t, "failed", show(s), "")

	s = fresh()
	s.InFlight.BeginAction("create/c", "", at(60))
	s.Overlay.AddProvisionalClaim(provisional)
	s.InFlight.RecordAnswer("create/c", 9, at(0), at(15))
	s.ExpireActions(at(14))
	want(t, "waited for", show(s), "c provisional=true ")
	s.ExpireActions(at(15))
	want(t, "never seen: made and gone again", show(s), "")

	s = fresh()
	s.InFlight.BeginAction("create/c", "", at(60))
	s.Overlay.AddProvisionalClaim(provisional)
	s.SetClaim(claim("c", ""), 1)
	s.DeleteClaim("c")
	s.InFlight.RecordAnswer("create/c", 0, at(0), at(300))
	want(t, "seen and gone again before the answer came", show(s), "")
	want(t, "and not in flight", s.InFlight.HasAction("create/c", at(0)), false)
}

func TestAssumedSlots(t *testing.T) {
	show := func(s *State) string { return fmt.Sprint(len(s.Snapshot(at(0)).Claims[0].Slots)) }
	slots := func(n int) []model.Slot { return make([]model.Slot, n) }
	with := func(n int) *model.Claim {
		c := claim("c", "")
		c.Slots = slots(n)
		return c
	}
	begin := func() *State {
		s := fresh()
		s.SetClaim(with(1), 1)
		s.InFlight.BeginAction("slots/uid-c", "claim/c", at(60))
		s.Overlay.AssumeSlots("c", slots(2))
		return s
	}
	s := begin()
	want(t, "shown before they are written", show(s), "2")
	s.SetClaim(with(1), 2)
	want(t, "the claim changed otherwise", show(s), "2")
	s.InFlight.RecordAnswer("slots/uid-c", 3, at(0), at(15))
	s.SetClaim(with(2), 3)
	want(t, "read back", show(s), "2")
	s.SetClaim(with(0), 4)
	want(t, "changed later", show(s), "0")

	s = begin()
	s.SetClaim(with(5), 2)
	s.Overlay.AssumeSlots("c", slots(3))
	s.Overlay.DropSlots("c")
	want(t, "not written: as last read", show(s), "5")
	s.Overlay.DropSlots("c")
	s.Overlay.DropSlots("nobody")
	s.Overlay.AssumeSlots("nobody", slots(1))
	want(t, "once more", show(s), "5")
}

// TestRemovedReservation has somebody remove everything from a NodeClaim that says what it is reserved for: it is shown as before, and slots that
// we remove are.
func TestRemovedReservation(t *testing.T) {
	show := func(s *State) string {
		c := s.Snapshot(at(0)).Claims[0]
		return fmt.Sprint(c.UID, " ", len(c.Slots), " ", c.Reserved, " ", c.NoReserve)
	}
	marked := func(n int) *model.Claim {
		c := claim("c", "")
		c.Slots, c.Reserved = make([]model.Slot, n), true
		return c
	}
	s := fresh()
	s.SetClaim(marked(2), 1)
	s.SetClaim(claim("c", ""), 2)
	want(t, "all removed", show(s), "uid-c 2 true ")
	s.InFlight.BeginAction("slots/uid-c", "claim/c", at(60))
	s.Overlay.AssumeSlots("c", nil)
	s.InFlight.RecordAnswer("slots/uid-c", 3, at(0), at(15))
	s.SetClaim(claim("c", ""), 3)
	want(t, "slots removed by us", show(s), "uid-c 0 true ")
	s.SetClaim(claim("c", ""), 4)
	want(t, "and once more", show(s), "uid-c 0 true ")

	s = fresh()
	s.SetClaim(marked(2), 1)
	s.SetClaim(claim("c", ""), 2)
	s.InFlight.BeginAction("slots/uid-c", "claim/c", at(60))
	s.Overlay.AssumeSlots("c", make([]model.Slot, 3))
	s.InFlight.RecordAnswer("slots/uid-c", 3, at(0), at(15))
	for version := uint64(3); version < 5; version++ {
		written := claim("c", "")
		written.Slots = make([]model.Slot, 3)
		s.SetClaim(written, version)
		want(t, "all removed, then slots written by us", show(s), "uid-c 3 true ")
	}

	s = fresh()
	s.SetClaim(marked(2), 1)
	s.SetClaim(marked(0), 2)
	want(t, "another process removes slots", show(s), "uid-c 0 true ")

	s = fresh()
	provisional := marked(2)
	provisional.UID, provisional.Provisional = "", true
	s.Overlay.AddProvisionalClaim(provisional)
	s.SetClaim(claim("c", ""), 1)
	want(t, "removed when it was created", show(s), "uid-c 2 true ")

	s = fresh()
	s.SetClaim(marked(2), 1)
	again := claim("c", "")
	again.UID = "uid-again"
	s.SetClaim(again, 2)
	want(t, "another NodeClaim of the name", show(s), "uid-again 0 false ")
}

func TestSlotsInDoubt(t *testing.T) {
	slots := func(n int) []model.Slot { return []model.Slot{{Class: "k", Owner: "o", Count: n}} }
	with := func(n int) *model.Claim {
		c := claim("c", "")
		c.Slots = slots(n)
		return c
	}
	show := func(s *State) string {
		c := s.Snapshot(at(0)).Claims[0]
		return fmt.Sprint(c.Slots[0].Count, " ", c.SlotsUnsure)
	}
	write := func(s *State, n int) {
		s.InFlight.BeginAction("slots/uid-c", "claim/c", at(3600))
		s.Overlay.AssumeSlots("c", slots(n))
	}
	fails := func(s *State, then func(string)) {
		s.InFlight.RecordFailure("slots/uid-c", func(int) time.Time { return at(1) })
		then("c")
	}
	begin := func() *State {
		s := fresh()
		s.SetClaim(with(2), 1)
		write(s, 3)
		return s
	}

	s := begin()
	fails(s, s.Overlay.DoubtSlots)
	want(t, "no answer came", show(s), "3 true")
	s.SetClaim(with(2), 2)
	want(t, "not written when the claim changed otherwise", show(s), "3 true")
	s.ExpireActions(at(62))
	s.SetClaim(with(2), 3)
	want(t, "nor a minute later", show(s), "3 true")
	s.SetClaim(with(3), 4)
	want(t, "it was written", show(s), "3 false")
	s.SetClaim(with(1), 5)
	want(t, "and changed later", show(s), "1 false")

	s = begin()
	fails(s, s.Overlay.DoubtSlots)
	write(s, 2)
	fails(s, s.Overlay.DoubtSlots)
	want(t, "taken back, and no answer either", show(s), "2 true")
	s.SetClaim(with(3), 2)
	want(t, "the first was written", show(s), "2 true")
	write(s, 2)
	s.InFlight.RecordAnswer("slots/uid-c", 3, at(0), at(15))
	s.Overlay.ConfirmSlots("c")
	want(t, "taken back at last", show(s), "2 false")
	s.SetClaim(with(2), 3)
	want(t, "and read", show(s), "2 false")

	s = begin()
	fails(s, s.Overlay.DoubtSlots)
	write(s, 3)
	fails(s, s.Overlay.DropSlots)
	want(t, "refused, but no answer came of the first", show(s), "3 true")
	write(s, 3)
	fails(s, s.Overlay.DropSlots)
	want(t, "refused again", show(s), "2 false")

	s = begin()
	fails(s, s.Overlay.DoubtSlots)
	write(s, 3)
	fails(s, s.Overlay.DropSlots)
	write(s, 3)
	fails(s, s.Overlay.DoubtSlots)
	write(s, 3)
	fails(s, s.Overlay.DropSlots)
	want(t, "refused, then no answer, then refused", show(s), "3 true")
	write(s, 3)
	s.InFlight.RecordAnswer("slots/uid-c", 2, at(0), at(15))
	s.Overlay.ConfirmSlots("c")
	write(s, 4)
	fails(s, s.Overlay.DoubtSlots)
	write(s, 4)
	fails(s, s.Overlay.DropSlots)
	want(t, "answered at last; then no answer and refused", show(s), "4 true")

	s = begin()
	s.SetClaim(with(3), 2)
	fails(s, s.Overlay.DoubtSlots)
	want(t, "shown before it failed", show(s), "3 false")
	s.SetClaim(with(1), 3)
	want(t, "and changed later", show(s), "1 false")

	s.Overlay.DoubtSlots("nobody")
	s.Overlay.ConfirmSlots("nobody")
}

func TestAssumedReservations(t *testing.T) {
	show := func(s *State) string {
		snap := s.Snapshot(at(0))
		return fmt.Sprintf("%s %v", snap.Pending[0].Tolerating, snap.Pending[0].Reservations)
	}
	s := fresh()
	s.SetPod(pod("a", "k", ""))
	s.InFlight.BeginAction("tolerate/uid-a/c", "", at(60))
	s.Overlay.AssumeToleration("default/a", "uid-a", "c")
	want(t, "shown before it is written", show(s), "c []")
	s.SetPod(pod("a", "k", ""))
	want(t, "the pod changed otherwise", show(s), "c []")
	want(t, "in flight still", s.InFlight.HasAction("tolerate/uid-a/c", at(1)), true)
	p := pod("a", "k", "")
	p.Reservations = []string{"c"}
	s.SetPod(p)
	want(t, "read back", show(s), " [c]")
	want(t, "not in flight", s.InFlight.HasAction("tolerate/uid-a/c", at(1)), false)

	s = fresh()
	s.SetPod(pod("a", "k", ""))
	s.Overlay.AssumeToleration("default/a", "uid-a", "c")
	s.Overlay.DropToleration("default/a", "uid-a", "c")
	want(t, "not written", show(s), " []")
	s.Overlay.AssumeToleration("default/a", "uid-a", "c")
	s.SetPod(p)
	s.Overlay.DropToleration("default/a", "uid-a", "c")
	want(t, "no answer came, and the watch has shown it", show(s), " [c]")
	s.SetPod(pod("a", "k", ""))
	s.Overlay.AssumeToleration("default/a", "another uid", "c")
	s.Overlay.AssumeToleration("default/nobody", "uid", "c")
	want(t, "another pod's", show(s), " []")
}

func TestARefusedTolerationIsRemembered(t *testing.T) {
	s := fresh()
	s.SetPod(pod("a", "k", ""))
	s.Overlay.RefuseToleration("default/a", "another uid")
	want(t, "another pod's", s.Snapshot(at(0)).Pending[0].Unreservable, false)
	before := s.Snapshot(at(0))
	s.Overlay.RefuseToleration("default/a", "uid-a")
	want(t, "refused", s.Snapshot(at(0)).Pending[0].Unreservable, true)
	want(t, "a snapshot stays as it was", before.Pending[0].Unreservable, false)
	s.SetPod(pod("a", "k", ""))
	want(t, "the pod changed otherwise", s.Snapshot(at(0)).Pending[0].Unreservable, true)
	s.DeletePod("default/a")
	want(t, "forgotten with the pod", len(s.Overlay.intolerant), 0)
}

// TestAPodChangesWhereItStands: whatever changes of a pod on a node is seen.
func TestAPodChangesWhereItStands(t *testing.T) {
	identity := map[string]bool{"Namespace": true, "Name": true, "UID": true, "Node": true, "Nominated": true, "Created": true, "Seen": true, "First": true, "Successor": true,
		"Terminal": true, "Gated": true, "Mirror": true, "Unreservable": true, "Unbindable": true, "Binding": true, "Tolerating": true, "Expected": true, "Buffer": true, "Placeholder": true, "EndsWithNamespace": true} // what never changes, ends its stay, or is not read from it
	typ, looked := reflect.TypeFor[model.Pod](), 0
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		if identity[name] {
			continue
		}
		s := fresh()
		s.SetNode(&model.Node{Name: "n", UID: "n"}, 1)
		s.SetPod(pod("a", "k", "n"))
		s.Snapshot(at(0))
		q := pod("a", "k", "n")
		f := reflect.ValueOf(q).Elem().Field(i)
		switch v := f.Addr().Interface().(type) {
		case *string:
			*v = "another"
		case *bool:
			*v = true
		case *int32:
			*v = 7
		case *time.Duration:
			*v = time.Minute
		case *time.Time:
			*v = at(7)
		case *[]string:
			*v = []string{"another"}
		case *model.Owner:
			v.Name = "another"
		case *model.Gang:
			v.Name = "another"
		case *model.Consumed:
			v.UID = "another"
		case **model.Class:
			*v = class("another")
		default:
			t.Fatalf("field %s is of a kind that this test can't change", name)
		}
		s.SetPod(q)
		got := reflect.ValueOf(s.Snapshot(at(0)).Nodes[0].Pods[0]).Elem().Field(i)
		want(t, name, fmt.Sprint(got.Interface()), fmt.Sprint(f.Interface()))
		looked++
	}
	if looked < 10 {
		t.Fatalf("%d fields looked at", looked)
	}
}

// A pod that was made smaller in place has a successor as large as it was first seen, whatever it was in between; another pod of its name is as it is, and
// so is one that VPA has resized.
func TestCreatedAs(t *testing.T) {
	s := fresh()
	s.SetNode(&model.Node{Name: "n", UID: "n"}, 1)
	for _, step := range []struct {
		uid         string
		cpu, memory int64
		byVPA       bool
		want        int64 // CPU that its successor requests
	}{
		{"u", 3000, 1 << 30, false, 3000}, {"u", 200, 1 << 30, false, 3000}, {"u", 500, 1 << 30, false, 3000}, {"u", 500, 1 << 30, true, 500}, {"u", 3000, 1 << 30, false, 3000},
		{"u", 4000, 1 << 30, false, 4000}, {"u", 200, 1 << 30, false, 3000},
		{"v", 1000, 1 << 30, false, 1000}, {"v", 3000, 1 << 30, false, 3000}, {"v", 1000, 1 << 30, false, 1000}, {"w", 200, 1 << 30, false, 200},
	} {
		p := pod("a", fmt.Sprint(step.cpu, "/", step.memory), "n")
		p.UID, p.Class.Requests, p.ByVPA = step.uid, model.Resources{step.cpu, step.memory, 0, 1}, step.byVPA
		s.SetPod(p)
		if got := s.Snapshot(at(0)).Nodes[0].Pods[0].CreatedAs().Requests.At(model.CPU); got != step.want {
			t.Errorf("pod %s with %d CPU: its successor requests %d, want %d", step.uid, step.cpu, got, step.want)
		}
	}
}

// Only CPU and memory are resized: a class that changes otherwise, as when a volume is bound or a device is not counted any more, is what the successor
// has, as large as the pod was before.
func TestSuccessorOfAChangedClass(t *testing.T) {
	s := fresh()
	s.SetNode(&model.Node{Name: "n", UID: "n"}, 1)
	set := func(key string, cpu, devices int64, volumes ...model.Volume) *model.Pod {
		p := pod("a", key, "n")
		p.Class.Requests, p.Class.Volumes = model.Resources{cpu, 1 << 30, 0, 1, devices}, volumes
		s.SetPod(p)
		return s.Snapshot(at(0)).Nodes[0].Pods[0]
	}
	set("pending", 3000, 1)
	bound := model.Volume{Claim: "default/a", Handle: "vol-1"}
	if p := set("bound", 3000, 0, bound); p.CreatedAs() != p.Class || p.SlotClass() != p.Class {
		t.Errorf("a pod that was not resized has another successor: %+v", p.CreatedAs())
	}
	set("small", 200, 0, bound)
	p := set("labelled", 200, 0, bound, model.Volume{Claim: "default/b", Handle: "vol-2"})
	c := p.CreatedAs()
	if c.Requests.At(model.CPU) != 3000 || c.Requests.At(model.FirstExtended) != 0 || len(c.Volumes) != 2 || p.SlotClass().Key != "bound" || c.SlotKey != "bound" || c.Key == p.Class.Key {
		t.Errorf("the successor of a pod with two volumes that was made smaller is %+v, its slot's class is %s", c, p.SlotClass().Key)
	}
	if q := set("labelled", 200, 0, bound, model.Volume{Claim: "default/b", Handle: "vol-2"}); q.CreatedAs() != c {
		t.Errorf("the same successor is another class")
	}
}

func TestPools(t *testing.T) {
	s := fresh()
	types := []*model.InstanceType{{Name: "m"}}
	s.Pools.SetPool(&model.NodePool{Name: "light", UID: "1", Weight: 1})
	s.Pools.SetPool(&model.NodePool{Name: "b", UID: "2", Weight: 5})
	s.Pools.SetPool(&model.NodePool{Name: "a", UID: "3", Weight: 5})
	s.Pools.SetTypes("a", types)
	s.Pools.SetReady("a", true, model.Condition{})
	s.Pools.SetPool(&model.NodePool{Name: "a", UID: "3", Weight: 5, Ready: true})
	got := ""
	for _, p := range s.Snapshot(at(0)).Pools {
		got += fmt.Sprintf("%s types=%d ready=%t ", p.Name, len(p.Types), p.Ready)
	}
	want(t, "by weight, then name; types stay", got, "a types=1 ready=true b types=0 ready=false light types=0 ready=false ")
	s.Pools.SetPool(&model.NodePool{Name: "a", UID: "4"})
	want(t, "another pool of that name", len(s.Pools.FindPool("a").Types), 0)
	s.Pools.DeletePool("a")
	if s.Pools.FindPool("a") != nil || len(s.Pools.ListPools()) != 2 {
		t.Error("a deleted pool is there")
	}
	s.Pools.SetTypes("a", types)
	s.Pools.SetReady("a", true, model.Condition{})
}

func TestInstances(t *testing.T) {
	s := fresh()
	list := []*model.Instance{{ProviderID: "b"}, {ProviderID: "a", ClaimUID: "u"}}
	s.SetInstances(list, at(1))
	before := s.Snapshot(at(1))
	s.SetNow(at(2))
	s.MarkInstanceGone("a", "u")
	s.MarkInstanceGone("unlisted", "w")
	show := func(snap *model.Snapshot) string {
		out := ""
		for _, i := range snap.Instances {
			out += fmt.Sprintf("%s gone=%t ", i.ProviderID, i.Gone)
		}
		return out
	}
	want(t, "before", show(before), "a gone=false b gone=false ")
	want(t, "after", show(s.Snapshot(at(2))), "a gone=true b gone=false unlisted gone=true ")
	want(t, "asked for", s.Snapshot(at(2)).InstancesAt, at(1))

	// What the cloud has said of a claim's machine holds until the claim is gone, whatever older lists show and later ones leave out.
	c := claim("c", "")
	c.UID, c.ProviderID = "u", "a"
	s.SetClaim(c, 1)
	s.SetNow(at(3))
	s.MarkInstanceGone("a", "u")
	s.SetInstances([]*model.Instance{{ProviderID: "a", ClaimUID: "u"}}, at(2))
	want(t, "by an older list", show(s.Snapshot(at(4))), "a gone=true unlisted gone=true ")
	s.SetInstances(nil, at(5))
	want(t, "by a later list", show(s.Snapshot(at(5))), "a gone=true ")
	s.SetInstances([]*model.Instance{{ProviderID: "a", ClaimUID: "u"}}, at(6))
	want(t, "by a later list that has it yet", show(s.Snapshot(at(6))), "a gone=false ")
	s.SetInstances(nil, at(7))
	want(t, "by the next", show(s.Snapshot(at(7))), "a gone=true ")
	s.DeleteClaim("c")
	s.SetInstances(nil, at(8))
	want(t, "without its claim", show(s.Snapshot(at(8))), "")
}

func TestLaunchFailures(t *testing.T) {
	s := fresh()
	s.SetClaim(claim("c", ""), 1)
	s.RecordLaunchFailure("uid-c", model.LaunchFailure{Kind: "Unknown", Message: "no"})
	before := s.Snapshot(at(0))
	want(t, "kept", before.Failures["uid-c"].Kind, "Unknown")
	c := claim("c", "m")
	c.Conditions = map[string]model.Condition{"Launched": {Status: "True"}}
	s.SetClaim(c, 2)
	want(t, "launched after all", len(s.Snapshot(at(0)).Failures), 0)
	want(t, "a snapshot stays as it was", len(before.Failures), 1)
	s.RecordLaunchFailure("uid-c", model.LaunchFailure{Kind: "Unknown"})
	s.DeleteClaim("c")
	want(t, "claim gone", len(s.Snapshot(at(0)).Failures), 0)
}

func TestNodeClasses(t *testing.T) {
	s := fresh()
	s.Pools.SetNodeClass(NodeClass{Group: "g", Kind: "K", Name: "b", Version: 1})
	s.Pools.SetNodeClass(NodeClass{Group: "g", Kind: "K", Name: "a", Version: 2})
	list := s.Pools.ListNodeClasses()
	want(t, "sorted", list[0].Name+list[1].Name, "ab")
	s.InFlight.BeginAction("class/g/K/a", "class/g/K/a", at(60))
	s.InFlight.RecordAnswer("class/g/K/a", 3, at(0), at(15))
	want(t, "in flight", s.InFlight.HasAction("class/g/K/a", at(1)), true)
	s.Pools.SetNodeClass(NodeClass{Group: "g", Kind: "K", Name: "a", Version: 3})
	want(t, "read back", s.InFlight.HasAction("class/g/K/a", at(1)), false)
	s.Pools.DeleteNodeClass("g", "K", "a")
	if s.Pools.FindNodeClass("g", "K", "a") != nil {
		t.Error("a deleted class is there")
	}
}

// What was heard about a claim is shown before it is written, over what is read meanwhile, until it is read back.
func TestAnnotationsAreShownBeforeTheyAreRead(t *testing.T) {
	s := fresh()
	shown := func() string { return s.Snapshot(at(0)).Claims[0].Annotations["k"] }
	s.Overlay.AnnotateClaim("c", "k", "nobody's")
	read := claim("c", "m")
	s.SetClaim(read, 1)
	want(t, "before", shown(), "")
	s.Overlay.AnnotateClaim("c", "k", "v")
	want(t, "heard", shown(), "v")
	want(t, "the object read", len(read.Annotations), 0)
	s.SetClaim(claim("c", "m"), 2)
	want(t, "another change came first", shown(), "v")
	want(t, "not read back", s.Overlay.HasAnnotation("uid-c"), true)
	back := claim("c", "m")
	back.Annotations = model.Labels{"k": "v"}
	s.SetClaim(back, 3)
	want(t, "read back", s.Overlay.HasAnnotation("uid-c"), false)
	s.SetClaim(claim("c", "m"), 4)
	want(t, "taken off by somebody", shown(), "")
	s.Overlay.AnnotateClaim("c", "k", "v")
	s.DeleteClaim("c")
	s.SetClaim(claim("c", "m"), 5)
	want(t, "after its end", shown(), "")
}

func TestClaimsOfAGroupNotLaunchedYet(t *testing.T) {
	s := fresh()
	of := func(name, provider, group string) *model.Claim {
		c := claim(name, provider)
		c.Requirements = model.NewRequirements(model.OneOf(model.LabelNodeGroup, group))
		return c
	}
	made, begun, adopts, goes := of("made", "", "web"), of("begun", "", "web"), of("adopts", "", "web"), of("goes", "", "web")
	adopts.Annotations = model.Labels{model.AnnotationAdopt: "m"}
	goes.Deleting = at(1)
	for i, c := range []*model.Claim{made, begun, adopts, goes, of("stands", "m1", "web"), of("other", "", "db"), claim("free", "")} {
		s.SetClaim(c, uint64(i+1))
	}
	making := of("making", "", "web")
	making.Provisional, making.UID = true, ""
	s.Overlay.AddProvisionalClaim(making)
	s.InFlight.BeginAction("launch/uid-begun", "claim/begun", at(60))
	want(t, "of web", s.CountUnlaunched("web"), 2)
	want(t, "of db", s.CountUnlaunched("db"), 1)
	want(t, "of none", s.CountUnlaunched("x"), 0)
}

// TestOutages: the cloud does not answer for a minute or more. One call that fails is no outage, and an answer to what was asked before does not end one.
func TestOutages(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	s := New()
	check := func(now int, want ...model.Outage) {
		t.Helper()
		if have := s.Snapshot(at(now)).Outages; !slices.Equal(have, want) {
			t.Errorf("at %d s: outages %v, want %v", now, have, want)
		}
	}
	s.SetInstances(nil, at(1))
	s.NoteUnreadInstances(at(10))
	check(69)
	s.SetInstances(nil, at(20))
	s.NoteUnreadInstances(at(100))
	s.NoteUnreadInstances(at(150))
	s.SetInstances(nil, at(90))
	check(200, model.Outage{From: at(100), To: at(200)})
	s.MarkInstanceGone("a", "u")
	check(210, model.Outage{From: at(100), To: at(210)})
	s.SetInstances(nil, at(220))
	check(1000, model.Outage{From: at(100), To: at(220)})
	for i := range 40 {
		s.NoteUnreadInstances(at(1000 + 200*i))
		s.SetInstances(nil, at(1100+200*i))
	}
	if n := len(s.Snapshot(at(20000)).Outages); n != outagesKept {
		t.Errorf("%d outages are remembered, want %d", n, outagesKept)
	}
}
