// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
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

// besideIt starts a controller in shadow mode and waits until it answers. The test ends it at the latest.
func (e *env) besideIt() *shadowProcess {
	e.t.Helper()
	_, manifests := e.dovetail("manifests", "--mode", "shadow")
	var rules []rbacv1.PolicyRule
	for doc := range strings.SplitSeq(manifests, "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(doc), &role); err == nil && role.Kind == "ClusterRole" {
			rules = append(rules, role.Rules...)
		}
	}
	e.grant("shadow", rules)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	e.must(err)
	p := &shadowProcess{env: e, address: l.Addr().String()}
	e.must(l.Close())
	_, bin, err := sandbox.Binaries()
	e.must(err)
	p.cmd = exec.Command(bin, "controller", "--mode", "shadow", "--kubeconfig", e.as("shadow"), "--cloud", "kwok", "--machines", e.s.MachinesURL,
		"--metrics-address", p.address, "--health-address", "")
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

// Shadow mode beside a Dovetail that acts, with the rights that the chart ships for it: it changes nothing, it is told
// that nothing is forbidden, and its report says what both did.
func TestShadowBesideDovetail(t *testing.T) {
	verifyOnly(t)
	e := newEnv(t, own(t), "shadow")
	p := e.besideIt()
	e.nodePool(nil)
	time.Sleep(2 * time.Second)
	for i := range 20 {
		e.deploy(fmt.Sprint("app-", i), int32(1+i%5), e.pod(fmt.Sprintf("%dm", 500+100*(i%7)), "256Mi"))
		time.Sleep(time.Duration(100+70*(i%5)) * time.Millisecond)
	}
	e.podsRun(60)
	time.Sleep(2 * time.Second)
	got := p.ask()
	_, text := e.dovetail("shadow", "--server", "http://"+p.address)
	t.Log(text)
	if got.Decisions.Compared < 5 || got.Pods.Decided == 0 {
		t.Errorf("only %d decisions were compared: %+v", got.Decisions.Compared, got)
	}
	// It runs beside no other test: a starved machine shows both the pods at times so different that one finds room where the
	// other launches. How far both agree is for TestShadowSeries to say: of some twenty decisions about pods that come within
	// six seconds, one that differs makes the next ones differ (74 to 100 % agreed in eight runs).
	if got.Decisions.Agreement < 0.5 {
		t.Errorf("%.1f %% of decisions agree", 100*got.Decisions.Agreement)
	}
	if x := got.Placements; x.Compared == 0 || x.Agreed*10 < x.Compared*9 {
		t.Errorf("%d of %d pods would have been bound to the same node", x.Agreed, x.Compared)
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
	time.Sleep(2 * time.Second)
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
			time.Sleep(pause)
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
		time.Sleep(10 * time.Second)
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
