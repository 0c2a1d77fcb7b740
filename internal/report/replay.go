// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dovetail-sh/dovetail/internal/replay"
)

// Replay is what a recording came to, and what it would have come to under other NodePools.
type Replay struct {
	Recording  string         `json:"recording"`
	From       time.Time      `json:"from"`
	To         time.Time      `json:"to"`
	Catalog    string         `json:"catalog"`
	PricesAsOf string         `json:"pricesAsOf,omitempty"`
	Partial    bool           `json:"partial,omitempty"` // the replay was interrupted: figures are up to the columns' own ends
	Problems   []string       `json:"problems,omitempty"`
	Assumed    []string       `json:"assumed,omitempty"`
	Columns    []ReplayColumn `json:"columns"`

	Check *ReplayCheck `json:"check,omitempty"` // with --check-decisions
}

// ReplayCheck compares what Dovetail decides on the recorded cluster at each instant with what was recorded next.
type ReplayCheck struct {
	Recorded int      `json:"recorded"` // launches, removals and evictions
	Same     int      `json:"same"`
	Added    int      `json:"added"` // decided for some seconds on end, and not recorded
	Missing  []string `json:"missing,omitempty"`
}

// ReplayColumn is one column of the table: the recording itself, or a replay.
type ReplayColumn struct {
	Name     string    `json:"name"`
	Measured bool      `json:"measured,omitempty"` // from the recording, not replayed
	Until    time.Time `json:"until"`

	Dollars       float64           `json:"dollars"`
	ListDollars   float64           `json:"listDollars"`
	UnpricedNodes int               `json:"unpricedNodes,omitempty"`
	Pods          int               `json:"pods"`
	Waiting       ReplayWaiting     `json:"waiting"`
	Evictions     int               `json:"evictions"`
	ByReason      map[string]int    `json:"evictionsByReason,omitempty"`
	NodesLaunched int               `json:"nodesLaunched"`
	NodeHours     float64           `json:"nodeHours"`
	Utilization   ReplayUtilization `json:"utilization"`
	Refused       map[string]int    `json:"podsRefusedByReason,omitempty"`
	NodePools     []ReplayPool      `json:"nodePools"`
	Days          []ReplayDay       `json:"days"`
	Hours         []ReplayHour      `json:"hours"`
	Notes         []string          `json:"notes,omitempty"`
	Decisions     *ReplayDecisions  `json:"decisions,omitempty"` // of the recording's own NodePools, if Dovetail ran the cluster
}

// ReplayDecisions compares launches, removals and evictions with the recorded ones.
type ReplayDecisions struct {
	Recorded int `json:"recorded"`
	Same     int `json:"same"`    // at the same time
	Shifted  int `json:"shifted"` // at another time: they depend on when, between two changes, something was seen
	Missing  int `json:"missing"`
	Added    int `json:"added"`
}

// ReplayWaiting is how long pods waited from when they could be scheduled until they were bound.
type ReplayWaiting struct {
	PodMinutes float64 `json:"podMinutes"`
	P50Seconds float64 `json:"p50Seconds"`
	P99Seconds float64 `json:"p99Seconds"`
	NeverBound int     `json:"neverBound"`
}

// ReplayUtilization is the share of allocatable resources that pods requested, from 0 to 1.
type ReplayUtilization struct {
	CPU    float64 `json:"cpu"`
	Memory float64 `json:"memory"`
}

// ReplayPool are the figures of a NodePool; an empty name: nodes without one.
type ReplayPool struct {
	Name          string  `json:"name"`
	Dollars       float64 `json:"dollars"`
	NodeHours     float64 `json:"nodeHours"`
	NodesLaunched int     `json:"nodesLaunched"`
	Evictions     int     `json:"evictions"`
}

// ReplayDay are the figures of one day in UTC.
type ReplayDay struct {
	Day           string  `json:"day"`
	Dollars       float64 `json:"dollars"`
	NodeHours     float64 `json:"nodeHours"`
	NodesLaunched int     `json:"nodesLaunched"`
	Evictions     int     `json:"evictions"`
	WaitedMinutes float64 `json:"podMinutesWaited"`
}

// ReplayHour are the figures of one hour.
type ReplayHour struct {
	Hour          time.Time `json:"hour"` // when it begins, in UTC
	Dollars       float64   `json:"dollars"`
	NodeHours     float64   `json:"nodeHours"`
	Evictions     int       `json:"evictions"`
	WaitedMinutes float64   `json:"podMinutesWaited"`
}

