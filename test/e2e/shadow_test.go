// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// shadowProcess is a controller in shadow mode, with the rights that the chart ships for it.
type shadowProcess struct {
	*env
	address string
	log     bytes.Buffer
	cmd     *exec.Cmd
}

// besideIt starts a controller in shadow mode, with further flags, and waits until it answers. The test ends it at the latest.
func (e *env) besideIt(flags ...string) *shadowProcess {
	e.t.Helper()
	_, manifests := e.dovetail("manifests", "--mode", "shadow")
	var rules []rbacv1.PolicyRule
	for doc := range strings.SplitSeq(manifests, "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(doc), &role); err == nil && role.Kind == "ClusterRole" {
			rules = append(rules, role.Rules...)
		}
	}
	for _, r := range rules {
		if slices.ContainsFunc(r.Verbs, func(v string) bool { return v != "get" && v != "list" && v != "watch" }) {
			e.t.Errorf("the rights of shadow mode allow to %q %q", r.Verbs, append(r.Resources, r.NonResourceURLs...))
		}
	}
	if len(rules) == 0 {
		e.t.Fatal("shadow mode has no rights")
	}
	e.grant("shadow", rules)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	e.must(err)
	p := &shadowProcess{env: e, address: l.Addr().String()}
	e.must(l.Close())
	_, bin, err := sandbox.Binaries()
	e.must(err)
	p.cmd = exec.Command(bin, append([]string{"controller", "--mode", "shadow", "--kubeconfig", e.as("shadow"), "--cloud", "kwok", "--machines", e.s.MachinesURL,
		"--metrics-address", p.address, "--health-address", ""}, flags...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	e.must(p.cmd.Start())
	e.t.Cleanup(p.end)
	p.ask()
	return p
}

// ask returns what it reports now.
func (p *shadowProcess) ask() (out report.Shadow) {
	p.t.Helper()
	p.until("shadow mode answers", func() error {
		status, text := p.dovetail("shadow", "--server", "http://"+p.address, "--output", "json")
		if status != 0 {
			return fmt.Errorf("status %d: %s", status, text)
		}
		return json.Unmarshal([]byte(text), &out)
	})
	return out
}

// end stops it, once, and looks whether it was refused anything or has failed.
func (p *shadowProcess) end() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
	p.cmd = nil
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, "forbidden") || strings.Contains(line, `"level":"ERROR"`) {
			p.t.Errorf("it logged %s", line)
		}
	}
}

