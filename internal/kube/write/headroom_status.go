// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// countEvery is how often the counters and the forecast of a status are written when nothing else of it has changed.
const countEvery = 5 * time.Minute

// WriteStatus writes the status of a Headroom if it differs from the stored one. If only counters and forecasts differ,
// it writes at most every five minutes.
func (x *Headrooms) WriteStatus(ctx context.Context, s *headroom.Status) error {
	cur, ok := x.c.Seen.Headrooms.Get(s.Spec.Key())
	if !ok || string(cur.UID) != s.Spec.UID {
		return nil
	}
	for attempt := 0; ; attempt++ {
		next := cur.DeepCopy()
		next.Status = headroomStatus(cur, s, x.now())
		if sameJSON(withoutCounters(&next.Status), withoutCounters(&cur.Status)) && x.now().Sub(x.counted[s.Spec.Key()]) < countEvery {
			return nil
		}
		var out dovetailv1alpha1.Headroom
		err := x.c.Dovetail.Put().Namespace(cur.Namespace).Resource("headrooms").Name(cur.Name).SubResource("status").Body(next).Do(ctx).Into(&out)
		switch {
		case err == nil:
			client.KeepWritten(&x.c.Seen.Headrooms, s.Spec.Key(), &out)
			x.counted[s.Spec.Key()] = x.now()
			return nil
		case apierrors.IsNotFound(err):
			return nil // it has gone meanwhile
		case !apierrors.IsConflict(err) || attempt > 0:
			return fmt.Errorf("write status of headroom %s: %w", s.Spec.Key(), err)
		}
		fresh := &dovetailv1alpha1.Headroom{}
		if err := x.c.Dovetail.Get().Namespace(cur.Namespace).Resource("headrooms").Name(cur.Name).Do(ctx).Into(fresh); err != nil {
			return fmt.Errorf("read headroom %s: %w", s.Spec.Key(), err)
		}
		if string(fresh.UID) != s.Spec.UID {
			return nil
		}
		cur = fresh
	}
}

// withoutCounters is a status without what changes by itself.
func withoutCounters(s *dovetailv1alpha1.HeadroomStatus) *dovetailv1alpha1.HeadroomStatus {
	out := s.DeepCopy()
	out.LastWeek, out.Days = dovetailv1alpha1.HeadroomRecord{}, nil
	if len(s.Days) > 0 { // hits and misses are told at once
		out.LastWeek.Hits, out.LastWeek.Misses = s.LastWeek.Hits, s.LastWeek.Misses
	}
	for i := range out.Workloads {
		out.Workloads[i].NextHour, out.Workloads[i].Spikes = nil, nil
	}
	if len(out.Workloads) == 0 {
		out.Workloads = nil
	}
	return out
}

// headroomStatus is the status of a Headroom in the API.
func headroomStatus(cur *dovetailv1alpha1.Headroom, s *headroom.Status, now time.Time) dovetailv1alpha1.HeadroomStatus {
	want := map[string]model.Condition{}
	for _, c := range s.Conditions() {
		status := "False"
		if c.True {
			status = "True"
		}
		want[c.Type] = model.Condition{Status: status, Reason: c.Reason, Message: c.Message}
	}
	list, _ := mergeConditions(cur.Status.Conditions, want, s.Spec.Generation, now)
	out := dovetailv1alpha1.HeadroomStatus{
		ObservedGeneration: s.Spec.Generation, Conditions: list, Held: int32(s.Output.Held), LeadSeconds: int64(s.Lead / time.Second),
		LastWeek: apiRecord(s.Memory.LastWeek()),
	}
	if s.Output.Priced {
		out.HeldDollarsPerHour = model.Dollars(s.Output.Micro)
	}
	if n := s.Output.Next; n != nil {
		out.NextWindow = &dovetailv1alpha1.HeadroomNextWindow{
			Name: n.Window, LaunchFrom: metav1.NewTime(n.LaunchFrom), Opens: metav1.NewTime(n.Opens), Closes: metav1.NewTime(n.Closes),
		}
	}
	for i := range s.Output.Holds {
		out.Workloads = append(out.Workloads, workloadStatus(&s.Output.Holds[i]))
	}
	for _, d := range s.Memory.Days {
		out.Days = append(out.Days, dovetailv1alpha1.HeadroomDay{Date: d.Date, HeadroomRecord: apiRecord(d.Record)})
	}
	return out
}

func workloadStatus(d *headroom.Hold) dovetailv1alpha1.HeadroomWorkloadStatus {
	out := dovetailv1alpha1.HeadroomWorkloadStatus{
		Group: d.Workload.Group, Kind: d.Workload.Kind, Name: d.Workload.Name, Replicas: int32(d.Replicas), Wanted: int32(d.Wanted), Held: int32(d.Held), Coming: int32(d.Coming), For: d.For,
	}
	for _, w := range d.Windows {
		out.Windows = append(out.Windows, dovetailv1alpha1.HeadroomWindowStatus{Name: w.Name, Opens: metav1.NewTime(w.Opens), Replicas: int32(w.Replicas)})
	}
	if d.NextHour == nil {
		return out
	}
	for _, n := range d.NextHour.Quarters {
		out.NextHour = append(out.NextHour, int32(n))
	}
	for _, e := range d.NextHour.Spikes {
		out.Spikes = append(out.Spikes, dovetailv1alpha1.HeadroomSpike{
			Pattern: e.Pattern.String(), From: metav1.Unix(60*e.From, 0), To: metav1.Unix(60*e.To, 0), Rise: int32(e.Rise), ChancePercent: int32(math.Round(100 * e.Soon)),
		})
	}
	return out
}

func apiRecord(r headroom.Record) dovetailv1alpha1.HeadroomRecord {
	return dovetailv1alpha1.HeadroomRecord{
		Hits: int32(r.Hits), Misses: int32(r.Misses), SparedPodMinutes: r.SparedSeconds / 60, WaitedPodMinutes: r.WaitedSeconds / 60,
		IdlePodMinutes: r.IdleSeconds / 60, Dollars: model.Dollars(r.Micro),
	}
}