// ReplayColumnOf returns a column of figures.
func ReplayColumnOf(name string, f *replay.Figures) ReplayColumn {
	c := ReplayColumn{Name: name, Until: f.To, Dollars: dollarsOf(f.Micro), ListDollars: dollarsOf(f.ListMicro), UnpricedNodes: f.Unpriced, Pods: f.Pods,
		Waiting:   ReplayWaiting{rounded(f.Waiting.Minutes()), rounded(f.P50.Seconds()), rounded(f.P99.Seconds()), f.Unbound},
		Evictions: f.Evicted(), ByReason: f.Evictions, NodesLaunched: f.Launched, NodeHours: rounded(f.NodeHours),
		Utilization: ReplayUtilization{math.Round(f.CPU*1e4) / 1e4, math.Round(f.Memory*1e4) / 1e4}, Refused: f.Refused}
	for _, p := range f.Pools {
		c.NodePools = append(c.NodePools, ReplayPool{p.Pool, dollarsOf(p.Micro), rounded(p.NodeHours), p.Launched, p.Evictions})
	}
	for _, d := range f.Days {
		c.Days = append(c.Days, ReplayDay{d.Day, dollarsOf(d.Micro), rounded(d.NodeHours), d.Launched, d.Evictions, rounded(d.Waiting.Minutes())})
	}
	for _, h := range f.Hours {
		c.Hours = append(c.Hours, ReplayHour{h.Hour, dollarsOf(h.Micro), rounded(h.NodeHours), h.Evictions, rounded(h.Waiting.Minutes())})
	}
	return c
}

func dollarsOf(micro int64) float64 { return rounded(float64(micro) / 1e6) }

func rounded(x float64) float64 { return math.Round(x*1000) / 1000 }

// ReplayJSON writes a replay for programs.
func ReplayJSON(w io.Writer, r *Replay) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

const partialReplay = "PARTIAL RESULT: interrupted. See row Until for the end of each column; compare columns per node hour, not by totals."

func replaySpan(r *Replay) string {
	return fmt.Sprintf("%s to %s UTC (%s)", r.From.UTC().Format("2006-01-02 15:04"), r.To.UTC().Format("2006-01-02 15:04"), r.To.Sub(r.From).Round(time.Minute))
}

// ReplayText writes a replay for people: a table with a column each.
func ReplayText(w io.Writer, r *Replay) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s: %s\n", r.Recording, replaySpan(r))
	if r.Partial {
		fmt.Fprintln(out, partialReplay)
	}
	fmt.Fprintln(out)
	replayTable(out, r)
	if len(r.Columns) > 0 {
		for _, d := range replayDetails(r) {
			d.write(out)
		}
	}
	for _, x := range replaySections(r) {
		if x.text != "" {
			fmt.Fprintf(out, "\n%s\n", x.text)
		}
		if len(x.list) > 0 {
			fmt.Fprintf(out, "\n%s:\n", x.title)
			for _, line := range x.list {
				fmt.Fprintf(out, "  - %s\n", line)
			}
		}
	}
	fmt.Fprintf(out, "\nPrices: %s\n", replayPrices(r))
	_, err := io.WriteString(w, out.String())
	return err
}

// replaySection is what is said below the tables: a sentence, and a list with a title.
type replaySection struct {
	text, title string
	list        []string
}

func replaySections(r *Replay) (out []replaySection) {
	for i := range r.Columns {
		c := &r.Columns[i]
		x := replaySection{title: "Notes on " + c.Name, list: c.Notes}
		if d := c.Decisions; d != nil && d.Recorded > 0 {
			x.text = fmt.Sprintf("Of %d recorded launches, removals and evictions, %s makes %d at the same time and %d at another time; %d are missing, and %d are added.",
				d.Recorded, c.Name, d.Same, d.Shifted, d.Missing, d.Added)
		}
		out = append(out, x)
	}
	if k := r.Check; k != nil {
		out = append(out, replaySection{fmt.Sprintf("On the recorded cluster, this version of Dovetail reproduces %d of %d recorded launches, removals and evictions and makes %d others.", k.Same, k.Recorded, k.Added),
			"Not reproduced", k.Missing})
	}
	return append(out, replaySection{title: "Not read", list: r.Problems}, replaySection{title: "Assumed", list: r.Assumed})
}

func replayPrices(r *Replay) string {
	if r.PricesAsOf == "" {
		return r.Catalog
	}
	return r.Catalog + ", as of " + r.PricesAsOf
}

// replayLine is a row of the table of totals: a title, of a part of the row above it if isPart, and a cell for each column.
type replayLine struct {
	title  string
	isPart bool
	cells  []string
}

