// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// If capacity is missing, the answers about a pod and its NodePool say when the first offering that the pod can use is tried again.
func TestNextAttemptInShortage(t *testing.T) {
	for _, c := range []struct {
		name string
		zone string // that the pod selects
		cpu  int64
		want time.Duration // 0: unknown
	}{
		{"any zone", "", 1000, time.Minute},
		{"one zone", "z2", 1000, 2 * time.Minute},
		{"a zone of an unknown time", "z3", 1000, 0},
	} {
		s := waitingCluster()
		of := s.Pools[0].Types[0]
		of.Offerings = nil
		for i, zone := range []string{"z1", "z2", "z3"} {
			o := model.Offering{Zone: zone, CapacityType: model.OnDemand, PriceMicro: 100_000, Remaining: -1}
			if zone != "z3" {
				o.Until = epoch.Add(time.Duration(i+1) * time.Minute)
			}
			of.Offerings = append(of.Offerings, o)
		}
		small := *of
		small.Name, small.Labels, small.Allocatable = "s", model.Labels{model.LabelInstanceType: "s"}, model.Resources{500, 1 << 30, 0, 110}
		small.Offerings = []model.Offering{of.Offerings[0]}
		small.Offerings[0].Until = epoch.Add(time.Second) // too small for the pod
		s.Pools[0].Types = append(s.Pools[0].Types, &small)
		p := addPending(s, "a", c.cpu, true)
		if c.zone != "" {
			selecting(p, model.LabelZone, c.zone)
		}
		of1, err := Why(s, decide.Memory{}, epoch, decide.DefaultPolicy(), "nodepool/p")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []plan.Answer{whyPod(t, s, p), of1} {
			found := false
			for _, f := range a.Findings {
				if f.Reason.Code != plan.OutOfCapacity {
					continue
				}
				found = true
				if want := epoch.Add(c.want); c.want == 0 != f.Until.IsZero() || c.want > 0 && !f.Until.Equal(want) {
					t.Errorf("%s: %s: the next attempt is at %s, want after %s", c.name, a.Subject, f.Until, c.want)
				}
			}
			if !found {
				t.Errorf("%s: %s: no shortage in %+v", c.name, a.Subject, a.Findings)
			}
		}
	}
}
