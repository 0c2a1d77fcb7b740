// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

func byText[R any](of func(*R) string) func(a, b *R) int {
	return func(a, b *R) int { return cmp.Compare(of(a), of(b)) }
}

func by[R any, N int | int64 | time.Duration](of func(*R) N) func(a, b *R) int {
	return func(a, b *R) int { return cmp.Compare(of(a), of(b)) }
}

// fillTone marks a share that leaves hardly anything, or that wastes most.
func fillTone(part, whole int64) Tone {
	switch s := share(part, whole); {
	case s < 0:
		return Dim
	case s >= 900:
		return Good
	case s < 250:
		return Warn
	}
	return Plain
}

func stateTone(s string) Tone {
	switch s {
	case Ready:
		return Good
	case NotReady:
		return Bad
	}
	return Warn
}

// kindless is a pool's name without its kind, where that is the ordinary one.
func kindless(pool string) string { return clean(strings.TrimPrefix(pool, "nodepool/")) }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return clean(s)
}

func priceText(micro int64, modelled bool) string {
	if modelled {
		return "~" + model.ShortDollars(micro)
	}
	return model.ShortDollars(micro)
}

// nodeColumns are those of the nodes' table; use is shown where metrics-server says it.
func nodeColumns(useKnown bool) []column[NodeRow] {
	used := func(part, whole func(*NodeRow) int64) func(*NodeRow) string {
		return func(r *NodeRow) string {
			if !r.UseKnown {
				return "-"
			}
			return percent(part(r), whole(r))
		}
	}
	cpu, memory := func(r *NodeRow) int64 { return r.Allocatable.CPU }, func(r *NodeRow) int64 { return r.Allocatable.Memory }
	out := []column[NodeRow]{
		{title: "NODE", least: 15, shrinks: 2, middle: true, text: func(r *NodeRow) string { return clean(r.Name) }, sortBy: byText(func(r *NodeRow) string { return r.Name }),
			tone: func(r *NodeRow) Tone {
				if r.IsClaim {
					return Dim
				}
				return Plain
			}},
		{title: "CPU", right: true, least: 4, text: func(r *NodeRow) string { return percent(r.Requested.CPU, r.Allocatable.CPU) },
			tone:   func(r *NodeRow) Tone { return fillTone(r.Requested.CPU, r.Allocatable.CPU) },
			sortBy: by(func(r *NodeRow) int64 { return share(r.Requested.CPU, r.Allocatable.CPU) })},
		{title: "MEM", right: true, least: 4, text: func(r *NodeRow) string { return percent(r.Requested.Memory, r.Allocatable.Memory) },
			tone:   func(r *NodeRow) Tone { return fillTone(r.Requested.Memory, r.Allocatable.Memory) },
			sortBy: by(func(r *NodeRow) int64 { return share(r.Requested.Memory, r.Allocatable.Memory) })},
	}
	out = append(out, column[NodeRow]{title: "REQUESTED", drop: extra, text: func(r *NodeRow) string { return bars(r.Requested, r.Allocatable) }, tone: func(*NodeRow) Tone { return Dim }})
	if useKnown {
		out = append(out,
			column[NodeRow]{title: "CPU USE", right: true, drop: 60, text: used(func(r *NodeRow) int64 { return r.Used.CPU }, cpu),
				sortBy: by(func(r *NodeRow) int64 { return share(r.Used.CPU, r.Allocatable.CPU) })},
			column[NodeRow]{title: "MEM USE", right: true, drop: 61, text: used(func(r *NodeRow) int64 { return r.Used.Memory }, memory),
				sortBy: by(func(r *NodeRow) int64 { return share(r.Used.Memory, r.Allocatable.Memory) })})
	}
	return append(out,
		column[NodeRow]{title: "PODS", right: true, drop: 70, text: func(r *NodeRow) string { return strconv.FormatInt(r.Pods, 10) }, sortBy: by(func(r *NodeRow) int64 { return r.Pods })},
		column[NodeRow]{title: "TYPE", drop: 40, text: func(r *NodeRow) string { return orDash(r.Type) }, sortBy: byText(func(r *NodeRow) string { return r.Type })},
		column[NodeRow]{title: "ZONE", drop: 80, text: func(r *NodeRow) string { return orDash(r.Zone) }, sortBy: byText(func(r *NodeRow) string { return r.Zone })},
		column[NodeRow]{title: "CAPACITY", drop: 50, text: func(r *NodeRow) string { return orDash(r.CapacityType) }, sortBy: byText(func(r *NodeRow) string { return r.CapacityType })},
		column[NodeRow]{title: "POOL", drop: 85, text: func(r *NodeRow) string { return orDash(kindless(r.Pool)) }, sortBy: byText(func(r *NodeRow) string { return r.Pool })},
		column[NodeRow]{title: "AGE", right: true, drop: 75, least: 4, text: func(r *NodeRow) string { return ageText(r.Age) }, sortBy: by(func(r *NodeRow) time.Duration { return r.Age })},
		column[NodeRow]{title: "$/H", right: true, drop: 30, least: 7, text: func(r *NodeRow) string {
			if !r.Priced {
				return "-"
			}
			return priceText(r.Price.Micro, r.Price.Modelled)
		}, sortBy: by(func(r *NodeRow) int64 { return r.Price.Micro })},
		column[NodeRow]{title: "STATE", least: 5, text: func(r *NodeRow) string { return r.State }, tone: func(r *NodeRow) Tone { return stateTone(r.State) },
			sortBy: byText(func(r *NodeRow) string { return r.State })},
		column[NodeRow]{title: "DOING", drop: 20, least: 12, shrinks: 1, text: func(r *NodeRow) string { return r.Doing }, sortBy: byText(func(r *NodeRow) string { return r.Doing })},
	)
}

