// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

// waitsOf are calls by which a test could hang on the machine that it runs on: it sleeps for as long as something should take, gives something an
// end that a slow machine misses, or measures how long something took. Waiting for an event is testwait's.
var waitsOf = map[string]string{
	"time.Sleep":               "wait for the event, with testwait.Until",
	"time.After":               "use testwait.Receive, or a limit from testwait.Left",
	"time.Tick":                "use testwait.Poll",
	"time.Since":               "assert what came of it, not how long it took; or run it in testing/synctest",
	"context.WithTimeout":      "use testwait.Context, or scale the limit with testwait.Scale or testwait.Left",
	"context.WithTimeoutCause": "use testwait.Context, or scale the limit with testwait.Scale or testwait.Left",
	"context.WithDeadline":     "use testwait.Context",
}

// mayWait are the functions of tests, or the folders (with a slash at the end), that call these all the same, each with the reason. An entry that is not needed any more fails.
var mayWait = map[string]string{
	"internal/testwait/":   "it is what the others use",
	"internal/controller/": "its tests run in testing/synctest (run in fake_test.go), where time is virtual",

	"internal/cloud/nodegroups/": "its tests run in testing/synctest, where time is virtual",

	"internal/cloud/aws/account_test.go:hurried.Now":         "a clock on which more time passes",
	"internal/cloud/simulated/server_test.go:pass":           "it is called in testing/synctest",
	"internal/kube/headroom_test.go:TestHeadrooms":           "a pause between two looks; world.until ends it",
	"sandbox/e2e/e2e_test.go:eventually":                     "a module that does not depend on the product's; five minutes",
	"test/e2e/clusterapi_core_test.go:coreWorld.life":        "told, not asked",
	"test/e2e/disruption_test.go:env.settled":                "it waits until nothing has changed for a while",
	"test/e2e/groupfigures_test.go:env.measureGroups":        "a benchmark",
	"test/e2e/groupseries_test.go:series.rests":              "it waits until nothing has changed for a while",
	"test/e2e/groupseries_test.go:series.play":               "told, not asked",
	"test/e2e/groupseries_test.go:series.say":                "told, not asked",
	"test/e2e/planted_test.go:healthyPods":                   "told, not asked",
	"test/e2e/headroom_test.go:env.scaleUp":                  "told; only a soak compares it, with the same on the same machine (soonEnough)",
	"test/e2e/rival_test.go:rival.race":                      "a drawn moment",
	"test/oracle/karpenter/karpenter_test.go:karpenterReady": "how long a benchmark lets Karpenter search",
	"test/oracle/karpenter/speed_test.go:timed":              "a benchmark",
	"test/upstream/devices_test.go:TestDRADriver":            "told, not asked",
	"test/upstream/takeover_test.go:handover.play":           "a pause between two changes",
	"test/upstream/takeover_test.go:handover.during":         "a drawn moment",
	"test/upstream/takeover_test.go:handover.killHandOver":   "a drawn moment",
}

// TestWaits refuses sleeps, limits that are not scaled and stop-watches in tests: whoever clones the project has another machine, and a busy one.
func TestWaits(t *testing.T) {
	used := map[string]bool{}
	calls := 0
	for _, f := range goFiles(t) {
		if !strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			name := functionName(fn)
			for _, found := range waits(fn.Body) {
				calls++
				allowed := false
				for entry := range mayWait {
					if strings.HasSuffix(entry, "/") && strings.HasPrefix(f.path, entry) || entry == f.path+":"+name {
						used[entry], allowed = true, true
					}
				}
				if !allowed {
					t.Errorf("%s: %s calls %s: %s", f.fset.Position(found.Pos()), name, callName(found), waitsOf[callName(found)])
				}
			}
		}
	}
	for entry, why := range mayWait {
		if !used[entry] || why == "" {
			t.Errorf("mayWait has %s (%q), which calls nothing of it or has no reason", entry, why)
		}
	}
	if calls == 0 {
		t.Error("no test calls anything of it: the test looks in the wrong place")
	}
}

// waits returns the calls of waitsOf in a function but for those in virtual time, in an argument of synctest.Test, and for limits that are scaled.
func waits(body *ast.BlockStmt) (found []*ast.CallExpr) {
	ast.Inspect(body, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := callName(c)
		if name == "synctest.Test" {
			return false
		}
		if waitsOf[name] != "" && !isScaled(c) {
			found = append(found, c)
		}
		return true
	})
	return found
}

// isScaled reports whether a call's limit comes from package testwait.
func isScaled(c *ast.CallExpr) (scaled bool) {
	for _, a := range c.Args {
		ast.Inspect(a, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "testwait" {
					scaled = true
				}
			}
			return true
		})
	}
	return scaled
}

// callName returns what a call names, such as time.Sleep; empty: it is no function of a package.
func callName(c *ast.CallExpr) string {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}
