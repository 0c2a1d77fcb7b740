// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// newShow is a sandbox for the demo, which needs the real dovetail beside it.
func newShow(t *testing.T) *sandbox {
	t.Helper()
	s := newSandbox(t)
	dovetail := filepath.Join(filepath.Dir(s.bin), "dovetail")
	if _, err := os.Stat(dovetail); err != nil {
		t.Fatalf("no dovetail beside the sandbox: %v: build it with `make build`", err)
	}
	return s
}

// TestDemo plays the whole show, fast, and reads it as a person would.
func TestDemo(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newShow(t)
	out, status, _ := s.try("", "demo", "--fast")
	t.Logf("the show:\n%s", out)
	if status != 0 {
		t.Fatalf("exit status %d", status)
	}
	steps := regexp.MustCompile(`(?m)^── .* ──+$`).FindAllStringIndex(out, -1)
	if len(steps) != 4 {
		t.Fatalf("%d steps, want 4", len(steps))
	}
	nodes := regexp.MustCompile(`(?m)^    \d+ launched nodes?: \$0\.\d{4}/h`)
	for i, want := range []struct {
		title  string
		nodes  bool // the step ends with launched nodes
		events []string
	}{
		{"1 replica, ", false, []string{"pods running", "no launched node: $0/h"}},
		{"30 replicas at once", true, []string{"pods pending", "NodeClaim created", "instance launched", "node registered", "node Ready", "pods running", "30 of 30"}},
		{"10 replicas: nodes without a change", true, []string{"pods ended", "NodeClaim deleted", "instance terminated", "; saves $"}},
		{"no replicas", false, []string{"pods ended", "NodeClaim deleted", "instance terminated", "no launched node: $0/h (before: "}},
	} {
		end := len(out)
		if i+1 < len(steps) {
			end = steps[i+1][0]
		}
		step := out[steps[i][0]:end]
		if !strings.HasPrefix(step, "── "+want.title) {
			t.Errorf("step %d is %q, want %q", i+1, step[:strings.Index(step, "\n")], want.title)
		}
		for _, event := range want.events {
			if !strings.Contains(step, event) {
				t.Errorf("step %d (%s) does not show %q", i+1, want.title, event)
			}
		}
		if got := nodes.MatchString(step); got != want.nodes {
			t.Errorf("step %d (%s) says that there are launched nodes: %t, want %t", i+1, want.title, got, want.nodes)
		}
		if !strings.Contains(step, "base-0") || !strings.Contains(step, "m5.large") {
			t.Errorf("step %d (%s) does not show the node that Dovetail does not own", i+1, want.title)
		}
		if i == 0 && (strings.Contains(step, "NodeClaim") || strings.Contains(step, "pods pending")) {
			t.Error("something was launched for a pod that fits")
		}
	}
	for _, want := range []string{"system pods request 73 % of its CPU", "All nodes launched by Dovetail are removed", "demo --keep", "kubectl scale deployment inflate"} {
		if !strings.Contains(out, want) {
			t.Errorf("the show does not say %q", want)
		}
	}
	s.noProcess()
	if s.dir.HasData() {
		t.Error("the data of the show's cluster are still there")
	}
}

// TestDemoGroups plays the show on Auto Scaling groups and an EC2NodeClass at
// once. By the books of the simulated AWS nothing is launched
// twice.
func TestDemoGroups(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newShow(t)
	out, status, _ := s.try("", "demo", "--fast", "--cloud", "aws", "--groups=both")
	t.Logf("the show:\n%s", out)
	if status != 0 {
		t.Fatalf("exit status %d", status)
	}
	steps := regexp.MustCompile(`(?m)^── .* ──+$`).Split(out, -1)[1:]
	if len(steps) != 4 {
		t.Fatalf("%d steps, want 4", len(steps))
	}
	launched := regexp.MustCompile(`(?m)^.* instance launched .*$`)
	for i, step := range steps {
		lines := launched.FindAllString(step, -1)
		if i == 1 && len(lines) == 0 || (i == 0 || i == 3) && len(lines) > 0 {
			t.Errorf("step %d launches %q", i+1, lines)
		}
		if i >= 2 != strings.Contains(step, "instance terminated") {
			t.Errorf("step %d terminates an instance: %t", i+1, i < 2)
		}
	}
	once := regexp.MustCompile(`The simulated AWS launched (\d+) instances for (\d+) NodeClaims, none twice: (.*)\.`).FindStringSubmatch(out)
	if once == nil || once[1] != once[2] || !strings.Contains(once[3], "of group ") {
		t.Errorf("it does not say that nothing was launched twice: %q", once)
	}
	s.noProcess()
}

