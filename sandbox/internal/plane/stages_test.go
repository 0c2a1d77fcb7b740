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
