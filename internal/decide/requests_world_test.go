// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/decide/requests"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// drawRequest draws a ProvisioningRequest of pods alike, and adds the workload that consumes it, which has no pods yet.
func drawRequest(t *rapid.T, w *world, name string) (*model.ProvisioningRequest, *sim.Workload) {
	r := &model.ProvisioningRequest{Namespace: "default", Name: name, UID: "uid-" + name, Created: w.Now, CheckOnly: rapid.IntRange(0, 3).Draw(t, "only checked") == 3,
		ValidFor: time.Duration(rapid.SampledFrom([]int{60, 600, 7 * 86400}).Draw(t, "valid for")) * time.Second, Accepted: model.Condition{Status: "True", Reason: requests.Accepted}}
	r.NoRetry = r.CheckOnly && rapid.Bool().Draw(t, "no retry")
	pods := model.Class{Namespace: "default", Labels: model.Labels{"app": name}, Scheduler: model.DefaultScheduler, Request: r.Key(),
		Requests: model.Resources{rapid.SampledFrom([]int64{900, 1500, 3000, 7000}).Draw(t, "cpu of a request's pod"), 128 << 20, 0, 1}}
	if rapid.IntRange(0, 4).Draw(t, "spread over zones by taints") == 4 {
		sel := model.NewRequirements(model.OneOf("app", name))
		pods.Spread = []model.SpreadConstraint{{TopologyKey: model.LabelZone, MaxSkew: 1, MinDomains: 2, Hard: true, HonorTaints: true, Selector: &sel}}
	}
	c := classOf(pods)
	c.SlotKey = "request " + c.Key
	r.Sets = []model.RequestedPods{{Class: c, Count: rapid.IntRange(1, 8).Draw(t, "pods of a request")}}
	r.Sets[0].Gang = r.Gang()
	l := &sim.Workload{Name: name, Class: c, Grace: time.Second, Gang: r.Gang(), Consumes: model.Consumed{Request: r.Key(), UID: r.UID}}
	w.Workloads = append(w.Workloads, l)
	w.SetRequest(r)
	return r, l
}