// Shadow mode beside a Dovetail that acts, with the rights that the chart ships for it, which are to read only: it decides the same, one decision after
// the other, it tries nothing that is forbidden, and its report says what both did.
func TestShadowBesideDovetail(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	e := newEnv(t, own(t), "shadow")
	p := e.besideIt()
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large", "m5.2xlarge")})
	// Each pod needs a machine, and the next one comes when what both did about the last is known. A launch that shadow mode has seen before it looked
	// is not compared, so there are as many as give ten that are.
	const enough, most = 10, 40
	steps, got := 0, p.ask()
	for ; got.Decisions.Compared < enough && steps < most; steps++ {
		e.deploy(fmt.Sprint("app-", steps), 1, e.pod([]string{"1500m", "6500m"}[steps%2], "256Mi"))
		e.podsRun(steps + 1)
		e.until(fmt.Sprintf("it is known what both did about pod %d", steps+1), func() error {
			got = p.ask()
			if d := got.Decisions; d.Compared+d.NoAnswer <= steps || d.Open > 0 {
				return fmt.Errorf("%+v", d)
			}
			return nil
		})
	}
	if d := got.Decisions; d.Compared < enough || d.Agreed != d.Compared || len(got.Disagreements) > 0 {
		t.Errorf("of %d launches for one pod each, one after the other: %+v; they disagree on %+v", steps, d, got.Disagreements)
	}
	if x := got.Placements; x.Compared == 0 || x.Agreed != x.Compared { // where the other has bound a pod sooner it is not compared
		t.Errorf("%d of %d pods would have been bound to the same node, want all", x.Agreed, x.Compared)
	}
	if got.Pods.Decided < enough {
		t.Errorf("%d pods were decided on, want %d", got.Pods.Decided, enough)
	}
	same := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	if paid := dollars(e.bill()); !same(got.Cost.PaidUSDPerHour, paid) || !same(got.Cost.LaunchedUSDPerHour, got.Cost.WouldLaunchUSDPerHour) || got.Cost.LaunchedUSDPerHour == 0 {
		t.Errorf("the nodes cost $%.4f an hour; the report says %+v", paid, got.Cost)
	}
	// All at once: how far both agree then depends on when each has looked, and TestShadowSeries says it.
	pods := steps
	for i := range 10 {
		n := 1 + i%5
		e.deploy(fmt.Sprint("burst-", i), int32(n), e.pod(fmt.Sprintf("%dm", 500+100*(i%7)), "256Mi"))
		pods += n
	}
	e.podsRun(pods)
	e.until("the launches of the burst are compared", func() error {
		if d := p.ask().Decisions; d.Compared+d.NoAnswer <= steps || d.Open > 0 {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	_, text := e.dovetail("shadow", "--server", "http://"+p.address)
	t.Log(text)
	if want := "Pods that needed a new node: "; !strings.Contains(text, want) {
		t.Errorf("the report for people does not say %q", want)
	}
	p.end()
}

// The same over a longer time in which Deployments come, grow, shrink and go, and nodes are consolidated: both launch
// the same nodes for the same pods. Which nodes are removed, and when, hangs on milliseconds in which either has looked.
func TestShadowSeries(t *testing.T) {
	first, last := 1, 2
	if os.Getenv("DOVETAIL_SOAK") == "" {
		t.Skip("it takes minutes: set DOVETAIL_SOAK=1, and SHADOW_SEEDS=FIRST-LAST for other seeds")
	}
	if seeds := os.Getenv("SHADOW_SEEDS"); seeds != "" {
		if _, err := fmt.Sscanf(seeds, "%d-%d", &first, &last); err != nil {
			t.Fatalf("SHADOW_SEEDS %q: want FIRST-LAST: %v", seeds, err)
		}
	}
	e := newEnv(t, own(t), "series")
	p := e.besideIt()
	e.nodePool(map[string]any{"spec.disruption.consolidationPolicy": "WhenEmptyOrUnderutilized", "spec.disruption.consolidateAfter": "0s"})
	for seed := first; seed <= last; seed++ {
		rnd := rand.New(rand.NewPCG(uint64(seed), 5))
		pods := map[string]int{}
		for step := range 120 {
			app := fmt.Sprintf("app-%d-%d", seed, rnd.IntN(20))
			n := rnd.IntN(1 + rnd.IntN(12))
			if _, ok := pods[app]; ok {
				e.scale(app, n)
			} else {
				e.deploy(app, int32(n), e.pod(fmt.Sprintf("%dm", 200+100*rnd.IntN(30)), fmt.Sprintf("%dMi", 256<<rnd.IntN(4))))
			}
			pods[app] = n
			pause := time.Duration(rnd.IntN(1500)) * time.Millisecond
			if step%20 == 19 {
				pause = 10 * time.Second
			}
			e.pause(pause)
		}
		all := 0
		for _, n := range pods {
			all += n
		}
		e.podsRun(all)
		for app := range pods {
			e.scale(app, 0)
		}
		e.podsRun(0)
		e.pause(10 * time.Second)
		t.Logf("seed %d: %+v", seed, p.ask().Decisions)
	}
	got := p.ask()
	_, text := e.dovetail("shadow", "--server", "http://"+p.address)
	t.Log(text)
	if got.Decisions.Compared < 50 {
		t.Errorf("only %d decisions were compared", got.Decisions.Compared)
	}
	if got.Decisions.Agreement < 0.9 {
		t.Errorf("%.2f %% of decisions agree, want 90", 100*got.Decisions.Agreement)
	}
	for _, d := range got.Disagreements {
		if d.Kind == "launch" {
			t.Errorf("other nodes were launched: %+v", d)
		}
	}
	p.end()
}
