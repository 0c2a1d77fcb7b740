// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/chaos"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Five components are taken away for a moment, one after the other, each in the middle of something else. Whichever it was, the cluster comes to
// rest after it is back, with nothing left over. `make chaos` draws a long series of these.
func TestChaos(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	sb, err := sandbox.Up(t.Context(), t.TempDir()+"/sb", "--boot", "500ms", "--pull", "0", "--replicas", "2", "--controller-arg", "--leader-elect-lease-duration="+pace(3*time.Second).String(),
		"--controller-arg", "--leader-elect-renew-deadline="+pace(2*time.Second).String(), "--controller-arg", "--leader-elect-retry-period=500ms")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unobserve(sb)
		if err := sb.Down(); err != nil {
			t.Error(err)
		}
	})
	if err := observe(sb); err != nil {
		t.Fatal(err)
	}
	s, err := chaos.Start(t.Context(), sb, time.Second, testwait.Scale(limit)) // `make chaos` says how soon, on a machine with nothing else to do
	if err != nil {
		t.Fatal(err)
	}
	faults := []chaos.Fault{
		{Change: chaos.Grow, After: 300 * time.Millisecond, Kind: chaos.Kill, Components: []string{"kube-apiserver"}, Replicas: []int{14, 8, 6}},
		{Change: chaos.Shrink, After: 3 * time.Second, Kind: chaos.Kill, Components: []string{"kube-controller-manager", "etcd"}, Replicas: []int{5, 3, 2}},
		{Change: chaos.Drift, After: time.Second, Kind: chaos.Stop, Components: []string{"machines", "kwok"}, Replicas: []int{5, 3, 2}},
		{Change: chaos.Sway, After: 2 * time.Second, Kind: chaos.Lease, Components: []string{sandbox.Controller}, Replicas: []int{2, 1, 1}},
		{Change: chaos.Grow, After: 200 * time.Millisecond, Kind: chaos.Slow, Components: []string{"kube-scheduler"}, Replicas: []int{9, 6, 5}},
	}
	for i, f := range faults {
		f.For = time.Second
		t.Run(fmt.Sprintf("%d-%s-%s", i+1, f.Kind, f.Components[0]), func(t *testing.T) {
			o, err := s.Inflict(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: at rest after %.1f s", f, o.SecondsToRest)
			if !o.Held {
				t.Errorf("does not hold: %s", strings.Join(o.Problems, "\n"))
				all, err := sb.Components(sandbox.Controller)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range slices.Backward(all) {
					t.Logf("end of the log of %s:\n%s", c.Name, sb.LogTail(c.Name, 40))
				}
			}
		})
	}
}