// bars draws the requested shares of CPU and memory, eight cells each.
func bars(requested, allocatable Amounts) string {
	const cells = 8
	bar := func(part, whole int64) string {
		full := max(0, min(cells, int(share(part, whole)*cells+500)/1000))
		return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
	}
	return bar(requested.CPU, allocatable.CPU) + " " + bar(requested.Memory, allocatable.Memory)
}

func poolColumns() []column[PoolRow] {
	return []column[PoolRow]{
		{title: "POOL", least: 8, shrinks: 2, middle: true, text: func(r *PoolRow) string {
			if r.Key == "" {
				return "(none)"
			}
			return kindless(r.Key)
		}, sortBy: byText(func(r *PoolRow) string { return r.Key })},
		{title: "NODES", right: true, text: func(r *PoolRow) string { return strconv.Itoa(r.Nodes) }, sortBy: by(func(r *PoolRow) int { return r.Nodes })},
		{title: "NOT READY", right: true, drop: 40, text: func(r *PoolRow) string {
			if r.NotReady == 0 {
				return ""
			}
			return strconv.Itoa(r.NotReady)
		}, tone: func(*PoolRow) Tone { return Warn }, sortBy: by(func(r *PoolRow) int { return r.NotReady })},
		{title: "CPU", right: true, least: 4, text: func(r *PoolRow) string { return percent(r.Requested.CPU, r.Allocatable.CPU) },
			tone:   func(r *PoolRow) Tone { return fillTone(r.Requested.CPU, r.Allocatable.CPU) },
			sortBy: by(func(r *PoolRow) int64 { return share(r.Requested.CPU, r.Allocatable.CPU) })},
		{title: "OF CORES", right: true, drop: 50, text: func(r *PoolRow) string { return cores(r.Allocatable.CPU) }, sortBy: by(func(r *PoolRow) int64 { return r.Allocatable.CPU })},
		{title: "MEM", right: true, least: 4, text: func(r *PoolRow) string { return percent(r.Requested.Memory, r.Allocatable.Memory) },
			tone:   func(r *PoolRow) Tone { return fillTone(r.Requested.Memory, r.Allocatable.Memory) },
			sortBy: by(func(r *PoolRow) int64 { return share(r.Requested.Memory, r.Allocatable.Memory) })},
		{title: "OF", right: true, drop: 50, text: func(r *PoolRow) string { return bytesText(r.Allocatable.Memory) }, sortBy: by(func(r *PoolRow) int64 { return r.Allocatable.Memory })},
		{title: "$/H", right: true, drop: 20, least: 7, text: func(r *PoolRow) string {
			if !r.isPriced() {
				return "-"
			}
			return priceText(r.Micro, r.modelled)
		}, sortBy: by(func(r *PoolRow) int64 { return r.Micro })},
		{title: "LIMITS", drop: 60, text: func(r *PoolRow) string { return orDash(r.Limits) }},
		{title: "STATE", least: 5, shrinks: 1, text: func(r *PoolRow) string { return orDash(r.stateText()) }, tone: func(r *PoolRow) Tone {
			if r.State == "" {
				return Dim
			}
			return stateTone(r.State)
		}, sortBy: byText(func(r *PoolRow) string { return r.State })},
	}
}

