// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
)

// TestGroupInTwoClasses: a group that two classes choose is the older one's. The other says which field chooses it, who
// keeps it and what to do, and nothing is launched for it; when the older one chooses it no longer it has it.
func TestGroupInTwoClasses(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock)
	for _, name := range []string{"both", "own"} {
		a.define(awstest.Group{Name: name, Max: 3, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
	}
	p := a.provider()
	class := func(name, spec string, created time.Time) cloud.NodeClass {
		c := groupClass(spec)
		c.Name, c.UID, c.Created = name, "uid-"+name, created
		return c
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	younger := class("a", `{"selectorTerms":[{"name":"own"},{"name":"both"}]}`, at.Add(time.Hour))
	older := class("b", `{"selectorTerms":[{"name":"both"}]}`, at)
	groupStatus(t, p, older)
	conditions, st := groupStatus(t, p, younger)
	bad := conditions[dovetailv1alpha1.ConditionLaunchable]
	const want = "group both: spec.selectorTerms[1] selects it, but the older NodeGroupClass b does too and keeps it; remove it from one of them"
	if bad.Status != "False" || bad.Message != want || !conditions["Ready"].True() {
		t.Errorf("%+v, want %q; Ready %+v", bad, want, conditions["Ready"])
	}
	if len(st.Groups) != 2 || st.Groups[0].Problem == "" || st.Groups[1].Problem != "" {
		t.Errorf("groups %+v", st.Groups)
	}
	offered := func(c cloud.NodeClass) (groups []string) {
		t.Helper()
		types, err := p.Offerings(t.Context(), nil, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range types {
			for _, o := range it.Offerings {
				groups = append(groups, o.Labels[dovetailv1alpha1.LabelNodeGroup])
			}
		}
		slices.Sort(groups)
		return groups
	}
	if have := offered(younger); !slices.Equal(have, []string{"own"}) {
		t.Errorf("the younger class offers %v", have)
	}
	if conditions, _ := groupStatus(t, p, older); !conditions[dovetailv1alpha1.ConditionLaunchable].True() || !conditions["Ready"].True() {
		t.Errorf("the older class: %+v", conditions)
	}
	if n := a.books().Started; n != 0 || *a.group("both").DesiredCapacity != 0 {
		t.Errorf("%d instances were started", n)
	}
	// It is let go by the class that has it: edited, then deleted.
	groupStatus(t, p, class("b", `{"selectorTerms":[{"name":"own"}]}`, at))
	if have := offered(younger); !slices.Equal(have, []string{"both"}) {
		t.Errorf("after the edit the younger class offers %v", have)
	}
	clock.ahead.Add(int64(4 * time.Minute))
	if have := offered(younger); !slices.Equal(have, []string{"both", "own"}) {
		t.Errorf("after the deletion it offers %v", have)
	}
}

// TestGroupCallsDenied: each right that is missing for a change is told by the class, with group, call and remedy, once
// the call was tried; and nothing has changed.
func TestGroupCallsDenied(t *testing.T) {
	for _, c := range []struct {
		action, right string
		try           func(t *testing.T, a *account, p *aws.Provider, clock *shifted)
		desired       int32 // after that
	}{
		{"SetDesiredCapacity", "autoscaling:SetDesiredCapacity", launchOne, 1},
		{"TerminateInstanceInAutoScalingGroup", "autoscaling:TerminateInstanceInAutoScalingGroup", func(t *testing.T, a *account, p *aws.Provider, _ *shifted) {
			id := "aws:///us-east-1a/" + *a.group("web").Instances[0].InstanceId
			if err := p.Terminate(t.Context(), []string{id})[0]; cloud.KindOf(err) != cloud.Denied {
				t.Errorf("terminated: %v", err)
			}
		}, 1},
		{"CreateTags", "ec2:CreateTags", launchOne, 2}, // its instance comes and stays nobody's
		{"DescribeInstanceRefreshes", "autoscaling:DescribeInstanceRefreshes", func(*testing.T, *account, *aws.Provider, *shifted) {}, 1},
	} {
		t.Run(c.action, func(t *testing.T) {
			clock := &shifted{}
			a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 10 * time.Millisecond })
			a.define(awstest.Group{Name: "web", Max: 3, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled})
			p := a.provider()
			getAll(t, p, clock, "first")
			a.fault(awstest.Fault{Kind: awstest.Deny, Action: c.action})
			clock.ahead.Add(int64(time.Minute)) // what was cached is asked for anew
			if conditions, _ := groupStatus(t, p, groupClass(tagged)); c.action != "DescribeInstanceRefreshes" && !conditions[dovetailv1alpha1.ConditionPermitted].True() {
				t.Errorf("before the call was tried: %+v", conditions)
			}
			c.try(t, a, p, clock)
			conditions, _ := groupStatus(t, p, groupClass(tagged))
			bad := conditions[dovetailv1alpha1.ConditionPermitted]
			for _, word := range []string{"group web: ", c.action, "allow " + c.right + " in the controller's IAM policy"} {
				if bad.Status != "False" || bad.Reason != "AccessDenied" || !strings.Contains(bad.Message, word) {
					t.Errorf("%+v does not say %q", bad, word)
				}
			}
			if g := a.group("web"); *g.DesiredCapacity != c.desired || len(g.Instances) < 1 {
				t.Errorf("desired capacity %d, want %d; %d members", *g.DesiredCapacity, c.desired, len(g.Instances))
			}
		})
	}
}

// launchOne asks for one instance more until an answer says that it is denied.
func launchOne(t *testing.T, _ *account, p *aws.Provider, clock *shifted) {
	t.Helper()
	created := clock.Now()
	(&account{t: t}).soon("an answer says that it is denied", func() error {
		res := ask(t, p, "second", created)
		if res.ProviderID != "" {
			t.Fatalf("launched %+v", res)
		}
		if cloud.KindOf(res.Err) != cloud.Denied {
			return fmt.Errorf("the answer is %+v", res)
		}
		return nil
	})
}
