// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestMissing: what an answer of CreateFleet without a machine says of which offerings.
func TestMissing(t *testing.T) {
	in := func(code, name, zone, subnet string) types.CreateFleetError {
		e := types.CreateFleetError{ErrorCode: &code}
		if name+zone+subnet != "" {
			o := &types.FleetLaunchTemplateOverrides{InstanceType: types.InstanceType(name)}
			if zone != "" {
				o.AvailabilityZone = &zone
			}
			if subnet != "" {
				o.SubnetId = &subnet
			}
			e.LaunchTemplateAndOverrides = &types.LaunchTemplateAndOverridesResponse{Overrides: o}
		}
		return e
	}
	const a, b = "eu-west-1a", "eu-west-1b"
	for _, c := range []struct {
		name      string
		errors    []types.CreateFleetError
		missing   []string // type and zone
		elsewhere bool
		other     string
	}{
		{name: "one offering", errors: []types.CreateFleetError{in("InsufficientInstanceCapacity", "c5.xlarge", a, "subnet-a2")}, missing: []string{"c5.xlarge/" + a}},
		{name: "nothing in particular", errors: []types.CreateFleetError{in(awsapi.CodeUnfulfillable, "", "", "")},
			missing: []string{"c5.xlarge/" + a, "c5.xlarge/" + b, "m5d.large/" + a, "m5d.large/" + b}},
		{name: "nothing in particular, beside what is wrong", errors: []types.CreateFleetError{in("InvalidParameterValue", "", "", ""), in(awsapi.CodeUnfulfillable, "", "", "")}, other: "InvalidParameterValue"},
		{name: "and the other way round, with a type", errors: []types.CreateFleetError{in(awsapi.CodeUnfulfillable, "c5.xlarge", a, ""), in("InvalidParameterValue", "c5.xlarge", a, "")}, other: "InvalidParameterValue"},
		{name: "one offering beside what is wrong", errors: []types.CreateFleetError{in("InsufficientInstanceCapacity", "c5.xlarge", b, ""), in("RequestLimitExceeded", "", "", "")},
			missing: []string{"c5.xlarge/" + b}, other: "RequestLimitExceeded"},
		{name: "no addresses where another subnet has some", errors: []types.CreateFleetError{in(awsapi.CodeNoAddresses, "c5.xlarge", a, "subnet-a2")}, elsewhere: true},
		{name: "and nothing in particular beside it", errors: []types.CreateFleetError{in(awsapi.CodeUnfulfillable, "", "", ""), in(awsapi.CodeNoAddresses, "c5.xlarge", a, "subnet-a2")}, elsewhere: true},
		{name: "no addresses in the only subnet", errors: []types.CreateFleetError{in(awsapi.CodeNoAddresses, "c5.xlarge", b, "subnet-b1")}, missing: []string{"c5.xlarge/" + b, "m5d.large/" + b}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, r, g := goldenAccount(t, awsv1.EC2NodeClassSpec{Role: "node", AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}})
			o := &offering.Set{ByName: map[string]*offering.Type{}}
			for _, m := range g.Types {
				if made := p.buildType(r, g, m, placementRulesOf(nil, r)); made != nil {
					o.Types, o.ByName[m.Name] = append(o.Types, made.InstanceType), made
				}
			}
			req := cloud.LaunchRequest{ClaimName: "c", ClaimUID: "c", Types: []string{"c5.xlarge", "m5d.large"}, CapacityTypes: []string{model.OnDemand}}
			bought, err := p.buildRequest(r, req, o.Options(req), "c")
			if err != nil {
				t.Fatal(err)
			}
			keys, elsewhere, other := p.readErrors(r, bought, c.errors)
			var missing []string
			for _, k := range keys {
				missing = append(missing, k.InstanceType+"/"+k.Zone)
			}
			code := ""
			if other != nil {
				code = *other.ErrorCode
			}
			if !slices.Equal(missing, c.missing) || elsewhere != c.elsewhere || code != c.other {
				t.Errorf("missing %v, elsewhere %v, other %q; want %v, %v, %q", missing, elsewhere, code, c.missing, c.elsewhere, c.other)
			}
			if s := r.BestSubnet(a); c.elsewhere && s.ID != "subnet-a1" {
				t.Errorf("the next request goes to %s", s.ID)
			}
		})
	}
}
