// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
)

// delayOf evaluates the expression as kwok does, for one pod.
func delayOf(t *testing.T, pull time.Duration, seed int64, pod string) time.Duration {
	t.Helper()
	_, expression, ok := strings.Cut(KwokConfig(pull, seed), "durationFrom:\n      expressionFrom: '(")
	if !ok {
		t.Fatalf("no delay in the configuration for --pull %s", pull)
	}
	expression, _, _ = strings.Cut("("+expression, "'")
	query, err := gojq.Parse(expression)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	value, _ := query.Run(map[string]any{"metadata": map[string]any{"namespace": "default", "name": pod}}).Next()
	delay, err := time.ParseDuration(fmt.Sprint(value))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return delay
}

func TestPullDelay(t *testing.T) {
	const pull, pods = 3 * time.Second, 200
	low, high, moved := pull, pull, 0
	for i := range pods {
		name := fmt.Sprintf("web-%d", i)
		delay := delayOf(t, pull, 1, name)
		if again := delayOf(t, pull, 1, name); again != delay {
			t.Errorf("%s: %s, then %s under the same seed", name, delay, again)
		}
		if delayOf(t, pull, -2, name) != delay {
			moved++
		}
		low, high = min(low, delay), max(high, delay)
	}
	if low < pull*4/5 || high > pull*6/5 {
		t.Errorf("delays from %s to %s, want them within a fifth of %s", low, high, pull)
	}
	// Names that differ in the last character only must not bunch.
	if low > pull*17/20 || high < pull*23/20 {
		t.Errorf("delays of %d pods only from %s to %s", pods, low, high)
	}
	if moved < pods*9/10 {
		t.Errorf("another seed moved only %d of %d delays", moved, pods)
	}
}

func TestNoPullNoDelay(t *testing.T) {
	config := KwokConfig(0, 1)
	ready, _, ok := strings.Cut(config[strings.Index(config, "name: pod-ready"):], "name: pod-complete")
	if !ok || strings.Contains(ready, "delay:") || strings.Contains(config, "#DELAY") {
		t.Errorf("--pull 0 leaves a delay:\n%s", ready)
	}
}

// A deleted pod is waited for as a kubelet does: while preStop hooks sleep, and no longer than its grace period.
func TestStopDelay(t *testing.T) {
	config := KwokConfig(time.Second, 1)
	if n := strings.Count(config, "deletionGracePeriodSeconds // 0"); n != 2 || strings.Contains(config, "#STOP") {
		t.Fatalf("the delay is in %d stages, want 2", n)
	}
	_, expression, _ := strings.Cut(stopDelay, "expressionFrom: >-")
	query, err := gojq.Parse(expression)
	if err != nil {
		t.Fatal(err)
	}
	sleep := func(seconds int) any {
		return map[string]any{"preStop": map[string]any{"sleep": map[string]any{"seconds": seconds}}}
	}
	exec := func(command ...any) any {
		return map[string]any{"preStop": map[string]any{"exec": map[string]any{"command": command}}}
	}
	for _, c := range []struct {
		what  string
		phase string
		grace any
		hooks []any
		want  string
	}{
		{"no hook", "Running", 30, []any{nil}, "0s"},
		{"another hook", "Running", 30, []any{exec("/bin/stop", "now")}, "0s"},
		{"an http hook", "Running", 30, []any{map[string]any{"preStop": map[string]any{"httpGet": map[string]any{"port": 80}}}}, "0s"},
		{"a sleep", "Running", 30, []any{sleep(10)}, "2026-07-20T12:00:10Z"},
		{"a command", "Running", 30, []any{exec("/bin/sh", "-c", "sleep 15")}, "2026-07-20T12:00:15Z"},
		{"a command with more", "Running", 30, []any{exec("sh", "-c", "nginx -s quit; sleep 5")}, "2026-07-20T12:00:05Z"},
		{"a command of its own", "Running", 30, []any{exec("/usr/bin/sleep", "7")}, "2026-07-20T12:00:07Z"},
		{"longer than the grace period", "Running", 30, []any{sleep(300)}, "2026-07-20T12:00:30Z"},
		{"the longest of several", "Running", 30, []any{nil, sleep(3), sleep(20), sleep(4)}, "2026-07-20T12:00:20Z"},
		{"never started", "Pending", 30, []any{sleep(10)}, "0s"},
		{"no grace", "Running", 0, []any{sleep(10)}, "0s"},
	} {
		var containers []any
		for _, h := range c.hooks {
			x := map[string]any{"name": "c"}
			if h != nil {
				x["lifecycle"] = h
			}
			containers = append(containers, x)
		}
		end := time.Date(2026, 7, 20, 12, 0, c.grace.(int), 0, time.UTC).Format(time.RFC3339)
		pod := map[string]any{"metadata": map[string]any{"deletionTimestamp": end, "deletionGracePeriodSeconds": c.grace},
			"spec": map[string]any{"containers": containers}, "status": map[string]any{"phase": c.phase}}
		if got, _ := query.Run(pod).Next(); got != c.want {
			t.Errorf("%s: %v, want %s", c.what, got, c.want)
		}
	}
}

func TestPortsAreDistinct(t *testing.T) {
	ports, seen := &Ports{}, map[int]bool{}
	for range 50 {
		port, err := ports.Next()
		if err != nil {
			t.Fatal(err)
		}
		if seen[port] {
			t.Fatalf("port %d was given twice", port)
		}
		seen[port] = true
	}
}