// requestNamed returns a request as the API server has it.
func (w *world) requestNamed(name string) *model.ProvisioningRequest {
	for _, r := range w.Requests {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// capacityFor counts the pods of a request that run, and those for which Ready nodes have capacity that is free or held for them.
func (w *world) capacityFor(r *model.ProvisioningRequest) (n int) {
	class := r.Sets[0].Class
	for _, p := range w.Pods {
		if p.Consumes.UID == r.UID && p.Node != "" && p.Deleting.IsZero() {
			n++
		}
	}
	for _, node := range w.Nodes {
		if !node.Ready || !node.Deleting.IsZero() {
			continue
		}
		used := model.Resources{}
		for _, p := range w.Pods {
			if p.Node == node.Name {
				used = used.Add(p.Class.Requests)
			}
		}
		for free := node.Allocatable.Sub(used); class.Requests.Fits(free); n++ {
			free = free.Sub(class.Requests)
		}
	}
	return n
}

// TestRequestsSettle lets everything go wrong for a while in a world of workloads and ProvisioningRequests under a limit. No node is launched
// for a request that only checks capacity, and none is provisioned without capacity for all of its pods on Ready nodes. When no more capacity is
// lost, the pods of provisioned requests run on what is held for them, all of them and without a launch, whatever pods of others come before them
// and however late kube-scheduler hears of what was decided; and in the end nothing is held.
func TestRequestsSettle(t *testing.T) {
	t.Parallel()
	outcomes := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pool().ConsolidateAfter, w.pool().ConsolidationPolicy = 10*time.Second, rapid.SampledFrom([]string{"WhenEmpty", "WhenEmptyOrUnderutilized"}).Draw(t, "consolidates")
		w.pool().NodeLimit = int64(rapid.IntRange(1, 10).Draw(t, "limit"))
		w.SetPool(w.pool())
		consumers, others := map[string]*sim.Workload{}, 0
		complete := map[string]bool{} // by request: all of its pods have a place that is held for them, which may have been lost before
		for i := range rapid.IntRange(1, 3).Draw(t, "requests") {
			name := fmt.Sprint("r", i)
			_, consumers[name] = drawRequest(t, w, name)
		}
		w.judge = func(snap *model.Snapshot, out *Output) {
			for _, a := range out.Actions {
				if a, ok := a.(plan.CreateClaim); ok && a.Why.Code == plan.Demand {
					for _, p := range a.Pods {
						if r := w.requestNamed(strings.TrimPrefix(p.Consumes.Request, "default/")); r != nil && r.CheckOnly && r.IsActive(w.Now) {
							w.fatalf("claim %s is made for request %s, which only checks capacity", a.Name, r.Name)
						}
					}
				}
			}
			for i := range out.Requests {
				x := &out.Requests[i]
				r := x.Request
				complete[r.Name] = x.Ready >= x.Total
				if x.Conditions[model.RequestProvisioned].Status == "True" && !r.IsProvisioned() && w.Faults.Odds == nil {
					if n := w.capacityFor(r); n < x.Total {
						w.fatalf("request %s is provisioned with capacity for %d of %d pods", r.Name, n, x.Total)
					}
				}
			}
		}
		w.wild()
		w.rush(5, 60, 50, 200, 1000, 5000)
		w.say("from here on no capacity is lost")
		if w.Faults.Odds = nil; rapid.Bool().Draw(t, "late news") {
			w.wild(sim.Crash, sim.WatchLags, sim.SlowCall, sim.AnswerLost, sim.SchedulerIsSlow, sim.SchedulerLags, sim.BindingIsLate, sim.PodsOneByOne, sim.NoLookAtDemand)
			w.Faults.Odds[sim.SchedulerLags], w.Faults.Odds[sim.BindingIsLate] = 40, 20
		}
		if rapid.Bool().Draw(t, "lift the limit") {
			w.editPool(func(p *model.NodePool) { p.NodeLimit = -1 })
		}
		// Until each request has been decided on: no booking expires before that.
		decided := false
		for range 3000 {
			w.Tick()
			w.Now = w.Now.Add(500 * time.Millisecond)
			decided = true
			for _, r := range w.Requests {
				decided = decided && (r.IsOver() || r.IsProvisioned() || r.Status[model.RequestProvisioned].Reason == requests.NotFound)
			}
			if decided && (w.Faults.Odds != nil || w.Controller.IsQuiet()) {
				break
			}
		}
		if !decided {
			w.fatalf("a request is neither provisioned nor told that there is no capacity\n%s", w.remains())
		}
		// The pods of those that are provisioned are made, and before them pods of others. Nodes that are not reserved hold nothing against others: only
		// one is looked at then, if there are no other pods.
		reserves, held := w.pol.Landing.Mode != landing.Off, map[string]bool{}
		for _, r := range w.Requests {
			if left := r.Deadline().Sub(w.Now); (reserves || len(held) == 0 && w.Faults.Odds == nil && w.allBound()) && r.IsProvisioned() && !r.IsOver() && complete[r.Name] && left > 3*time.Minute &&
				w.podsOf(consumers[r.Name]) <= r.Total() { // more were made for a while: the others need nodes of their own
				held[r.Name] = true
			}
		}
		w.did = func(a plan.Action) {
			if c, ok := a.(plan.CreateClaim); ok && c.Why.Code == plan.Demand {
				for _, p := range c.Pods {
					if name := p.Owner.Name; held[name] {
						w.fatalf("claim %s is made for request %s, which is provisioned", c.Name, name)
					}
				}
			}
		}
		if reserves && len(held) > 0 {
			w.say("pods of others come while capacity is held for %v", held)
			for range rapid.IntRange(0, 40).Draw(t, "ticks before the pods") {
				if l := w.Workloads[rapid.IntRange(0, len(w.Workloads)-1).Draw(t, "workload")]; l.Consumes.UID == "" && rapid.IntRange(0, 4).Draw(t, "scaled") == 4 {
					l.Want = rapid.IntRange(l.Want, l.Want+8).Draw(t, "pods of others")
				}
				w.Tick()
				w.pause(50, 200, 1000, 3000)
			}
			others = 0
			for _, p := range w.Pods {
				if p.Consumes.UID == "" && p.Node == "" {
					others++
				}
			}
		}
		w.say("the pods of provisioned requests are made: %v", held)
		for name := range held {
			consumers[name].Want = w.requestNamed(name).Total()
		}
		for end := w.Now.Add(time.Minute); w.Now.Before(end); {
			w.Tick()
			w.Now = w.Now.Add(200 * time.Millisecond)
		}
		if w.Faults.Odds = nil; reserves { // what was late comes
			for end := w.Now.Add(time.Minute); w.Now.Before(end); {
				w.Tick()
				w.Now = w.Now.Add(200 * time.Millisecond)
			}
		}
		for _, p := range w.Pods {
			if held[p.Owner.Name] && p.Node == "" {
				w.fatalf("pod %s of a provisioned request does not run\n%s", p.Name, w.remains())
			}
		}
		w.did = nil
		for name := range held {
			outcomes["ran"]++
			if others > 0 {
				outcomes["ran while pods of others were pending"]++
			}
			if r := w.requestNamed(name); !r.Status[model.RequestExpired].True() {
				w.fatalf("all pods of request %s run, and its booking has not ended", name)
			}
		}
		w.editPool(func(p *model.NodePool) { p.NodeLimit = -1 })
		w.Now = w.Now.Add(8 * 24 * time.Hour) // every request fails or expires
		w.settle(6000)
		w.clean()
		for _, r := range w.Requests {
			if !r.IsOver() {
				w.fatalf("request %s is not over: %v", r.Name, r.Status)
			}
			for _, name := range []string{model.RequestFailed, model.RequestExpired, model.RequestRevoked} {
				if r.Status[name].True() {
					outcomes[name+" "+r.Status[name].Reason]++
				}
			}
		}
		for _, c := range w.Claims {
			if c.Is(lifecycle.Initialized) && !w.hasPods(c.NodeName) && !w.Now.Before(w.mem.backOffs.Until(c.UID)) {
				w.fatalf("node %s has no pods and stays", c.NodeName)
			}
		}
	})
	t.Log(outcomes)
	if outcomes["ran"] == 0 || outcomes["ran while pods of others were pending"] == 0 || outcomes["Failed "+requests.ValidityExpired] == 0 {
		untested(t, "too little was tried: %v", outcomes)
	}
}