func causeColumns() []column[CauseRow] {
	return []column[CauseRow]{
		{title: "PODS", right: true, least: 4, text: func(r *CauseRow) string { return strconv.Itoa(len(r.Pods)) }, sortBy: by(func(r *CauseRow) int { return len(r.Pods) })},
		{title: "OLDEST", right: true, drop: 30, text: func(r *CauseRow) string { return ageText(r.Oldest) }, sortBy: by(func(r *CauseRow) time.Duration { return r.Oldest })},
		{title: "CORES", right: true, drop: 50, text: func(r *CauseRow) string { return cores(r.Requests.CPU) }, sortBy: by(func(r *CauseRow) int64 { return r.Requests.CPU })},
		{title: "MEM", right: true, drop: 51, text: func(r *CauseRow) string { return bytesText(r.Requests.Memory) }, sortBy: by(func(r *CauseRow) int64 { return r.Requests.Memory })},
		{title: "WHY", least: 16, shrinks: 2, text: func(r *CauseRow) string {
			if r.SaidBy != "" && r.SaidBy != Dovetail {
				return r.SaidBy + ": " + r.Said
			}
			return r.Why()
		}, sortBy: byText((*CauseRow).Why)},
		{title: "SCHEDULER", drop: extra, least: 16, shrinks: 1, text: func(r *CauseRow) string {
			if r.Said == "" {
				return "-"
			}
			return r.Cause
		}, sortBy: byText(func(r *CauseRow) string { return r.Cause })},
	}
}

func decisionColumns(now time.Time) []column[Decision] {
	return []column[Decision]{
		{title: "AGO", right: true, least: 4, text: func(d *Decision) string { return ageText(now.Sub(d.LastAt())) },
			sortBy: func(a, b *Decision) int { return b.LastAt().Compare(a.LastAt()) }},
		{title: "BY", drop: 50, text: func(d *Decision) string { return clean(d.By) }, sortBy: byText(func(d *Decision) string { return d.By })},
		{title: "WHAT", least: 6, text: func(d *Decision) string {
			if d.Count > 1 {
				return clean(d.Kind) + " ×" + strconv.Itoa(d.Count)
			}
			return clean(d.Kind)
		}, tone: func(d *Decision) Tone {
			if d.Warning {
				return Warn
			}
			return Plain
		}, sortBy: byText(func(d *Decision) string { return d.Kind })},
		{title: "OBJECT", least: 10, shrinks: 2, middle: true, text: func(d *Decision) string { return clean(d.Subject) }, sortBy: byText(func(d *Decision) string { return d.Subject })},
		{title: "WHY", drop: 40, least: 16, shrinks: 1, text: func(d *Decision) string { return clean(d.Text) }, sortBy: byText(func(d *Decision) string { return d.Text })},
	}
}

// stateText is the state of a pool, and whose it is where pools are divided.
func (r *PoolRow) stateText() string {
	if r.Takeover == "" {
		return r.State
	}
	return r.State + "; " + r.Takeover
}
