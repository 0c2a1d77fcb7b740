// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
)

// profiles are the names of the account's instance profiles, but for the one that every account has.
func (a *account) profiles() []string {
	a.t.Helper()
	res, err := a.clients().IAM.ListInstanceProfiles(a.t.Context(), &iam.ListInstanceProfilesInput{})
	if err != nil {
		a.t.Fatal(err)
	}
	var out []string
	for _, p := range res.InstanceProfiles {
		if *p.InstanceProfileName != awstest.Default().Role {
			out = append(out, *p.InstanceProfileName)
		}
	}
	return out
}

// templates are how many launch templates each class has.
func (a *account) templates() map[string]int {
	a.t.Helper()
	res, err := a.clients().EC2.DescribeLaunchTemplates(a.t.Context(), &ec2.DescribeLaunchTemplatesInput{})
	if err != nil {
		a.t.Fatal(err)
	}
	out := map[string]int{}
	for _, t := range res.LaunchTemplates {
		for _, tag := range t.Tags {
			if *tag.Key == "karpenter.k8s.aws/ec2nodeclass" {
				out[*tag.Value]++
			}
		}
	}
	return out
}

// two is a provider with two classes, of which each has bought a machine.
func two(t *testing.T) (*account, *aws.Provider, cloud.NodeClass, cloud.NodeClass) {
	t.Helper()
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	p := a.provider()
	other := class("")
	other.Name, other.UID = "other", "other-uid"
	for _, nc := range []cloud.NodeClass{class(""), other} {
		if res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: nc.Name, ClaimUID: nc.Name, Class: nc}})[0]; res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	if n := len(a.profiles()); n != 2 || a.templates()["default"] == 0 || a.templates()["other"] == 0 {
		t.Fatalf("%d profiles, templates %v: there is nothing to take away", n, a.templates())
	}
	return a, p, class(""), other
}

// TestEndClass: what was made for a class goes with it, and nothing that is another's; it can be asked for twice, and
// nothing is made again.
func TestEndClass(t *testing.T) {
	a, p, nc, other := two(t)
	before := a.profiles()
	for range 2 {
		if err := p.EndClass(t.Context(), nc); err != nil {
			t.Fatal(err)
		}
	}
	if left, have := a.profiles(), a.templates(); len(left) != 1 || !slices.Contains(before, left[0]) || have["default"] != 0 || have["other"] == 0 {
		t.Errorf("profiles %v of %v and templates %v are left", left, before, have)
	}
	_, _ = p.Offerings(t.Context(), nil, nc) // an answer that was under way
	if n := len(a.profiles()); n != 1 {
		t.Errorf("%d profiles: one was made for a class that had ended", n)
	}
	if res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "b", ClaimUID: "b", Class: other}})[0]; res.Err != nil {
		t.Error(res.Err)
	}
	// A class of the same name that comes later is another one.
	again := class("")
	again.UID = "new-uid"
	if conditions, _ := statusOf(t, p, again); !conditions["Ready"].True() || len(a.profiles()) != 2 {
		t.Errorf("Ready is %+v, profiles %v", conditions["Ready"], a.profiles())
	}
	// Another process, which knows nothing, ends it as well.
	if err := a.provider().EndClass(t.Context(), again); err != nil || len(a.profiles()) != 1 {
		t.Errorf("%v, profiles %v", err, a.profiles())
	}
}

// TestEndClassInParts: wherever it is interrupted, the next try goes on; what is not allowed is Denied, and says
// which call.
func TestEndClassInParts(t *testing.T) {
	for _, c := range []struct {
		fault awstest.Fault
		kind  cloud.Kind
		says  string
	}{
		{awstest.Fault{Kind: awstest.Deny, Action: "GetInstanceProfile"}, cloud.Denied, "GetInstanceProfile"},
		{awstest.Fault{Kind: awstest.Deny, Action: "RemoveRoleFromInstanceProfile"}, cloud.Denied, "RemoveRoleFromInstanceProfile"},
		{awstest.Fault{Kind: awstest.Deny, Action: "DeleteInstanceProfile"}, cloud.Denied, "DeleteInstanceProfile"},
		{awstest.Fault{Kind: awstest.Deny, Action: "DescribeLaunchTemplates"}, cloud.Denied, "DescribeLaunchTemplates"},
		{awstest.Fault{Kind: awstest.Deny, Action: "DeleteLaunchTemplate"}, cloud.Denied, "DeleteLaunchTemplate"},
		{awstest.Fault{Kind: awstest.Throttle, Action: "DeleteInstanceProfile"}, cloud.Throttled, ""},
		{awstest.Fault{Kind: awstest.LostReply, Action: "RemoveRoleFromInstanceProfile"}, cloud.Unknown, ""},
		{awstest.Fault{Kind: awstest.LostReply, Action: "DeleteInstanceProfile"}, cloud.Unknown, ""},
		{awstest.Fault{Kind: awstest.LostReply, Action: "DeleteLaunchTemplate"}, cloud.Unknown, ""},
	} {
		t.Run(c.fault.Kind+" "+c.fault.Action, func(t *testing.T) {
			a, p, nc, _ := two(t)
			a.fault(c.fault)
			err := p.EndClass(t.Context(), nc)
			if cloud.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || c.kind == cloud.Denied && !strings.Contains(err.Error(), "IAM policy") {
				t.Errorf("%v, want %s that says %q", err, c.kind, c.says)
			}
			a.control("DELETE", "faults", nil, nil)
			if err := a.provider().EndClass(t.Context(), nc); err != nil { // after a crash, say
				t.Error(err)
			}
			if n := len(a.profiles()); n != 1 || a.templates()["default"] != 0 {
				t.Errorf("%d profiles and templates %v are left", n, a.templates())
			}
		})
	}
}

// TestEndClassLeavesOthers: a profile that a person named or made stays, and so do another autoscaler's launch
// templates.
func TestEndClassLeavesOthers(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	p := a.provider()
	_, st := statusOf(t, p, class(""))
	ours := st.InstanceProfile
	named := class(`{"instanceProfile":"` + ours + `","amiSelectorTerms":[{"alias":"al2023@latest"}],` + discovery + `}`)
	if err := p.EndClass(t.Context(), named); err != nil || !slices.Contains(a.profiles(), ours) {
		t.Errorf("%v: a profile that spec.instanceProfile names is gone", err)
	}
	if err := p.EndClass(t.Context(), class("")); err != nil || len(a.profiles()) != 0 {
		t.Fatalf("%v: profiles %v", err, a.profiles())
	}
	// One of the very name, made by somebody else.
	iamOf := a.clients().IAM
	if _, err := iamOf.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: &ours, Tags: []iamtypes.Tag{}}); err != nil {
		t.Fatal(err)
	}
	if err := p.EndClass(t.Context(), class("")); err != nil || !slices.Contains(a.profiles(), ours) {
		t.Errorf("%v: a profile without our tags is gone", err)
	}
	// With a profile of its own a class has none of ours, and needs no right over any.
	a.fault(awstest.Fault{Kind: awstest.Deny, Action: "GetInstanceProfile"})
	own := class(`{"instanceProfile":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],` + discovery + `}`)
	if err := p.EndClass(t.Context(), own); err != nil {
		t.Error(err)
	}
	if p.EndsClasses("karpenter.kwok.sh", "KWOKNodeClass") || p.EndsClasses("dovetail.sh", "NodeGroupClass") {
		t.Error("nothing is made for classes of other kinds, and they are to be ended")
	}
}
