// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// teamPool shows a pool whose nodes have a team.
func teamPool(s *state.State, team string, change func(*model.NodePool)) {
	p := &model.NodePool{Name: team, UID: "uid-" + team, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidateAfter: -1, Ready: true,
		Labels: model.Labels{"team": team}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, team), model.OneOf("team", team),
			model.OneOf(model.LabelInstanceType, "cheap", "dear")), ClassGroup: "g", ClassKind: "K", ClassName: "c"}
	change(p)
	s.Pools.SetPool(p)
}

// Beside a live Karpenter Dovetail launches for the pods of a pool that was taken over, not for those that fit one of
// Karpenter's, and leaves Karpenter's NodeClaims alone; that Karpenter's lease lapses changes nothing.
func TestDivision(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Emit(func(*state.State) { b.c.Policy.NodeClasses = []string{"g/K"} }) // as the wiring has it
		b.emit(func(s *state.State) {                                             // the bench's own pool is Karpenter's; its pods ask for no team
			teamPool(s, "ours", func(p *model.NodePool) { p.Taken = true })
			teamPool(s, "theirs", func(*model.NodePool) {})
			// A claim of Karpenter's whose instance no list of ours has.
			s.SetClaim(&model.Claim{Name: "theirs-1", UID: "uid-theirs-1", Pool: "theirs", ProviderID: "other://1", ClassGroup: "g", ClassKind: "K", ClassName: "c",
				Created: time.Now(), HasFinalizer: true, ExpireAfter: time.Second, TerminationGracePeriod: -1, Labels: model.Labels{}, Conditions: map[string]model.Condition{
					"Launched": {Status: "True", Since: time.Now()}, "Registered": {Status: "True", Since: time.Now()}}}, 1)
		})
		b.c.SetOtherAutoscalers([]string{karpenter})
		b.lead()
		team := func(name, team string) {
			now := time.Now()
			b.emit(func(s *state.State) {
				c := &model.Class{Key: name, Namespace: "default", Requests: model.Resources{1000, 1 << 30, 0, 1}, Scheduler: "default-scheduler"}
				if team != "" {
					c.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf("team", team))}}
				}
				s.SetPod(&model.Pod{Namespace: "default", Name: name, UID: "uid-" + name, Created: now, Unschedulable: now, Class: c,
					Owner: model.Owner{Kind: "ReplicaSet", Name: name, UID: "uid-" + name}})
			})
		}
		team("any", "")
		team("a", "theirs")
		time.Sleep(10 * time.Second)
		if have := b.touched(); len(have) > 0 {
			for _, m := range have {
				if m.kind != "pool" {
					t.Errorf("it did %v", m)
				}
			}
		}
		team("b", "ours")
		time.Sleep(10 * time.Second)
		if have := b.made("create"); len(have) != 1 {
			t.Fatalf("created %v, want one for the pod of the pool that was taken over", have)
		}
		if have := b.made("launch"); len(have) != 1 {
			t.Errorf("launched %v, want one", have)
		}
		for subject, want := range map[string]string{"nodepool/theirs": "Karpenter; Dovetail launches and removes no nodes of this NodePool",
			"pod/default/a": "a node of a NodePool that Karpenter manages; Dovetail launches none for it"} {
			a, err := b.c.Answers.Explain(t.Context(), subject)
			if err != nil || a.Gone || len(a.Facts) == 0 || a.Facts[len(a.Facts)-1].Value != want {
				t.Errorf("why %s: %+v, %v; want %q", subject, a.Answer, err, want)
			}
		}
		if p, err := b.c.Answers.ExplainPending(t.Context()); err != nil || len(p.Causes) == 0 || len(p.Causes[0].Pods) != 2 || !strings.Contains(p.Causes[0].Cause, "Karpenter manages") {
			t.Errorf("pods --pending: %+v, %v; want two pods that wait for NodePools of Karpenter", p, err)
		}
		b.c.SetOtherAutoscalers(nil) // its lease has lapsed
		team("c", "theirs")
		time.Sleep(time.Minute)
		if have := b.made("create"); len(have) != 1 {
			t.Errorf("created %v though the pool is Karpenter's", have[1:])
		}
		if have := b.made("delete"); len(have) > 0 {
			t.Errorf("deleted %v", have)
		}
		b.emit(func(s *state.State) { // given back: nothing is new, then nothing is done
			teamPool(s, "ours", func(p *model.NodePool) { p.Taken, p.Release = true, model.ReleaseSettle })
		})
		for range 5 { // more than the first node has room for
			team("d", "ours")
		}
		time.Sleep(time.Minute)
		if have := b.made("create"); len(have) != 1 {
			t.Errorf("created %v for a pool that is given back", have[1:])
		}
		b.emit(func(s *state.State) { teamPool(s, "ours", func(p *model.NodePool) { p.Manager = "karpenter" }) })
		time.Sleep(time.Second)
		var told []string
		for _, e := range b.c.Ledger.Past().Entries(time.Time{}, func(e ledger.Entry) bool { return e.Kind == "stand down" || e.Kind == "act" }) {
			told = append(told, e.Kind+": "+e.Outcome)
		}
		if !slices.Equal(told, []string{"stand down: released to Karpenter, with its NodeClaims"}) {
			t.Errorf("the ledger says %q of the NodePool", told)
		}
	})
}

