// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

func TestMain(m *testing.M) { casetest.Drawn(m, 100, 300_000) }

// drawInput draws any claim with anything around it, also what should never be.
func drawInput(t *rapid.T) Input {
	yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
	at := func(what string) time.Time {
		return epoch.Add(time.Duration(rapid.IntRange(0, 1200).Draw(t, what)) * time.Second)
	}
	maybe := func(what string) (out time.Time) {
		if yes(what + "?") {
			out = at(what)
		}
		return out
	}
	c := &model.Claim{Name: "c", UID: "uid-c", Pool: "p", Created: epoch, ExpireAfter: -1, TerminationGracePeriod: -1, HasFinalizer: yes("finalizer"),
		Labels: model.Labels{}, Annotations: model.Labels{}, Conditions: map[string]model.Condition{}, Reserved: yes("reserved"), Deleting: maybe("deleting")}
	if yes("expires") {
		c.ExpireAfter = 10 * time.Minute
	}
	if yes("node group") {
		c.Labels[model.LabelNodeGroup] = "g"
	}
	if yes("graced") {
		c.TerminationGracePeriod = time.Minute
	}
	for _, k := range []string{Launched, Registered, Initialized} {
		since := maybe(k)
		if since.IsZero() {
			break
		}
		c.ProviderID = "m"
		c.Conditions[k] = model.Condition{Status: "True", Reason: k, Since: since}
	}
	in := Input{Claim: c, Now: at("now"), Policy: DefaultPolicy(), InstancesAt: maybe("listed"), Awaited: rapid.IntRange(0, 2).Draw(t, "awaited")}
	if yes("startup taint") {
		c.StartupTaints = []model.Taint{{Key: "cni", Effect: model.NoSchedule}}
	}
	if yes("pool") {
		in.Pool = &model.NodePool{Name: "p", ConsolidateAfter: time.Duration(rapid.IntRange(-1, 60).Draw(t, "after")) * time.Second}
	}
	if yes("machine") {
		in.Instances = append(in.Instances, &model.Instance{ProviderID: "m", ClaimUID: "uid-c", Gone: yes("gone"), Coming: yes("coming")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "outages") {
		from := at("outage")
		if n := len(in.Outages); n > 0 {
			from = model.LaterOf(from, in.Outages[n-1].To)
		}
		if to := from.Add(time.Duration(rapid.IntRange(60, 600).Draw(t, "lasts")) * time.Second); !to.After(in.Now) {
			in.Outages = append(in.Outages, model.Outage{From: from, To: to})
		}
	}
	if yes("failed") {
		in.Failure = &model.LaunchFailure{Kind: rapid.SampledFrom([]string{"Unknown", "Throttled", "InsufficientCapacity", "NotFound", "Denied"}).Draw(t, "kind")}
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "nodes") {
		n := &model.Node{Name: fmt.Sprint("n", i), UID: fmt.Sprint("uid-n", i), ProviderID: "m", Ready: yes("ready"), Created: at("node"), Deleting: maybe("node deleting"),
			Labels: model.Labels{}, Annotations: model.Labels{}, HasFinalizer: yes("node finalizer"), LastPodEvent: maybe("pod event")}
		for _, l := range []string{model.LabelRegistered, model.LabelInitialized} {
			if yes(l) {
				n.Labels[l] = "true"
			}
		}
		for _, x := range []model.Taint{{Key: model.TaintUnregistered, Effect: model.NoExecute}, {Key: model.TaintDisrupted, Effect: model.NoSchedule},
			{Key: model.TaintReserved, Value: "c", Effect: model.NoSchedule}, {Key: "node.kubernetes.io/not-ready", Effect: model.NoSchedule}} {
			if yes(x.Key) {
				n.Taints = append(n.Taints, x)
			}
		}
		for j := range rapid.IntRange(0, 3).Draw(t, "pods") {
			n.Pods = append(n.Pods, &model.Pod{Namespace: "default", Name: fmt.Sprint("p", i, j), UID: fmt.Sprint("uid-p", i, j), Node: n.Name, Deleting: maybe("pod deleting"),
				GracePeriod: time.Duration(rapid.IntRange(0, 90).Draw(t, "grace")) * time.Second, Bound: epoch,
				DoNotDisrupt: rapid.SampledFrom([]string{"", "true", "5m"}).Draw(t, "keep"),
				Class:        &model.Class{Daemon: yes("daemon"), Critical: yes("critical")}})
		}
		in.Nodes = append(in.Nodes, n)
	}
	return in
}

// TestNextAlways holds any claim against what must be true of every answer.
func TestNextAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		out := Next(in)
		if !out.Next.IsZero() && !out.Next.After(in.Now) {
			t.Fatalf("to look again at %s, which is not after now, %s: the loop would spin", out.Next, in.Now)
		}
		drained := true
		for _, n := range in.Nodes {
			if !n.Ready && InstanceIsGone(&in) {
				continue // no list has its machine: its pods are given up
			}
			for _, p := range n.Pods {
				drained = drained && !p.Deleting.IsZero() && in.Now.Sub(p.Deleting) > in.Policy.StuckPod
			}
		}
		for _, a := range out.Actions {
			if a.Because().Code == "" {
				t.Fatalf("no reason: %s", action(a))
			}
			switch a := a.(type) {
			case plan.LaunchClaim:
				if in.Claim.Is(Launched) || !in.Claim.Deleting.IsZero() {
					t.Fatalf("launched again or in vain: %s", action(a))
				}
			case plan.DeleteClaim:
				if !in.Claim.Deleting.IsZero() {
					t.Fatalf("deleted twice: %s", action(a))
				}
				seen := in.Now.Sub(epoch) // how long the cloud could be read
				for _, o := range in.Outages {
					seen -= o.To.Sub(o.From)
				}
				switch a.Why.Code {
				case plan.LaunchTimeout:
					if seen < in.Policy.LaunchTimeout || in.InstancesAt.Sub(epoch) < in.Policy.LaunchTimeout || isListed(&in) || isComing(&in) && seen < in.Policy.RegistrationTimeout {
						t.Fatalf("given up after %s, listed at %s: its instance may be there, or come: %s", seen, in.InstancesAt, action(a))
					}
				case plan.RegistrationTimeout:
					if c := in.Claim; c.NodeGroup() != "" && in.Now.Sub(c.Conditions[Launched].Since) < in.Policy.RegistrationTimeout {
						t.Fatalf("given up at %s, launched at %s: its node may come: %s", in.Now, c.Conditions[Launched].Since, action(a))
					}
					if seen < in.Policy.RegistrationTimeout {
						t.Fatalf("given up after %s: its node may come: %s", seen, action(a))
					}
				}
			case plan.Evict, plan.DeletePod, plan.DeleteNode:
				if in.Claim.Deleting.IsZero() {
					t.Fatalf("a live claim's node is drained: %s", action(a))
				}
			case plan.Terminate:
				if in.Claim.Deleting.IsZero() {
					t.Fatalf("a live claim's machine is ended: %s", action(a))
				}
				if !drained {
					t.Fatalf("a machine is ended under its pods: %s", action(a))
				}
			case plan.UpdateNode:
				// Somebody may have taken our labels off, and nobody removes a startup taint twice.
				registered := in.Claim.Conditions[Registered]
				for _, n := range in.Nodes {
					if n.Name == a.Node && registered.True() && n.Created.Before(registered.Since) && !hasTaint(n.Taints, unregisteredTaint) && slices.ContainsFunc(a.AddTaints, func(t model.Taint) bool { return hasTaint(in.Claim.StartupTaints, t) }) {
						t.Fatalf("a startup taint is put on a node that has been registered: %s", action(a))
					}
				}
			case plan.UpdateClaim:
				if a.RemoveFinalizer && len(in.Instances) > 0 && !in.Instances[0].Gone {
					t.Fatalf("a claim is let go while its machine stands: %s", action(a))
				}
				if a.RemoveFinalizer && in.Claim.ProviderID != "" && len(in.Instances) == 0 {
					t.Fatalf("a claim is let go though nobody has asked for the end of its machine by its id: %s", action(a))
				}
			}
		}
		again := Next(in)
		if describe(out) != describe(again) {
			t.Fatalf("asked twice, answered twice:\n%s\n%s", describe(out), describe(again))
		}
	})
}
