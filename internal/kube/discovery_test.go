// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// TestNodeGroups: a group that is found gets a pool and a class, which follow its tags and nobody else; one that is not found any more
// is let go, and its pool goes when its last machine has.
func TestNodeGroups(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	ctx, cancel := context.WithCancel(p.ctx)
	finds := make(chan func() ([]translate.NodeGroup, error)) // each look is answered by the test
	done := make(chan error)
	d := &write.Discovery{Settings: translate.DefaultGroupSettings(), Every: time.Millisecond, Log: slog.New(slog.DiscardHandler), Find: func(ctx context.Context) ([]translate.NodeGroup, error) {
		select {
		case f := <-finds:
			return f()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	go func() { done <- write.NodeGroups(ctx, p.us, d) }()
	defer cancel()
	found := func(groups ...translate.NodeGroup) {
		t.Helper()
		// Twice: what the first look has made is seen by the second.
		for range 2 {
			select {
			case finds <- func() ([]translate.NodeGroup, error) { return groups, nil }:
			case <-p.ctx.Done():
				t.Fatal("groups are not looked for")
			}
		}
	}
	until := func(what string, groups []translate.NodeGroup, ok func(s *state.State) bool) {
		t.Helper()
		stop := make(chan struct{})
		fed := make(chan struct{})
		go func() { // looks that come while the test waits find the same
			defer close(fed)
			for {
				select {
				case finds <- func() ([]translate.NodeGroup, error) { return groups, nil }:
				case <-stop:
					return
				}
			}
		}()
		w.until(what, ok)
		close(stop)
		testwait.Receive(t, "the end of the looks", fed)
	}
	tags := map[string]string{
		dovetailv1alpha1.TagEnabled: "true", dovetailv1alpha1.TagNodeTemplateLabel + "team": "a", dovetailv1alpha1.TagNodeTemplateTaint + "dedicated": "web:NoSchedule",
	}
	web := []translate.NodeGroup{{Name: "grp-web", Tags: tags}}
	found(web...)
	until("the group's pool", web, func(s *state.State) bool {
		return s.Pools.FindPool("grp-web") != nil && s.Pools.FindNodeClass(dovetailv1alpha1.Group, dovetailv1alpha1.KindNodeGroupClass, "grp-web") != nil
	})
	pool := w.s.Pools.FindPool("grp-web")
	if !pool.Ready || pool.Labels["team"] != "a" || len(pool.Taints) != 1 || pool.ConsolidateAfter != 10*time.Minute || pool.ExpireAfter != -1 ||
		pool.ClassKind != dovetailv1alpha1.KindNodeGroupClass || pool.NodeLimit != -1 || pool.LetGo {
		t.Fatalf("pool came out as %+v", pool)
	}

	// Its tags change, and somebody else changes the pool: the tags win, but the weight is the user's.
	tags = maps.Clone(tags)
	tags[dovetailv1alpha1.TagNodeTemplateLabel+"team"] = "b"
	tags[dovetailv1alpha1.TagNodeTemplateOption+dovetailv1alpha1.OptionUnneededTime] = "3m"
	web = []translate.NodeGroup{{Name: "grp-web", Tags: tags}}
	if err := kubetest.Kubectl(nil, "patch", "nodepool", "grp-web", "--type=merge", "-p", `{"spec":{"weight":7,"disruption":{"consolidateAfter":"1s"}}}`); err != nil {
		t.Fatal(err)
	}
	until("the pool as its tags say", web, func(s *state.State) bool {
		x := s.Pools.FindPool("grp-web")
		return x.Labels["team"] == "b" && x.ConsolidateAfter == 3*time.Minute && x.Weight == 7
	})

	// Its class is what its tags say, whoever changes it.
	if err := kubetest.Kubectl(nil, "patch", "nodegroupclass", "grp-web", "--type=merge", "-p", `{"spec":{"selectorTerms":[{"name":"another"}]}}`); err != nil {
		t.Fatal(err)
	}
	until("the class as its group says", web, func(*state.State) bool {
		class, ok := p.us.Seen.GroupClasses.Get("grp-web")
		return ok && class.Generation > 2 && len(class.Spec.SelectorTerms) == 1 && class.Spec.SelectorTerms[0].Name == "grp-web"
	})

	// A pool of that name that is somebody else's is left alone.
	other := []translate.NodeGroup{web[0], {Name: "grp-other"}}
	if err := kubetest.Kubectl([]byte(`{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"grp-other"},"spec":{"template":{"spec":{"requirements":[],"nodeClassRef":{"group":"karpenter.kwok.sh","kind":"KWOKNodeClass","name":"default"}}}}}`), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	until("the other pool", other, func(s *state.State) bool { return s.Pools.FindPool("grp-other") != nil })
	found(other...)
	found(web...)
	if x := w.s.Pools.FindPool("grp-other"); x.ClassKind != "KWOKNodeClass" || x.Deleting || x.LetGo {
		t.Fatalf("somebody else's pool came out as %+v", x)
	}

	// A look that fails changes nothing.
	for range 2 {
		finds <- func() ([]translate.NodeGroup, error) { return nil, errors.New("throttled") }
	}

	// With a machine, it is not found any more: let go, and the claim stays. Found again, it is as before.
	pool = w.s.Pools.FindPool("grp-web")
	must(p.actor.CreateClaim(p.ctx, plan.CreateClaim{Name: "grp-web-1", Pool: pool, Requirements: pool.Requirements}))(t)
	until("its claim", web, func(s *state.State) bool { return s.FindClaim("grp-web-1") != nil })
	until("the pool let go", nil, func(s *state.State) bool {
		x := s.Pools.FindPool("grp-web")
		return x.LetGo && x.NodeLimit == 0 && x.ConsolidateAfter == -1 && len(x.Budgets) == 1 && x.Budgets[0].Nodes == 0
	})
	found()
	found()
	if w.s.Pools.FindPool("grp-web").Deleting || !w.s.FindClaim("grp-web-1").Deleting.IsZero() {
		t.Fatal("the pool or its claim goes while there is a machine")
	}
	until("the pool as it was", web, func(s *state.State) bool {
		x := s.Pools.FindPool("grp-web")
		return !x.LetGo && x.NodeLimit == -1 && x.ConsolidateAfter == 3*time.Minute
	})

	// Let go again, its machine leaves for a reason of its own: so do pool and class.
	until("the pool let go again", nil, func(s *state.State) bool { return s.Pools.FindPool("grp-web").LetGo })
	must(p.actor.DeleteClaim(p.ctx, plan.DeleteClaim{Claim: "grp-web-1", UID: w.s.FindClaim("grp-web-1").UID}))(t)
	must(p.actor.UpdateClaim(p.ctx, plan.UpdateClaim{Claim: "grp-web-1", UID: w.s.FindClaim("grp-web-1").UID, RemoveFinalizer: true}))(t)
	until("all of it gone", nil, func(s *state.State) bool {
		return s.FindClaim("grp-web-1") == nil && s.Pools.FindPool("grp-web") == nil && s.Pools.FindNodeClass(dovetailv1alpha1.Group, dovetailv1alpha1.KindNodeGroupClass, "grp-web") == nil
	})
	if w.s.Pools.FindPool("grp-other") == nil {
		t.Error("somebody else's pool went too")
	}
	cancel()
	if err := testwait.Receive(t, "the end of NodeGroups", done); err != nil {
		t.Error(err)
	}
	testPriorities(t, p, w) // on the same objects, so not beside this
}

// testPriorities: pools have the weights that the ConfigMap of the expander priority gives their groups, as it is now. Of one that can't be read
// is told why, and what was read last stays in force, also in the next process.
func testPriorities(t *testing.T, p *plane, w *world) {
	told := make(chan string, 100)
	var groups atomic.Pointer[[]translate.NodeGroup]
	groups.Store(&[]translate.NodeGroup{{Name: "grp-a"}, {Name: "grp-spot"}})
	discover := func() (stop func()) {
		ctx, cancel := context.WithCancel(p.ctx)
		set := translate.DefaultGroupSettings()
		set.Expanders = []dovetailv1alpha1.Expander{dovetailv1alpha1.ExpanderPriority}
		d := &write.Discovery{Settings: set, Every: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler), Priorities: "kube-system",
			Find: func(context.Context) ([]translate.NodeGroup, error) { return *groups.Load(), nil },
			Tell: func(kind, namespace, name, uid string, warn bool, reason, message string) {
				p.actor.Event(kind, namespace, name, uid, warn, reason, message)
				told <- kind + " " + namespace + "/" + name + " " + reason + ": " + message
			}}
		done := make(chan error)
		go func() { done <- write.NodeGroups(ctx, p.us, d) }()
		return func() {
			cancel()
			if err := testwait.Receive(t, "the end of NodeGroups", done); err != nil {
				t.Error(err)
			}
		}
	}
	put := func(text string) {
		t.Helper()
		if err := kubetest.Kubectl([]byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"kube-system","name":%q},"data":{"priorities":%q}}`, translate.PriorityConfigMap, text)), "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	weights := func(what string, want map[string]int32) {
		t.Helper()
		w.until(what, func(s *state.State) bool {
			for name, weight := range want {
				if x := s.Pools.FindPool(name); x == nil || x.Weight != weight {
					return false
				}
			}
			return true
		})
	}
	invalid := func(cause string) {
		t.Helper()
		select {
		case said := <-told:
			if want := "ConfigMap kube-system/" + translate.PriorityConfigMap + " PriorityConfigMapInvalid: data.priorities: "; !strings.HasPrefix(said, want) || !strings.Contains(said, cause) {
				t.Errorf("said %q, want %s… %s", said, want, cause)
			}
		case <-p.ctx.Done():
			t.Fatal("nothing was said of a ConfigMap that can't be read")
		}
	}
	if err := kubetest.Kubectl(nil, "apply", "-f", "../../charts/dovetail/optional/priorities.yaml"); err != nil {
		t.Fatal(err)
	}
	put("10: [\"^grp-\"]\n50: [spot]")
	stop := discover()
	weights("the weights of the ConfigMap", map[string]int32{"grp-a": 10, "grp-spot": 50})
	put("50: [a$]\n10: [spot]")
	weights("the weights of the ConfigMap as it is now", map[string]int32{"grp-a": 50, "grp-spot": 10})
	put("50: [\"(\"]")
	invalid("invalid regular expression")
	if err := kubetest.Kubectl(nil, "patch", "nodepool", "grp-a", "--type=merge", "-p", `{"spec":{"weight":7}}`); err != nil {
		t.Fatal(err)
	}
	w.until("somebody's weight", func(s *state.State) bool { return s.Pools.FindPool("grp-a").Weight == 7 })
	weights("the weights that were read last", map[string]int32{"grp-a": 50, "grp-spot": 10})
	put("high: [spot]")
	invalid(`"high": a priority is a whole number`)

	stop()
	groups.Store(&[]translate.NodeGroup{{Name: "grp-a"}, {Name: "grp-new"}, {Name: "grp-spot"}})
	stop = discover()
	invalid("whole number")
	weights("the weights as they were before the process ended", map[string]int32{"grp-a": 50, "grp-spot": 10, "grp-new": 0})
	put("20: [new]")
	weights("the weights of a ConfigMap that can be read again", map[string]int32{"grp-a": 0, "grp-spot": 0, "grp-new": 20})
	if err := kubetest.Kubectl(nil, "-n", "kube-system", "delete", "configmap", translate.PriorityConfigMap); err != nil {
		t.Fatal(err)
	}
	weights("no weights without it", map[string]int32{"grp-a": 0, "grp-spot": 0, "grp-new": 0})
	groups.Store(&[]translate.NodeGroup{})
	w.until("the pools gone", func(s *state.State) bool {
		return s.Pools.FindPool("grp-a") == nil && s.Pools.FindPool("grp-new") == nil && s.Pools.FindPool("grp-spot") == nil
	})
	stop()
	if err := kubetest.Kubectl(nil, "-n", "kube-system", "wait", "--for=jsonpath={.reason}=PriorityConfigMapInvalid", "events", "--field-selector=involvedObject.name="+translate.PriorityConfigMap, "--timeout=60s"); err != nil {
		t.Error(err)
	}
}
