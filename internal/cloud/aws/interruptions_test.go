// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// TestInterruptions: each kind of message becomes a notice that names the machine. One that is not dealt with comes
// again, one that is goes from the queue.
func TestInterruptions(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	p := a.provider(func(c *awsapi.Config) { c.InterruptionQueue, c.StatusCheckInterval = awstest.Default().Queue, 0 })
	running := map[string]string{} // a machine for each kind, by instance id
	a.control("POST", "reservations", awstest.Reservation{InstanceType: "m5.large", Zone: "us-east-1b", Count: 1, Tags: map[string]string{"for": "us"}}, nil)
	reserved := class(`{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],"capacityReservationSelectorTerms":[{"tags":{"for":"us"}}],` + discovery + `}`)
	inReservation := ""
	for _, uid := range []string{"a", "b", "c", "d"} {
		req := cloud.LaunchRequest{ClaimName: uid, ClaimUID: uid, Class: class(""), CapacityTypes: []string{model.Spot}}
		if uid == "d" {
			req.Class, req.CapacityTypes = reserved, []string{model.Reserved}
		}
		res := p.Launch(t.Context(), []cloud.LaunchRequest{req})[0]
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		if uid == "d" {
			inReservation = res.ProviderID[strings.LastIndexByte(res.ProviderID, '/')+1:]
		}
	}
	turn := a.turns(clock, 10*time.Second)
	a.soon("the machines run", func() error {
		turn()
		for _, in := range a.books().Alive {
			if in.State == "running" {
				running[in.ID] = "aws:///" + in.Zone + "/" + in.ID
			}
		}
		if len(running) < 4 {
			return fmt.Errorf("%d of 4 do", len(running))
		}
		return nil
	})
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(running)), func(id string) bool { return id == inReservation })
	ids = append(ids, inReservation)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := make(chan cloud.Interruption, 100)
	ended := make(chan error, 1)
	var refused atomic.Bool
	go func() {
		ended <- p.Interruptions(ctx, func(_ context.Context, i cloud.Interruption) error {
			if i.Kind == cloud.Rebalance && refused.CompareAndSwap(false, true) {
				return errors.New("not now")
			}
			seen <- i
			return nil
		})
	}()
	gone := false
	had := map[string]bool{}
	for n, c := range []struct {
		asked, kind string
		dated       bool
	}{{awstest.Rebalance, cloud.Rebalance, false}, {awstest.ScheduledChange, cloud.ScheduledChange, true}, {awstest.SpotInterruption, cloud.SpotInterruption, true}, {awstest.ReservationTaken, cloud.ReservationInterruption, true}} {
		a.control("POST", "interrupt", awstest.Interruption{Kind: c.asked, Instances: []string{ids[n]}}, nil)
		for {
			i := testwait.Receive(t, "a notice of kind "+c.asked, seen)
			if i.Kind == cloud.StateChange {
				gone = true // the notice before is over meanwhile
				continue
			}
			if i.Sent.IsZero() {
				t.Errorf("%s does not say when it was sent", i.Kind)
			}
			if had[i.Kind] {
				continue // this clock leaps over the time for which a message that is being dealt with is hidden
			}
			had[i.Kind] = true
			if i.Kind != c.kind || i.ProviderID != running[ids[n]] || i.At.IsZero() == c.dated {
				t.Errorf("%s came as %+v, want it about %s", c.asked, i, running[ids[n]])
			}
			break
		}
	}
	for !gone { // EC2 takes a machine when its notice is over
		gone = testwait.Receive(t, "the notice that a machine is gone", seen).Kind == cloud.StateChange
	}
	// A machine that is stopped is told from one that ends.
	a.control("POST", "interrupt", awstest.Interruption{Kind: awstest.StateChange, Instances: []string{ids[0]}}, nil)
	for stops := false; !stops; { // its end is told too, in whichever order
		i := testwait.Receive(t, "the notice that a machine stops", seen)
		stops = i.ProviderID == running[ids[0]] && i.Kind == cloud.StateChange && i.Stops
	}
	stop()
	if err := testwait.Receive(t, "the end of Interruptions", ended); err != nil {
		t.Error(err)
	}
	if !refused.Load() {
		t.Error("no notice was refused, so none had to come again")
	}
}

// TestNoQueue: a queue that is not there is an error that names it.
func TestNoQueue(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	err := a.provider(func(c *awsapi.Config) { c.InterruptionQueue = "no-such" }).Interruptions(t.Context(), nil)
	if err == nil || cloud.KindOf(err) == cloud.None {
		t.Errorf("have %v", err)
	}
}

