// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// TestGroupShortages has claims ask several groups for machines while AWS has no capacity for some of their types and zones, for drawn times. Calls are
// throttled, replies are lost after their effect, and EC2 describes machines late. Claims are deleted while they wait, and in half of the draws the process
// dies in the middle. In the end each claim has a machine of its own or was told which offerings have no capacity, every other machine is given back, and
// each group wants what it has.
func TestGroupShortages(t *testing.T) {
	seeds := uint64(4)
	if os.Getenv("DOVETAIL_SOAK") != "" {
		seeds = 100
	}
	var got, without, gaveUp int
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			a, b, c := groupShortages(t, seed)
			got, without, gaveUp = got+a, without+b, gaveUp+c
		})
	}
	t.Logf("%d claims have a machine, %d were told that there is no capacity, %d were deleted", got, without, gaveUp)
	if !t.Failed() && (got == 0 || without == 0 || gaveUp == 0) {
		t.Error("some of each are needed, or nothing is checked")
	}
}

// groupsProcess is a controller process: what it does ends with it.
type groupsProcess struct {
	cloud.Provider
	alive context.Context
	kill  context.CancelFunc
}

func groupShortages(t *testing.T, seed uint64) (got, without, gaveUp int) {
	const claims = 12
	random := rand.New(rand.NewPCG(seed, 1))
	clock := hurried{time.Now()}
	types := []string{"c5.large", "m5.large", "r5.large"}
	zones := []string{"us-east-1a", "us-east-1b"}
	a := open(t, some(t, types...), clock, func(s *awstest.Settings) {
		s.Seed, s.GroupDelay = int64(seed), time.Duration(random.IntN(3))*500*time.Millisecond
	})
	var names []string
	for i := range 2 + random.IntN(2) {
		g := awstest.Group{Name: fmt.Sprintf("g%d", i), Max: 3 + random.IntN(2*claims), InstanceTypes: types[i : i+1], Zones: zones[:1+random.IntN(2)], Tags: enabled, OnDemandAbovePercent: 100}
		if random.IntN(3) == 0 {
			g.InstanceTypes = []string{types[i], types[(i+1)%3]}
		}
		a.define(g)
		names = append(names, g.Name)
	}
	drawFaults(a, random, types, zones)
	start := func() *groupsProcess {
		ctx, kill := context.WithCancel(t.Context())
		retry := cloud.Retry(a.providerOf(a.through(&uneven{by: a, clock: clock, most: 200 * time.Millisecond, random: random})), clock, cloud.RetryPolicy{Attempts: 2, Base: 10 * time.Millisecond, MaxWait: time.Minute})
		return &groupsProcess{cloud.NewSetAside(retry, clock, cloud.SetAsideFor), ctx, kill}
	}
	var mu sync.Mutex
	process := start()
	now := func() *groupsProcess {
		mu.Lock()
		defer mu.Unlock()
		return process
	}
	defer func() { now().kill() }()
	dies := time.Duration(0)
	if random.IntN(2) == 0 {
		dies = time.Duration(1+random.IntN(15)) * time.Second
	}
	created := clock.Now()
	ids, told := make([]string, claims), make([]bool, claims)
	deleted := make([]int, claims) // after so many asks; 0: never
	for i := range deleted {
		deleted[i] = max(0, random.IntN(16)-8)
	}
	var wg sync.WaitGroup
	if dies > 0 {
		wg.Go(func() {
			if clock.Wait(t.Context(), dies) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			process.kill()
			process = start()
		})
	}
	for i := range claims {
		own := rand.New(rand.NewPCG(seed, uint64(i)+100))
		wg.Go(func() {
			uid := fmt.Sprintf("uid-%d", i)
			req := cloud.LaunchRequest{ClaimName: "claim-" + uid, ClaimUID: uid, ClaimCreated: created, Pool: "workers", Class: groupClass(tagged)}
			if clock.Wait(t.Context(), time.Duration(own.IntN(3000))*time.Millisecond) != nil {
				return
			}
			for asks := 1; t.Context().Err() == nil && asks != deleted[i]; asks++ {
				p := now()
				res := p.Launch(p.alive, []cloud.LaunchRequest{req})[0]
				switch kind := cloud.KindOf(res.Err); {
				case kind == cloud.InsufficientCapacity:
					if len(cloud.OfferingsOf(res.Err)) == 0 {
						t.Errorf("claim %d: %v names no offering", i, res.Err)
					}
					told[i] = true
					return
				case kind != cloud.None && kind != cloud.Throttled && kind != cloud.Unknown:
					t.Errorf("claim %d: %v", i, res.Err)
					return
				case res.ProviderID != "" && p.alive.Err() == nil: // a process that has died has told nobody
					if deleted[i] == 0 {
						ids[i] = res.ProviderID
						return
					}
				}
				if clock.Wait(t.Context(), time.Duration(200+own.IntN(800))*time.Millisecond) != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	a.control("DELETE", "faults", nil, nil)
	last := now()
	if _, err := last.Offerings(t.Context(), nil, groupClass(tagged)); err != nil { // a process that nobody has asked for a machine does not know the groups
		t.Fatal(err)
	}
	a.soon("the machines of other claims are given back, and each group wants what it has", func() error {
		list, err := last.List(t.Context())
		if err != nil {
			return err
		}
		var left []string
		for _, m := range list {
			if slices.Contains(ids, m.ProviderID) || m.Gone {
				continue
			}
			left = append(left, m.ProviderID) // also one that came when its claim had been told that none would: the controller would make a claim for it
		}
		if len(left) > 0 {
			return fmt.Errorf("%v have no claim any more: %v", left, last.Terminate(t.Context(), left))
		}
		have := 0
		for _, name := range names {
			g := a.group(name)
			members := 0
			for _, m := range g.Instances {
				if m.LifecycleState == "InService" || m.LifecycleState == "Pending" {
					members++
				}
			}
			if int(*g.DesiredCapacity) != members {
				return fmt.Errorf("group %s wants %d and has %d", name, *g.DesiredCapacity, members)
			}
			have += members
		}
		if want := len(ids) - len(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id != "" })); have != want {
			return fmt.Errorf("the groups have %d machines for %d claims", have, want)
		}
		return nil
	})
	of := map[string]int{}
	alive := map[string]string{} // claims by machine
	for _, in := range a.books().Alive {
		alive["aws:///"+in.Zone+"/"+in.ID] = in.Tags["dovetail.sh/nodeclaim-uid"]
	}
	for i, id := range ids {
		switch {
		case id == "" && told[i]:
			without++
		case id == "":
			gaveUp++
		default:
			got++
			if other, ok := of[id]; ok {
				t.Errorf("claims %d and %d have machine %s", other, i, id)
			}
			of[id] = i
			if uid := fmt.Sprintf("uid-%d", i); alive[id] != uid {
				t.Errorf("claim %d has machine %s, which is that of %q", i, id, alive[id])
			}
		}
	}
	return got, without, gaveUp
}

// drawFaults draws which offerings have no capacity and for how long, and what goes wrong with calls.
func drawFaults(a *account, random *rand.Rand, types, zones []string) {
	a.t.Helper()
	var out []awstest.Fault
	for _, it := range types {
		for _, zone := range zones {
			if random.IntN(2) == 0 {
				continue
			}
			f := awstest.Fault{Kind: awstest.LaunchError, Code: "InsufficientInstanceCapacity", InstanceType: it, Zone: zone}
			if random.IntN(2) == 0 {
				f.Duration = machines.Duration(time.Duration(1+random.IntN(40)) * time.Second)
			}
			out = append(out, f)
		}
	}
	if random.IntN(4) == 0 { // none at all
		out = append(out, awstest.Fault{Kind: awstest.LaunchError, Code: "InsufficientInstanceCapacity"})
	}
	for _, action := range []string{"SetDesiredCapacity", "CreateTags", "TerminateInstanceInAutoScalingGroup", "SetInstanceProtection"} {
		if random.IntN(2) == 0 {
			out = append(out, awstest.Fault{Kind: awstest.LostReply, Action: action, Percent: 10 + random.IntN(30)})
		}
	}
	if random.IntN(2) == 0 {
		out = append(out, awstest.Fault{Kind: awstest.Throttle, Percent: 10})
	}
	if random.IntN(2) == 0 {
		out = append(out, awstest.Fault{Kind: awstest.DescribeLag, Delay: machines.Duration(time.Duration(1+random.IntN(10)) * time.Second)})
	}
	if len(out) > 0 {
		a.fault(out...)
	}
}
