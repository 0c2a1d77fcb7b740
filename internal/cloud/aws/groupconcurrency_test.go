// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

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
// gives up before it has its answer, and asks again; some claims are deleted while they wait, or when they have their machine. In the end each claim that
// is left has a machine of its own, the group was never asked for more than there were claims, and it wants what it has.
func TestGroupClaimsInAnyOrder(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { groupClaimsInAnyOrder(t, seed) })
	}
}

func groupClaimsInAnyOrder(t *testing.T, seed uint64) {
	const claims = 8
	random := rand.New(rand.NewPCG(seed, 0))
	clock := hurried{time.Now()}
	a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) {
		s.GroupDelay = time.Duration(random.IntN(3)) * 500 * time.Millisecond
	})
	a.define(awstest.Group{Name: "web", Max: 50, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
	if random.IntN(2) == 0 {
		a.fault(awstest.Fault{Kind: awstest.DescribeLag, Delay: machines.Duration(2 * time.Second)})
	}
	deleted := make([]int, claims) // after so many asks; 0: never
	if random.IntN(2) == 0 {
		for i := range deleted {
			deleted[i] = max(0, random.IntN(12)-6)
		}
	}
	p := a.providerOf(a.through(&uneven{by: a, clock: clock, most: 200 * time.Millisecond, random: random}))
	created := clock.Now()
	got := make([]string, claims)
	var most atomic.Int64 // machines that the group was seen to be asked for
	var wg sync.WaitGroup
	for i := range claims {
		own := rand.New(rand.NewPCG(seed, uint64(i)+1))
		wg.Go(func() {
			uid := fmt.Sprintf("uid-%d", i)
			req := cloud.LaunchRequest{ClaimName: "claim-" + uid, ClaimUID: uid, ClaimCreated: created, Pool: "workers", Class: groupClass(tagged)}
			for asks := 1; t.Context().Err() == nil && asks != deleted[i]; asks++ {
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
				if n := int64(*a.group("web").DesiredCapacity); n > most.Load() {
					most.Store(n)
				}
				if got[i] = res.ProviderID; got[i] != "" && deleted[i] == 0 {
					return
				}
				if clock.Wait(t.Context(), time.Duration(own.IntN(400))*time.Millisecond) != nil {
					return
				}
			}
			got[i] = ""
		})
	}
	wg.Wait()
	a.soon("the machines of deleted claims are given back, and the group wants what it has", func() error {
		list, err := p.List(t.Context())
		if err != nil {
			return err
		}
		var left []string
		for _, m := range list {
			if j := slices.IndexFunc(got, func(id string) bool { return id == m.ProviderID }); j < 0 && m.ClaimUID != "" && !m.Gone {
				left = append(left, m.ProviderID)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%v have no claim any more: %v", left, p.Terminate(t.Context(), left))
		}
		if g := a.group("web"); int(*g.DesiredCapacity) != len(slices.DeleteFunc(g.Instances, func(m astypes.Instance) bool { return m.LifecycleState != astypes.LifecycleStateInService })) {
			return fmt.Errorf("it wants %d and has %d", *g.DesiredCapacity, len(g.Instances))
		}
		return nil
	})
	of, gone := map[string]int{}, 0
	for i, id := range got {
		if id == "" {
			gone++
			continue
		}
		if other, ok := of[id]; ok {
			t.Errorf("claims %d and %d have machine %s", other, i, id)
		}
		of[id] = i
	}
	have := 0
	for _, m := range a.group("web").Instances {
		if _, ok := of["aws:///us-east-1a/"+*m.InstanceId]; ok && m.LifecycleState == astypes.LifecycleStateInService {
			have++
		}
	}
	if have != claims-gone {
		t.Errorf("%d of %d claims have their machine", have, claims-gone)
	}
	if n := int64(*a.group("web").DesiredCapacity); most.Load() > claims || n > claims || gone == 0 && n != claims {
		t.Errorf("the group was asked for %d machines for %d claims, %d of them deleted; in the end for %d", most.Load(), claims, gone, n)
	}
}
