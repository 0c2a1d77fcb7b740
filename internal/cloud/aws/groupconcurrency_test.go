// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// uneven is a network on which each call takes a drawn time.
type uneven struct {
	by    http.RoundTripper
	clock cloud.Clock
	most  time.Duration // by the clock

	mu     sync.Mutex
	random *rand.Rand
}

func (u *uneven) RoundTrip(r *http.Request) (*http.Response, error) {
	u.mu.Lock()
	d := time.Duration(u.random.Int64N(int64(u.most)))
	u.mu.Unlock()
	if err := u.clock.Wait(r.Context(), d); err != nil {
		return nil, err
	}
	return u.by.RoundTrip(r)
}

// TestGroupClaimsInAnyOrder has claims ask one group for machines, each at drawn moments, over a network that takes drawn times. Now and then a caller
// gives up before it has its answer, and asks again. In the end each claim has a machine of its own, and the group was never asked for one more.
func TestGroupClaimsInAnyOrder(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { groupClaimsInAnyOrder(t, seed) })
	}
}

func groupClaimsInAnyOrder(t *testing.T, seed uint64) {
	const claims = 6
	random := rand.New(rand.NewPCG(seed, 0))
	clock := hurried{time.Now()}
	a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) {
		s.GroupDelay = time.Duration(random.IntN(3)) * 500 * time.Millisecond
	})
	a.define(awstest.Group{Name: "web", Max: 50, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
	if random.IntN(2) == 0 {
		a.fault(awstest.Fault{Kind: awstest.DescribeLag, Delay: machines.Duration(2 * time.Second)})
	}
	p := a.providerOf(a.through(&uneven{by: a, clock: clock, most: 200 * time.Millisecond, random: random}))
	created := clock.Now()
	got := make([]string, claims)
	var wg sync.WaitGroup
	for i := range claims {
		own := rand.New(rand.NewPCG(seed, uint64(i)+1))
		wg.Go(func() {
			uid := fmt.Sprintf("uid-%d", i)
			req := cloud.LaunchRequest{ClaimName: "claim-" + uid, ClaimUID: uid, ClaimCreated: created, Pool: "workers", Class: groupClass(tagged)}
			for t.Context().Err() == nil {
				ctx, giveUp := context.WithCancel(t.Context())
				if own.IntN(4) == 0 {
					patience := time.Duration(own.IntN(300)) * time.Millisecond
					wg.Go(func() {
						if clock.Wait(ctx, patience) == nil {
							giveUp()
						}
					})
				}
				res := p.Launch(ctx, []cloud.LaunchRequest{req})[0]
				giveUp()
				if kind := cloud.KindOf(res.Err); kind != cloud.None && kind != cloud.Throttled && kind != cloud.Unknown {
					t.Errorf("claim %d: %v", i, res.Err)
					return
				}
				if got[i] = res.ProviderID; got[i] != "" {
					return
				}
				if clock.Wait(t.Context(), time.Duration(own.IntN(400))*time.Millisecond) != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	of := map[string]int{}
	for i, id := range got {
		if other, ok := of[id]; ok {
			t.Errorf("claims %d and %d have machine %q", other, i, id)
		}
		of[id] = i
	}
	if g := a.group("web"); *g.DesiredCapacity != claims {
		t.Errorf("the group was asked for %d machines for %d claims", *g.DesiredCapacity, claims)
	}
}
