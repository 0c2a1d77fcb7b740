// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// ask asks a group for a machine, once.
func ask(t *testing.T, p cloud.Provider, uid string, created time.Time) cloud.LaunchResult {
	t.Helper()
	return p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "claim-" + uid, ClaimUID: uid, ClaimCreated: created, Pool: "workers", Class: groupClass(tagged)}})[0]
}

// get asks until the machine has come, or there is an answer that it won't.
func get(t *testing.T, p cloud.Provider, clock cloud.Clock, uid string) (res cloud.LaunchResult) {
	t.Helper()
	created := clock.Now()
	a := &account{t: t}
	turn := a.turns(clock, 250*time.Millisecond)
	a.soon("claim "+uid+" has its machine or an answer that none comes", func() error {
		res = ask(t, p, uid, created)
		if kind := cloud.KindOf(res.Err); res.ProviderID != "" || kind != cloud.None && kind != cloud.Throttled && kind != cloud.Unknown {
			return nil
		}
		turn()
		return fmt.Errorf("the answer is %+v", res)
	})
	return res
}

// getAll gets a machine for each of some claims, one after another, and says their provider ids.
func getAll(t *testing.T, p cloud.Provider, clock cloud.Clock, uids ...string) (ids []string) {
	t.Helper()
	for _, uid := range uids {
		res := get(t, p, clock, uid)
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		ids = append(ids, res.ProviderID)
	}
	return ids
}

