// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"math"
	"strconv"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/headroom"
)

// Headroom translates a Headroom. Unreadable fields are listed in its Problems.
func (t *Translator) Headroom(h *dovetailv1alpha1.Headroom) headroom.Object {
	out := headroom.Object{Spec: headroom.Spec{
		Namespace: h.Namespace, Name: h.Name, UID: string(h.UID), Generation: h.Generation, Created: h.CreationTimestamp.Time,
		Mode: headroom.Mode(cmp.Or(h.Spec.Mode, dovetailv1alpha1.HeadroomRecommend)), Template: h.Spec.Target.PodTemplateRef != nil,
		Learned: headroom.Learned{Disabled: h.Spec.Learned.Disabled, TimeZone: h.Spec.Learned.TimeZone, WaitingCost: orNone(h.Spec.Learned.WaitingCost), IdleCost: orNone(h.Spec.Learned.IdleCost)},
		Limits:  headroom.Limits{Replicas: int(orNone(h.Spec.Limits.Replicas)), MicroPerHour: -1},
	}}
	for i := range h.Spec.Calendar {
		w := &h.Spec.Calendar[i]
		out.Calendar = append(out.Calendar, headroom.WindowSpec{
			Name: w.Name, Schedule: w.Schedule, TimeZone: w.TimeZone, Duration: w.Duration.Duration,
			Replicas: int(orNone(w.Replicas)), Percent: int(orNone(w.Percent)), AsLastTime: w.AsLastTime,
		})
	}
	amounts := t.Resources(h.Spec.Limits.Resources, 0)
	for _, name := range sortedNames(h.Spec.Limits.Resources) {
		dim := t.Table.Dim(string(name))
		out.Limits.Resources = append(out.Limits.Resources, headroom.Limit{Name: string(name), Dim: dim, Most: amounts.At(dim)})
	}
	if text := h.Spec.Limits.DollarsPerHour; text != "" {
		usd, err := strconv.ParseFloat(text, 64)
		if err != nil || usd < 0 || usd > 1e9 {
			out.Problems = append(out.Problems, headroom.Problem{Reason: headroom.InvalidSpec, Field: "spec.limits.dollarsPerHour", Value: strconv.Quote(text),
				Why: "it is not a number of dollars", Remedy: `Give one such as "12.50"`})
		} else {
			out.Limits.MicroPerHour = int64(math.Round(usd * 1e6))
		}
	}
	out.Kept = keptMemory(h)
	return out
}

// orNone returns a number, and -1 for none.
func orNone[T int32 | int64](n *T) int64 {
	if n == nil {
		return -1
	}
	return int64(*n)
}

// keptMemory returns the state of the last evaluation stored in a status.
func keptMemory(h *dovetailv1alpha1.Headroom) headroom.Memory {
	out := headroom.Memory{Workloads: map[headroom.WorkloadName]headroom.WorkloadMemory{}}
	for _, d := range h.Status.Days {
		usd, err := strconv.ParseFloat(d.Dollars, 64)
		if err != nil {
			usd = 0 // someone else wrote it
		}
		out.Days = append(out.Days, headroom.Day{Date: d.Date, Record: headroom.Record{
			Hits: int(d.Hits), Misses: int(d.Misses), SparedSeconds: 60 * d.SparedPodMinutes, WaitedSeconds: 60 * d.WaitedPodMinutes,
			IdleSeconds: 60 * d.IdlePodMinutes, Micro: int64(math.Round(usd * 1e6)),
		}})
	}
	for _, w := range h.Status.Workloads {
		var windows []headroom.PreparedWindow
		for _, p := range w.Windows {
			windows = append(windows, headroom.PreparedWindow{Name: p.Name, Opens: p.Opens.Time, Replicas: int(p.Replicas)})
		}
		name := headroom.WorkloadName{Namespace: h.Namespace, Kind: w.Kind, Name: w.Name, Group: w.Group}
		out.Workloads[name] = headroom.Restored(int(w.Replicas), int(w.Held), int(w.Coming), 0, windows)
	}
	return out
}
