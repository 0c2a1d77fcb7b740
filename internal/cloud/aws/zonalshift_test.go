// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// stepped is a clock that stands still until the test moves it.
type stepped struct {
	mu       sync.Mutex
	now      time.Time
	moved    chan struct{}
	sleepers map[time.Time]int // by when they wake
}

func newStepped() *stepped {
	return &stepped{now: time.Now().Truncate(time.Second), moved: make(chan struct{}), sleepers: map[time.Time]int{}}
}

func (s *stepped) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stepped) Wait(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := s.now.Add(d)
	s.sleepers[end]++
	defer func() { s.sleepers[end]-- }()
	for s.now.Before(end) && ctx.Err() == nil {
		moved := s.moved
		s.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	return ctx.Err()
}

func (s *stepped) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	close(s.moved)
	s.moved = make(chan struct{})
}

// sleepsWithin reports whether somebody waits for a moment within this time.
func (s *stepped) sleepsWithin(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for end, n := range s.sleepers {
		if n > 0 && end.After(s.now) && !end.After(s.now.Add(d)) {
			return true
		}
	}
	return false
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// shifting is an account whose provider watches for zonal shifts.
type shifting struct {
	*account
	steps    *stepped
	provider *cloud.SetAside
	log      *buffer
}

func newShifting(t *testing.T, faults ...awstest.Fault) *shifting {
	t.Helper()
	x := &shifting{steps: newStepped(), log: &buffer{}}
	x.account = open(t, some(t, "m5.large"), x.steps)
	if len(faults) > 0 {
		x.fault(faults...)
	}
	c := x.config()
	c.ZonalShift = true
	p, err := aws.New(x.clients(), c, x.resources, x.steps, slog.New(slog.NewTextHandler(x.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	x.provider = cloud.NewSetAside(p, x.steps, cloud.SetAsideFor)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { p.WatchZonalShifts(ctx, func() {}) })
	t.Cleanup(func() { cancel(); watching.Wait() })
	x.awaitReads(0)
	return x
}

// reads is how often a read was begun.
func (x *shifting) reads() int {
	calls := x.books().Calls
	return calls["arc-zonal-shift:GetManagedResource"].Count + calls["eks:DescribeCluster"].Count
}

// awaitReads waits until more than n reads were begun, and the watcher sleeps.
func (x *shifting) awaitReads(n int) {
	x.t.Helper()
	x.soon("the zonal shifts are read", func() error {
		if have := x.reads(); have <= n || !x.steps.sleepsWithin(30*time.Second) {
			return fmt.Errorf("%d reads", have)
		}
		return nil
	})
}

// after moves the clock on, and waits until the shifts have been read again.
func (x *shifting) after(d time.Duration) {
	x.t.Helper()
	n := x.reads()
	x.steps.advance(d)
	x.awaitReads(n)
}

func (x *shifting) start(s awstest.Shift) awstest.Shift {
	x.t.Helper()
	x.control("POST", "shifts", s, &s)
	return s
}

// closed are the zones in which nothing is available, and every offering in them names the shift.
func (x *shifting) closed() (out []string) {
	x.t.Helper()
	types, err := x.provider.Offerings(x.t.Context(), nil, class(""))
	if err != nil || len(types) != 1 {
		x.t.Fatalf("%d types, %v", len(types), err)
	}
	for _, zone := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		available, shifted, all := 0, 0, 0
		for _, o := range types[0].Offerings {
			if o.Zone != zone {
				continue
			}
			all++
			if o.Available {
				available++
			}
			if o.Shift != nil {
				shifted++
			}
		}
		if all == 0 || available != 0 && available != all || shifted != all-available {
			x.t.Fatalf("zone %s: %d offerings, %d available, %d in a shift", zone, all, available, shifted)
		}
		if available == 0 {
			out = append(out, zone)
		}
	}
	return out
}

func (x *shifting) wantClosed(when string, zones ...string) {
	x.t.Helper()
	x.soon(when+" nothing is available in the zones", func() error {
		if have := x.closed(); !slices.Equal(have, zones) {
			return fmt.Errorf("have %v, want %v", have, zones)
		}
		return nil
	})
}

// TestZonalShift: while a zonal shift moves the cluster away from a zone nothing is launched there, be it reserved; its beginning, its
// extension and its end are seen within 30 s, and its expiry at once. A shift that is not applied changes nothing.
func TestZonalShift(t *testing.T) {
	x := newShifting(t)
	x.wantClosed("before")
	s := x.start(awstest.Shift{AwayFrom: "use1-az3", ExpiresIn: machines.Duration(5 * time.Minute), Comment: "errors in 1c"})
	x.start(awstest.Shift{AwayFrom: "us-east-1a", NotApplied: true})
	x.after(30 * time.Second)
	x.wantClosed("30 s after its start", "us-east-1c")
	types, err := x.provider.Offerings(t.Context(), nil, class(""))
	if err != nil {
		t.Fatal(err)
	}
	want := model.ZonalShift{Zone: "us-east-1c", ZoneID: "use1-az3", ID: s.ID, Until: x.steps.Now().Add(4*time.Minute + 30*time.Second).UTC()}
	if i := slices.IndexFunc(types[0].Offerings, func(o model.Offering) bool { return o.Zone == "us-east-1c" }); *types[0].Offerings[i].Shift != want {
		t.Errorf("have shift %+v, want %+v", *types[0].Offerings[i].Shift, want)
	}

	launch := func(uid string, zones ...string) cloud.LaunchResult {
		return x.provider.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: uid, ClaimUID: uid, Class: class(""), Zones: zones, CapacityTypes: []string{model.OnDemand}}})[0]
	}
	shift := "nothing is launched in zone us-east-1c: the cluster is shifted away from it until " + want.EndText()
	if res := launch("only", "us-east-1c"); cloud.KindOf(res.Err) != cloud.InsufficientCapacity || res.Err.Error() != "launch only: insufficient capacity: "+shift || x.books().Calls["ec2:CreateFleet"].Count != 0 {
		t.Errorf("a claim for the zone alone is answered %v after %d requests", res.Err, x.books().Calls["ec2:CreateFleet"].Count)
	}
	x.fault(awstest.Fault{Kind: machines.OutOfCapacity, Zone: "us-east-1a"}, awstest.Fault{Kind: machines.OutOfCapacity, Zone: "us-east-1b"})
	if res := launch("any"); cloud.KindOf(res.Err) != cloud.InsufficientCapacity || len(x.books().Alive) != 0 ||
		res.Err.Error() != "launch any: insufficient capacity of m5.large/us-east-1a/on-demand, m5.large/us-east-1b/on-demand: "+shift {
		t.Errorf("without capacity in the other zones a claim is answered %+v", res)
	}
	x.control("DELETE", "faults", nil, nil)

	for range 8 {
		x.after(30 * time.Second)
	}
	x.wantClosed("30 s before its end", "us-east-1c")
	x.steps.advance(30 * time.Second) // nothing was read since
	x.wantClosed("when it has expired")
	if res := launch("later", "us-east-1c"); res.Err != nil || res.Zone != "us-east-1c" {
		t.Errorf("after its end a claim for the zone is answered %+v", res)
	}
}

