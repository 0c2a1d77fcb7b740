// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestQuotas: what the account may not have is refused for every zone and for all families that share the quota, and
// not asked for again soon; machines that may fit in what is left are not refused with it.
func TestQuotas(t *testing.T) {
	for _, c := range []struct {
		name, code, refused, capacityType string
		beyond                            []string // types refused of that capacity type
		next                              string   // a claim for this type is refused without a call
		says                              string
	}{
		{"on-demand", "VcpuLimitExceeded", "m5.4xlarge", model.OnDemand, []string{"c5.4xlarge", "c5.9xlarge", "m5.4xlarge"}, "c5.9xlarge",
			"EC2 quota reached: Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances (VcpuLimitExceeded); request an increase in Service Quotas"},
		{"spot", "MaxSpotInstanceCountExceeded", "m5.large", model.Spot, []string{"c5.4xlarge", "c5.9xlarge", "m5.4xlarge", "m5.large"}, "c5.4xlarge",
			"EC2 quota reached: All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests (MaxSpotInstanceCountExceeded); request an increase in Service Quotas"},
		{"of another group", "VcpuLimitExceeded", "g4dn.xlarge", model.OnDemand, []string{"g4dn.xlarge", "g5.xlarge"}, "g5.xlarge",
			"EC2 quota reached: Running On-Demand G and VT instances (VcpuLimitExceeded); request an increase in Service Quotas"},
		{"nobody may use spot", "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "m5.4xlarge", model.Spot,
			[]string{"c5.4xlarge", "c5.9xlarge", "g4dn.xlarge", "g5.xlarge", "m5.4xlarge", "m5.large"}, "g5.xlarge",
			"the account may not use spot yet (AuthFailure.ServiceLinkedRoleCreationNotPermitted): aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := &skipping{}
			a := open(t, some(t, "c5.4xlarge", "c5.9xlarge", "g4dn.xlarge", "g5.xlarge", "m5.4xlarge", "m5.large"), clock)
			p := cloud.NewSetAside(a.provider(), clock, cloud.SetAsideFor)
			launch := func(uid, name string) cloud.LaunchResult {
				return p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: uid, ClaimUID: uid, Class: class(""), Types: []string{name}, CapacityTypes: []string{c.capacityType}}})[0]
			}
			a.fault(awstest.Fault{Kind: awstest.LaunchError, Code: c.code, InstanceType: c.refused, CapacityType: c.capacityType})
			res := launch("a", c.refused)
			if cloud.KindOf(res.Err) != cloud.InsufficientCapacity || !strings.HasSuffix(res.Err.Error(), ": "+c.says) {
				t.Fatalf("answered %v, want that it says %s", res.Err, c.says)
			}
			types, err := p.Offerings(t.Context(), nil, class(""))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]bool{}
			for _, it := range types {
				for _, o := range it.Offerings {
					if o.CapacityType == c.capacityType && slices.Contains(c.beyond, it.Name) {
						if o.Available || o.Quota != c.says {
							t.Errorf("%s in %s is offered as %+v, want not available and %s", it.Name, o.Zone, o, c.says)
						}
						want[cloud.OfferingKey{InstanceType: it.Name, Zone: o.Zone, CapacityType: o.CapacityType}.String()] = true
					}
				}
			}
			var have []string
			for _, k := range cloud.OfferingsOf(res.Err) {
				have = append(have, k.String())
			}
			slices.Sort(have)
			if w := slices.Sorted(maps.Keys(want)); !slices.Equal(have, w) {
				t.Errorf("refused are\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(w, "\n"))
			}
			fleets := func() int { return a.books().Calls["ec2:CreateFleet"].Count }
			before := fleets()
			if res := launch("b", c.next); cloud.KindOf(res.Err) != cloud.InsufficientCapacity || fleets() != before {
				t.Errorf("%s: answered %v after %d calls", c.next, res.Err, fleets()-before)
			}
			if err := clock.Wait(t.Context(), cloud.SetAsideFor+time.Second); err != nil {
				t.Fatal(err)
			}
			if res := launch("c", c.next); res.Err != nil {
				t.Errorf("%s later: %v", c.next, res.Err)
			}
		})
	}
}

// TestThrottledFleet: an answer that says within itself that there was no time is repeated with new tokens as often
// as it takes.
func TestThrottledFleet(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	p := a.provider()
	a.fault(awstest.Fault{Kind: awstest.LaunchError, Code: "RequestLimitExceeded", Count: 20})
	request := cloud.LaunchRequest{ClaimName: "a", ClaimUID: "a", Class: class(""), Zones: []string{"us-east-1a"}, CapacityTypes: []string{model.OnDemand}}
	tries := 0
	for {
		res := p.Launch(t.Context(), []cloud.LaunchRequest{request})[0]
		if res.Err == nil {
			break
		}
		if cloud.KindOf(res.Err) != cloud.Throttled || cloud.AfterOf(res.Err) <= 0 {
			t.Fatalf("after %d tries: %v", tries, res.Err)
		}
		tries++
	}
	if have := a.launches(); tries != 20 || fmt.Sprint(have) != "map[a:1]" {
		t.Errorf("%d tries, launches %v", tries, have)
	}
}

// TestKnownShortage: what had no capacity for one claim is not asked for again for another, until its time is up.
func TestKnownShortage(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "c5.4xlarge", "m5.4xlarge", "m5.large"), clock)
	p := cloud.NewSetAside(a.provider(), clock, cloud.SetAsideFor)
	fleets := func() int { return a.books().Calls["ec2:CreateFleet"].Count }
	launch := func(uid string, types ...string) cloud.LaunchResult {
		return p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: uid, ClaimUID: uid, Class: class(""), Types: types, CapacityTypes: []string{model.Spot}}})[0]
	}
	a.fault(awstest.Fault{Kind: awstest.LaunchError, Code: "InsufficientInstanceCapacity", CapacityType: model.Spot})
	first := launch("a", "m5.large", "m5.4xlarge")
	missing := cloud.OfferingsOf(first.Err)
	if cloud.KindOf(first.Err) != cloud.InsufficientCapacity || len(missing) == 0 || fleets() != 1 {
		t.Fatalf("answered %v after %d calls", first.Err, fleets())
	}
	until := p.Asides()[0].Until
	if err := clock.Wait(t.Context(), cloud.SetAsideFor/2); err != nil {
		t.Fatal(err)
	}
	if res := launch("b", "m5.large", "m5.4xlarge"); !slices.Equal(cloud.OfferingsOf(res.Err), missing) || fleets() != 1 {
		t.Errorf("a second claim is answered %v after %d calls, want the offerings of the first without a call", res.Err, fleets())
	}
	if have := p.Asides()[0].Until; have != until {
		t.Errorf("set aside until %s, want %s as before: nobody asked again", have, until)
	}
	res := launch("c", "c5.4xlarge", "m5.4xlarge")
	if cloud.KindOf(res.Err) != cloud.InsufficientCapacity || fleets() != 2 {
		t.Errorf("a claim with another type is answered %v after %d calls", res.Err, fleets())
	}
	if err := clock.Wait(t.Context(), cloud.SetAsideFor/2+time.Second); err != nil {
		t.Fatal(err)
	}
	if res := launch("b", "m5.large"); cloud.KindOf(res.Err) != cloud.InsufficientCapacity || fleets() != 3 {
		t.Errorf("after its time a claim is answered %v after %d calls, want that the cloud is asked", res.Err, fleets())
	}
}
