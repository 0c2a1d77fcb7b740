// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// planAhead is how far ahead calendars are priced.
const planAhead = 24 * time.Hour

// planHeadroom prints what the calendars of the Headrooms in files, or of a cluster, would cost in the next 24 hours by
// the catalog's prices. What is learned is not in it: it depends on the demand of the day.
func planHeadroom(c *cobra.Command, f planFlags, pol decide.Policy, m *manifests.Set, s *state.State, catalog string) error {
	list, err := headroomInputs(c.Context(), f, m, s)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	snap := s.Snapshot(now)
	p := &report.HeadroomPlan{Catalog: catalog, From: now, Rows: []report.HeadroomPeriod{}}
	for _, in := range list {
		h, problems := headroom.Compile(in.Spec, time.LoadLocation)
		problems = append(slices.Clone(in.Problems), problems...)
		var workloads []headroom.Workload
		for _, t := range in.Targets {
			w := headroom.Workload{WorkloadName: t.WorkloadName, Replicas: t.Replicas}
			if t.Class != nil {
				w.Requests, w.Priority = t.Class.Requests, t.Class.Priority
				w.Prices, _ = headroom.Machines(snap.Pools, snap.Daemons, t.Class)
			}
			workloads = append(workloads, w)
			problems = append(problems, h.CheckWorkload(&w)...)
		}
		for _, x := range problems {
			p.Problems = append(p.Problems, "Headroom "+in.Key()+": "+x.Error())
		}
		if len(problems) == 0 {
			rows := periods(h, workloads, now)
			priceRows(rows, in.Targets, snap, now, pol)
			p.Rows = append(p.Rows, reportRows(h, rows)...)
		}
	}
	for _, r := range p.Rows {
		p.TotalDollars += r.Dollars
	}
	write := func() error { return report.HeadroomPlanText(c.OutOrStdout(), p) }
	if isStructured(f.output) {
		write = func() error { return report.HeadroomJSON(c.OutOrStdout(), p) }
	}
	if err := write(); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if len(p.Problems) > 0 {
		return exit{1, errors.New("")}
	}
	return nil
}

// headroomInputs are the Headrooms of the files and, with --live, of the cluster.
func headroomInputs(ctx context.Context, f planFlags, m *manifests.Set, s *state.State) ([]headroom.Targeted, error) {
	list := m.Headrooms(s.Resources())
	if f.live {
		client, _, err := connectUser(ctx, f.clusterFlags, "plan")
		if err != nil {
			return nil, err
		}
		live, err := watch.ReadHeadrooms(ctx, client, &translate.Translator{Table: s.Resources(), Lookup: client.Seen.Lookup(), Defaults: m.Scheduler})
		if err != nil {
			return nil, err
		}
		list = append(list, live...)
	}
	if len(list) == 0 {
		return nil, errors.New("--headroom: the input has no Headroom")
	}
	slices.SortStableFunc(list, func(a, b headroom.Targeted) int { return cmp.Compare(a.Key(), b.Key()) })
	return list, nil
}

// period is a time in which what is held does not change.
type period struct {
	from, to time.Time
	held     []int // by workload
	windows  string
	limited  string
	nodes    int
	refused  int
	micro    int64
}

// periods plays the calendar of a Headroom through the next 24 hours, with the replicas that there are now.
func periods(h *headroom.Headroom, workloads []headroom.Workload, now time.Time) []period {
	spec := *h
	if spec.Mode == headroom.Off {
		return nil
	}
	var out []period
	var mem headroom.Memory
	for at := now; at.Before(now.Add(planAhead)); {
		o, next := headroom.Decide(&spec, headroom.Input{Now: at, Lead: headroom.DefaultLead, Workloads: workloads}, mem)
		mem = next
		to := o.Look
		if end := now.Add(planAhead); to.After(end) {
			to = end
		}
		p := period{from: at, to: to, limited: o.Limited}
		var windows []string
		for _, d := range o.Holds {
			p.held = append(p.held, d.Held)
			if d.For != "" && !slices.Contains(windows, d.For) {
				windows = append(windows, d.For)
			}
		}
		p.windows = strings.Join(windows, ", ")
		if n := len(out); n > 0 && out[n-1].to.Equal(at) && slices.Equal(out[n-1].held, p.held) && out[n-1].windows == p.windows {
			out[n-1].to = to
		} else if o.Held > 0 || o.Limited != "" {
			out = append(out, p)
		}
		at = o.Look
	}
	return out
}

// priceRows plans nodes for the pods of each period, as if there were none.
func priceRows(rows []period, targets []headroom.Target, snap *model.Snapshot, now time.Time, pol decide.Policy) {
	for i := range rows {
		r := &rows[i]
		if k := slices.IndexFunc(rows[:i], func(x period) bool { return slices.Equal(x.held, r.held) }); k >= 0 {
			r.nodes, r.micro, r.refused = rows[k].nodes, rows[k].micro, rows[k].refused
			continue
		}
		empty := *snap
		empty.Nodes, empty.Claims, empty.Pending, empty.Making, empty.Instances = nil, nil, nil, nil, nil
		for j, n := range r.held {
			for k := range n {
				name := fmt.Sprintf("%s-%06d", targets[j].Name, k)
				empty.Pending = append(empty.Pending, &model.Pod{
					Namespace: targets[j].Namespace, Name: name, UID: "headroom:" + targets[j].String() + "/" + name, Class: targets[j].Class,
					Owner: model.Owner{Kind: targets[j].Kind, Name: targets[j].Name, UID: "headroom:" + targets[j].String()}, Created: now, Unschedulable: now,
				})
			}
		}
		slices.SortFunc(empty.Pending, model.ComparePodKeys)
		out := decide.WhatIf(&empty, now, pol)
		if out.Result != nil {
			r.nodes = len(out.Result.New)
		}
		r.micro = out.Cost.NewMicroPerHour
		for _, d := range out.Pods {
			if len(d.Reasons) > 0 {
				r.refused++
			}
		}
	}
}

// reportRows hands periods over to report.
func reportRows(h *headroom.Headroom, rows []period) []report.HeadroomPeriod {
	var out []report.HeadroomPeriod
	for _, r := range rows {
		pods := 0
		for _, n := range r.held {
			pods += n
		}
		perHour := float64(r.micro) / 1e6
		out = append(out, report.HeadroomPeriod{
			Headroom: h.Key(), Mode: string(h.Mode), For: r.windows, From: r.from, To: r.to, Pods: pods, Nodes: r.nodes, Refused: r.refused,
			DollarsPerHour: perHour, Dollars: perHour * r.to.Sub(r.from).Hours(), Limited: r.limited,
		})
	}
	return out
}