// TestDemoStopped ends the show in its midst, by Ctrl-C and by a signal that it
// can't answer.
func TestDemoStopped(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	for _, test := range []struct {
		signal syscall.Signal
		status int
	}{{syscall.SIGINT, 130}, {syscall.SIGKILL, -1}} {
		t.Run(test.signal.String(), func(t *testing.T) {
			s := newShow(t)
			cmd := s.command("demo", "--fast")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			seen, sent := "", false
			for lines := bufio.NewScanner(out); lines.Scan(); {
				seen += lines.Text() + "\n"
				if !sent && strings.Contains(lines.Text(), "instance launched") {
					if err := cmd.Process.Signal(test.signal); err != nil {
						t.Fatal(err)
					}
					sent = true
				}
			}
			_ = cmd.Wait() // The status says it.
			if status := cmd.ProcessState.ExitCode(); !sent || status != test.status {
				t.Errorf("signal sent: %t, exit status %d, want %d; it printed\n%s", sent, status, test.status, seen)
			}
			if test.signal == syscall.SIGINT && !strings.Contains(seen, "interrupted: stopping the sandbox") {
				t.Errorf("it does not say that it was interrupted:\n%s", seen)
			}
			s.noProcess()
			if test.signal == syscall.SIGINT && s.dir.HasData() {
				t.Error("the data of the show's cluster are still there")
			}
		})
	}
}

// TestDemoLeavesOthersAlone: a sandbox that runs, and data that were kept.
func TestDemoLeavesOthersAlone(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newShow(t)
	s.run("", "up", "--no-manifests")
	if out, status, _ := s.try("", "demo", "--fast"); status != 1 || !strings.Contains(out, "a sandbox is already running in "+string(s.dir)) {
		t.Errorf("demo beside a running sandbox: exit status %d\n%s", status, out)
	}
	s.run("", "status")
	s.run("", "down", "--keep")
	if out, status, _ := s.try("", "demo", "--fast"); status != 1 || !strings.Contains(out, "contains the data of an earlier sandbox") {
		t.Errorf("demo on kept data: exit status %d\n%s", status, out)
	}
	if !s.dir.HasData() {
		t.Error("the kept data are gone")
	}
}

// TestByHand does what docs/SANDBOX.md says under "Try it by hand".
func TestByHand(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := newShow(t)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	s.run("", "up", "--boot", "0", "--pull", "0")
	s.run("", "kubectl", "apply", "-f", filepath.Join(examples, "nodepool.yaml"), "-f", filepath.Join(examples, "deployment.yaml"))
	s.run("", "kubectl", "rollout", "status", "deployment/inflate", "--timeout=120s")
	if out := s.run("", "kubectl", "get", "nodeclaims"); !strings.Contains(out, "on-demand") {
		t.Errorf("nothing is bought:\n%s", out)
	}
	s.run("", "kubectl", "scale", "deployment", "inflate", "--replicas", "40")
	s.run("", "kubectl", "rollout", "status", "deployment/inflate", "--timeout=120s")
	s.run("", "kubectl", "delete", "nodepool", "default", "--timeout=120s")
	s.run("", "kubectl", "delete", "deployment", "inflate")
	eventually(t, "every machine is given back", func() error {
		if out := s.run("", "kubectl", "get", "nodeclaims,nodes", "-o", "name"); strings.TrimSpace(out) != "" {
			return fmt.Errorf("left: %s", out)
		}
		return nil
	})
	s.run("", "kubectl", "apply", "-f", filepath.Join(examples, "provisioner.yaml"))
	s.run("", "kubectl", "wait", "--for=condition=Ready", "provisioner/default", "--timeout=60s")
}
