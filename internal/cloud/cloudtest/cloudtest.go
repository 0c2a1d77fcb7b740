// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package cloudtest is the test suite for providers: it tests the contract of cloud.Provider.
//
// It does not know any provider. A Harness supplies a provider with a new cloud, injects faults into that cloud, and
// returns the cloud's own records, which prove that nothing was launched twice. All methods of a Harness are
// required, so that every rule is tested. Start reading at Run.
package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// Harness is a provider and an empty cloud.
type Harness struct {
	Provider cloud.Provider
	Pool     *model.NodePool
	Class    cloud.NodeClass // a ready class

	// Another returns a second provider for the same cloud, like that of a restarted controller.
	Another func() cloud.Provider
	// Exhaust removes all capacity of the offerings.
	Exhaust func(...cloud.OfferingKey)
	// Throttle makes the next call fail as throttled, with this delay before a retry.
	Throttle func(after time.Duration)
	// LoseReply makes the next mutating call take effect but return no response.
	LoseReply func()
	// Hang blocks all calls until the returned function is called.
	Hang func() (release func())
	// PremiumPercent is how much more than the cheapest a machine may cost, because the cloud weighs spot capacity
	// against price; 0 if it does not.
	PremiumPercent int64
	// Launches returns the number of machines ever launched by claim UID, according to the cloud and not to the
	// provider.
	Launches func() map[string]int
	// Standing returns the number of machines that exist and have not been terminated. Required with Later.
	Standing func() int
	// NoImages means that the cloud does not report the image of a machine.
	NoImages bool
	// Later means that the cloud accepts a launch before it knows the machine: the provider then returns no provider ID
	// until a repeated request.
	Later bool
	// Hold delays accepted launches until the returned function is called. Required with Later.
	Hold func() (release func())
	// Stray makes another client request one more machine from the group of a machine, which fails. more returns how
	// many machines the group is to have in addition to those before. Required with Later.
	Stray func(of cloud.LaunchResult) (more func() int)
}

// Run tests a provider. new is called for each test.
func Run(t *testing.T, new func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"traits", (*suite).traits},
		{"nodes that are not ready can be repaired", (*suite).repair},
		{"offerings are sorted, priced and shared", (*suite).offerings},
		{"a foreign node class is refused", (*suite).foreignClass},
		{"launch buys what is allowed and cheapest", (*suite).launchCheapest},
		{"a batch answers item by item", (*suite).batch},
		{"launching twice is launching once", (*suite).launchTwice},
		{"a machine that has not come can be given up", (*suite).givenUp},
		{"a machine that comes for a claim that was given up is told apart", (*suite).late},
		{"launching at the same time is launching once", (*suite).launchConcurrently},
		{"claims that ask in any order have one machine each", (*suite).launchInAnyOrder},
		{"launching after a lost reply is launching once", (*suite).launchLostReply},
		{"list sees what launch made", (*suite).list},
		{"terminate, and terminate again", (*suite).terminate},
		{"terminate after a lost reply", (*suite).terminateLostReply},
		{"a terminated claim is not launched again", (*suite).launchTerminated},
		{"a machine that fails and that no claim waits for is given back", (*suite).failsForNobody},
		{"insufficient capacity names its offerings", (*suite).insufficientCapacity},
		{"insufficient capacity of some offerings falls to the next", (*suite).nextCheapest},
		{"what is known to have no capacity is not asked for", (*suite).knownShortage},
		{"throttling carries its delay", (*suite).throttled},
		{"cancellation is honoured", (*suite).cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := new(t)
			if h.Provider == nil || h.Pool == nil || h.Another == nil || h.Exhaust == nil || h.Throttle == nil || h.LoseReply == nil || h.Hang == nil || h.Launches == nil {
				t.Fatal("the harness lacks a part; all are needed")
			}
			if h.Later && (h.Hold == nil || h.Stray == nil || h.Standing == nil) {
				t.Fatal("the harness lacks Hold, Stray or Standing, which Later needs")
			}
			c.test(&suite{T: t, Harness: h, began: time.Now()})
		})
	}
}

type suite struct {
	*testing.T
	Harness
	began time.Time
}

