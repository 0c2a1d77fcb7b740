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

// TestFailingGroups has the instances of a node group not join: the group is failing for five minutes, with the cause.
func TestFailingGroups(t *testing.T) {
	x := newScript(t)
	for _, line := range strings.Split(`pool p group=cheap:0
type a1 cpu=2 mem=8Gi price=0.1 group=cheap left=9 max=9
type b1 cpu=2 mem=8Gi price=0.2 group=dear left=9 max=9
pod a cpu=1500m
claim c1 pool=p types=a1 group=cheap launched=+2s slot=a:1
at +3s
claim c1 pool=p types=a1 group=cheap launched=+2s slot=a:1 deleting=+15m
at +15m`, "\n") {
		x.line(strings.Fields(line))
	}
	got := x.mem.FailingGroups(x.now)
	if len(got) != 1 || got[0].Group != "cheap" || got[0].Why.Code != plan.RegistrationTimeout {
		t.Fatalf("failing: %+v, want cheap, whose instance did not join in time", got)
	}
	if got := x.mem.FailingGroups(x.now.Add(unused.SiteFirstRest + time.Second)); len(got) != 0 {
		t.Errorf("failing after %s: %+v, want none", unused.SiteFirstRest, got)
	}
}