// cordonBooked cordons a standing node that is reserved for requests that wait for more capacity, and reports whether there was one.
func (w *world) cordonBooked() bool {
	waits := func(c *model.Claim) bool {
		return len(c.Slots) > 0 && !slices.ContainsFunc(c.Slots, func(s model.Slot) bool {
			return !slices.ContainsFunc(w.Requests, func(r *model.ProvisioningRequest) bool { return r.UID == s.Owner && !r.IsProvisioned() && !r.IsOver() })
		})
	}
	const unschedulable = "node.kubernetes.io/unschedulable"
	for _, name := range slices.Sorted(maps.Keys(w.Claims)) {
		c := w.Claims[name]
		n := w.Nodes[c.NodeName]
		if n == nil || c.Annotations[model.AnnotationBooked] == "" || !cluster.HasReservedTaint(n, c) || n.HasTaint(unschedulable) || !waits(c) {
			continue
		}
		x := *n
		x.Taints = append(slices.Clone(n.Taints), model.Taint{Key: unschedulable, Effect: model.NoSchedule})
		w.SetNode(&x)
		w.say("somebody cordons node %s", n.Name)
		return true
	}
	return false
}

// TestCordonedBooking: a request has a place on a standing node and on one that boots. Somebody cordons the standing node meanwhile: the pods that
// were to come there get capacity elsewhere, and the request is provisioned.
func TestCordonedBooking(t *testing.T) {
	t.Parallel()
	cordoned := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode = landing.Bind
		web := classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": "web"}, Scheduler: model.DefaultScheduler, Requests: model.Resources{3000, 128 << 20, 0, 1}})
		w.Workloads = []*sim.Workload{{Name: "web", Class: web, Grace: time.Second, Want: 1}}
		w.settle(600)
		r := &model.ProvisioningRequest{Namespace: "default", Name: "r", UID: "uid-r", Created: w.Now, ValidFor: 7 * 24 * time.Hour, Accepted: model.Condition{Status: "True", Reason: requests.Accepted}}
		c := classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": "r"}, Scheduler: model.DefaultScheduler, Request: r.Key(), Requests: model.Resources{800, 128 << 20, 0, 1}})
		c.SlotKey = "request " + c.Key
		r.Sets = []model.RequestedPods{{Class: c, Count: rapid.IntRange(2, 8).Draw(t, "pods of the request"), Gang: r.Gang()}}
		w.SetRequest(r)
		for end := w.Now.Add(10 * time.Minute); w.Now.Before(end) && !w.requestNamed("r").IsProvisioned(); w.Now = w.Now.Add(500 * time.Millisecond) {
			w.Tick()
			if w.cordonBooked() {
				cordoned++
			}
		}
		if r := w.requestNamed("r"); !r.IsProvisioned() {
			w.fatalf("the request is not provisioned: %v\n%s", r.Status, w.remains())
		}
	})
	if cordoned == 0 {
		untested(t, "no booked node was cordoned")
	}
}

