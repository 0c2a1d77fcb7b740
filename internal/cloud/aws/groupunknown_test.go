// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
)

// TestGroupOfNobody: the members of a group that no class chooses are adopted by none and left as they are. A group that
// its class chooses no more is named by the class's condition with the term and what to do; nothing is launched in it,
// and its member, which a claim has, is listed and left as it is. Chosen again, it is as before.
func TestGroupOfNobody(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock)
	define := func(name string, desired int, tags []awstest.GroupTag) {
		a.define(awstest.Group{Name: name, Desired: desired, Max: 5, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Tags: tags})
	}
	define("legacy", 2, nil)
	define("web", 0, enabled)
	p := a.provider()
	class := groupClass(tagged)
	groupStatus(t, p, class)
	res := get(t, p, clock, "a")
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	check := func(when string) {
		t.Helper()
		list, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, i := range list {
			if i.ProviderID == res.ProviderID {
				found = i.ClaimUID == "a" && !i.Gone
			} else if i.Class != "" || i.ClaimUID != "" {
				t.Errorf("%s: %+v is to be adopted", when, i)
			}
		}
		if !found {
			t.Errorf("%s: the claim's member %s is not listed as it was", when, res.ProviderID)
		}
		if web, legacy := *a.group("web").DesiredCapacity, *a.group("legacy").DesiredCapacity; web != 1 || legacy != 2 {
			t.Errorf("%s: desired %d and %d, want 1 and 2", when, web, legacy)
		}
	}
	check("before")

	define("web", 1, nil)
	clock.ahead.Add(int64(4 * time.Minute))
	conditions, st := groupStatus(t, p, class)
	bad := conditions[dovetailv1alpha1.ConditionGroupsResolved]
	if bad.Status != "False" || bad.Reason != "GroupsNotFound" || !strings.Contains(bad.Message, "spec.selectorTerms[0]") || conditions["Ready"].True() {
		t.Errorf("without the tag: %+v, Ready %+v", bad, conditions["Ready"])
	}
	if len(st.Groups) != 0 {
		t.Errorf("the class still has groups %+v", st.Groups)
	}
	if res := ask(t, p, "b", clock.Now()); res.Err == nil {
		t.Errorf("claim b got %+v", res)
	}
	check("without the tag")

	define("web", 1, enabled)
	clock.ahead.Add(int64(4 * time.Minute))
	conditions, st = groupStatus(t, p, class)
	if !conditions["Ready"].True() || !slices.ContainsFunc(st.Groups, func(g dovetailv1alpha1.NodeGroupStatus) bool { return g.Name == "web" && g.Desired == 1 }) {
		t.Errorf("with it again: %+v, groups %+v", conditions["Ready"], st.Groups)
	}
	check("with it again")
}