// replayLines returns the rows of the table of totals.
func replayLines(r *Replay) (out []replayLine) {
	add := func(isPart bool, title string, cell func(*ReplayColumn) string) {
		line := replayLine{title: title, isPart: isPart}
		for i := range r.Columns {
			line.cells = append(line.cells, cell(&r.Columns[i]))
		}
		out = append(out, line)
	}
	row := func(title string, cell func(*ReplayColumn) string) { add(false, title, cell) }
	part := func(title string, cell func(*ReplayColumn) string) { add(true, title, cell) }
	if r.Partial {
		row("Until", func(c *ReplayColumn) string { return c.Until.UTC().Format("01-02 15:04") })
	}
	row("Cost", func(c *ReplayColumn) string { return dollarText(c.Dollars) })
	part("on demand at list price", func(c *ReplayColumn) string { return dollarText(c.ListDollars) })
	row("Pods wanted", func(c *ReplayColumn) string { return fmt.Sprint(c.Pods) })
	row("Pod-minutes waiting", func(c *ReplayColumn) string { return fmt.Sprintf("%.1f", c.Waiting.PodMinutes) })
	part("p50", func(c *ReplayColumn) string { return secondsText(c.Waiting.P50Seconds) })
	part("p99", func(c *ReplayColumn) string { return secondsText(c.Waiting.P99Seconds) })
	if some(r, func(c *ReplayColumn) bool { return c.Waiting.NeverBound > 0 }) {
		part("pods never bound", func(c *ReplayColumn) string { return fmt.Sprint(c.Waiting.NeverBound) })
	}
	row("Evictions", func(c *ReplayColumn) string { return fmt.Sprint(c.Evictions) })
	for _, reason := range keysOf(r, func(c *ReplayColumn) map[string]int { return c.ByReason }) {
		part(reason, func(c *ReplayColumn) string { return fmt.Sprint(c.ByReason[reason]) })
	}
	row("Nodes launched", func(c *ReplayColumn) string { return fmt.Sprint(c.NodesLaunched) })
	row("Node hours", func(c *ReplayColumn) string { return fmt.Sprintf("%.1f", c.NodeHours) })
	row("CPU requested", func(c *ReplayColumn) string { return fmt.Sprintf("%.1f %%", c.Utilization.CPU*100) })
	row("Memory requested", func(c *ReplayColumn) string { return fmt.Sprintf("%.1f %%", c.Utilization.Memory*100) })
	if refused := keysOf(r, func(c *ReplayColumn) map[string]int { return c.Refused }); len(refused) > 0 {
		row("Unschedulable pods", func(*ReplayColumn) string { return "" })
		for _, code := range refused {
			part(code, func(c *ReplayColumn) string {
				if c.Measured {
					return "-"
				}
				return fmt.Sprint(c.Refused[code])
			})
		}
	}
	return out
}

func replayTable(out io.Writer, r *Replay) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	// Titles are aligned left by hand: a column of a tabwriter is aligned as all others are.
	row := func(title string, cells []string) { fmt.Fprintf(t, "%-28s\t%s\t\n", title, strings.Join(cells, "\t")) }
	var names []string
	for i := range r.Columns {
		names = append(names, strings.ToUpper(r.Columns[i].Name))
	}
	row("", names)
	for _, l := range replayLines(r) {
		if l.isPart {
			l.title = "  " + l.title
		}
		row(l.title, l.cells)
	}
}

func some(r *Replay, is func(*ReplayColumn) bool) bool {
	for i := range r.Columns {
		if is(&r.Columns[i]) {
			return true
		}
	}
	return false
}

// keysOf returns the keys that a map of any column has.
func keysOf(r *Replay, of func(*ReplayColumn) map[string]int) []string {
	all := map[string]bool{}
	for i := range r.Columns {
		for k := range of(&r.Columns[i]) {
			all[k] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func dollarText(d float64) string { return fmt.Sprintf("$%.2f", d) }

func secondsText(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// replayDetail is a table of what columns have of each NodePool, or of each day.
type replayDetail struct {
	head []string
	rows [][]string
}

// replayDetails returns the tables by NodePool and by day.
func replayDetails(r *Replay) []replayDetail {
	pools := replayRows(r, []string{"NODEPOOL", "COLUMN", "COST", "NODE HOURS", "LAUNCHED", "EVICTIONS"}, func(c *ReplayColumn) (rows [][]string) {
		for _, p := range c.NodePools {
			rows = append(rows, []string{cmp.Or(p.Name, "(none)"), c.Name, dollarText(p.Dollars), fmt.Sprintf("%.1f", p.NodeHours), fmt.Sprint(p.NodesLaunched), fmt.Sprint(p.Evictions)})
		}
		return rows
	})
	days := replayRows(r, []string{"DAY (UTC)", "COLUMN", "COST", "NODE HOURS", "LAUNCHED", "EVICTIONS", "POD-MINUTES WAITING"}, func(c *ReplayColumn) (rows [][]string) {
		for _, d := range c.Days {
			rows = append(rows, []string{d.Day, c.Name, dollarText(d.Dollars), fmt.Sprintf("%.1f", d.NodeHours), fmt.Sprint(d.NodesLaunched), fmt.Sprint(d.Evictions), fmt.Sprintf("%.1f", d.WaitedMinutes)})
		}
		return rows
	})
	return []replayDetail{pools, days}
}

// replayRows returns a table of the rows that columns have, by what they are about: their first cell.
func replayRows(r *Replay, head []string, rows func(*ReplayColumn) [][]string) replayDetail {
	out := replayDetail{head: head}
	for i := range r.Columns {
		out.rows = append(out.rows, rows(&r.Columns[i])...)
	}
	slices.SortStableFunc(out.rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return out
}

func (d *replayDetail) write(out io.Writer) {
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, strings.Join(d.head, "\t"))
	for _, row := range d.rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
}