// A node class that is deleted while pools are divided: nothing of either side is touched, the pods are told what is
// missing, and as soon as it is there again Dovetail launches for its own pool.
func TestDivisionWithoutNodeClass(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Emit(func(*state.State) { b.c.Policy.NodeClasses = []string{"g/K"} })
		done := model.Condition{Status: "True", Since: time.Now()}
		b.emit(func(s *state.State) {
			teamPool(s, "ours", func(p *model.NodePool) { p.Taken = true })
			teamPool(s, "theirs", func(*model.NodePool) {})
			for _, pool := range []string{"ours", "theirs"} {
				s.SetClaim(&model.Claim{Name: pool + "-1", UID: "uid-" + pool, Pool: pool, ProviderID: "m-" + pool, NodeName: pool + "-1", ClassGroup: "g", ClassKind: "K", ClassName: "c",
					Created: time.Now(), HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1, Labels: model.Labels{}, Conditions: map[string]model.Condition{
						"Launched": done, "Registered": done, "Initialized": done}}, 1)
				s.SetNode(&model.Node{Name: pool + "-1", UID: "uid-node-" + pool, ProviderID: "m-" + pool, Ready: true, Created: time.Now(), HasFinalizer: true, Labels: model.Labels{
					model.LabelNodePool: pool, model.LabelRegistered: "true", model.LabelInitialized: "true"}}, 1)
			}
		})
		b.mu.Lock()
		for _, pool := range []string{"ours", "theirs"} {
			b.bought = append(b.bought, model.Instance{ProviderID: "m-" + pool, ClaimUID: "uid-" + pool, ClaimName: pool + "-1", Launched: time.Now()})
		}
		b.mu.Unlock()
		b.c.SetOtherAutoscalers([]string{karpenter})
		b.lead()
		b.emit(func(s *state.State) { s.Pools.DeleteNodeClass("g", "K", "c") })
		now := time.Now()
		b.emit(func(s *state.State) {
			s.SetPod(&model.Pod{Namespace: "default", Name: "a", UID: "uid-a", Created: now, Unschedulable: now, Owner: model.Owner{Kind: "ReplicaSet", Name: "a", UID: "uid-rs"},
				Class: &model.Class{Key: "a", Namespace: "default", Requests: model.Resources{1000, 1 << 30, 0, 1}, Scheduler: "default-scheduler",
					Terms: []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf("team", "ours"))}}}})
		})
		time.Sleep(time.Minute)
		for _, kind := range []string{"create", "launch", "delete", "terminate", "evict", "class", "end"} {
			if have := b.made(kind); len(have) > 0 {
				t.Errorf("it did %v without the node class", have)
			}
		}
		said := false
		for _, e := range b.made("event") {
			said = said || strings.HasPrefix(e.what, "Pod a FailedScheduling") && strings.Contains(e.what, "K.g c, which does not exist; create it")
		}
		if !said {
			t.Errorf("the pod was not told that the node class is missing: %v", b.made("event"))
		}
		b.emit(func(s *state.State) {
			s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "c", UID: "class-2", Generation: 1})
		})
		time.Sleep(5 * time.Second)
		if have := b.made("launch"); len(have) != 1 {
			t.Errorf("launched %v once the node class was there again, want one", have)
		}
		if have := append(b.made("delete"), b.made("terminate")...); len(have) > 0 {
			t.Errorf("it did %v", have)
		}
	})
}

// Of two kinds of pools that are divided between autoscalers, those that bear no mark are another's where one of their kind
// was taken over or given back, and while another autoscaler is live.
func TestDivisionOfKinds(t *testing.T) {
	group, rest := &model.NodePool{OfGroups: true}, &model.NodePool{}
	for name, x := range map[string]struct {
		marked       model.NodePool
		live         bool
		groups, rest bool
	}{
		"a group was taken over":                        {model.NodePool{OfGroups: true, Taken: true}, false, true, false},
		"a group was given back":                        {model.NodePool{OfGroups: true, Manager: "cluster-autoscaler"}, false, true, false},
		"a pool of Karpenter's was taken over":          {model.NodePool{Taken: true}, false, false, true},
		"a group was taken over, and the other is live": {model.NodePool{OfGroups: true, Taken: true}, true, true, true},
	} {
		d := &division{}
		d.setKinds([]*model.NodePool{&x.marked, group, rest}, x.live)
		if have := d.isAnothers(group); have != x.groups {
			t.Errorf("%s: a pool of node groups is another's: %t", name, have)
		}
		if have := d.isAnothers(rest); have != x.rest {
			t.Errorf("%s: any other pool is another's: %t", name, have)
		}
		if have, want := d.isAnothers(&x.marked), x.marked.Manager != ""; have != want {
			t.Errorf("%s: the marked pool is another's: %t", name, have)
		}
	}
}