// TestInterruptionsByStatusChecks: a machine that fails EC2's status checks for two minutes is told of once, without a queue. Where the
// question is not allowed it is asked again later.
func TestInterruptionsByStatusChecks(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	p := a.provider(func(c *awsapi.Config) { c.StatusCheckInterval = 10 * time.Second })
	for _, uid := range []string{"a", "b"} {
		if res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: uid, ClaimUID: uid, Class: class(""), CapacityTypes: []string{model.OnDemand}}})[0]; res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	var ids []string
	turn := a.turns(clock, 10*time.Second)
	a.soon("both machines run", func() error {
		turn()
		ids = nil
		for _, in := range a.books().Alive {
			if in.State == "running" {
				ids = append(ids, in.ID)
			}
		}
		if len(ids) < 2 {
			return fmt.Errorf("%v do", ids)
		}
		return nil
	})
	a.fault(awstest.Fault{Kind: awstest.Deny, Action: "DescribeInstanceStatus", Count: 1})
	failed := clock.Now() // or a little later
	a.control("POST", "interrupt", awstest.Interruption{Kind: awstest.Impaired, Instances: ids[:1]}, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	told := make(chan cloud.Interruption, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- p.Interruptions(ctx, func(_ context.Context, i cloud.Interruption) error { told <- i; return nil })
	}()
	if i := testwait.Receive(t, "the notice of a failed status check", told); i.Kind != cloud.InstanceStatusFailed || !strings.HasSuffix(i.ProviderID, ids[0]) || !i.At.IsZero() || i.Sent.Before(failed.Add(2*time.Minute)) {
		t.Errorf("the failed check came as %+v, want it about %s and not within two minutes of %s", i, ids[0], failed)
	}
	calls := a.books().Calls["ec2:DescribeInstanceStatus"].Count
	a.soon("status checks were asked for twice more", func() error { // three calls each
		if n := a.books().Calls["ec2:DescribeInstanceStatus"].Count; n < calls+6 {
			return fmt.Errorf("%d calls were made, %d of them before", n, calls)
		}
		return nil
	})
	stop()
	if err := testwait.Receive(t, "the end of Interruptions", ended); err != nil {
		t.Error(err)
	}
	if len(told) > 0 {
		t.Errorf("told again: %+v", <-told)
	}
}

// TestNames: an instance gets the name of its node as its tag Name, unless its class has given it another.
func TestNames(t *testing.T) {
	a := open(t, some(t, "m5.large"), hurried{time.Now()})
	p := a.provider()
	named := class(`{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],"tags":{"Name":"mine"},` + discovery + `}`)
	named.Name, named.UID = "named", "named-uid"
	for uid, c := range map[string]cloud.NodeClass{"a": class(""), "b": named} {
		if res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: uid, ClaimUID: uid, Class: c}})[0]; res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	defer running.Wait()
	defer stop()
	a.soon("the machine is named like its node", func() error {
		if _, err := p.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		have, done := map[string]string{}, false
		for _, in := range a.books().Alive {
			have[in.Tags[awstest.ClaimTag]] = in.Tags["Name"]
			done = done || in.Tags[awstest.ClaimTag] == "a" && in.Tags["Name"] == in.Node
		}
		if have["b"] != "mine" {
			t.Fatalf("the names are %v, want that of the class for b", have)
		}
		if !done {
			return fmt.Errorf("the names are %v", have)
		}
		return nil
	})
}

// TestIPv6Cluster: of an IPv6 cluster EKS says the range of its Services; a machine is told it and the DNS address in it,
// and has an IPv6 address.
func TestIPv6Cluster(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{}, func(s *awstest.Settings) { s.IPv6 = true })
	p := a.provider()
	if res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "a", ClaimUID: "a", Class: class("")}})[0]; res.Err != nil {
		t.Fatal(res.Err)
	}
	ec2s := a.clients().EC2
	list, err := ec2s.DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{})
	if err != nil || len(list.LaunchTemplates) != 1 {
		t.Fatalf("%d launch templates, %v", len(list.LaunchTemplates), err)
	}
	versions, err := ec2s.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: list.LaunchTemplates[0].LaunchTemplateId})
	if err != nil {
		t.Fatal(err)
	}
	d := versions.LaunchTemplateVersions[0].LaunchTemplateData
	if n := d.NetworkInterfaces; len(n) != 1 || n[0].PrimaryIpv6 == nil || !*n[0].PrimaryIpv6 || n[0].Ipv6AddressCount == nil || *n[0].Ipv6AddressCount != 1 {
		t.Errorf("the interfaces are %+v, want one with a primary IPv6 address", n)
	}
	boots, err := base64.StdEncoding.DecodeString(*d.UserData)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cidr: fd30:1234:5678::/108", "- fd30:1234:5678::a"} {
		if !strings.Contains(string(boots), want) {
			t.Errorf("user data lacks %q:\n%s", want, boots)
		}
	}
}
