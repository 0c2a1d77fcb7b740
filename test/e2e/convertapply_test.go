// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"strings"
	"testing"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// What convert converts is written after its difference from what is there was shown, and only that; without
// a terminal nobody can be asked, and nothing is changed.
func TestConvertApplies(t *testing.T) {
	e := newEnv(t, shared(t), "converted")
	run := func(want int, nodes string, flags ...string) string {
		e.t.Helper()
		args := append([]string{"convert", "--from", "cluster-autoscaler", "--apply", "--kubeconfig", e.s.Kubeconfig(sandbox.Admin)}, flags...)
		status, out := e.dovetail(append(args, "--", "--cloud-provider=aws", "--nodes="+nodes)...)
		if status != want {
			e.t.Fatalf("status %d, want %d:\n%s", status, want, out)
		}
		return out
	}
	says := func(out string, words ...string) {
		e.t.Helper()
		for _, w := range words {
			if !strings.Contains(out, w) {
				e.t.Errorf("it does not say %q:\n%s", w, out)
			}
		}
	}
	maxSize := func() int32 {
		e.t.Helper()
		c, err := sandbox.Get[dovetailv1alpha1.NodeGroupClass](e.ctx, e.s, groupClasses+"/applied")
		e.must(err)
		return *c.Spec.SelectorTerms[0].MaxSize
	}
	e.others = append(e.others, "applied")
	says(run(0, "0:3:applied", "--yes"), "--- /dev/null", "+++ nodegroupclass/applied converted", "+  - maxSize: 3", "nodegroupclass/applied applied", "nodepool/applied applied")
	says(run(0, "0:3:applied", "--yes"), "nothing to change")
	says(run(2, "0:4:applied"), "is not a terminal", "--yes")
	if n := maxSize(); n != 3 {
		e.t.Errorf("maxSize is %d without a yes", n)
	}
	says(run(0, "0:4:applied", "--yes"), "--- nodegroupclass/applied in the cluster", "-  - maxSize: 3", "+  - maxSize: 4", "nodegroupclass/applied applied")
	if n := maxSize(); n != 4 {
		e.t.Errorf("maxSize is %d, want 4", n)
	}
	e.must(e.s.Delete(e.ctx, pools+"/applied", ""))
	e.must(e.s.Delete(e.ctx, groupClasses+"/applied", ""))
}
