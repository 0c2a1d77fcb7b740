// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// expanderFunc is an expander outside.
type expanderFunc func(context.Context, *nodegroups.Query) ([]string, error)

// BestOptions implements Expander.
func (f expanderFunc) BestOptions(ctx context.Context, q *nodegroups.Query) ([]string, error) {
	return f(ctx, q)
}

// withExpander has the bench drive groups cheap and dear, whose class asks an expander outside.
func withExpander(b *bench, answer expanderFunc) {
	cheap, dear := groupType("cheap", 4000, 9, 10), groupType("dear", 4000, 2, 10)
	dear.Offerings[0].PriceMicro = 300_000
	driveGroups(b, cheap, dear)
	b.emit(func(s *state.State) {
		s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "c", UID: "class", Generation: 1, Scaling: &model.GroupScaling{UtilizationPercent: -1, GPUPercent: -1, Expanders: []string{"grpc"}},
			Groups: []model.NodeGroup{{Name: "cheap", Max: 10}, {Name: "dear", Max: 10}}})
	})
	b.c.expander.expander = expanderFunc(func(ctx context.Context, q *nodegroups.Query) ([]string, error) {
		b.note("ask", fmt.Sprintf("%d options", len(q.Options)))
		return answer(ctx, q)
	})
	b.lead()
}

// launchedIn are the node groups of the claims, how many of each.
func (b *bench) launchedIn() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]int{}
	for _, c := range b.claims {
		out[groupOfTypes(c)]++
	}
	return out
}

// groupOfTypes is the group that a claim's instance types are of.
func groupOfTypes(c *model.Claim) string {
	if g := c.NodeGroup(); g != "" {
		return g
	}
	return c.Requirements.Get(model.LabelInstanceType).Values[0][len("type-of-"):]
}

// What the expander chooses is grown; what it leaves out is not, until it is asked again about what is left.
func TestExpanderChooses(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		withExpander(b, func(_ context.Context, q *nodegroups.Query) ([]string, error) {
			time.Sleep(500 * time.Millisecond)
			if len(q.Options) < 2 || q.Options[1].Group != "dear" || len(q.Options[1].Pods) == 0 {
				t.Errorf("asked %+v", q)
			}
			return []string{"dear", "unheard-of"}, nil
		})
		for i := range 8 { // two nodes, as many as the dear one may grow
			b.pod(fmt.Sprint("web-", i), "web")
		}
		time.Sleep(20 * time.Second)
		if got := b.launchedIn(); got["dear"] != 2 || got["cheap"] != 0 {
			t.Errorf("launched in %v", got)
		}
		if asked := b.made("ask"); len(asked) != 1 {
			t.Errorf("asked %v", asked)
		}
		if at := b.made("create"); at[0].after < 500*time.Millisecond || at[0].after > time.Second {
			t.Errorf("launched after %s, when it was asked", at[0].after)
		}
		if v, _ := b.scrape(t); v["dovetail_expander_calls_total{result=answered}"] != 1 {
			t.Error("the call is not counted")
		}
	})
}

// Where the expander does not help, the optimizer decides alone, after two seconds at most, and does not ask for a while.
func TestExpanderFails(t *testing.T) {
	for result, answer := range map[string]expanderFunc{
		expanderTimedOut: func(ctx context.Context, _ *nodegroups.Query) ([]string, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("ask: %w", ctx.Err())
		},
		expanderFailed: func(context.Context, *nodegroups.Query) ([]string, error) {
			return nil, errors.New("connection refused")
		},
		expanderNonsense: func(context.Context, *nodegroups.Query) ([]string, error) { return []string{"unheard-of"}, nil },
	} {
		t.Run(result, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				withExpander(b, answer)
				b.pod("web", "web")
				time.Sleep(10 * time.Second)
				made := b.made("create")
				if got := b.launchedIn(); got["cheap"] != 1 || got["dear"] != 0 || len(made) != 1 {
					t.Fatalf("launched in %v", got)
				}
				if at := made[0].after; at > expanderLimit+500*time.Millisecond {
					t.Errorf("launched after %s", at)
				}
				b.pod("big-1", "big") // room on the node that was launched
				for i := range 4 {
					b.pod(fmt.Sprint("more-", i), "more")
				}
				time.Sleep(2 * time.Second)
				if n := len(b.made("ask")); n != 1 {
					t.Errorf("asked %d times within %s", n, expanderPause)
				}
				if n := len(b.made("create")); n != 2 {
					t.Errorf("%d nodes for six pods", n)
				}
				if v, _ := b.scrape(t); v["dovetail_expander_calls_total{result="+result+"}"] != 1 {
					t.Error("the call is not counted as " + result)
				}
			})
		})
	}
}

// While the expander is asked about some pods, nothing else waits for it: claims go on.
func TestExpanderHoldsUpNothingElse(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		withExpander(b, func(ctx context.Context, _ *nodegroups.Query) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		b.c.Config.RetryAfter = time.Hour
		b.pod("web", "web")
		time.Sleep(500 * time.Millisecond)
		if len(b.made("ask")) != 1 || len(b.made("create")) != 0 {
			t.Fatalf("asked %v, launched %v", b.made("ask"), b.made("create"))
		}
		b.emit(func(s *state.State) {
			s.SetClaim(&model.Claim{Name: "old", UID: "uid-old", Pool: "p", Created: time.Now(), HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1,
				ClassGroup: "g", ClassKind: "K", ClassName: "c", Labels: model.Labels{}, Conditions: map[string]model.Condition{},
				Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, "type-of-cheap"))}, 1)
		})
		time.Sleep(500 * time.Millisecond)
		if launched := b.made("launch"); len(launched) == 0 || launched[0].what != "old" {
			t.Errorf("launched %v while the expander was asked", launched)
		}
	})
}