// TestZonalShiftsEnded: of two shifts one is cancelled, and the other stays; an autoshift lasts until AWS ends it.
func TestZonalShiftsEnded(t *testing.T) {
	x := newShifting(t)
	first := x.start(awstest.Shift{AwayFrom: "us-east-1a"})
	x.start(awstest.Shift{AwayFrom: "us-east-1b"})
	x.after(30 * time.Second)
	x.wantClosed("of two shifts", "us-east-1a", "us-east-1b")
	x.control("POST", "shifts/end", awstest.ShiftEnd{ID: first.ID}, nil)
	x.after(30 * time.Second)
	x.wantClosed("30 s after the first was cancelled", "us-east-1b")
	x.control("POST", "shifts/end", awstest.ShiftEnd{}, nil)
	x.start(awstest.Shift{AwayFrom: "us-east-1c", Autoshift: true})
	x.after(30 * time.Second)
	x.wantClosed("of an autoshift", "us-east-1c")
	x.control("POST", "shifts/end", awstest.ShiftEnd{}, nil)
	x.after(30 * time.Second)
	x.wantClosed("when AWS has ended it")
}

// TestZonalShiftUnread: where ARC can't be asked, what was read stays until it expires, nodes are launched all the same, and the log says what to
// do, once. After thirty failures in a row, nothing waits for an answer.
func TestZonalShiftUnread(t *testing.T) {
	for _, c := range []struct{ name, action, code, says string }{
		{"no right to ask ARC", "GetManagedResource", "AccessDeniedException", "allow arc-zonal-shift:GetManagedResource"},
		{"no right to ask EKS", "DescribeCluster", "AccessDeniedException", "allow eks:DescribeCluster"},
		{"not registered", "GetManagedResource", "ResourceNotFoundException", "aws eks update-cluster-config --name sandbox --zonal-shift-config enabled=true"},
		{"a failure", "GetManagedResource", "InternalServerException", "InternalServerException by a fault"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newShifting(t, awstest.Fault{Kind: awstest.CallError, Action: c.action, Code: c.code})
			x.start(awstest.Shift{AwayFrom: "us-east-1c", ExpiresIn: machines.Duration(10 * time.Minute)})
			x.after(30 * time.Second)
			x.after(30 * time.Second)
			source, _ := cloud.As[cloud.ZoneShifter](x.provider)
			if _, read := source.ZonalShifts(); read != (c.name != "a failure") {
				t.Errorf("the shifts count as read: %t; they do not if the next read may succeed", read)
			}
			if c.action != "DescribeCluster" { // without which a class of AL2023 is not ready either
				x.wantClosed("unread")
			}
			if log := x.log.String(); strings.Count(log, "zonal shifts can't be read") != 1 || !strings.Contains(log, c.says) {
				t.Errorf("want that the log says once %q:\n%s", c.says, log)
			}
			if c.name == "a failure" { // three reads have failed
				for n := 4; n <= 30; n++ {
					x.after(10 * time.Second)
					if _, read := source.ZonalShifts(); read != (n == 30) {
						t.Fatalf("after %d failed reads the shifts count as read: %t", n, read)
					}
				}
			}
			if log := x.log.String(); strings.Contains(log, "zonal shifts could not be read: assuming none") != (c.name == "a failure") {
				t.Errorf("the log says that it continues: %t\n%s", c.name != "a failure", log)
			}
			x.control("DELETE", "faults", nil, nil)
			x.after(30 * time.Second)
			x.wantClosed("read again", "us-east-1c")
			if _, read := source.ZonalShifts(); !read {
				t.Error("read again: the shifts do not count as read")
			}
			x.fault(awstest.Fault{Kind: awstest.CallError, Action: "GetManagedResource", Code: c.code})
			x.after(30 * time.Second)
			x.wantClosed("as last read", "us-east-1c")
			x.steps.advance(10 * time.Minute)
			x.wantClosed("expired")
		})
	}
}

