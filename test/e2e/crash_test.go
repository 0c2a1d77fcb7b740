// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// The leader of two controllers that soon notice when it is gone is killed at seeded moments of a burst, of a move, and of one for which a
// Deployment is restarted.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	// As short as this machine can keep: a leader that is not killed keeps its lease.
	s := own(t, "--replicas", "2", "--controller-arg", "--leader-elect-lease-duration="+pace(3*time.Second).String(),
		"--controller-arg", "--leader-elect-renew-deadline="+pace(2*time.Second).String(), "--controller-arg", "--leader-elect-retry-period=500ms")
	t.Run("burst", func(t *testing.T) { killedInBurst(t, s) })
	t.Run("moving", func(t *testing.T) { killedMoving(t, s) })
	t.Run("surging", func(t *testing.T) { killedSurging(t, s) })
	if err := everythingGivenBack(s); err != nil {
		t.Error(err)
	}
}

// Whatever was under way, the other replica or the restarted one brings it to the same end: every pod runs, each claim has one machine and
// each machine its claim, and it costs no more than it would have.
func killedInBurst(t *testing.T, s *sandbox.Sandbox) {
	seeds := kills(1)
	calm := burst(t, s, "calm", 0)
	for seed := 1; seed <= seeds; seed++ {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			// A moment from when there is a pool to buy from: while machines are bought, and for every other seed also while they
			// register and their pods land.
			within := 2 * calm.bought
			if seed%2 == 0 {
				within += 3 * time.Second
			}
			after := time.Duration(rand.New(rand.NewPCG(uint64(seed), 0)).Int64N(int64(within)))
			cost := burst(t, s, fmt.Sprintf("killed-%d", seed), after)
			t.Logf("killed after %s, %s: %d machines for $%.4f an hour; undisturbed %d for $%.4f, the last bought after %s", after.Round(time.Millisecond), cost.killedAt,
				cost.machines, dollars(cost.micro), calm.machines, dollars(calm.micro), calm.bought.Round(time.Millisecond))
			if cost.micro*100 > calm.micro*105 {
				t.Errorf("it costs $%.4f an hour, more than 1.05 times the $%.4f of the undisturbed run", dollars(cost.micro), dollars(calm.micro))
			}
		})
	}
}

// A leader that is told to end gives its lease up, which would run out in an hour: the other replica goes on.
func TestLeaderEnds(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := own(t, "--replicas", "2", "--controller-arg", "--leader-elect-lease-duration=1h")
	e := newEnv(t, s, "ends")
	e.nodePool(nil)
	e.deploy("first", 1, e.pod("500m", "256Mi"))
	e.podsRun(1)
	leader, err := s.Leader()
	e.must(err)
	e.must(syscall.Kill(leader.PID, syscall.SIGTERM))
	e.deploy("second", 1, e.pod("100", "1Gi"))
	e.podsRun(2)
	next, err := s.Leader()
	e.must(err)
	if next.PID == leader.PID {
		t.Errorf("%s leads still", next.Name)
	}
	e.until("the next leader knows what the first has bought", func() error {
		h, err := e.historyOf(next)
		if err != nil {
			return err
		}
		for i := range h.Entries {
			if x := &h.Entries[i]; report.HistoryWord(x) == "launched" && len(x.Pods) == 1 && strings.Contains(x.Pods[0], "/first-") && x.After > 0 {
				return nil
			}
		}
		return fmt.Errorf("it knows of %d decisions", len(h.Entries))
	})
}

// historyOf asks a controller what was decided in the last hour.
func (e *env) historyOf(c sandbox.Component) (report.History, error) {
	var h report.History
	_, bin, err := sandbox.Binaries()
	if err != nil {
		return h, err
	}
	out, err := exec.CommandContext(e.ctx, bin, "history", "-o", "json", "--server", fmt.Sprintf("http://127.0.0.1:%d", c.Ports["metrics"])).Output()
	if err != nil {
		return h, err
	}
	return h, json.Unmarshal(out, &h)
}

// kills is how often the leader is killed: a few times, or as often as a soak does.
func kills(few int) int {
	if os.Getenv("DOVETAIL_SOAK") != "" {
		return 20
	}
	return few
}

