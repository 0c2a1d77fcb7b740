// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// script is a provider whose answers are written down: each call takes the next error for its item.
type script struct {
	errs  map[string][]error // by claim UID, provider id, "list", "offerings"
	calls []string
	types []*model.InstanceType
	extra []cloud.OfferingKey
	told  map[cloud.OfferingKey]bool // by the last launch request
}

func (s *script) next(key string) error {
	if len(s.errs[key]) == 0 {
		return nil
	}
	err := s.errs[key][0]
	s.errs[key] = s.errs[key][1:]
	return err
}

func (s *script) Traits() cloud.Traits { return cloud.Traits{Name: "script"} }

func (s *script) Offerings(context.Context, *model.NodePool, cloud.NodeClass) ([]*model.InstanceType, error) {
	s.calls = append(s.calls, "offerings")
	return s.types, s.next("offerings")
}

func (s *script) Launch(_ context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	var uids []string
	out := make([]cloud.LaunchResult, len(requests))
	for i, r := range requests {
		uids, s.told = append(uids, r.ClaimUID), r.Unavailable
		out[i] = cloud.LaunchResult{ClaimUID: r.ClaimUID, Err: s.next(r.ClaimUID), Unavailable: s.extra}
	}
	s.calls = append(s.calls, "launch "+strings.Join(uids, " "))
	return out
}

func (s *script) List(context.Context) ([]model.Instance, error) {
	s.calls = append(s.calls, "list")
	return nil, s.next("list")
}

func (s *script) Terminate(_ context.Context, ids []string) []error {
	s.calls = append(s.calls, "terminate "+strings.Join(ids, " "))
	out := make([]error, len(ids))
	for i, id := range ids {
		out[i] = s.next(id)
	}
	return out
}

func (s *script) RepairPolicies(bool) []cloud.RepairPolicy {
	return []cloud.RepairPolicy{{Condition: "Ready"}}
}

func requests(uids ...string) (out []cloud.LaunchRequest) {
	for _, u := range uids {
		out = append(out, cloud.LaunchRequest{ClaimUID: u, ClaimName: u})
	}
	return out
}

func throttled(d time.Duration) error { return &cloud.Error{Kind: cloud.Throttled, Op: "x", After: d} }

// TestRetry: only the items that may succeed later are repeated, after the longest delay asked for, within the policy.
func TestRetry(t *testing.T) {
	lost := errors.New("connection reset")
	denied := &cloud.Error{Kind: cloud.Denied, Op: "launch"}
	policy := cloud.RetryPolicy{Attempts: 3, Base: 100 * time.Millisecond, MaxWait: 2 * time.Second}
	for _, c := range []struct {
		name  string
		errs  map[string][]error
		calls []string
		took  time.Duration
		want  map[string]cloud.Kind
	}{
		{"all well", nil, []string{"launch a b"}, 0, nil},
		{"throttled", map[string][]error{"a": {throttled(time.Second)}}, []string{"launch a b", "launch a"}, time.Second, nil},
		{"the longest delay counts", map[string][]error{"a": {throttled(time.Second)}, "b": {throttled(300 * time.Millisecond)}},
			[]string{"launch a b", "launch a b"}, time.Second, nil},
		{"unknown errors back off", map[string][]error{"a": {lost, lost}}, []string{"launch a b", "launch a", "launch a"}, 300 * time.Millisecond, nil},
		{"attempts run out", map[string][]error{"a": {lost, lost, lost, lost}}, []string{"launch a b", "launch a", "launch a"}, 300 * time.Millisecond,
			map[string]cloud.Kind{"a": cloud.Unknown}},
		{"more patience than allowed", map[string][]error{"a": {throttled(time.Minute)}}, []string{"launch a b"}, 0, map[string]cloud.Kind{"a": cloud.Throttled}},
		{"denied is denied", map[string][]error{"a": {denied}, "b": {lost}}, []string{"launch a b", "launch b"}, 100 * time.Millisecond,
			map[string]cloud.Kind{"a": cloud.Denied}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{errs: c.errs}
			p := cloud.Retry(s, cloud.Wall{}, policy)
			start := time.Now()
			res := p.Launch(t.Context(), requests("a", "b"))
			if took := time.Since(start); took != c.took {
				t.Errorf("%s: took %s, want %s", c.name, took, c.took)
			}
			if !reflect.DeepEqual(s.calls, c.calls) {
				t.Errorf("%s: calls %q, want %q", c.name, s.calls, c.calls)
			}
			for i, uid := range []string{"a", "b"} {
				if res[i].ClaimUID != uid || cloud.KindOf(res[i].Err) != c.want[uid] {
					t.Errorf("%s: result %d is %+v, want kind %q", c.name, i, res[i], c.want[uid])
				}
			}
		})
	}
}

func TestRetryOtherCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{errs: map[string][]error{"list": {errors.New("lost")}, "offerings": {throttled(time.Second)}, "x": {errors.New("lost"), &cloud.Error{Kind: cloud.NotFound}}}}
		p := cloud.Retry(s, cloud.Wall{}, cloud.DefaultRetry())
		if _, err := p.List(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := p.Offerings(t.Context(), nil, cloud.NodeClass{}); err != nil {
			t.Error(err)
		}
		if errs := p.Terminate(t.Context(), []string{"w", "x"}); errs[0] != nil || cloud.KindOf(errs[1]) != cloud.NotFound {
			t.Errorf("have %v", errs)
		}
		want := []string{"list", "list", "offerings", "offerings", "terminate w x", "terminate x"}
		if !reflect.DeepEqual(s.calls, want) {
			t.Errorf("calls %q, want %q", s.calls, want)
		}
		// A context that ends while waiting leaves the last answer.
		s.errs["list"] = []error{throttled(time.Second)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := p.List(ctx); cloud.KindOf(err) != cloud.Throttled {
			t.Errorf("have %v", err)
		}
	})
}

func types() []*model.InstanceType {
	var out []*model.InstanceType
	for _, n := range []string{"a", "b"} {
		it := &model.InstanceType{Name: n}
		for _, z := range []string{"z1", "z2"} {
			it.Offerings = append(it.Offerings, model.Offering{Zone: z, CapacityType: model.OnDemand, Available: true}, model.Offering{Zone: z, CapacityType: model.Spot, Available: n != "b"})
		}
		out = append(out, it)
	}
	return out
}

func available(t *testing.T, p cloud.Provider) string {
	t.Helper()
	ts, err := p.Offerings(t.Context(), nil, cloud.NodeClass{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, it := range ts {
		for _, o := range it.Offerings {
			if o.Available {
				out = append(out, fmt.Sprintf("%s/%s/%s", it.Name, o.Zone, o.CapacityType))
			}
		}
	}
	return strings.Join(out, " ")
}

// TestSetAside: what had no capacity is not available for three minutes, and then again.
func TestSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = "a/z1/on-demand a/z1/spot a/z2/on-demand a/z2/spot b/z1/on-demand b/z2/on-demand"
		key := func(s string) cloud.OfferingKey {
			p := strings.Split(s, "/")
			return cloud.OfferingKey{InstanceType: p[0], Zone: p[1], CapacityType: p[2]}
		}
		s := &script{types: types(), errs: map[string][]error{
			"x": {&cloud.Error{Kind: cloud.InsufficientCapacity, Offerings: []cloud.OfferingKey{key("a/z1/spot"), key("c/z1/spot")}}},
			"y": {&cloud.Error{Kind: cloud.Denied, Offerings: []cloud.OfferingKey{key("a/z2/spot")}}},
		}}
		p := cloud.NewSetAside(s, cloud.Wall{}, cloud.SetAsideFor)
		if have := available(t, p); have != all {
			t.Errorf("at first: %s", have)
		}
		if have, _ := p.Offerings(t.Context(), nil, cloud.NodeClass{}); &have[0] != &s.types[0] {
			t.Error("nothing is set aside, but the slice is another one")
		}
		before, _ := p.Offerings(t.Context(), nil, cloud.NodeClass{})
		p.Launch(t.Context(), requests("x", "y"))
		marked := p.Mark(before)
		if after, _ := p.Offerings(t.Context(), nil, cloud.NodeClass{}); &marked[0] != &after[0] || marked[0].Offerings[1].Available || time.Until(marked[0].Offerings[1].Until) != 3*time.Minute || len(s.told) > 0 {
			t.Error("what was offered before is not marked as it is offered now")
		}
		want := strings.Replace(all, "a/z1/spot ", "", 1)
		if have := available(t, p); have != want {
			t.Errorf("set aside: %s", have)
		}
		one, _ := p.Offerings(t.Context(), nil, cloud.NodeClass{})
		two, _ := p.Offerings(t.Context(), nil, cloud.NodeClass{})
		if &one[0] != &two[0] {
			t.Error("nothing has changed, but the slice is another one")
		}
		if !s.types[0].Offerings[1].Available {
			t.Error("the provider's own types were changed")
		}
		full := key("b/z1/on-demand")
		full.Group, full.Full = "web", true // no offering of which there is one here
		p.Set(full)
		if have := p.Asides(); len(have) != 3 || time.Until(have[1].Until) != 15*time.Second {
			t.Errorf("a node group that was full is set aside: %v", have)
		}
		time.Sleep(time.Minute)
		s.extra = []cloud.OfferingKey{key("b/z2/on-demand")} // cheaper ones that had none, of a launch that succeeded
		p.Launch(t.Context(), requests("z"))
		s.extra = nil
		if len(s.told) != 2 || !s.told[key("a/z1/spot")] || !s.told[key("c/z1/spot")] {
			t.Errorf("the provider is told of %v", s.told)
		}
		if have, want := available(t, p), strings.Replace(want, " b/z2/on-demand", "", 1); have != want {
			t.Errorf("set aside: %s", have)
		}
		if have := p.Asides(); len(have) != 3 || have[0].Offering != key("a/z1/spot") || time.Until(have[0].Until) != 2*time.Minute || time.Until(have[1].Until) != 3*time.Minute {
			t.Errorf("set aside: %v", have)
		}
		time.Sleep(2 * time.Minute)
		if have, want := available(t, p), strings.Replace(all, " b/z2/on-demand", "", 1); have != want {
			t.Errorf("after three minutes: %s", have)
		}
		time.Sleep(time.Minute)
		if again := p.Mark(marked); &again[0] != &s.types[0] {
			t.Error("after four minutes what was marked is marked still")
		}
		if have := available(t, p); have != all || len(p.Asides()) != 0 {
			t.Errorf("after four minutes: %s", have)
		}
	})
}