// A pod that a pool of Dovetail's and one of Karpenter's could hold is Karpenter's to launch for. When that pool has
// reached its limit, none of its nodes is on its way, and that has lasted, Dovetail launches.
func TestDivisionWithFullPool(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Emit(func(*state.State) { b.c.Policy.NodeClasses = []string{"g/K"} })
		theirs := func(initialized string) *model.Claim {
			return &model.Claim{Name: "theirs-1", UID: "uid-theirs-1", Pool: "theirs", ProviderID: "other://1", ClassGroup: "g", ClassKind: "K", ClassName: "c",
				Created: time.Now(), HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1, Labels: model.Labels{}, Capacity: model.Resources{4000},
				Conditions: map[string]model.Condition{"Launched": {Status: "True"}, "Registered": {Status: "True"}, "Initialized": {Status: initialized}}}
		}
		b.emit(func(s *state.State) {
			teamPool(s, "ours", func(p *model.NodePool) { p.Taken = true })
			teamPool(s, "theirs", func(p *model.NodePool) { p.Limits, p.HasLimit = model.Resources{4000}, []bool{true} })
		})
		b.c.SetOtherAutoscalers([]string{karpenter})
		b.lead()
		now := time.Now()
		b.emit(func(s *state.State) {
			s.SetPod(&model.Pod{Namespace: "default", Name: "a", UID: "uid-a", Created: now, Unschedulable: now, Owner: model.Owner{Kind: "ReplicaSet", Name: "a", UID: "uid-rs"},
				Class: &model.Class{Key: "a", Namespace: "default", Requests: model.Resources{1000, 1 << 30, 0, 1}, Scheduler: "default-scheduler",
					Terms: []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf("team", "ours", "theirs"))}}}})
		})
		time.Sleep(3 * time.Minute)
		if have := b.made("create"); len(have) > 0 {
			t.Errorf("created %v while Karpenter's pool has room within its limit", have)
		}
		b.emit(func(s *state.State) { s.SetClaim(theirs("False"), 1) })
		time.Sleep(3 * time.Minute)
		if have := b.made("create"); len(have) > 0 {
			t.Errorf("created %v while a node of Karpenter's that may hold the pod is on its way", have)
		}
		b.emit(func(s *state.State) { s.SetClaim(theirs("True"), 2) })
		time.Sleep(20 * time.Second)
		if have := b.made("create"); len(have) > 0 {
			t.Errorf("created %v at once", have)
		}
		time.Sleep(2 * time.Minute)
		if have := b.made("create"); len(have) != 1 {
			t.Errorf("created %v, want one: Karpenter's pool is full", have)
		}
	})
}

// Beside a live Cluster Autoscaler the status of a NodeGroupClass is written from when a group was taken over, and not
// before; that of any other node class is when Cluster Autoscaler is gone and no pool is left to it.
func TestDivisionWritesGroupStatus(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Emit(func(*state.State) { b.c.Policy.NodeClasses = []string{"g/K"} })
		b.classStatus = func(k cloud.NodeClass) cloud.ClassStatus {
			return cloud.ClassStatus{Conditions: map[string]model.Condition{"Ready": {Status: "True", Reason: "Of", Message: k.Name}}}
		}
		group := func(change func(*model.NodePool)) {
			b.emit(func(s *state.State) {
				s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "web", UID: "class-web", Generation: 1, Scaling: &model.GroupScaling{Unread: true}})
				teamPool(s, "web", func(p *model.NodePool) { p.ClassName, p.OfGroups = "web", true; change(p) })
			})
		}
		group(func(*model.NodePool) {})
		b.c.SetOtherAutoscalers([]string{"Cluster Autoscaler"})
		b.lead()
		time.Sleep(3 * time.Minute)
		if have := b.made("class"); len(have) > 0 {
			t.Fatalf("written while it is passive: %v", have)
		}
		group(func(p *model.NodePool) { p.Taken = true })
		time.Sleep(time.Second)
		if have := b.made("class"); len(have) != 1 || have[0].what != "True Of: web" {
			t.Errorf("written within a second of the takeover: %v, want the class of node groups", have)
		}
		time.Sleep(3 * time.Minute)
		of := func(class string) (n int) {
			for _, have := range b.made("class") {
				if have.what == "True Of: "+class {
					n++
				}
			}
			return n
		}
		if n := of("c"); n > 0 {
			t.Errorf("the status of the other node class was written %d times", n)
		}
		b.c.SetOtherAutoscalers(nil) // it is gone, and no pool is its: nothing is shared any more
		time.Sleep(2 * time.Minute)
		if of("c") == 0 {
			t.Error("the status of the other node class was not written when Cluster Autoscaler was gone")
		}
	})
}