// The leader is killed at seeded moments of a move: while replacements are bought, register, while what goes is tainted and drained. The
// move is finished or taken back, what is left ends as it would have, and nothing stays cordoned, marked or without its other half.
func killedMoving(t *testing.T, s *sandbox.Sandbox) {
	for seed := 1; seed <= kills(1); seed++ {
		moment := func(stream uint64, within time.Duration) time.Duration {
			return time.Duration(rand.New(rand.NewPCG(uint64(seed), stream)).Int64N(int64(within)))
		}
		t.Run(fmt.Sprintf("consolidation-%d", seed), func(t *testing.T) {
			e := newEnv(t, s, fmt.Sprintf("moved-%d", seed))
			e.nodePool(moves("m5.large", "m5.xlarge", "m5.2xlarge"))
			e.deploy("web", 30, e.pod("900m", "1Gi"))
			e.podsRun(30)
			_, before := e.matched()
			e.scale("web", 12)
			when := e.killMoving(moment(1, 8*time.Second))
			e.settled(10 * time.Second)
			e.podsRun(12)
			count, after := e.matched()
			t.Logf("killed %s: $%.4f an hour before, $%.4f after, on %d machines", when, dollars(before), dollars(after), count)
			if after*10 > before*6 {
				t.Errorf("it costs $%.4f an hour, more than 0.6 times the $%.4f before", dollars(after), dollars(before))
			}
			e.nothingLeft()
		})
		if kills(1) == 1 {
			continue // a soak plays both
		}
		t.Run(fmt.Sprintf("drift-%d", seed), func(t *testing.T) {
			e := newEnv(t, s, fmt.Sprintf("drifted-%d", seed))
			e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge"), "spec.disruption.budgets": []any{map[string]any{"nodes": "2"}}})
			e.deploy("web", 3, e.pod("3", "2Gi"))
			e.podsRun(3)
			e.claimsAre(3, "Ready", ready)
			e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"template":{"metadata":{"annotations":{"example.com/new":"yes"}}}}}`))
			when := e.killMoving(moment(2, 12*time.Second))
			e.until("every machine is of the new template", func() error {
				for _, c := range e.claims() {
					if c.Annotations["example.com/new"] != "yes" {
						return fmt.Errorf("claim %s is not", c.Name)
					}
				}
				return nil
			})
			e.settled(5 * time.Second)
			e.podsRun(3)
			count, _ := e.matched()
			t.Logf("killed %s: %d machines in the end, %d bought in all", when, count, len(e.launches(e.name)))
			e.nothingLeft()
		})
	}
}

// killMoving kills the leader so long after the first move has shown, and says what there was.
func (e *env) killMoving(after time.Duration) string {
	e.t.Helper()
	e.until("a move has begun", func() error {
		for _, c := range e.claims() {
			if c.Annotations["dovetail.sh/move"] != "" || isTrue(&c, karpv1.ConditionDisruptionReason) || c.DeletionTimestamp != nil {
				return nil
			}
		}
		return errors.New("no claim says so")
	})
	moment := time.NewTimer(after)
	defer moment.Stop()
	select {
	case <-moment.C:
	case <-e.ctx.Done():
	}
	leader := e.killLeader()
	return fmt.Sprintf("%s after a move had begun, %s", after.Round(time.Millisecond), leader)
}

// nothingLeft holds when nothing moves: no node keeps pods out, and none is without its claim.
func (e *env) nothingLeft() {
	e.t.Helper()
	of := map[string]bool{}
	for _, c := range e.claims() {
		of[c.Status.NodeName] = true
	}
	nodes := e.nodes()
	for _, n := range nodes {
		if n.Spec.Unschedulable || len(n.Spec.Taints) > 0 || n.DeletionTimestamp != nil {
			e.t.Errorf("node %s keeps pods out: unschedulable %t, taints %v, deleting %v", n.Name, n.Spec.Unschedulable, n.Spec.Taints, n.DeletionTimestamp)
		}
		if !of[n.Name] {
			e.t.Errorf("node %s has no claim", n.Name)
		}
	}
	if len(nodes) != len(of) {
		e.t.Errorf("%d nodes for %d claims", len(nodes), len(of))
	}
	e.must(e.s.Delete(e.ctx, "/apis/apps/v1/namespaces/"+e.name+"/deployments", ""))
	e.until("the pods are gone", func() error { return e.noPods(e.ctx) })
	e.must(e.s.Delete(e.ctx, claims, "karpenter.sh/nodepool="+e.name))
	e.givenBack()
}

func dollars(micro int64) float64 { return float64(micro) / 1e6 }

// outcome is what a burst ended in.
type outcome struct {
	machines int
	micro    int64         // an hour
	bought   time.Duration // from the pool to the last machine
	killedAt string        // what there was then
}

// burst has 100 small and 100 large pods run, kills the leader in between if told when, and checks what stands in the end.
func burst(t *testing.T, s *sandbox.Sandbox, name string, killAfter time.Duration) outcome {
	t.Helper()
	e := newEnv(t, s, name)
	e.deploy("small", 100, e.pod("900m", "3100Mi"))
	e.deploy("large", 100, e.pod("3500m", "28Gi"))
	// One plan for all of them, so that what it costs depends on the kill and not on how fast pods are made.
	e.podsRefused(200)
	var out outcome
	began := time.Now()
	e.nodePool(nil)
	if killAfter > 0 {
		moment := time.NewTimer(killAfter)
		defer moment.Stop()
		select {
		case <-moment.C:
		case <-t.Context().Done():
		}
		out.killedAt = e.killLeader()
	}
	e.podsRun(200)
	out.machines, out.micro = e.matched()
	launches := e.launches(name) // which also checks that no claim was launched twice
	if len(launches) < out.machines {
		t.Fatalf("%d machines stand, but the journal has only %d launches", out.machines, len(launches))
	}
	out.bought = launches[len(launches)-1].Launched.Sub(began)
	// The next burst starts from an empty cluster, as this one did.
	e.must(s.Delete(e.ctx, "/apis/apps/v1/namespaces/"+name+"/deployments", ""))
	e.until("the pods are gone", func() error { return e.noPods(e.ctx) })
	e.must(s.Delete(e.ctx, claims, "karpenter.sh/nodepool="+name))
	e.givenBack()
	return out
}

// matched waits until each claim is ready and has one machine that stands, and each machine its claim, and says how many there are and what
// they cost an hour.
func (e *env) matched() (count int, micro int64) {
	e.t.Helper()
	e.until("each claim has one machine that stands, and each machine its claim", func() error {
		count, micro = 0, 0
		all := e.claims()
		machineOf := map[string]machines.Instance{}
		for _, in := range e.standing() {
			machineOf[in.ClaimUID] = in
			count++
			micro += in.PriceMicro
		}
		var wrong []string
		for i := range all {
			c := &all[i]
			in, ok := machineOf[string(c.UID)]
			if c.DeletionTimestamp != nil || !ready(c) || !ok || in.ProviderID != c.Status.ProviderID {
				wrong = append(wrong, fmt.Sprintf("claim %s (deleting %t, machine %q): %s", c.Name, c.DeletionTimestamp != nil, in.ID, conditionsText(c.Status.Conditions)))
			}
			delete(machineOf, string(c.UID))
		}
		for uid, in := range machineOf {
			wrong = append(wrong, fmt.Sprintf("machine %s: its claim %s (%s) is not there", in.ID, in.ClaimName, uid))
		}
		if len(all) == 0 || len(wrong) > 0 {
			return fmt.Errorf("%d claims; %s", len(all), strings.Join(wrong, "; "))
		}
		return nil
	})
	return count, micro
}

// killLeader kills the controller that acts, with SIGKILL, and says what there was just after.
func (e *env) killLeader() string {
	e.t.Helper()
	leader, err := e.s.Leader()
	e.must(err)
	return e.kill(leader)
}

// kill kills a controller with SIGKILL, waits until it has been started again, and says what there was just after its end.
func (e *env) kill(leader sandbox.Component) string {
	e.t.Helper()
	err := syscall.Kill(leader.PID, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		e.t.Fatalf("the controller %s (%d) is not running", leader.Name, leader.PID)
	}
	e.must(err)
	launched, bound := 0, 0
	all := e.claims()
	for _, c := range all {
		if c.Status.ProviderID != "" {
			launched++
		}
	}
	pods := e.pods()
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			bound++
		}
	}
	e.until(leader.Name+" has been started again", func() error {
		all, err := e.s.Components(sandbox.Controller)
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.Name == leader.Name && c.Restarts > leader.Restarts {
				return nil
			}
		}
		return fmt.Errorf("%+v", all)
	})
	return fmt.Sprintf("with %d of %d pods bound and %d of %d claims launched", bound, len(pods), launched, len(all))
}
