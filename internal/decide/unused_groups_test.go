// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TestFailingGroups has the instances of a node group not come, or not join: the group is failing for five minutes, with the cause, and the time that was
// waited. An instance that the group was asked for has as long to come as to join.
func TestFailingGroups(t *testing.T) {
	for _, c := range []struct {
		name, claim, until string
		want               plan.Reason
	}{
		{"an instance that does not join", "launched=+2s", "+15m2s", plan.Reason{Code: plan.RegistrationTimeout, Detail: plan.OfTimeout{Within: 15 * time.Minute}}},
		{"no instance", "", "+15m", plan.Reason{Code: plan.LaunchTimeout, Detail: plan.OfTimeout{Within: 15 * time.Minute}}},
		{"a group that can't be asked", "", "+5m", plan.Reason{Code: plan.LaunchTimeout, Detail: plan.OfTimeout{Within: 5 * time.Minute}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newScript(t)
			for _, line := range strings.Split(`pool p group=cheap:0
type a1 cpu=2 mem=8Gi price=0.1 group=cheap left=9 max=9
type b1 cpu=2 mem=8Gi price=0.2 group=dear left=9 max=9
pod a cpu=1500m
claim c1 pool=p types=a1 group=cheap slot=a:1 `+c.claim+`
at +3s
claim c1 pool=p types=a1 group=cheap slot=a:1 deleting=`+c.until+" "+c.claim+`
at `+c.until, "\n") {
				x.line(strings.Fields(line))
			}
			got := x.mem.FailingGroups(x.now)
			if len(got) != 1 || got[0].Group != "cheap" || got[0].Why != c.want {
				t.Fatalf("failing: %+v, want cheap: %+v", got, c.want)
			}
			if got := x.mem.FailingGroups(x.now.Add(unused.SiteFirstRest + time.Second)); len(got) != 0 {
				t.Errorf("failing after %s: %+v, want none", unused.SiteFirstRest, got)
			}
		})
	}
}
