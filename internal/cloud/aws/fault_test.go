// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// skipping is the wall clock, hurried: an hour of waiting is none.
type skipping struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (s *skipping) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.ahead)
}

func (s *skipping) Wait(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	s.ahead += max(0, d) // whoever reckons how long to wait may be overtaken by another's waiting: time does not go back
	s.mu.Unlock()
	return ctx.Err()
}

// TestFaults launches many claims while a third of all offerings have no capacity, a tenth of all calls is throttled,
// replies are lost after their effect, and Describe lags by ten seconds; in the middle the controller is another
// process. Every claim ends with one machine or with the answer that there is none for it, no machine is bought
// twice, and every machine is some claim's.
func TestFaults(t *testing.T) {
	for seed := range 3 {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { faults(t, seed) })
	}
}

func faults(t *testing.T, seed int) {
	const claims = 60
	clock := &skipping{}
	a := open(t, some(t, "c5.large", "m5.large", "m6g.large", "r5.large"), clock, func(s *awstest.Settings) { s.Seed = int64(seed) })
	types, err := a.provider().Offerings(t.Context(), nil, class(""))
	if err != nil {
		t.Fatal(err)
	}
	retrying := func() cloud.Provider {
		return cloud.Retry(a.provider(), clock, cloud.RetryPolicy{Attempts: 2, Base: 10 * time.Millisecond, MaxWait: time.Minute})
	}
	var providers [2]cloud.Provider
	for i := range providers { // the second is what takes over after a crash; prices have moved by then, so that it asks for something else
		providers[i] = retrying()
		if _, err := providers[i].Offerings(t.Context(), nil, class("")); err != nil {
			t.Fatal(err)
		}
		for j, it := range types {
			for k, o := range it.Offerings {
				if o.CapacityType == model.Spot {
					a.control("POST", "prices", awstest.PriceMove{InstanceType: it.Name, Zone: o.Zone, PriceMicro: o.PriceMicro * int64(60+13*((j+k/2+seed)%4)) / 100}, nil)
				}
			}
		}
	}
	a.fault(
		awstest.Fault{Kind: awstest.Scarce, Percent: 30},
		awstest.Fault{Kind: awstest.Throttle, Percent: 10},
		awstest.Fault{Kind: awstest.LostReply, Action: "CreateFleet", Percent: 20},
		awstest.Fault{Kind: awstest.LostReply, Action: "CreateLaunchTemplate", Percent: 20},
		awstest.Fault{Kind: awstest.LostReply, Action: "TerminateInstances", Percent: 20},
		awstest.Fault{Kind: awstest.DescribeLag, Delay: machines.Duration(10 * time.Second)},
	)
	request := func(i int) cloud.LaunchRequest {
		n := (i*7 + seed) % len(types)
		r := cloud.LaunchRequest{
			ClaimName: fmt.Sprintf("claim-%d", i), ClaimUID: fmt.Sprintf("uid-%d", i), Pool: "default", Class: class(""),
			NodeLabels: model.Labels{"example.com/team": "a"}, Types: []string{types[n].Name, types[(n+i%3)%len(types)].Name},
		}
		if i%3 == 0 { // one offering, which may be one of those that can't be had
			o := types[n].Offerings[i%len(types[n].Offerings)]
			r.Types, r.Zones, r.CapacityTypes = r.Types[:1], []string{o.Zone}, []string{o.CapacityType}
		}
		return r
	}
	bought := make([]string, claims)
	missing := make([]bool, claims)
	var wg sync.WaitGroup
	for i := range claims {
		wg.Go(func() {
			for attempt := 0; ; attempt++ {
				if attempt == 200 {
					t.Errorf("claim %d: no end of errors", i)
					return
				}
				// The first process crashes in the midst of each launch: whatever it has learned is lost.
				p := providers[min(attempt, 1)]
				res := p.Launch(t.Context(), []cloud.LaunchRequest{request(i)})[0]
				switch cloud.KindOf(res.Err) {
				case cloud.None:
					if attempt == 0 && i%4 == 0 {
						continue // the answer was lost on the way to the API server
					}
					bought[i] = res.ProviderID
					return
				case cloud.InsufficientCapacity:
					if len(cloud.OfferingsOf(res.Err)) == 0 {
						t.Errorf("claim %d: %v names no offering", i, res.Err)
					}
					missing[i] = true
					return
				case cloud.Throttled, cloud.Unknown:
					if clock.Wait(t.Context(), max(cloud.AfterOf(res.Err), 100*time.Millisecond)) != nil {
						return
					}
				default:
					t.Errorf("claim %d: %v", i, res.Err)
					return
				}
			}
		})
	}
	wg.Wait()
	b := a.books()
	if len(b.Twice) > 0 || len(b.Untagged) > 0 {
		t.Errorf("launched twice: %v; without a tag: %v", b.Twice, b.Untagged)
	}
	alive := map[string]string{}
	for _, in := range b.Alive {
		alive["aws:///"+in.Zone+"/"+in.ID] = in.Tags["dovetail.sh/nodeclaim-uid"]
	}
	count, none := 0, 0
	for i, id := range bought {
		switch uid := fmt.Sprintf("uid-%d", i); {
		case missing[i]:
			none++
			if len(b.Launches[uid]) > 0 {
				t.Errorf("claim %d was told that there is no capacity, but %v was launched", i, b.Launches[uid])
			}
		case alive[id] != uid:
			t.Errorf("claim %d has machine %s, which is that of %q", i, id, alive[id])
		default:
			count++
			delete(alive, id)
		}
	}
	if len(alive) > 0 {
		t.Errorf("machines that nobody knows of: %v", alive)
	}
	if reused := b.Calls["ec2:CreateFleet"].Errors["IdempotentParameterMismatch"]; count == 0 || none == 0 || reused == 0 {
		t.Fatalf("%d machines, %d claims without one, %d tokens used before: some of each are needed, else nothing is checked", count, none, reused)
	}
	calls := 0
	for _, c := range b.Calls {
		calls += c.Count
	}
	t.Logf("%d of %d claims got a machine, %d none for want of capacity; %d calls, %.1f a machine; CreateFleet %+v", count, claims, none, calls, float64(calls)/float64(count), b.Calls["ec2:CreateFleet"])

	// And all end, once each, though replies are lost.
	for _, id := range bought {
		if id == "" {
			continue
		}
		for attempt := 0; ; attempt++ {
			err := providers[1].Terminate(t.Context(), []string{id})[0]
			if kind := cloud.KindOf(err); kind == cloud.None || kind == cloud.NotFound {
				break
			}
			if attempt == 50 {
				t.Fatalf("%s does not end: %v", id, err)
			}
		}
	}
	for _, in := range a.books().Alive {
		if in.State != "shutting-down" {
			t.Errorf("%s is %s", in.ID, in.State)
		}
	}
}
