// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// The cloud of a sandbox misbehaves, in one way after the other.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := own(t)
	t.Run("out of capacity", func(t *testing.T) { outOfCapacity(t, s) })
	t.Run("never registers", func(t *testing.T) { neverRegisters(t, s) })
	t.Run("never ready", func(t *testing.T) { neverReady(t, s) })
	t.Run("calls that fail", func(t *testing.T) { callsThatFail(t, s) })
	if err := everythingGivenBack(s); err != nil {
		t.Error(err)
	}
}

// faults makes things go wrong until the test ends.
func (e *env) faults(fs ...machines.Fault) {
	e.t.Helper()
	e.must(e.s.AddFaults(e.ctx, fs...))
	e.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Scale(limit))
		defer cancel()
		if err := e.s.ClearFaults(ctx); err != nil {
			e.t.Error(err)
		}
	})
}

// spent waits until every fault has been had.
func (e *env) spent() {
	e.t.Helper()
	e.until("every fault has been had", func() error {
		left, err := e.s.Faults(e.ctx)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("still to come: %+v", left)
		}
		return nil
	})
}

// history keeps every NodeClaim of the test's pool that was ever seen, as it was first seen, by name.
type history struct {
	mu     sync.Mutex
	claims map[string]karpv1.NodeClaim
	err    error
}

// watchClaims records until the test ends.
func (e *env) watchClaims() *history {
	h := &history{claims: map[string]karpv1.NodeClaim{}}
	go func() {
		err := sandbox.Watch(e.ctx, e.s, claims, func(_ string, c *karpv1.NodeClaim) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if _, ok := h.claims[c.Name]; !ok && c.Labels[karpv1.LabelNodePool] == e.name {
				h.claims[c.Name] = *c
			}
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		h.err = err
	}()
	return h
}

func (h *history) seen(t testing.TB) []karpv1.NodeClaim {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		t.Fatalf("the record of claims is not whole: %v", h.err)
	}
	var out []karpv1.NodeClaim
	for _, c := range h.claims {
		out = append(out, c)
	}
	return out
}

// typesOf are the instance types that a claim allows.
func typesOf(c *karpv1.NodeClaim) []string {
	for _, r := range c.Spec.Requirements {
		if r.Key == corev1.LabelInstanceTypeStable && r.Operator == corev1.NodeSelectorOpIn {
			return r.Values
		}
	}
	return nil
}

// The cheapest type is nowhere to be had: its claim goes, the offerings are set aside, and the pods run on the next best at once.
func outOfCapacity(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "capacity") // with types that no other test of this sandbox wants: they stay set aside for a while
	h := e.watchClaims()
	e.faults(machines.Fault{Kind: machines.OutOfCapacity, InstanceType: "m4.large"})
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m4.large", "m4.2xlarge")})
	e.deploy("first", 1, e.pod("1", "1Gi"))
	e.podsRun(1)
	all := e.claimsAre(1, "Ready", ready)
	if got := all[0].Labels[corev1.LabelInstanceTypeStable]; got != "m4.2xlarge" {
		t.Errorf("the pod runs on %s, want m4.2xlarge", got)
	}
	var failed string
	for _, c := range h.seen(t) {
		if slices.Contains(typesOf(&c), "m4.large") {
			failed = c.Name
		}
	}
	if failed == "" {
		t.Fatalf("no claim asked for m4.large, so nothing was tested: %+v", h.seen(t))
	}
	if failed == all[0].Name {
		t.Errorf("claim %s failed and is still there", failed)
	}
	e.event("NodeClaim", failed, "InsufficientCapacityError", "m4.large")

	// The fault is over, but for three minutes nobody asks for the type again.
	e.must(e.s.ClearFaults(e.ctx))
	e.deploy("second", 1, e.pod("7", "1Gi"))
	e.podsRun(2)
	e.claimsAre(2, "Ready", ready)
	asked := 0
	for _, c := range h.seen(t) {
		if c.Name != failed && slices.Contains(typesOf(&c), "m4.large") {
			asked++
		}
	}
	if asked > 0 {
		t.Errorf("m4.large was asked for again by %d claims while it is set aside", asked)
	}
	if n := len(e.launches(e.name)); n != 2 {
		t.Errorf("%d machines were launched, want 2", n)
	}
}