// unanswered returns a group that has a machine for claim a, and launches none for claim c.
func unanswered(t *testing.T) (*account, *aws.Provider) {
	t.Helper()
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	a.define(awstest.Group{Name: "web", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
	p := a.provider()
	getAll(t, p, clock, "a")
	a.fault(awstest.Fault{Kind: machines.OutOfCapacity, InstanceType: "m5.large"})
	if res := ask(t, p, "c", clock.Now()); res.Err != nil {
		t.Fatal(res.Err)
	}
	return a, p
}

// shields says of a group's members which are protected from scale-in, and which say that they are for a moment.
func (a *account) shields(group string) (protected, noted []string) {
	a.t.Helper()
	for _, m := range a.group(group).Instances {
		if *m.ProtectedFromScaleIn {
			protected = append(protected, *m.InstanceId)
		}
	}
	res, err := a.clients().EC2.DescribeInstances(a.t.Context(), &ec2.DescribeInstancesInput{})
	if err != nil {
		a.t.Fatal(err)
	}
	for _, r := range res.Reservations {
		for _, in := range r.Instances {
			for _, tag := range in.Tags {
				if *tag.Key == dovetailv1alpha1.TagShielded && *tag.Value != "" {
					noted = append(noted, *in.InstanceId)
				}
			}
		}
	}
	slices.Sort(protected)
	slices.Sort(noted)
	return protected, noted
}

// dying is a process that dies when it has made a call: nothing it sends after that arrives.
type dying struct {
	by   http.RoundTripper
	call string
	dead atomic.Bool
}

func (d *dying) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.dead.Load() {
		return nil, errors.New("the process has died")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	res, err := d.by.RoundTrip(r)
	if d.call != "" && strings.Contains(string(body), "Action="+d.call+"&") {
		d.dead.Store(true)
	}
	return res, err
}

// TestShieldOutlived: a process that dies while members are protected for a moment leaves protections behind; the
// next one finds them by what was written down, waits until nobody can be at it any more, and lifts them. Protections
// of others stay.
func TestShieldOutlived(t *testing.T) {
	for _, c := range []struct {
		call string // the last one that it makes
		left bool   // members are protected then
	}{{"CreateTags", false}, {"SetInstanceProtection", true}, {"SetDesiredCapacity", true}} {
		t.Run("after "+c.call, func(t *testing.T) {
			clock := &shifted{}
			a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 10 * time.Millisecond })
			a.define(awstest.Group{Name: "web", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
			d := &dying{by: a}
			first := a.providerOf(a.through(d))
			var ids []string
			for _, uid := range []string{"a", "b"} {
				res := get(t, first, clock, uid)
				if res.Err != nil {
					t.Fatal(res.Err)
				}
				ids = append(ids, res.ProviderID[strings.LastIndexByte(res.ProviderID, '/')+1:])
			}
			slices.Sort(ids)
			// One member is protected by somebody else.
			if _, err := a.clients().AutoScaling.SetInstanceProtection(t.Context(), &autoscaling.SetInstanceProtectionInput{
				AutoScalingGroupName: sdk.String("web"), InstanceIds: ids[:1], ProtectedFromScaleIn: sdk.Bool(true)}); err != nil {
				t.Fatal(err)
			}
			a.fault(awstest.Fault{Kind: machines.OutOfCapacity, InstanceType: "m5.large"})
			if res := ask(t, first, "c", clock.Now()); res.Err != nil || res.ProviderID != "" {
				t.Fatalf("asked for a machine that can't come: %+v", res)
			}
			d.call = c.call
			if err := first.Terminate(t.Context(), []string{"aws:///placeholder/c"})[0]; err == nil {
				t.Fatal("given up without an error, though the process has died")
			}
			protected, noted := a.shields("web")
			if want := map[bool][]string{false: ids[:1], true: ids}[c.left]; !slices.Equal(protected, want) || !slices.Equal(noted, ids[1:]) {
				t.Fatalf("protected %v, noted %v; want %v and %v", protected, noted, want, ids[1:])
			}
			next := a.provider()
			list := func() {
				t.Helper()
				if _, err := next.Offerings(t.Context(), nil, groupClass(tagged)); err != nil {
					t.Fatal(err)
				}
				if _, err := next.List(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			list()
			if again, _ := a.shields("web"); !slices.Equal(again, protected) {
				t.Errorf("lifted at once, while another process may be at it: %v", again)
			}
			clock.ahead.Store(int64(2 * time.Minute))
			if _, err := next.List(cloud.LookOnly(t.Context())); err != nil {
				t.Fatal(err)
			}
			if again, _ := a.shields("web"); !slices.Equal(again, protected) {
				t.Errorf("lifted by who may only look: %v", again)
			}
			list()
			if protected, noted := a.shields("web"); !slices.Equal(protected, ids[:1]) || len(noted) > 0 {
				t.Errorf("protected %v, noted %v; want %v alone", protected, noted, ids[:1])
			}
		})
	}
}

// losing lets calls through, and loses the reply to the first one of SetDesiredCapacity once it is told to.
type losing struct {
	by     http.RoundTripper
	before func() // what happens just before that call; nil: they all go through
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if l.before == nil || !strings.Contains(string(body), "Action=SetDesiredCapacity&") {
		return l.by.RoundTrip(r)
	}
	l.before()
	l.before = nil
	res, err := l.by.RoundTrip(r)
	if err == nil {
		err = errors.Join(errors.New("the reply was lost"), res.Body.Close())
	}
	return nil, err
}

// TestShieldStaysWhenTheReplyIsLost: a group is made smaller as a member comes that it can't end, and the reply is
// lost. Those that were to be protected for a moment stay so until the group has been read again and wants all that
// it has: when the claim is given up again, or, where that never happens, when they are found by what was written
// down.
func TestShieldStaysWhenTheReplyIsLost(t *testing.T) {
	for _, again := range []bool{true, false} {
		t.Run(fmt.Sprintf("asked again %t", again), func(t *testing.T) {
			clock := &shifted{}
			a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 10 * time.Millisecond })
			a.define(awstest.Group{Name: "web", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
			scaling := a.clients().AutoScaling
			members := func() (ids []string) {
				for _, m := range a.group("web").Instances {
					ids = append(ids, *m.InstanceId)
				}
				slices.Sort(ids)
				return ids
			}
			protect := func(id string) {
				if _, err := scaling.SetInstanceProtection(t.Context(), &autoscaling.SetInstanceProtectionInput{
					AutoScalingGroupName: sdk.String("web"), InstanceIds: []string{id}, ProtectedFromScaleIn: sdk.Bool(true)}); err != nil {
					t.Error(err)
				}
			}
			// The group tries again what it could not do: that takes half a minute, and a change.
			retry := func(id string, until func() bool) {
				clock.ahead.Add(int64(31 * time.Second))
				protect(id)
				a.soon("the group has tried again", func() error {
					if !until() {
						return fmt.Errorf("its members are %v", members())
					}
					return nil
				})
			}
			done := func() int {
				res, err := scaling.DescribeScalingActivities(t.Context(), &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: sdk.String("web")})
				if err != nil {
					t.Fatal(err)
				}
				return len(res.Activities)
			}
			l := &losing{by: a}
			p := a.providerOf(a.through(l))
			for _, uid := range []string{"a", "b"} {
				if res := get(t, p, clock, uid); res.Err != nil {
					t.Fatal(res.Err)
				}
			}
			old := members()
			a.fault(awstest.Fault{Kind: machines.OutOfCapacity, InstanceType: "m5.large"})
			if res := ask(t, p, "c", clock.Now()); res.Err != nil || res.ProviderID != "" {
				t.Fatalf("asked for a machine that can't come: %+v", res)
			}
			var late string
			l.before = func() {
				a.control("DELETE", "faults", nil, nil)
				retry(old[0], func() bool { return len(members()) == 3 })
				for _, id := range members() {
					if !slices.Contains(old, id) {
						late = id
					}
				}
				protect(late)
			}
			if err := p.Terminate(t.Context(), []string{"aws:///placeholder/c"})[0]; err == nil {
				t.Fatal("given up without an error, though the reply was lost")
			}
			all := slices.Sorted(slices.Values(append([]string{late}, old...)))
			before := done()
			retry(late, func() bool { return done() > before })
			if have := members(); !slices.Equal(have, all) || len(all) != 3 {
				t.Fatalf("of %v the group has ended some: there are %v", all, have)
			}
			next := p
			if again {
				if err := p.Terminate(t.Context(), []string{"aws:///placeholder/c"})[0]; err != nil {
					t.Fatal(err)
				}
			} else {
				next = a.provider()
				if _, err := next.Offerings(t.Context(), nil, groupClass(tagged)); err != nil {
					t.Fatal(err)
				}
			}
			clock.ahead.Add(int64(2 * time.Minute))
			if _, err := next.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			if protected, noted := a.shields("web"); !slices.Equal(protected, []string{late}) || len(noted) > 0 {
				t.Errorf("protected %v, noted %v; want %s alone", protected, noted, late)
			}
			if g := a.group("web"); *g.DesiredCapacity != 3 || !slices.Equal(members(), all) {
				t.Errorf("desired %d, members %v; want all of %v", *g.DesiredCapacity, members(), all)
			}
		})
	}
}

// TestShieldGoes: where nobody dies nothing is left behind.
func TestShieldGoes(t *testing.T) {
	a, p := unanswered(t)
	if err := p.Terminate(t.Context(), []string{"aws:///placeholder/c"})[0]; err != nil {
		t.Fatal(err)
	}
	if protected, noted := a.shields("web"); len(protected)+len(noted) > 0 {
		t.Errorf("protected %v, noted %v", protected, noted)
	}
	if g := a.group("web"); *g.DesiredCapacity != 1 || len(g.Instances) != 1 {
		t.Errorf("desired %d, %d members", *g.DesiredCapacity, len(g.Instances))
	}
	if n := a.books().Calls["autoscaling:SetInstanceProtection"].Count; n != 2 {
		t.Errorf("%d calls of SetInstanceProtection: nothing was checked", n)
	}
}

// TestGroupRestart: the process that asked a group for machines dies; the next one gives each claim its machine, and
// no claim two.
func TestGroupRestart(t *testing.T) {
	for _, lag := range []time.Duration{0, 10 * time.Second} {
		t.Run(fmt.Sprint("Describe lags by ", lag), func(t *testing.T) {
			clock := &skipping{}
			a := open(t, some(t, "m5.large"), clock)
			a.define(awstest.Group{Name: "web", Max: 9, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
			if lag > 0 {
				a.fault(awstest.Fault{Kind: awstest.DescribeLag, Delay: machines.Duration(lag)})
			}
			first := a.provider()
			created := clock.Now()
			for _, uid := range []string{"a", "b", "c"} {
				if res := ask(t, first, uid, created); res.Err != nil && cloud.KindOf(res.Err) != cloud.Throttled {
					t.Fatal(res.Err)
				}
			}
			seen := map[string]bool{}
			next := a.provider()
			for _, uid := range []string{"a", "b", "c"} {
				turn := a.turns(clock, 250*time.Millisecond)
				a.soon("claim "+uid+" has its machine", func() error {
					res := ask(t, next, uid, created)
					if res.ProviderID != "" {
						seen[res.ProviderID] = true
						return nil
					}
					if res.Err != nil && cloud.KindOf(res.Err) != cloud.Throttled {
						t.Fatalf("claim %s: %+v", uid, res)
					}
					turn()
					return fmt.Errorf("the answer is %+v", res)
				})
			}
			if g := a.group("web"); len(seen) != 3 || *g.DesiredCapacity != 3 || len(g.Instances) != 3 {
				t.Errorf("%d machines of 3 claims; desired %d, %d members", len(seen), *g.DesiredCapacity, len(g.Instances))
			}
		})
	}
}

// TestGroupTargetNotReached: a process asks a group for a machine that does not come, and dies; the claim is deleted
// before another one comes. When AWS has had its time the group is told that it is not wanted any more, and no member
// goes for that.
func TestGroupTargetNotReached(t *testing.T) {
	for _, c := range []struct {
		name    string
		spec    string        // of the class
		after   time.Duration // that the next process is at it
		open    bool          // the claim is still there
		look    bool          // the next process may only look
		refresh []string
		desired int32
	}{
		{name: "AWS has time yet", after: 14 * time.Minute, desired: 2},
		{name: "AWS has had its time", after: 16 * time.Minute, desired: 1},
		{name: "its class leaves it less", after: 6 * time.Minute, spec: `,"options":{"maxNodeProvisionTime":"5m"}`, desired: 1},
		{name: "the claim is there", after: 16 * time.Minute, open: true, desired: 2},
		{name: "another autoscaler is live", after: 16 * time.Minute, look: true, desired: 2},
		{name: "its machines are being replaced", after: 16 * time.Minute, refresh: []string{"InProgress"}, desired: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := &shifted{}
			a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 10 * time.Millisecond })
			group := awstest.Group{Name: "web", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled}
			a.define(group)
			first := a.provider()
			if res := get(t, first, clock, "a"); res.Err != nil {
				t.Fatal(res.Err)
			}
			a.fault(awstest.Fault{Kind: machines.OutOfCapacity, InstanceType: "m5.large"})
			created := clock.Now()
			if res := ask(t, first, "b", created); res.Err != nil || res.ProviderID != "" {
				t.Fatalf("asked for a machine that can't come: %+v", res)
			}
			if c.open { // why its machine does not come is not known either, so that it goes on waiting
				a.fault(awstest.Fault{Kind: awstest.Deny, Action: "DescribeScalingActivities"})
			}
			if len(c.refresh) > 0 {
				group.DesiredLeftAsItIs, group.InstanceRefreshStatuses = true, c.refresh
				a.define(group)
			}
			next, ctx := a.provider(), t.Context()
			if c.look {
				ctx = cloud.LookOnly(ctx)
			}
			class := groupClass(strings.TrimSuffix(tagged, "}") + c.spec + "}")
			for _, ahead := range []time.Duration{0, c.after} {
				clock.ahead.Add(int64(ahead))
				if c.open {
					_ = ask(t, next, "b", created)
				}
				if _, err := next.Offerings(ctx, nil, class); err != nil {
					t.Fatal(err)
				}
				if _, err := next.List(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if g := a.group("web"); *g.DesiredCapacity != c.desired || len(g.Instances) != 1 {
				t.Errorf("desired %d, %d members; want %d and one", *g.DesiredCapacity, len(g.Instances), c.desired)
			}
			if protected, noted := a.shields("web"); len(protected)+len(noted) > 0 {
				t.Errorf("protected %v, noted %v", protected, noted)
			}
		})
	}
}

// TestGroupFailures: what a group could not do is told on the claim, with AWS's own words.
func TestGroupFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault awstest.Fault
		group awstest.Group
		kind  cloud.Kind
		says  []string
	}{
		{name: "no capacity", fault: awstest.Fault{Kind: machines.OutOfCapacity, InstanceType: "m5.large"}, kind: cloud.InsufficientCapacity, says: []string{"group web", "capacity"}},
		{name: "a quota of the account", fault: awstest.Fault{Kind: awstest.LaunchError, InstanceType: "m5.large", Code: "VcpuLimitExceeded"}, kind: cloud.InsufficientCapacity, says: []string{"group web: EC2 quota reached: Running On-Demand Standard"}},
		{name: "another failure", fault: awstest.Fault{Kind: awstest.LaunchError, InstanceType: "m5.large", Code: "InvalidSecurityGroupID.NotFound"}, kind: cloud.NotReady, says: []string{"NodeGroupClass workers", "group web"}},
		{name: "at its maximum", group: awstest.Group{Min: 1, Max: 1, Desired: 1}, kind: cloud.InsufficientCapacity, says: []string{"group web has 1 of at most 1 instances"}},
		{name: "not permitted", fault: awstest.Fault{Kind: awstest.Deny, Action: "SetDesiredCapacity"}, kind: cloud.Denied, says: []string{"SetDesiredCapacity"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := &skipping{}
			a := open(t, some(t, "m5.large"), clock)
			g := c.group
			g.Name, g.InstanceTypes, g.Zones, g.Tags = "web", []string{"m5.large"}, []string{"us-east-1a"}, enabled
			g.Max = max(g.Max, 1)
			a.define(g)
			p := a.provider()
			if _, err := p.Offerings(t.Context(), nil, groupClass(tagged)); err != nil {
				t.Fatal(err)
			}
			turn := a.turns(clock, time.Second)
			a.soon("the group has filled up", func() error {
				if n := len(a.group("web").Instances); n < g.Desired {
					turn()
					return fmt.Errorf("it has %d of %d members", n, g.Desired)
				}
				return nil
			})
			if c.fault.Kind != "" {
				a.fault(c.fault)
			}
			res := get(t, p, clock, "a")
			if cloud.KindOf(res.Err) != c.kind {
				t.Fatalf("answered %+v, %v; want %s", res, res.Err, c.kind)
			}
			for _, word := range c.says {
				if !strings.Contains(res.Err.Error(), word) {
					t.Errorf("%q does not say %q", res.Err, word)
				}
			}
			if c.kind == cloud.InsufficientCapacity && len(cloud.OfferingsOf(res.Err)) == 0 {
				t.Error("no offering is named")
			}
		})
	}
}

// TestGroupUnknown: a process that has just begun and knows no group yet ends a member through its group, which else
// would start another.
func TestGroupUnknown(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	a.define(awstest.Group{Name: "web", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
	p := a.provider()
	ids := getAll(t, p, clock, "a", "b")
	next := a.provider()
	if _, err := next.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := next.Terminate(t.Context(), ids[:1])[0]; err != nil {
		t.Fatal(err)
	}
	if g := a.group("web"); *g.DesiredCapacity != 1 {
		t.Errorf("desired %d, want 1", *g.DesiredCapacity)
	}
	// What waits for a hook on its way out is not ended again: its group would want one less once more.
	again := a.providerOf(a.through(hooked{a, "Terminating:Wait"}))
	if err := again.Terminate(t.Context(), ids[1:])[0]; cloud.KindOf(err) != cloud.NotFound {
		t.Errorf("ended again: %v, want NotFound", err)
	}
	if g := a.group("web"); *g.DesiredCapacity != 1 || len(g.Instances) != 1 {
		t.Errorf("desired %d, %d members, want 1 of 1", *g.DesiredCapacity, len(g.Instances))
	}
}

// TestOnlyMembersAreAdopted: an instance that EC2 knows as a group's and that its group does not count among its members, as those of a warm pool, on standby,
// and on their way out, is no machine that a NodeClaim is made for.
func TestOnlyMembersAreAdopted(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 10 * time.Millisecond })
	a.define(awstest.Group{Name: "web", Min: 1, Max: 5, Desired: 1, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
	eventually(t, "a member", func() error {
		if n := len(a.group("web").Instances); n != 1 {
			return fmt.Errorf("%d of 1", n)
		}
		return nil
	})
	clock.ahead.Store(int64(time.Minute))
	for state, want := range map[string]int{"InService": 1, "Pending:Wait": 1, "Standby": 0, "Warmed:Stopped": 0, "Warmed:Running": 0, "Terminating:Wait": 0, "Detaching": 0} {
		p := a.providerOf(a.through(hooked{a, state}))
		groupStatus(t, p, groupClass(tagged))
		clock.ahead.Add(int64(10 * time.Minute)) // longer than a new process waits for open claims
		list, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, i := range list {
			if i.Class != "" {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d machines may be adopted, want %d", state, n, want)
		}
	}
}

// hooked is an account in which all members of groups are in this lifecycle state.
type hooked struct {
	by    http.RoundTripper
	state string
}

func (h hooked) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := h.by.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, []byte("<LifecycleState>InService<"), []byte("<LifecycleState>"+h.state+"<"))
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return res, nil
}

// TestShieldLate: a member that EC2 does not know yet is no reason to take the claim that is given up for ended, nor
// those that wait.
func TestShieldLate(t *testing.T) {
	a, p := unanswered(t)
	a.fault(awstest.Fault{Kind: awstest.CallError, Action: "CreateTags", Code: "InvalidInstanceID.NotFound", Count: 1})
	if err := p.Terminate(t.Context(), []string{"aws:///placeholder/c"})[0]; cloud.KindOf(err) != cloud.Throttled {
		t.Errorf("given up: %v, want Throttled", err)
	}
	if err := p.Terminate(t.Context(), []string{"aws:///placeholder/c"})[0]; err != nil {
		t.Errorf("given up again: %v", err)
	}
	if g := a.group("web"); *g.DesiredCapacity != 1 || len(g.Instances) != 1 {
		t.Errorf("desired %d, %d members", *g.DesiredCapacity, len(g.Instances))
	}
}

// TestGivenUpBeforeDescribed: a claim is given up when its group has a member for it that EC2 does not describe yet. It is asked for again, and the member is
// noted as one that came too late.
func TestGivenUpBeforeDescribed(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock)
	a.define(awstest.Group{Name: "web", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
	p := a.provider()
	a.fault(awstest.Fault{Kind: awstest.DescribeLag, Delay: machines.Duration(20 * time.Second)})
	if res := ask(t, p, "c", clock.Now()); res.ProviderID != "" || res.Err != nil && cloud.KindOf(res.Err) != cloud.Throttled {
		t.Fatalf("have %+v, want a machine that is to come", res)
	}
	a.soon("the group has a member", func() error {
		if n := len(a.group("web").Instances); n != 1 {
			return fmt.Errorf("it has %d", n)
		}
		return nil
	})
	for _, want := range []cloud.Kind{cloud.Throttled, ""} {
		if err := p.Terminate(t.Context(), []string{"aws:///placeholder/c"})[0]; cloud.KindOf(err) != want {
			t.Errorf("given up: %v, want %q", err, want)
		}
		clock.ahead.Add(int64(25 * time.Second))
	}
	list, err := p.List(t.Context())
	if err != nil || len(list) != 1 || list[0].GivenUp.IsZero() {
		t.Errorf("have %+v, %v; want one machine, which came too late", list, err)
	}
}

// TestNeverDescribed: a group's member that EC2 does not describe for five minutes is waited for no longer: the group launches another one for the claim, and
// the claim can be given up.
func TestNeverDescribed(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock)
	a.define(awstest.Group{Name: "web", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
	p := a.provider()
	a.fault(awstest.Fault{Kind: awstest.DescribeLag, Delay: machines.Duration(10 * time.Hour)})
	created := clock.Now()
	waits := func(ahead time.Duration, members int) {
		t.Helper()
		clock.ahead.Add(int64(ahead))
		if res := ask(t, p, "c", created); res.ProviderID != "" || res.Err != nil && cloud.KindOf(res.Err) != cloud.Throttled {
			t.Fatalf("have %+v, want a machine that is to come", res)
		}
		a.soon(fmt.Sprint("the group has ", members, " members"), func() error {
			if n := len(a.group("web").Instances); n != members {
				return fmt.Errorf("it has %d", n)
			}
			return nil
		})
	}
	waits(0, 1)
	waits(10*time.Second, 1) // seen, and not described
	waits(3*time.Minute, 1)
	waits(2*time.Minute, 2)
	waits(10*time.Second, 2)
	for _, want := range []cloud.Kind{cloud.Throttled, ""} {
		if err := p.Terminate(t.Context(), []string{"aws:///placeholder/c"})[0]; cloud.KindOf(err) != want {
			t.Errorf("given up: %v, want %q", err, want)
		}
		clock.ahead.Add(int64(5 * time.Minute))
	}
}

// TestGroupMinimum: a machine that goes though its group may have no fewer, the minimum having been raised meanwhile,
// say, is replaced by the group.
func TestGroupMinimum(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	a.define(awstest.Group{Name: "web", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
	p := a.provider()
	ids := getAll(t, p, clock, "a", "b", "c")
	if _, err := a.clients().AutoScaling.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: sdk.String("web"), MinSize: sdk.Int32(2)}); err != nil {
		t.Fatal(err)
	}
	for _, err := range p.Terminate(t.Context(), ids[:2]) {
		if err != nil {
			t.Error(err)
		}
	}
	if g := a.group("web"); *g.DesiredCapacity != 2 {
		t.Errorf("desired %d, want 2: one less, and one replaced", *g.DesiredCapacity)
	}
	if _, err := p.Offerings(t.Context(), nil, groupClass(tagged)); err != nil {
		t.Fatal(err)
	}
	if err := clock.Wait(t.Context(), 2*time.Minute); err != nil {
		t.Fatal(err)
	}
	_, st := groupStatus(t, p, groupClass(tagged))
	if len(st.Groups) != 1 || st.Groups[0].Min != 2 {
		t.Errorf("the class's status says %+v", st.Groups)
	}
}

func groupStatus(t *testing.T, p *aws.Provider, nc cloud.NodeClass) (map[string]model.Condition, dovetailv1alpha1.NodeGroupClassStatus) {
	t.Helper()
	st, err := p.ClassStatus(t.Context(), nc)
	if err != nil {
		t.Fatal(err)
	}
	var rest dovetailv1alpha1.NodeGroupClassStatus
	if len(st.Status) > 0 {
		if err := json.Unmarshal(st.Status, &rest); err != nil {
			t.Fatal(err)
		}
	}
	return st.Conditions, rest
}

// TestGroupClassMistakes: whatever a person has to mend is a False condition that names field or group and cause, and
// other groups go on.
func TestGroupClassMistakes(t *testing.T) {
	for _, c := range []struct {
		name      string
		spec      string // of the class; default: all groups that are tagged
		group     *awstest.Group
		spoil     func(*account)
		condition string
		reason    string
		says      []string
		alone     bool // nothing else can be had while it is so
	}{
		{name: "no such group", spec: `{"selectorTerms":[{"name":"nobody"},{"name":"good"}]}`,
			condition: "GroupsResolved", reason: "GroupsNotFound", says: []string{"spec.selectorTerms[0]", `"nobody"`, "us-east-1"}},
		{name: "no group with the tags", spec: `{"selectorTerms":[{"name":"good"},{"tags":{"no":"such"}}]}`,
			condition: "GroupsResolved", reason: "GroupsNotFound", says: []string{"spec.selectorTerms[1]", "no", "such"}},
		{name: "groups may not be asked for", spoil: func(a *account) { a.fault(awstest.Fault{Kind: awstest.Deny, Action: "DescribeAutoScalingGroups"}) },
			condition: "GroupsResolved", reason: "AccessDenied", says: []string{"spec.selectorTerms[0]", "DescribeAutoScalingGroups", "IAM"}, alone: true},
		{name: "a deleted launch template", group: &awstest.Group{Max: 3, InstanceTypes: []string{"m5.large"}},
			spoil:     func(a *account) { a.deleteTemplate("group-bad") },
			condition: "GroupsLaunchable", reason: "GroupNotLaunchable", says: []string{"group bad", "launch template group-bad", "create it"}},
		{name: "launch templates may not be asked for", spoil: func(a *account) { a.fault(awstest.Fault{Kind: awstest.Deny, Action: "DescribeLaunchTemplateVersions"}) },
			condition: "GroupsLaunchable", reason: "GroupNotLaunchable", says: []string{"group good", "DescribeLaunchTemplateVersions", "IAM"}, alone: true},
		{name: "Launch is suspended", group: &awstest.Group{Max: 3, InstanceTypes: []string{"m5.large"}, Suspended: []string{"Launch"}},
			condition: "GroupsLaunchable", reason: "GroupNotLaunchable", says: []string{"group bad", "Launch is suspended", "resume it"}},
		{name: "at its maximum", group: &awstest.Group{Min: 1, Max: 1, Desired: 1, InstanceTypes: []string{"m5.large"}},
			condition: "GroupsHaveRoom", reason: "GroupAtMaximum", says: []string{"group bad", "desired size 1 is the maximum 1", "MaxSize"}},
		{name: "attributes that no type has", group: &awstest.Group{Max: 3, InstanceTypes: []string{"m5.large"}, Attributes: &awstest.Attributes{MinCPUs: 1000}},
			condition: "GroupsLaunchable", reason: "GroupNotLaunchable", says: []string{"group bad", "InstanceRequirements", "relax them"}},
		{name: "attributes may not be asked about", group: &awstest.Group{Max: 3, InstanceTypes: []string{"m5.large"}, Attributes: &awstest.Attributes{MinCPUs: 2}},
			spoil: func(a *account) {
				a.fault(awstest.Fault{Kind: awstest.Deny, Action: "GetInstanceTypesFromInstanceRequirements"})
			},
			condition: "GroupsLaunchable", reason: "GroupNotLaunchable", says: []string{"group bad", "GetInstanceTypesFromInstanceRequirements", "IAM"}},
		{name: "an instance refresh", group: &awstest.Group{Max: 3, InstanceTypes: []string{"m5.large"}, InstanceRefreshStatuses: []string{"InProgress"}},
			condition: "GroupsUndisturbed", reason: "InstanceRefresh", says: []string{"group bad", "InProgress"}},
		{name: "AZRebalance", group: &awstest.Group{Max: 3, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a", "us-east-1b"}},
			condition: "GroupsUndisturbed", reason: "AZRebalance", says: []string{"group bad", "suspend process AZRebalance"}},
		{name: "a name that is no regular expression", spec: `{"selectorTerms":[{"name":"good"}],"options":{"priorities":[{"priority":1,"names":["ok"]},{"priority":2,"names":["x","("]}]}}`,
			condition: "GroupsResolved", reason: "InvalidPriority", says: []string{"spec.options.priorities[1].names[1]", `"("`}},
		{name: "no term", spec: `{"selectorTerms":[]}`, condition: "GroupsResolved", reason: "InvalidSpec", says: []string{"spec.selectorTerms", "empty"}, alone: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := &skipping{}
			a := open(t, some(t, "m5.large"), clock)
			a.define(awstest.Group{Name: "good", Max: 3, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
			if c.group != nil {
				g := *c.group
				g.Name, g.Tags = "bad", enabled
				if g.Zones == nil {
					g.Zones = []string{"us-east-1a"}
				}
				a.define(g)
			}
			if c.spoil != nil {
				c.spoil(a)
			}
			class := groupClass(tagged)
			if c.spec != "" {
				class = groupClass(c.spec)
			}
			p := a.provider()
			conditions, st := groupStatus(t, p, class)
			bad := conditions[c.condition]
			if bad.Status != "False" || bad.Reason != c.reason {
				t.Errorf("%s is %+v, want False for %s; all: %+v", c.condition, bad, c.reason, conditions)
			}
			for _, word := range c.says {
				if !strings.Contains(bad.Message, word) {
					t.Errorf("%q does not say %q", bad.Message, word)
				}
			}
			if conditions["Ready"].True() == c.alone {
				t.Errorf("Ready is %+v", conditions["Ready"])
			}
			if c.reason == "InstanceRefresh" && !slices.ContainsFunc(st.Groups, func(g dovetailv1alpha1.NodeGroupStatus) bool { return g.Name == "bad" && g.Refresh == "InProgress" }) {
				t.Errorf("no refresh in %+v", st.Groups)
			}
			types, err := p.Offerings(t.Context(), nil, class)
			if c.alone {
				if cloud.KindOf(err) != cloud.NotReady {
					t.Errorf("offered %d types, %v", len(types), err)
				}
				return
			}
			if err != nil || len(types) != 1 || !slices.ContainsFunc(types[0].Offerings, func(o model.Offering) bool { return o.Labels[model.LabelNodeGroup] == "good" && o.Available }) {
				t.Errorf("group good is not offered: %+v, %v", types, err)
			}
		})
	}
}

// TestGroupAttributes: a group that chooses its types by attributes offers all that have them, each as large as the
// least of them, and what comes is one of them.
func TestGroupAttributes(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "c5.large", "m5.large", "m5.xlarge", "m5a.xlarge", "m5.2xlarge", "m6g.large", "t3.large"), clock)
	a.define(awstest.Group{Name: "any", Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled, OnDemandAbovePercent: 100,
		Attributes: &awstest.Attributes{MinCPUs: 2, MaxCPUs: 4, MinMemoryMiB: 8192, Manufacturers: []string{"intel"}}})
	p := a.provider()
	conditions, st := groupStatus(t, p, groupClass(tagged))
	if !conditions["Ready"].True() || len(st.Groups) != 1 || st.Groups[0].Problem != "" || !slices.Equal(st.Groups[0].InstanceTypes, []string{"m5.large", "m5.xlarge"}) {
		t.Fatalf("Ready is %+v, groups %+v", conditions["Ready"], st.Groups)
	}
	types, err := p.Offerings(t.Context(), nil, groupClass(tagged))
	if err != nil || len(types) != 2 {
		t.Fatalf("%+v, %v", types, err)
	}
	for _, it := range types {
		if it.Capacity.At(model.CPU) != 2000 || len(it.Offerings) != 1 || it.Offerings[0].CapacityType != model.OnDemand {
			t.Errorf("offered %+v", it)
		}
	}
	res := get(t, p, clock, "a")
	if res.Err != nil || res.InstanceType != "m5.large" && res.InstanceType != "m5.xlarge" {
		t.Errorf("came %+v", res)
	}
	if n := a.books().Calls["ec2:GetInstanceTypesFromInstanceRequirements"].Count; n != 1 {
		t.Errorf("asked %d times which types those are, want once", n)
	}
}
