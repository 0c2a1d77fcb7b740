// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// burst is claims for machines of two groups, each asked for again and again until its machine has come.
type burst struct {
	a        *account
	p        *aws.Provider
	requests []cloud.LaunchRequest
	got      []string // provider ids, empty for those that have not come
}

// newBurst returns 20 claims, half of them for each of two groups that launch nothing for now, and has asked once for each. A third group has
// nothing to do with them.
func newBurst(t *testing.T, clock cloud.Clock, queue string) *burst {
	t.Helper()
	a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 0 })
	classes := map[string]cloud.NodeClass{}
	for _, name := range []string{"one", "two", "other"} {
		a.define(awstest.Group{Name: name, Max: 50, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
		c := groupClass(`{"selectorTerms":[{"name":"` + name + `"}]}`)
		c.Name, c.UID = name, name+"-uid"
		classes[name] = c
	}
	a.fault(awstest.Fault{Kind: awstest.SlowGroup, Delay: machines.Duration(10 * time.Millisecond)})
	b := &burst{a: a, p: a.provider(func(c *awsapi.Config) { c.InterruptionQueue, c.StatusCheckInterval = queue, 0 })}
	for _, c := range classes {
		if _, err := b.p.Offerings(t.Context(), nil, c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.p.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.control("DELETE", "calls", nil, nil)
	const each = 10
	for i := range 2 * each {
		uid := fmt.Sprintf("uid-%02d", i)
		name := []string{"one", "two"}[i%2]
		b.requests = append(b.requests, cloud.LaunchRequest{ClaimName: "claim-" + uid, ClaimUID: uid, ClaimCreated: clock.Now(), Pool: name, Class: classes[name], Following: each - 1 - i/2})
	}
	b.got = make([]string, len(b.requests))
	b.ask(t)
	return b
}

// ask asks for each machine that has not come.
func (b *burst) ask(t *testing.T) {
	t.Helper()
	var wg sync.WaitGroup
	for i, r := range b.requests {
		if b.got[i] != "" {
			continue
		}
		wg.Go(func() {
			res := b.p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]
			if res.Err != nil {
				t.Errorf("%s: %v", r.ClaimName, res.Err)
			}
			b.got[i] = res.ProviderID
		})
	}
	wg.Wait()
}

// calls are the calls made since the burst began, by kind.
func (b *burst) calls() map[string]int {
	out := map[string]int{}
	for name, c := range b.a.books().Calls {
		out[strings.SplitN(name, ":", 2)[1]] = c.Count
	}
	return out
}

// expect compares the calls with the most that each kind may have; a kind that is not named may have none.
func (b *burst) expect(t *testing.T, most map[string]int) {
	t.Helper()
	have := b.calls()
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if have[name] > most[name] {
			t.Errorf("%s was called %d times, want at most %d", name, have[name], most[name])
		}
	}
	t.Logf("%v", have)
}

// TestCallsOfABurst counts what a burst of 20 machines from two groups asks of AWS while a minute passes in which none comes, each claim asking every second, and when they come.
func TestCallsOfABurst(t *testing.T) {
	clock := &shifted{}
	b := newBurst(t, clock, "")
	// A claim that says that none follows may overtake those that it follows, which then are a second batch.
	const batches = 6
	b.expect(t, map[string]int{"DescribeAutoScalingGroups": batches, "SetDesiredCapacity": batches, "DescribeScalingActivities": batches})
	for range 60 {
		clock.ahead.Add(int64(time.Second))
		b.ask(t)
	}
	// The groups are read less and less often; with each reading one call tells whether a launch has failed. Launch templates are read once a minute.
	b.expect(t, map[string]int{"DescribeAutoScalingGroups": batches + 2*20, "SetDesiredCapacity": batches, "DescribeScalingActivities": batches + 2*20, "DescribeLaunchTemplateVersions": 2})
	b.a.control("DELETE", "faults", nil, nil)
	b.a.soon("all machines have come", func() error {
		clock.ahead.Add(int64(time.Second))
		b.ask(t)
		if n := len(slices.DeleteFunc(slices.Clone(b.got), func(id string) bool { return id != "" })); n > 0 {
			return fmt.Errorf("%d have not", n)
		}
		return nil
	})
	if slices.Sort(b.got); len(slices.Compact(b.got)) != len(b.requests) {
		t.Errorf("two claims have one machine: %v", b.got)
	}
	b.expect(t, map[string]int{"DescribeAutoScalingGroups": 100, "SetDesiredCapacity": batches, "DescribeScalingActivities": 100, "DescribeLaunchTemplateVersions": 4, "CreateTags": len(b.requests), "DescribeInstances": 20})
	b.a.control("DELETE", "calls", nil, nil)
	for range 60 {
		clock.ahead.Add(int64(time.Second))
		b.ask(t)
	}
	b.expect(t, nil)
}

// TestCallsOfABurstWithAQueue counts the same where the queue tells that instances have started: then nobody waits for the next look.
func TestCallsOfABurstWithAQueue(t *testing.T) {
	clock := &shifted{}
	b := newBurst(t, clock, awstest.Default().Queue)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.p.Interruptions(ctx, func(context.Context, cloud.Interruption) error { return nil })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for range 60 {
		clock.ahead.Add(int64(time.Second))
		b.ask(t)
	}
	before := b.calls()
	b.a.control("DELETE", "faults", nil, nil)
	b.a.soon("all machines have come, though no time passes", func() error {
		b.ask(t)
		if n := len(slices.DeleteFunc(slices.Clone(b.got), func(id string) bool { return id != "" })); n > 0 {
			return fmt.Errorf("%d have not", n)
		}
		return nil
	})
	t.Logf("before %v, after %v", before, b.calls())
}
