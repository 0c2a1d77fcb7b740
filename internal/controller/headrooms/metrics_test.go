// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headrooms

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/headroom"
)

// The series of a Headroom say what is held, what was forecast and what came of it; one that only recommends holds nothing.
func TestHeadroomMetrics(t *testing.T) {
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	status := func(name string, mode headroom.Mode) *headroom.Status {
		return &headroom.Status{
			Spec: &headroom.Spec{Namespace: "shop", Name: name, Mode: mode}, Lead: 40 * time.Second,
			Output: headroom.Output{Holds: []headroom.Hold{{Wanted: 12, Held: 10, Rise: forecast.Forecast{Rise: 7}}}, Held: 10, Micro: 1_500_000, Priced: true, Limited: "Limits keep it."},
			Memory: headroom.Memory{At: at, Days: []headroom.Day{{Date: "2026-03-01", Record: headroom.Record{Hits: 90, Misses: 10, SparedSeconds: 3600, WaitedSeconds: 400, IdleSeconds: 7200, Micro: 4_000_000}}}},
		}
	}
	k := &Keeper{statuses: map[string]*headroom.Status{"shop/a": status("a", headroom.Active), "shop/r": status("r", headroom.Recommend)}}
	const want = `
# HELP dovetail_headroom_cost_usd_per_hour Cost of the nodes for held capacity in dollars per hour. Unknown prices are not counted.
# TYPE dovetail_headroom_cost_usd_per_hour gauge
dovetail_headroom_cost_usd_per_hour{headroom="a",namespace="shop"} 1.5
dovetail_headroom_cost_usd_per_hour{headroom="r",namespace="shop"} 0
# HELP dovetail_headroom_forecast_pods Forecast rise in pods within a node's startup time.
# TYPE dovetail_headroom_forecast_pods gauge
dovetail_headroom_forecast_pods{headroom="a",namespace="shop"} 7
dovetail_headroom_forecast_pods{headroom="r",namespace="shop"} 7
# HELP dovetail_headroom_held_pods Pods for which capacity is held; 0 in modes Recommend and Off.
# TYPE dovetail_headroom_held_pods gauge
dovetail_headroom_held_pods{headroom="a",namespace="shop"} 10
dovetail_headroom_held_pods{headroom="r",namespace="shop"} 0
# HELP dovetail_headroom_pods_last_week Pods added by spikes in the last seven days, by result: hit (capacity was held) or miss.
# TYPE dovetail_headroom_pods_last_week gauge
dovetail_headroom_pods_last_week{headroom="a",namespace="shop",result="hit"} 90
dovetail_headroom_pods_last_week{headroom="a",namespace="shop",result="miss"} 10
dovetail_headroom_pods_last_week{headroom="r",namespace="shop",result="hit"} 90
dovetail_headroom_pods_last_week{headroom="r",namespace="shop",result="miss"} 10
# HELP dovetail_headroom_wanted_pods Additional pods for which capacity is wanted.
# TYPE dovetail_headroom_wanted_pods gauge
dovetail_headroom_wanted_pods{headroom="a",namespace="shop"} 12
dovetail_headroom_wanted_pods{headroom="r",namespace="shop"} 12
`
	asked := map[string]bool{"cost_usd_per_hour": true, "forecast_pods": true, "held_pods": true, "pods_last_week": true, "wanted_pods": true}
	families, err := registryOf(k).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range families {
		if asked[strings.TrimPrefix(f.GetName(), "dovetail_headroom_")] {
			if _, err := expfmt.MetricFamilyToText(&got, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got.String() != strings.TrimPrefix(want, "\n") {
		t.Errorf("the series are\n%s\nwant\n%s", got.String(), want)
	}
}

// registryOf has the metrics of a keeper alone.
func registryOf(k *Keeper) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewMetrics(k))
	return registry
}

// However many Headrooms there are, the number of series is bounded, and none of what they hold is left out of the sum.
func TestHeadroomMetricsAreBounded(t *testing.T) {
	k := &Keeper{statuses: map[string]*headroom.Status{}}
	for i := range mostHeadroomsMeasured + 50 {
		name := fmt.Sprintf("h-%03d", i)
		k.statuses["shop/"+name] = &headroom.Status{Spec: &headroom.Spec{Namespace: "shop", Name: name, Mode: headroom.Active}, Output: headroom.Output{Held: 2}}
	}
	families, err := registryOf(k).Gather()
	if err != nil {
		t.Fatal(err)
	}
	held := 0.0
	for _, f := range families {
		if f.GetName() == "dovetail_headroom_held_pods" {
			if n := len(f.GetMetric()); n != mostHeadroomsMeasured+1 {
				t.Errorf("%d series of 250 Headrooms, want %d", n, mostHeadroomsMeasured+1)
			}
			for _, x := range f.GetMetric() {
				held += x.GetGauge().GetValue()
			}
		}
	}
	if held != 500 {
		t.Errorf("room for %v pods is held in sum, want 500", held)
	}
}