// TestZonalShiftOff: without the setting ARC is never asked, and nothing changes.
func TestZonalShiftOff(t *testing.T) {
	clock := newStepped()
	a := open(t, some(t, "m5.large"), clock)
	a.control("POST", "shifts", awstest.Shift{AwayFrom: "us-east-1c"}, nil)
	p := a.provider()
	p.WatchZonalShifts(t.Context(), func() {})
	if _, err := p.Offerings(t.Context(), nil, class("")); err != nil {
		t.Fatal(err)
	}
	shifts, read := p.ZonalShifts()
	if n := a.books().Calls["arc-zonal-shift:GetManagedResource"].Count; n != 0 || len(shifts) != 0 || !read {
		t.Errorf("ARC was asked %d times, shifts %v, read: %t", n, shifts, read)
	}
}

// TestZonalShiftAtStart: a shift that began before the process is known before anything is offered.
func TestZonalShiftAtStart(t *testing.T) {
	clock := newStepped()
	a := open(t, some(t, "m5.large"), clock)
	a.control("POST", "shifts", awstest.Shift{AwayFrom: "us-east-1c"}, nil)
	p := cloud.NewSetAside(a.provider(func(c *awsapi.Config) { c.ZonalShift = true }), clock, cloud.SetAsideFor)
	types, err := p.Offerings(t.Context(), nil, class(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range types[0].Offerings {
		if (o.Zone == "us-east-1c") == o.Available {
			t.Errorf("%s in %s: available %t", o.CapacityType, o.Zone, o.Available)
		}
	}
}

// TestZonalShiftUnlisted: an instance in a zone that the cluster is shifted away from is not gone because EC2 leaves it out of an answer.
func TestZonalShiftUnlisted(t *testing.T) {
	x := newShifting(t)
	res := x.provider.Launch(t.Context(), []cloud.LaunchRequest{
		{ClaimName: "a", ClaimUID: "a", Class: class(""), Zones: []string{"us-east-1c"}, CapacityTypes: []string{model.OnDemand}},
		{ClaimName: "b", ClaimUID: "b", Class: class(""), Zones: []string{"us-east-1b"}, CapacityTypes: []string{model.OnDemand}},
	})
	for _, r := range res {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	listed := func() (out []string) {
		t.Helper()
		x.steps.advance(time.Second)
		list, err := x.provider.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if !i.Gone {
				out = append(out, strings.Split(strings.TrimPrefix(i.ProviderID, "aws:///"), "/")[0])
			}
		}
		slices.Sort(out)
		return out
	}
	if have := listed(); !slices.Equal(have, []string{"us-east-1b", "us-east-1c"}) {
		t.Fatalf("instances in %v", have)
	}
	x.start(awstest.Shift{AwayFrom: "us-east-1c"})
	x.after(30 * time.Second)
	x.fault(awstest.Fault{Kind: awstest.DescribeLag, Delay: machines.Duration(10 * time.Hour)})
	x.steps.advance(10 * time.Minute) // what was just launched counts as there anyway
	if have := listed(); !slices.Equal(have, []string{"us-east-1c"}) {
		t.Errorf("of those that EC2 leaves out the instances in %v are listed, want that in us-east-1c", have)
	}
	x.control("DELETE", "faults", nil, nil)
	if _, err := x.clients().EC2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{res[0].ProviderID[strings.LastIndex(res[0].ProviderID, "/")+1:]}}); err != nil {
		t.Fatal(err)
	}
	if have := listed(); !slices.Equal(have, []string{"us-east-1b"}) {
		t.Errorf("after its end instances in %v are listed", have)
	}
}