// repair: a provider has policies for nodes that are not ready. Without them, node classes and groups could not say either when such a node is broken.
func (s *suite) repair() {
	r, ok := cloud.As[cloud.Repairer](s.Provider)
	if !ok {
		s.Fatal("the provider is no Repairer")
	}
	for _, status := range []string{"False", "Unknown"} {
		if !slices.ContainsFunc(r.RepairPolicies(false), func(p cloud.RepairPolicy) bool { return p.Condition == "Ready" && p.Status == status && p.After > 0 }) {
			s.Errorf("no policy is for condition Ready with status %s", status)
		}
	}
}

func (s *suite) types() []*model.InstanceType {
	s.Helper()
	types, err := s.Provider.Offerings(s.Context(), s.Pool, s.Class)
	if err != nil {
		s.Fatal(err)
	}
	if len(types) < 2 {
		s.Fatalf("have %d types; the suite needs at least two", len(types))
	}
	return types
}

// cheapest is the least price at which a type can be had, and where; ties by zone and capacity type don't matter here.
func cheapest(t *model.InstanceType) (best model.Offering) {
	for _, o := range t.Offerings {
		if o.Available && (best.PriceMicro == 0 || o.PriceMicro < best.PriceMicro) {
			best = o
		}
	}
	return best
}