// TestAs finds optional interfaces behind decorators, and none where there is none.
func TestAs(t *testing.T) {
	p := cloud.Provider(cloud.Retry(cloud.NewSetAside(&script{}, cloud.Wall{}, time.Minute), cloud.Wall{}, cloud.DefaultRetry()))
	if r, ok := cloud.As[cloud.Repairer](p); !ok || len(r.RepairPolicies(false)) != 1 {
		t.Error("the repair policies were not found")
	}
	if _, ok := cloud.As[cloud.Drifter](p); ok {
		t.Error("found what isn't there")
	}
	if p.Traits().Name != "script" {
		t.Errorf("traits are %+v", p.Traits())
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("boom")
	keys := []cloud.OfferingKey{{InstanceType: "a", Zone: "z1", CapacityType: "spot"}, {InstanceType: "a", Zone: "z2", CapacityType: "spot"}, {InstanceType: "b", Zone: "z1", CapacityType: "spot"}, {InstanceType: "b", Zone: "z2", CapacityType: "spot"}}
	for _, c := range []struct {
		err  error
		kind cloud.Kind
		text string
	}{
		{nil, cloud.None, ""},
		{cause, cloud.Unknown, "boom"},
		{&cloud.Error{Kind: cloud.Unknown, Op: "list", Err: cause}, cloud.Unknown, "list: boom"},
		{&cloud.Error{Kind: cloud.NotFound, Op: "terminate", Object: "i-1"}, cloud.NotFound, "terminate i-1: not found"},
		{&cloud.Error{Kind: cloud.InsufficientCapacity, Op: "launch", Object: "c", Offerings: keys}, cloud.InsufficientCapacity,
			"launch c: insufficient capacity of a/z1/spot, a/z2/spot, b/z1/spot and 1 more"},
		{fmt.Errorf("wrapped: %w", &cloud.Error{Kind: cloud.Throttled, Op: "list", After: time.Second}), cloud.Throttled, "wrapped: list: throttled, retry after 1s"},
		{&cloud.Error{Kind: cloud.NotReady, Op: "offerings", Object: "default", Err: cause}, cloud.NotReady, "offerings default: not ready: boom"},
		{&cloud.Error{Kind: cloud.Denied, Op: "launch", Object: "c", Err: cause}, cloud.Denied, "launch c: denied: boom"},
	} {
		if have := cloud.KindOf(c.err); have != c.kind {
			t.Errorf("%v is %q, want %q", c.err, have, c.kind)
		}
		if c.err != nil && c.err.Error() != c.text {
			t.Errorf("have %q, want %q", c.err, c.text)
		}
	}
	if err := error(&cloud.Error{Kind: cloud.Unknown, Err: cause}); !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
	for _, err := range []error{cloud.RetryPolicy{}.Validate(), cloud.RetryPolicy{Attempts: 1}.Validate()} {
		if err == nil {
			t.Error("no error")
		}
	}
	if err := cloud.DefaultRetry().Validate(); err != nil {
		t.Error(err)
	}
}
