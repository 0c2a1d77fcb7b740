// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package karpenteraws

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// signalled ends when the process is told to end, or when nobody reads its output any more. The tests then fail, so that their cleanups run.
var signalled context.Context

func TestMain(m *testing.M) {
	var stop context.CancelFunc
	signalled, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	os.Exit(m.Run())
}

// untilSignalled returns a context that ends with the test, or when the process is told to end.
func untilSignalled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stop := context.AfterFunc(signalled, cancel)
	t.Cleanup(func() {
		stop()
		cancel()
	})
	return ctx
}

// autoscaler is an autoscaler in a sandbox.
type autoscaler struct {
	s     *sandbox.Sandbox
	kill  func() error // kills it and starts it again
	ended func() error // an error if it has ended unexpectedly
	logs  []string     // files of Karpenter's log, one for each start
}

// startKarpenter starts a sandbox with Karpenter's controller for AWS.
func startKarpenter(ctx context.Context, t *testing.T, binary string) *autoscaler {
	t.Helper()
	a := &autoscaler{s: up(ctx, t, "--no-autoscaler")}
	if err := a.s.ApplyKarpenterAWSCRDs(ctx); err != nil {
		t.Fatal(err)
	}
	var p *sandbox.Process
	start := func() (err error) {
		a.logs = append(a.logs, filepath.Join(a.s.Dir, fmt.Sprintf("karpenter-%d.log", len(a.logs))))
		p, err = a.s.StartKarpenterAWS(binary, a.logs[len(a.logs)-1])
		return err
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	a.ended = func() error { return p.Ended() }
	a.kill = func() error {
		p.Stop()
		return start()
	}
	return a
}

// startDovetail starts a sandbox with Dovetail.
func startDovetail(ctx context.Context, t *testing.T) *autoscaler {
	t.Helper()
	s := up(ctx, t)
	return &autoscaler{s: s, ended: func() error { return nil }, kill: func() error {
		c, err := s.Leader()
		if err != nil {
			return err
		}
		return s.Fault(ctx, "kill", 1, c.Name)
	}}
}

func up(ctx context.Context, t *testing.T, flags ...string) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.Up(ctx, filepath.Join(t.TempDir(), "sandbox"), append([]string{"--cloud", "aws", "--boot", "2s", "--pull", "0s"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// expected are errors in Karpenter's log that its own controllers or a fault of the test cause, as on the real AWS.
var expected = []struct {
	text *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`the object has been modified`), "two of its controllers write one object"},
	{regexp.MustCompile(`(?i)(nodeclaim|node|nodepool|ec2nodeclass)\S* "[^"]*" not found`), "an object was deleted before a controller reads or writes it"},
	{regexp.MustCompile(`InsufficientInstanceCapacity|insufficient capacity|UnfulfillableCapacity`), "a fault of the test"},
	{regexp.MustCompile(`no instance type has enough resources.*topology.kubernetes.io/zone In \[\S+\]`), "a fault of the test: the one zone that a pod's spread allows has no capacity"},
	{regexp.MustCompile(`nodepool not found|no nodepools found`), "pods are pending before the NodePool is created, or after it was deleted"},
	{regexp.MustCompile(`EC2NodeClass.*is not ready|NodeClassNotReady`), "the NodePool is created before its EC2NodeClass is Ready"},
	{regexp.MustCompile(`no subnets found|ignoring nodepool, not ready|NodeClass.*not (ready|found)`), "the EC2NodeClass is created before Karpenter has resolved its subnets"},
	{regexp.MustCompile(`karpenter is not compatible with kubernetes version`), "the sandbox runs a newer version of Kubernetes than this version of Karpenter supports"},
	{regexp.MustCompile(`deadline exceeded|connection refused|connection reset|EOF|Client.Timeout|use of closed network connection|broken pipe`), "a slow machine, or the reply that the test loses"},
}

// unexpected returns the errors and panics of a log that are not expected, each once, with how often it was logged.
func unexpected(t *testing.T, path string) (out []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	read, times := 0, map[string]int{}
	for lines.Scan() {
		read++
		var e struct{ Level, Message, Error, Controller string }
		text := lines.Text()
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			if strings.Contains(text, "panic") {
				out = append(out, text)
			}
			continue
		}
		if e.Level != "ERROR" && e.Level != "PANIC" && e.Level != "FATAL" {
			continue
		}
		known := false
		for _, x := range expected {
			known = known || x.text.MatchString(e.Message+" "+e.Error)
		}
		if text := fmt.Sprintf("%s: %s: %s", e.Controller, e.Message, e.Error); !known {
			if times[text]++; times[text] == 1 {
				out = append(out, text)
			}
		}
	}
	if err := lines.Err(); err != nil || read == 0 {
		t.Fatalf("%s has %d lines: %v", path, read, err)
	}
	for i, text := range out {
		if times[text] > 1 {
			out[i] = fmt.Sprintf("%s (%d times)", text, times[text])
		}
	}
	return out
}