// TestGroupZonalShift: no group is scaled up for a claim that needs a zone which the cluster is shifted away from, nor one that has no other zone.
func TestGroupZonalShift(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	a.define(awstest.Group{Name: "only", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1c"}, Tags: enabled})
	a.define(awstest.Group{Name: "others", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a", "us-east-1b"}, Tags: enabled})
	a.control("POST", "shifts", awstest.Shift{AwayFrom: "us-east-1c", Autoshift: true}, nil)
	p := cloud.NewSetAside(a.provider(func(c *awsapi.Config) { c.ZonalShift = true }), clock, cloud.SetAsideFor)
	types, err := p.Offerings(t.Context(), nil, groupClass(tagged))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range types[0].Offerings {
		if (o.Zone == "us-east-1c") == o.Available {
			t.Errorf("group %s in %s: available %t", o.Labels[model.LabelNodeGroup], o.Zone, o.Available)
		}
	}
	request := cloud.LaunchRequest{ClaimName: "a", ClaimUID: "a", ClaimCreated: clock.Now(), Pool: "workers", Class: groupClass(tagged), Zones: []string{"us-east-1c"}}
	const shift = "nothing is launched in zone us-east-1c: the cluster is shifted away from it until the cloud ends it"
	if res := p.Launch(t.Context(), []cloud.LaunchRequest{request})[0]; cloud.KindOf(res.Err) != cloud.InsufficientCapacity || res.Err.Error() != "launch a: insufficient capacity: "+shift || a.books().Calls["autoscaling:SetDesiredCapacity"].Count != 0 {
		t.Errorf("a claim for the zone is answered %+v after %d changes", res, a.books().Calls["autoscaling:SetDesiredCapacity"].Count)
	}
	if res := get(t, p, clock, "b"); res.Err != nil || res.Zone == "us-east-1c" {
		t.Errorf("a claim for any zone is answered %+v", res)
	}
}