// A machine that never registers holds up only the pods that wait for it; when its claim is deleted they get another.
func neverRegisters(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "mute")
	e.faults(machines.Fault{Kind: machines.NeverRegisters, InstanceType: "m5.xlarge", Count: 1})
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge", "c5.2xlarge")})
	e.deploy("waits", 1, e.pod("2", "10Gi"))
	mute := e.claimsAre(1, "Launched", func(c *karpv1.NodeClaim) bool { return isTrue(c, karpv1.ConditionLaunched) })[0]
	e.spent()
	// Another pod, for which there is no room on it, is not held up.
	e.deploy("goes-on", 1, e.pod("6", "1Gi"))
	e.until("the other pod runs", func() error {
		for _, p := range e.pods() {
			if p.Labels["app"] == "goes-on" && p.Status.Phase == corev1.PodRunning {
				return nil
			}
		}
		return fmt.Errorf("it does not")
	})
	now, err := sandbox.Get[karpv1.NodeClaim](e.ctx, e.s, claims+"/"+mute.Name)
	e.must(err)
	if c := conditionOf(now.Status.Conditions, karpv1.ConditionRegistered); now.DeletionTimestamp != nil || c == nil || c.Status == metav1.ConditionTrue ||
		isTrue(now, karpv1.ConditionReady) {
		t.Errorf("claim %s: conditions %s, want one that says it is not registered", mute.Name, conditionsText(now.Status.Conditions))
	}
	e.must(e.s.Delete(e.ctx, claims+"/"+mute.Name, ""))
	e.podsRun(2)
	e.until("the mute machine is gone", func() error {
		for _, in := range e.standing() {
			if in.ClaimUID == string(mute.UID) {
				return fmt.Errorf("machine %s is %s", in.ID, in.State)
			}
		}
		return nil
	})
	e.claimsAre(2, "Ready", ready)
}

// A machine that registers and never becomes Ready is told apart from one that is coming along, and can be deleted.
func neverReady(t *testing.T, s *sandbox.Sandbox) {
	e := newEnv(t, s, "unready")
	e.faults(machines.Fault{Kind: machines.NeverReady, InstanceType: "m5.xlarge", Count: 1})
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	e.deploy("waits", 1, e.pod("2", "2Gi"))
	bad := e.claimsAre(1, "Registered", func(c *karpv1.NodeClaim) bool { return isTrue(c, karpv1.ConditionRegistered) })[0]
	e.spent()
	var said *metav1.Condition
	e.until("the claim says that it is not initialised", func() error {
		c, err := sandbox.Get[karpv1.NodeClaim](e.ctx, e.s, claims+"/"+bad.Name)
		if err != nil {
			return err
		}
		if said = conditionOf(c.Status.Conditions, karpv1.ConditionInitialized); said == nil || said.Status != metav1.ConditionUnknown {
			return fmt.Errorf("%s", conditionsText(c.Status.Conditions))
		}
		if isTrue(c, karpv1.ConditionReady) {
			t.Fatalf("claim %s is Ready: %s", c.Name, conditionsText(c.Status.Conditions))
		}
		return nil
	})
	if n := e.node(bad.Status.NodeName); n.Labels["karpenter.sh/initialized"] == "true" || n.Labels["karpenter.sh/registered"] != "true" {
		t.Errorf("node %s: labels %v, want registered and not initialized", n.Name, n.Labels)
	}
	e.must(e.s.Delete(e.ctx, claims+"/"+bad.Name, ""))
	e.podsRun(1)
	e.claimsAre(1, "Ready", ready)
	if n := len(e.launches(e.name)); n != 2 {
		t.Errorf("%d machines were launched, want 2", n)
	}
}

// Calls that are refused for a while or whose answer is lost are repeated, and have their effect once.
func callsThatFail(t *testing.T, s *sandbox.Sandbox) {
	for _, c := range []struct {
		name   string
		faults []machines.Fault
		gone   bool // it is about the end of a machine
	}{
		{name: "throttled-launch", faults: []machines.Fault{{Kind: machines.Throttle, Call: machines.CallLaunch, Delay: machines.Duration(300 * time.Millisecond), Count: 3}}},
		{name: "lost-launch", faults: []machines.Fault{{Kind: machines.LostReply, Call: machines.CallLaunch, Count: 2}}},
		{name: "lost-list", faults: []machines.Fault{{Kind: machines.ListLag, Delay: machines.Duration(2 * time.Second), Duration: machines.Duration(4 * time.Second)}}},
		{name: "throttled-end", gone: true, faults: []machines.Fault{{Kind: machines.Throttle, Call: machines.CallTerminate, Delay: machines.Duration(300 * time.Millisecond), Count: 2}}},
		{name: "lost-end", gone: true, faults: []machines.Fault{{Kind: machines.LostReply, Call: machines.CallTerminate, Count: 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t, s, c.name)
			e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge"), "spec.disruption.consolidateAfter": "0s"})
			if !c.gone {
				e.faults(c.faults...)
			}
			e.deploy("web", 2, e.pod("2", "2Gi"))
			e.podsRun(2)
			e.claimsAre(2, "Ready", ready)
			if c.gone {
				e.faults(c.faults...)
			}
			e.scale("web", 0)
			e.givenBack()
			e.spent()
			if all := e.launches(e.name); len(all) != 2 { // launches also checks that no claim was launched twice
				var ids []string
				for _, in := range all {
					ids = append(ids, in.ID)
				}
				t.Errorf("%d machines were launched, want 2: %s", len(all), strings.Join(ids, ", "))
			}
		})
	}
}
