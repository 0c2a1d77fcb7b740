// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"log/slog"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// shop is a provider of which only the traits are known.
type shop struct {
	cloud.Provider
	traits cloud.Traits
}

func (s shop) Traits() cloud.Traits { return s.traits }

// The metrics of a controller can be registered with the labels of every provider's nodes, and say who leads.
func TestControllerMetrics(t *testing.T) {
	for _, traits := range []cloud.Traits{(&kwok.Provider{}).Traits(), (&aws.Provider{}).Traits()} {
		registry := newRegistry()
		ctl := controller.New(&controller.Controller{
			Provider: cloud.NewSetAside(shop{traits: traits}, cloud.Wall{}, setAsideFor), State: state.New(), Ledger: ledger.New(1),
			Metrics: metrics.New(registry, "test", traits), Log: slog.New(slog.DiscardHandler), Config: controller.DefaultConfig(), Policy: decide.DefaultPolicy(),
		})
		registerLeaderMetrics(registry, ctl, "the-lease", true)
		if len(traits.NodeLabels) == 0 {
			t.Errorf("%s: no labels of nodes", traits.Name)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatalf("%s: %v", traits.Name, err)
		}
		told := false
		for _, f := range families {
			if f.GetName() != "leader_election_master_status" {
				continue
			}
			told = true
			m := f.GetMetric()[0]
			if l := m.GetLabel()[0]; l.GetName() != "name" || l.GetValue() != "the-lease" || m.GetGauge().GetValue() != 0 {
				t.Errorf("%s: %v, want 0 for the-lease", traits.Name, m)
			}
		}
		if !told {
			t.Errorf("%s: nothing says who leads", traits.Name)
		}
	}
}