// worldWithRequest makes a world with a standing node on which one small pod runs, and a request of small pods like c, which fit beside it.
func worldWithRequest(t *rapid.T, c model.Class, count int) *world {
	w := newWorld(t, false)
	w.pol.Landing.Mode = landing.Bind
	web := classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": "web"}, Scheduler: model.DefaultScheduler, Requests: model.Resources{7000, 128 << 20, 0, 1}})
	w.Workloads = []*sim.Workload{{Name: "web", Class: web, Grace: time.Second, Want: 2}}
	w.settle(600)
	r := &model.ProvisioningRequest{Namespace: "default", Name: "r", UID: "uid-r", Created: w.Now, ValidFor: 7 * 24 * time.Hour, Accepted: model.Condition{Status: "True", Reason: requests.Accepted}}
	c.Namespace, c.Labels, c.Scheduler, c.Request, c.Requests = "default", model.Labels{"app": "r"}, model.DefaultScheduler, r.Key(), model.Resources{200, 128 << 20, 0, 1}
	class := classOf(c)
	class.SlotKey = "request " + class.Key
	r.Sets = []model.RequestedPods{{Class: class, Count: count, Gang: r.Gang()}}
	w.SetRequest(r)
	return w
}

// TestUnreservableRequest: a node is never reserved for pods of a request that count only domains with nodes whose taints they tolerate. The request
// is provisioned with capacity that is not held.
func TestUnreservableRequest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sel := model.NewRequirements(model.OneOf("app", "r"))
		w := worldWithRequest(t, model.Class{Spread: []model.SpreadConstraint{{TopologyKey: model.LabelZone, MaxSkew: 8, MinDomains: 1, Hard: true, HonorTaints: true, Selector: &sel}}},
			rapid.IntRange(1, 8).Draw(t, "pods of the request"))
		for end := w.Now.Add(2 * time.Minute); w.Now.Before(end); w.Now = w.Now.Add(time.Second) {
			w.Tick()
			for _, n := range w.Nodes {
				if n.HasTaint(model.TaintReserved) {
					w.fatalf("node %s is reserved for pods that count nodes by their taints", n.Name)
				}
			}
		}
		if r := w.requestNamed("r"); !r.IsProvisioned() {
			w.fatalf("the request is not provisioned: %v\n%s", r.Status, w.remains())
		}
	})
}

// TestBookingInVain: somebody takes the taint off each standing node that is reserved for a request. The node is tried again ever later, and nothing
// says that the pods came.
func TestBookingInVain(t *testing.T) {
	t.Parallel()
	most := 0
	rapid.Check(t, func(t *rapid.T) {
		w := worldWithRequest(t, model.Class{}, rapid.IntRange(1, 8).Draw(t, "pods of the request"))
		booked := map[string]int{}
		w.did = func(a plan.Action) {
			if c, ok := a.(plan.UpdateClaim); ok && c.Annotations[model.AnnotationBooked] != "" {
				if c.Annotations[model.AnnotationBooked] != plan.Unset {
					booked[c.Claim]++
				} else if c.Why.Code == plan.Landed {
					w.fatalf("claim %s: its pods are said to have come", c.Claim)
				}
			}
		}
		for end := w.Now.Add(8 * time.Minute); w.Now.Before(end); w.Now = w.Now.Add(2 * time.Second) {
			w.Tick()
			for _, n := range w.Nodes {
				if n.HasTaint(model.TaintReserved) {
					x := *n
					x.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t.Key == model.TaintReserved })
					w.SetNode(&x)
				}
			}
		}
		for claim, times := range booked {
			if most = max(most, times); times > 4 { // for 30 s each, after 1, 2 and 4 minutes
				w.fatalf("claim %s is booked %d times in eight minutes", claim, times)
			}
		}
	})
	if most < 3 {
		untested(t, "no booking failed often enough: %d times at most", most)
	}
}

// podsOf counts the pods of a workload.
func (w *world) podsOf(l *sim.Workload) (n int) {
	for _, p := range w.Pods {
		if p.Owner.Name == l.Name {
			n++
		}
	}
	return n
}

// allBound reports whether all pods are bound.
func (w *world) allBound() bool {
	for _, p := range w.Pods {
		if p.Node == "" {
			return false
		}
	}
	return true
}

// hasPods reports whether pods of workloads are on a node.
func (w *world) hasPods(node string) bool {
	for _, p := range w.Pods {
		if p.Node == node && !p.Class.Daemon {
			return true
		}
	}
	return false
}
