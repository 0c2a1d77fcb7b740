// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"fmt"
	"slices"
	"sort"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// limit takes from what is wanted what limits do not allow. Room of pods that come is held already. What a window asks
// for comes before what is forecast, and among those the first workload by name comes first.
func (h *Headroom) limit(out *Output, workloads []Workload) {
	left := h.Limits
	left.Resources = slices.Clone(left.Resources)
	for i := range out.Holds {
		if n := out.Holds[i].Coming; n > 0 {
			micro, _ := workloads[i].Cost(n) // 0 where the price is not known
			left.take(&workloads[i], n, micro)
		}
	}
	for _, forecasts := range []bool{false, true} {
		for i := range out.Holds {
			d := &out.Holds[i]
			if d.Wanted == 0 || (d.For == ForForecast) != forecasts {
				continue
			}
			n, by := left.allowed(&workloads[i], d.Wanted)
			d.Held = n
			d.Micro, _ = workloads[i].Cost(n)
			if n == 0 {
				d.Micro = 0
			}
			if n < d.Wanted && out.Limited == "" {
				out.Limited = fmt.Sprintf("%s allows capacity for %d of %s of %s. Raise it to hold more.", by, n, model.Count(d.Wanted, "pod"), d.Workload)
				if _, known := workloads[i].Cost(1); !known && h.Limits.MicroPerHour >= 0 {
					out.Limited = fmt.Sprintf("spec.limits.dollarsPerHour allows none of %s of %s, because no NodePool offers a node with a known price for them.", model.Count(d.Wanted, "pod"), d.Workload)
				}
			}
			left.take(&workloads[i], n, d.Micro)
			out.Held, out.Micro = out.Held+n, out.Micro+d.Micro
		}
	}
}

// allowed returns how many of n pods the limits allow, and the limit that allows fewest.
func (l *Limits) allowed(w *Workload, n int) (int, string) {
	by := ""
	atMost := func(most int, name string) {
		if most < n {
			n, by = max(0, most), name
		}
	}
	if l.Replicas >= 0 {
		atMost(l.Replicas, "spec.limits.replicas")
	}
	for _, r := range l.Resources {
		if need := w.Requests.At(r.Dim); need > 0 {
			atMost(int(max(0, r.Most)/need), "spec.limits.resources["+r.Name+"]")
		}
	}
	if l.MicroPerHour >= 0 {
		most := sort.Search(n, func(i int) bool {
			cost, ok := w.Cost(i + 1)
			return !ok || cost > l.MicroPerHour
		})
		atMost(most, "spec.limits.dollarsPerHour")
	}
	return n, by
}

// take counts n pods of a workload against the limits.
func (l *Limits) take(w *Workload, n int, micro int64) {
	if l.Replicas >= 0 {
		l.Replicas = max(0, l.Replicas-n)
	}
	for i := range l.Resources {
		l.Resources[i].Most -= int64(n) * w.Requests.At(l.Resources[i].Dim)
	}
	if l.MicroPerHour >= 0 {
		l.MicroPerHour = max(0, l.MicroPerHour-micro)
	}
}