func keys(types ...*model.InstanceType) []cloud.OfferingKey {
	var out []cloud.OfferingKey
	for _, t := range types {
		for _, o := range t.Offerings {
			out = append(out, cloud.OfferingKey{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType})
		}
	}
	slices.SortFunc(out, func(a, b cloud.OfferingKey) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	return out
}

func (s *suite) request(uid string, types ...*model.InstanceType) cloud.LaunchRequest {
	r := cloud.LaunchRequest{
		ClaimName: "claim-" + uid, ClaimUID: uid, ClaimCreated: s.began, Pool: s.Pool.Name, Class: s.Class,
		NodeLabels: model.Labels{"example.com/team": "a"}, Annotations: model.Labels{"example.com/note": "b"},
		Taints:        []model.Taint{{Key: "example.com/only", Value: "x", Effect: model.NoSchedule}},
		StartupTaints: []model.Taint{{Key: "example.com/starting", Effect: model.NoExecute}},
	}
	for _, t := range types {
		r.Types = append(r.Types, t.Name)
	}
	return r
}

// settled launches, and asks again as long as it is not known which machines those are.
func (s *suite) settled(p cloud.Provider, requests ...cloud.LaunchRequest) []cloud.LaunchResult {
	s.Helper()
	out := make([]cloud.LaunchResult, len(requests))
	open := make([]int, len(requests))
	for i := range open {
		open[i] = i
	}
	s.eventually("the machines are known", func() bool {
		ask := make([]cloud.LaunchRequest, len(open))
		for n, i := range open {
			ask[n] = requests[i]
		}
		res := p.Launch(s.Context(), ask)
		if len(res) != len(ask) {
			s.Fatalf("have %d results for %d requests", len(res), len(ask))
		}
		var left []int
		for n, i := range open {
			out[i] = res[n]
			if res[n].Err == nil && res[n].ProviderID == "" {
				if !s.Later {
					s.Fatalf("claim %s: no error and no provider id", requests[i].ClaimUID)
				}
				left = append(left, i)
			}
		}
		open = left
		return len(open) == 0
	})
	return out
}

// launch launches one machine and wants it to succeed.
func (s *suite) launch(p cloud.Provider, r cloud.LaunchRequest) cloud.LaunchResult {
	s.Helper()
	res := s.settled(p, r)
	if res[0].Err != nil {
		s.Fatal(res[0].Err)
	}
	if res[0].ClaimUID != r.ClaimUID {
		s.Fatalf("the result is for claim %q, want %q", res[0].ClaimUID, r.ClaimUID)
	}
	return res[0]
}

func (s *suite) wantLaunches(want map[string]int) {
	s.Helper()
	have := s.Launches()
	for uid, n := range want {
		if have[uid] != n {
			s.Errorf("claim %s: the cloud launched %d machines, want %d", uid, have[uid], n)
		}
	}
	for uid, n := range have {
		if _, ok := want[uid]; !ok {
			s.Errorf("claim %s: the cloud launched %d machines, want none", uid, n)
		}
	}
}

func (s *suite) wantKind(err error, want cloud.Kind) {
	s.Helper()
	if have := cloud.KindOf(err); have != want {
		s.Errorf("have %q (%v), want %s", have, err, want)
	}
	if err != nil && err.Error() == "" {
		s.Error("the error says nothing")
	}
}

// eventually asks until it is so. List may lag for as long as the provider says; how much longer the machine that the test runs on needs is not
// the provider's affair.
func (s *suite) eventually(what string, so func() bool) {
	s.Helper()
	testwait.UntilFor(s.T, s.Provider.Traits().ListDelay+testwait.Limit, what, func() error {
		if !so() {
			return errors.New("it is not so")
		}
		return nil
	})
}

func (s *suite) find(p cloud.Provider, providerID string) (model.Instance, bool) {
	s.Helper()
	list, err := p.List(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	if !slices.IsSortedFunc(list, func(a, b model.Instance) int {
		if a.ProviderID < b.ProviderID {
			return -1
		}
		return 1
	}) {
		s.Errorf("the list is not sorted by provider id: %v", list)
	}
	for _, in := range list {
		if in.ProviderID == providerID {
			return in, true
		}
	}
	return model.Instance{}, false
}

func (s *suite) traits() {
	tr := s.Provider.Traits()
	if tr.Name == "" || !tr.Serves(s.Class.Group, s.Class.Kind) || tr.Serves("example.com", "Nothing") {
		s.Errorf("traits are %+v, class is %s/%s", tr, s.Class.Group, s.Class.Kind)
	}
}

func (s *suite) offerings() {
	types := s.types()
	for i, t := range types {
		if i > 0 && types[i-1].Name >= t.Name {
			s.Errorf("type %q stands before %q", types[i-1].Name, t.Name)
		}
		if t.Labels[model.LabelInstanceType] != t.Name || t.Labels[model.LabelArch] == "" || t.Labels[model.LabelOS] == "" {
			s.Errorf("%s: labels are %v", t.Name, t.Labels)
		}
		if !t.Allocatable.Fits(t.Capacity) || t.Allocatable.At(model.CPU) <= 0 || t.Allocatable.At(model.Pods) <= 0 {
			s.Errorf("%s: allocatable %v of capacity %v", t.Name, t.Allocatable, t.Capacity)
		}
		if len(t.Offerings) == 0 {
			s.Errorf("%s: no offerings", t.Name)
		}
		for j, o := range t.Offerings {
			if o.PriceMicro <= 0 || o.Zone == "" || o.CapacityType == "" {
				s.Errorf("%s: offering %+v", t.Name, o)
			}
			if j > 0 && (t.Offerings[j-1].Zone > o.Zone || t.Offerings[j-1].Zone == o.Zone && t.Offerings[j-1].CapacityType > o.CapacityType) {
				s.Errorf("%s: offering %s/%s is not in order", t.Name, o.Zone, o.CapacityType)
			}
		}
	}
	if again := s.types(); &again[0] != &types[0] {
		s.Error("nothing has changed, but the slice is another one")
	}
}

func (s *suite) foreignClass() {
	foreign := s.Class
	foreign.Group = "example.com"
	if _, err := s.Provider.Offerings(s.Context(), s.Pool, foreign); err == nil {
		s.Error("offerings: no error")
	}
	r := s.request("a", s.types()[0])
	r.Class = foreign
	if err := s.Provider.Launch(s.Context(), []cloud.LaunchRequest{r})[0].Err; err == nil {
		s.Error("launch: no error")
	}
	s.wantLaunches(nil)
}

func (s *suite) launchCheapest() {
	types := s.types()
	two := []*model.InstanceType{types[0], types[len(types)-1]}
	best := min(cheapest(two[0]).PriceMicro, cheapest(two[1]).PriceMicro)
	res := s.launch(s.Provider, s.request("free", two...))
	if res.PriceMicro < best || res.PriceMicro > best+best*s.PremiumPercent/100 {
		s.Errorf("bought %s for %d, the cheapest costs %d", res.InstanceType, res.PriceMicro, best)
	}
	// One zone and capacity type, by lists and by requirements: both ways say the same.
	last := two[1].Offerings[len(two[1].Offerings)-1]
	narrow := s.request("lists", two...)
	narrow.Types, narrow.Zones, narrow.CapacityTypes = []string{two[1].Name}, []string{last.Zone}, []string{last.CapacityType}
	byRequirement := s.request("requirements")
	byRequirement.Requirements = model.NewRequirements(model.OneOf(model.LabelInstanceType, two[1].Name), model.OneOf(model.LabelZone, last.Zone),
		model.OneOf(model.LabelCapacityType, last.CapacityType), model.OneOf("example.com/team", "a"))
	for _, r := range []cloud.LaunchRequest{narrow, byRequirement} {
		res := s.launch(s.Provider, r)
		if res.InstanceType != two[1].Name || res.Zone != last.Zone || res.CapacityType != last.CapacityType || res.PriceMicro != last.PriceMicro || res.Modelled != last.Modelled {
			s.Errorf("%s: bought %+v, want %s in %s, %s", r.ClaimUID, res, two[1].Name, last.Zone, last.CapacityType)
		}
		if res.ProviderID == "" || (res.ImageID == "") != s.NoImages || !res.Capacity.Equal(two[1].Capacity) || !res.Allocatable.Equal(two[1].Allocatable) {
			s.Errorf("%s: bought %+v, the type has capacity %v and allocatable %v", r.ClaimUID, res, two[1].Capacity, two[1].Allocatable)
		}
		want := model.Labels{model.LabelZone: last.Zone, model.LabelCapacityType: last.CapacityType}
		for _, k := range []string{model.LabelInstanceType, model.LabelArch, model.LabelOS} {
			want[k] = two[1].Labels[k]
		}
		for k, v := range want {
			if res.Labels[k] != v {
				s.Errorf("%s: label %s is %q, want %q", r.ClaimUID, k, res.Labels[k], v)
			}
		}
	}
	// What a request asks for has to fit.
	huge := s.request("huge", two...)
	huge.Requests = model.Resources{}.With(model.CPU, 1<<50)
	if err := s.Provider.Launch(s.Context(), []cloud.LaunchRequest{huge})[0].Err; err == nil {
		s.Error("a machine was bought that does not hold the requests")
	}
	s.wantLaunches(map[string]int{"free": 1, "lists": 1, "requirements": 1})
}

func (s *suite) batch() {
	types := s.types()
	var requests []cloud.LaunchRequest
	want := map[string]int{}
	for i := range 20 {
		r := s.request(fmt.Sprintf("uid-%02d", i), types[i%len(types)])
		if i%5 == 4 {
			r.Types = []string{"no-such-type"}
		} else {
			want[r.ClaimUID] = 1
		}
		requests = append(requests, r)
	}
	requests = append(requests, requests[0]) // twice in one batch
	res := s.settled(s.Provider, requests...)
	ids := map[string]bool{}
	for i, r := range res[:20] {
		if r.ClaimUID != requests[i].ClaimUID {
			s.Errorf("result %d is for claim %q, want %q", i, r.ClaimUID, requests[i].ClaimUID)
		}
		if (r.Err != nil) != (i%5 == 4) {
			s.Errorf("result %d: error is %v", i, r.Err)
		}
		if r.Err == nil && ids[r.ProviderID] {
			s.Errorf("result %d: provider id %s for a second time", i, r.ProviderID)
		}
		ids[r.ProviderID] = true
	}
	if res[20].Err != nil || res[20].ProviderID != res[0].ProviderID {
		s.Errorf("the same request twice in a batch: %q and %q (%v)", res[0].ProviderID, res[20].ProviderID, res[20].Err)
	}
	s.wantLaunches(want)
	if res := s.Provider.Launch(s.Context(), nil); len(res) != 0 {
		s.Errorf("an empty batch has %d results", len(res))
	}
	if errs := s.Provider.Terminate(s.Context(), nil); len(errs) != 0 {
		s.Errorf("an empty batch has %d errors", len(errs))
	}
}

func (s *suite) launchTwice() {
	types := s.types()
	first := s.launch(s.Provider, s.request("a", types...))
	for _, p := range []cloud.Provider{s.Provider, s.Another()} {
		again := s.launch(p, s.request("a", types...))
		if again.ProviderID != first.ProviderID || again.InstanceType != first.InstanceType || again.Zone != first.Zone || again.PriceMicro != first.PriceMicro || !again.Allocatable.Equal(first.Allocatable) {
			s.Errorf("the second answer is %+v, the first %+v", again, first)
		}
	}
	s.wantLaunches(map[string]int{"a": 1})
}

// givenUp: what was accepted and has not come is listed with its claim, and can be ended as any machine; another claim's comes all the same.
func (s *suite) givenUp() {
	if !s.Later {
		s.Skip("the cloud says at once which machine it is")
	}
	types := s.types()
	release := s.Hold()
	for _, r := range []cloud.LaunchRequest{s.request("a", types[0]), s.request("b", types[0])} {
		if res := s.Provider.Launch(s.Context(), []cloud.LaunchRequest{r})[0]; res.Err != nil || res.ProviderID != "" {
			s.Fatalf("have %+v, want a machine that is to come", res)
		}
	}
	list, err := s.Provider.List(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	id := ""
	for _, in := range list {
		if in.ClaimUID == "a" && !in.Gone {
			id = in.ProviderID
		}
	}
	if id == "" {
		s.Fatalf("claim a is not in the list %v", list)
	}
	if err := s.Provider.Terminate(s.Context(), []string{id})[0]; err != nil {
		s.Fatal(err)
	}
	s.wantKind(s.Provider.Terminate(s.Context(), []string{id})[0], cloud.NotFound)
	release()
	s.launch(s.Provider, s.request("b", types[0]))
	if _, ok := s.find(s.Provider, id); ok {
		s.Errorf("%s is listed still", id)
	}
	if have := s.Launches(); have["a"] != 0 || have["b"] != 1 {
		s.Errorf("the cloud launched %v, want one for claim b and none for a", have)
	}
}

// late: a machine has come when the claim that it was for is given up. It is given back, or listed as one that came too late, which can be ended. Another
// claim's stays.
func (s *suite) late() {
	if !s.Later {
		s.Skip("the cloud says at once which machine it is")
	}
	t := s.types()[0]
	a := s.launch(s.Provider, s.request("a", t))
	release := s.Hold()
	if res := s.Provider.Launch(s.Context(), []cloud.LaunchRequest{s.request("b", t)})[0]; res.Err != nil || res.ProviderID != "" {
		s.Fatalf("have %+v, want a machine that is to come", res)
	}
	list, err := s.Provider.List(s.Context())
	at := slices.IndexFunc(list, func(in model.Instance) bool { return in.ClaimUID == "b" && !in.Gone })
	if err != nil || at < 0 {
		s.Fatalf("claim b is not in the list %v: %v", list, err)
	}
	release()
	s.eventually("the machine of claim b has come", func() bool { return s.Launches()["unclaimed"] == 1 })
	if err := s.Provider.Terminate(s.Context(), []string{list[at].ProviderID})[0]; err != nil {
		s.Fatal(err)
	}
	s.eventually("no machine but claim a's is left", func() bool {
		s.types() // from time to time, as the controller does
		list, err := s.Provider.List(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		for _, in := range list {
			if in.ProviderID == a.ProviderID || in.Gone {
				continue
			}
			if in.ClaimUID != "" || in.GivenUp.IsZero() {
				s.Logf("it lists %+v", in)
				return false
			}
			if err := s.Provider.Terminate(s.Context(), []string{in.ProviderID})[0]; err != nil && cloud.KindOf(err) != cloud.NotFound {
				s.Errorf("the machine that came late is not ended: %v", err)
			}
		}
		return s.Standing() == 1
	})
	if in, ok := s.find(s.Provider, a.ProviderID); !ok || in.Gone || in.ClaimUID != "a" || !in.GivenUp.IsZero() {
		s.Errorf("claim a's machine is listed as %+v", in)
	}
}

func (s *suite) launchConcurrently() {
	types := s.types()
	const callers = 16
	ids := make([]string, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		p := s.Provider
		if i%2 == 1 {
			p = s.Another()
		}
		wg.Go(func() { // a wait that reaches its limit ends this goroutine alone, and its answer is then missing below
			res := s.settled(p, s.request("a", types...))
			ids[i], errs[i] = res[0].ProviderID, res[0].Err
		})
	}
	wg.Wait()
	for i := range callers {
		if errs[i] != nil || ids[i] != ids[0] {
			s.Errorf("caller %d: %q, %v; caller 0: %q", i, ids[i], errs[i], ids[0])
		}
	}
	s.wantLaunches(map[string]int{"a": 1})
}

// launchInAnyOrder: claims for like machines ask at drawn moments, each by itself; now and then a caller stops waiting for its answer and asks again.
func (s *suite) launchInAnyOrder() {
	kind := s.types()[0]
	const claims = 8
	ids, want := make([]string, claims), map[string]int{}
	var wg sync.WaitGroup
	for i := range claims {
		uid := fmt.Sprintf("uid-%d", i)
		want[uid] = 1
		random := rand.New(rand.NewPCG(uint64(i), 0))
		wg.Go(func() {
			for s.Context().Err() == nil {
				if (cloud.Wall{}).Wait(s.Context(), time.Duration(random.IntN(40))*time.Millisecond) != nil {
					return
				}
				ctx, stop := context.WithCancel(s.Context())
				if random.IntN(3) == 0 {
					patience := time.Duration(random.IntN(30)) * time.Millisecond
					wg.Go(func() {
						if (cloud.Wall{}).Wait(ctx, patience) == nil {
							stop()
						}
					})
				}
				res := s.Provider.Launch(ctx, []cloud.LaunchRequest{s.request(uid, kind)})[0]
				stop()
				switch k := cloud.KindOf(res.Err); {
				case k == cloud.None && res.ProviderID != "":
					ids[i] = res.ProviderID
					return
				case k != cloud.None && k != cloud.Throttled && k != cloud.Unknown:
					s.Errorf("claim %s: %v", uid, res.Err)
					return
				}
			}
		})
	}
	wg.Wait()
	if slices.Sort(ids); len(slices.Compact(ids)) != claims {
		s.Errorf("two claims have one machine: %v", ids)
	}
	s.wantLaunches(want)
}

func (s *suite) launchLostReply() {
	types := s.types()
	s.LoseReply()
	res := s.Provider.Launch(s.Context(), []cloud.LaunchRequest{s.request("a", types...)})
	s.wantKind(res[0].Err, cloud.Unknown)
	if !s.Later { // else it bears the claim's name a little later
		s.wantLaunches(map[string]int{"a": 1})
	}
	again := s.launch(s.Another(), s.request("a", types...))
	s.eventually("the machine whose reply was lost is listed", func() bool {
		in, ok := s.find(s.Provider, again.ProviderID)
		return ok && in.ClaimUID == "a"
	})
	s.wantLaunches(map[string]int{"a": 1})
}

func (s *suite) list() {
	types := s.types()
	if list, err := s.Provider.List(s.Context()); err != nil || len(list) != 0 {
		s.Errorf("a cloud in which nothing was launched lists %v, %v", list, err)
	}
	res := s.launch(s.Provider, s.request("a", types[0]))
	for _, p := range []cloud.Provider{s.Provider, s.Another()} {
		s.eventually("the machine is listed", func() bool { _, ok := s.find(p, res.ProviderID); return ok })
		in, _ := s.find(p, res.ProviderID)
		if in.ClaimUID != "a" || in.ClaimName != "claim-a" || in.Gone || in.Launched.IsZero() {
			s.Errorf("the machine is listed as %+v", in)
		}
	}
}

func (s *suite) terminate() {
	types := s.types()
	a := s.launch(s.Provider, s.request("a", types[0]))
	b := s.launch(s.Provider, s.request("b", types[0]))
	errs := s.Provider.Terminate(s.Context(), []string{a.ProviderID, "no-such-machine", a.ProviderID + "0"})
	if len(errs) != 3 || errs[0] != nil {
		s.Fatalf("have %v", errs)
	}
	s.wantKind(errs[1], cloud.NotFound)
	s.wantKind(errs[2], cloud.NotFound)
	s.wantKind(s.Provider.Terminate(s.Context(), []string{a.ProviderID})[0], cloud.NotFound)
	s.wantKind(s.Another().Terminate(s.Context(), []string{a.ProviderID})[0], cloud.NotFound)
	s.eventually("the machine is listed as gone, or not at all", func() bool {
		in, ok := s.find(s.Provider, a.ProviderID)
		return !ok || in.Gone
	})
	s.eventually("the other machine is still there", func() bool {
		in, ok := s.find(s.Provider, b.ProviderID)
		return ok && !in.Gone
	})
}

func (s *suite) terminateLostReply() {
	a := s.launch(s.Provider, s.request("a", s.types()[0]))
	s.LoseReply()
	s.wantKind(s.Provider.Terminate(s.Context(), []string{a.ProviderID})[0], cloud.Unknown)
	s.wantKind(s.Provider.Terminate(s.Context(), []string{a.ProviderID})[0], cloud.NotFound)
}

func (s *suite) launchTerminated() {
	types := s.types()
	a := s.launch(s.Provider, s.request("a", types[0]))
	if err := s.Provider.Terminate(s.Context(), []string{a.ProviderID})[0]; err != nil {
		s.Fatal(err)
	}
	s.wantKind(s.Provider.Launch(s.Context(), []cloud.LaunchRequest{s.request("a", types[0])})[0].Err, cloud.NotFound)
	s.wantLaunches(map[string]int{"a": 1})
}

// failsForNobody: what no claim waits for and does not come is given back, and the machine of a claim in the same group stays.
func (s *suite) failsForNobody() {
	if !s.Later {
		s.Skip("nobody but a claim asks this cloud for a machine")
	}
	a := s.launch(s.Provider, s.request("a", s.types()[0]))
	more := s.Stray(a)
	if n := more(); n != 1 {
		s.Fatalf("the group is to have %d machines more, want 1", n)
	}
	s.eventually("the machine that failed is given back", func() bool {
		s.types() // from time to time, as the controller does
		s.find(s.Provider, a.ProviderID)
		return more() == 0
	})
	if in, ok := s.find(s.Provider, a.ProviderID); !ok || in.Gone || in.ClaimUID != "a" {
		s.Errorf("the claim's machine is listed as %+v", in)
	}
	s.wantLaunches(map[string]int{"a": 1})
}

func (s *suite) insufficientCapacity() {
	types := s.types()
	out, other := types[0], types[1]
	s.Exhaust(keys(out)...)
	res := s.settled(s.Provider, s.request("a", out), s.request("b", other))
	s.wantKind(res[0].Err, cloud.InsufficientCapacity)
	if have, want := withoutGroups(cloud.OfferingsOf(res[0].Err)), keys(out); !slices.Equal(have, want) {
		s.Errorf("the error names %v, want %v", have, want)
	}
	if res[1].Err != nil {
		s.Errorf("the other item of the batch: %v", res[1].Err)
	}
	// Only what was allowed is named.
	narrow := s.request("c", out)
	narrow.Zones = []string{out.Offerings[0].Zone}
	err := s.settled(s.Provider, narrow)[0].Err
	s.wantKind(err, cloud.InsufficientCapacity)
	if len(cloud.OfferingsOf(err)) == 0 {
		s.Error("the error names no offering")
	}
	for _, k := range cloud.OfferingsOf(err) {
		if k.Zone != narrow.Zones[0] || k.InstanceType != out.Name {
			s.Errorf("the error names %s, which was not asked for", k)
		}
	}
	s.wantLaunches(map[string]int{"b": 1})
}

func (s *suite) nextCheapest() {
	types := s.types()
	a, b := types[0], types[1]
	if cheapest(b).PriceMicro < cheapest(a).PriceMicro {
		a, b = b, a
	}
	s.Exhaust(keys(a)...)
	res := s.launch(s.Provider, s.request("a", a, b))
	if res.InstanceType != b.Name {
		s.Errorf("bought %s, want %s", res.InstanceType, b.Name)
	}
	if len(res.Unavailable) == 0 {
		s.Error("the result doesn't name the cheaper offerings that had no capacity")
	}
	for _, k := range res.Unavailable {
		if k.InstanceType != a.Name {
			s.Errorf("the result names %s, which has capacity", k)
		}
	}
}

// knownShortage: whoever asks has been told by other launches what has no capacity. That is not launched, though it has some by now, and not
// asked for; the error names it.
func (s *suite) knownShortage() {
	types := s.types()
	a, b := types[0], types[1]
	if cheapest(b).PriceMicro < cheapest(a).PriceMicro {
		a, b = b, a
	}
	ask := func(uid string, known []*model.InstanceType, allowed ...*model.InstanceType) cloud.LaunchRequest {
		r := s.request(uid, allowed...)
		r.Unavailable = map[cloud.OfferingKey]bool{}
		for _, k := range keys(known...) {
			r.Unavailable[k] = true
		}
		return r
	}
	if res := s.launch(s.Provider, ask("a", []*model.InstanceType{a}, a, b)); res.InstanceType != b.Name {
		s.Errorf("bought %s, want %s", res.InstanceType, b.Name)
	}
	err := s.settled(s.Provider, ask("b", []*model.InstanceType{a}, a))[0].Err
	s.wantKind(err, cloud.InsufficientCapacity)
	if have, want := withoutGroups(cloud.OfferingsOf(err)), keys(a); !slices.Equal(have, want) {
		s.Errorf("the error names %v, want %v", have, want)
	}
	s.wantLaunches(map[string]int{"a": 1})
	// A claim that asks again when the shortage is over is served.
	if res := s.launch(s.Provider, s.request("c", a)); res.InstanceType != a.Name {
		s.Errorf("bought %s, want %s", res.InstanceType, a.Name)
	}
}

// withoutGroups returns offerings without the node groups whose they are, each once.
func withoutGroups(list []cloud.OfferingKey) []cloud.OfferingKey {
	out := slices.Clone(list)
	for i := range out {
		out[i].Group, out[i].Full = "", false
	}
	return slices.Compact(out)
}

func (s *suite) throttled() {
	types := s.types()
	const after = 1300 * time.Millisecond
	wantAfter := func(err error) {
		s.Helper()
		s.wantKind(err, cloud.Throttled)
		if cloud.AfterOf(err) != after {
			s.Errorf("repeat after %s, want %s", cloud.AfterOf(err), after)
		}
	}
	s.Throttle(after)
	wantAfter(s.Provider.Launch(s.Context(), []cloud.LaunchRequest{s.request("a", types[0])})[0].Err)
	s.Throttle(after)
	_, err := s.Provider.List(s.Context())
	wantAfter(err)
	s.Throttle(after)
	wantAfter(s.Provider.Terminate(s.Context(), []string{"x"})[0])
	s.wantLaunches(nil)
}

func (s *suite) cancelled() {
	types := s.types()
	release := s.Hang()
	ctx, cancel := context.WithCancel(s.Context())
	errs := make(chan error, 3)
	go func() { errs <- s.Provider.Launch(ctx, []cloud.LaunchRequest{s.request("a", types[0])})[0].Err }()
	go func() { _, err := s.Provider.List(ctx); errs <- err }()
	go func() { errs <- s.Provider.Terminate(ctx, []string{"x"})[0] }()
	cancel()
	for range 3 {
		if err := testwait.Receive(s.T, "the end of a call whose context has ended", errs); !errors.Is(err, context.Canceled) {
			s.Errorf("have %v, want the context's error", err)
		}
	}
	release()
	s.launch(s.Provider, s.request("a", types[0]))
	s.wantLaunches(map[string]int{"a": 1})
	// A context that has ended before the call.
	if err := s.Provider.Launch(ctx, []cloud.LaunchRequest{s.request("b", types[0])})[0].Err; !errors.Is(err, context.Canceled) {
		s.Errorf("have %v, want the context's error", err)
	}
	if _, err := s.Provider.Offerings(ctx, s.Pool, s.Class); !errors.Is(err, context.Canceled) {
		s.Errorf("offerings: have %v, want the context's error", err)
	}
	s.wantLaunches(map[string]int{"a": 1})
}
