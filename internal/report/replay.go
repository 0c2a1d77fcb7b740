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

// ReplayText writes a replay for people: a table with a column each.
func ReplayText(w io.Writer, r *Replay) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s: %s to %s UTC (%s)\n", r.Recording, r.From.UTC().Format("2006-01-02 15:04"), r.To.UTC().Format("2006-01-02 15:04"), r.To.Sub(r.From).Round(time.Minute))
	if r.Partial {
		fmt.Fprintf(out, "PARTIAL RESULT: interrupted. Columns that end early say until when; compare them per node hour, not by their sums.\n")
	}
	fmt.Fprintln(out)
	replayTable(out, r)
	if len(r.Columns) > 0 {
		replayPools(out, r)
		replayDays(out, r)
	}
	section := func(title string, list []string) {
		if len(list) > 0 {
			fmt.Fprintf(out, "\n%s:\n", title)
			for _, x := range list {
				fmt.Fprintf(out, "  - %s\n", x)
			}
		}
	}
	for _, c := range r.Columns {
		if d := c.Decisions; d != nil && d.Recorded > 0 {
			fmt.Fprintf(out, "\nOf %d recorded launches, removals and evictions, %s makes %d at the same time and %d at another time; %d are missing, and %d are added.\n",
				d.Recorded, c.Name, d.Same, d.Shifted, d.Missing, d.Added)
		}
		section("Notes on "+c.Name, c.Notes)
	}
	if k := r.Check; k != nil {
		fmt.Fprintf(out, "\nOn the recorded cluster, this version of Dovetail makes %d of %d recorded launches, removals and evictions again, and %d others.\n", k.Same, k.Recorded, k.Added)
		section("Not made again", k.Missing)
	}
	section("Not read", r.Problems)
	section("Assumed", r.Assumed)
	fmt.Fprintf(out, "\nPrices: %s", r.Catalog)
	if r.PricesAsOf != "" {
		fmt.Fprintf(out, ", as of %s", r.PricesAsOf)
	}
	fmt.Fprintln(out)
	_, err := io.WriteString(w, out.String())
	return err
}

func replayTable(out io.Writer, r *Replay) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer t.Flush()
	row := func(title string, cell func(*ReplayColumn) string) {
		fmt.Fprint(t, title)
		for i := range r.Columns {
			fmt.Fprint(t, "\t", cell(&r.Columns[i]))
		}
		fmt.Fprintln(t, "\t")
	}
	// Titles are aligned left by hand: a column of a tabwriter is aligned as all others are.
	title := func(s string) string { return fmt.Sprintf("%-28s", s) }
	row(title(""), func(c *ReplayColumn) string { return strings.ToUpper(c.Name) })
	if r.Partial {
		row(title("Until"), func(c *ReplayColumn) string { return c.Until.UTC().Format("01-02 15:04") })
	}
	row(title("Cost"), func(c *ReplayColumn) string { return dollarText(c.Dollars) })
	row(title("  on demand at list price"), func(c *ReplayColumn) string { return dollarText(c.ListDollars) })
	row(title("Pods wanted"), func(c *ReplayColumn) string { return fmt.Sprint(c.Pods) })
	row(title("Pod-minutes waiting"), func(c *ReplayColumn) string { return fmt.Sprintf("%.1f", c.Waiting.PodMinutes) })
	row(title("  p50"), func(c *ReplayColumn) string { return secondsText(c.Waiting.P50Seconds) })
	row(title("  p99"), func(c *ReplayColumn) string { return secondsText(c.Waiting.P99Seconds) })
	if some(r, func(c *ReplayColumn) bool { return c.Waiting.NeverBound > 0 }) {
		row(title("  pods never bound"), func(c *ReplayColumn) string { return fmt.Sprint(c.Waiting.NeverBound) })
	}
	row(title("Evictions"), func(c *ReplayColumn) string { return fmt.Sprint(c.Evictions) })
	for _, reason := range keysOf(r, func(c *ReplayColumn) map[string]int { return c.ByReason }) {
		row(title("  "+reason), func(c *ReplayColumn) string { return fmt.Sprint(c.ByReason[reason]) })
	}
	row(title("Nodes launched"), func(c *ReplayColumn) string { return fmt.Sprint(c.NodesLaunched) })
	row(title("Node hours"), func(c *ReplayColumn) string { return fmt.Sprintf("%.1f", c.NodeHours) })
	row(title("CPU requested"), func(c *ReplayColumn) string { return fmt.Sprintf("%.1f %%", c.Utilization.CPU*100) })
	row(title("Memory requested"), func(c *ReplayColumn) string { return fmt.Sprintf("%.1f %%", c.Utilization.Memory*100) })
	if refused := keysOf(r, func(c *ReplayColumn) map[string]int { return c.Refused }); len(refused) > 0 {
		row(title("Pods without a NodePool for"), func(*ReplayColumn) string { return "" })
		for _, code := range refused {
			row(title("  "+code), func(c *ReplayColumn) string {
				if c.Measured {
					return "-"
				}
				return fmt.Sprint(c.Refused[code])
			})
		}
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

// replayPools writes a table of NodePools.
func replayPools(out io.Writer, r *Replay) {
	replayRows(out, r, "NODEPOOL\tCOLUMN\tCOST\tNODE HOURS\tLAUNCHED\tEVICTIONS", func(c *ReplayColumn) (rows []replayRow) {
		for _, p := range c.NodePools {
			rows = append(rows, replayRow{p.Name, fmt.Sprintf("%s\t%.1f\t%d\t%d", dollarText(p.Dollars), p.NodeHours, p.NodesLaunched, p.Evictions)})
		}
		return rows
	})
}

// replayDays writes a table of days.
func replayDays(out io.Writer, r *Replay) {
	replayRows(out, r, "DAY (UTC)\tCOLUMN\tCOST\tNODE HOURS\tLAUNCHED\tEVICTIONS\tPOD-MINUTES WAITING", func(c *ReplayColumn) (rows []replayRow) {
		for _, d := range c.Days {
			rows = append(rows, replayRow{d.Day, fmt.Sprintf("%s\t%.1f\t%d\t%d\t%.1f", dollarText(d.Dollars), d.NodeHours, d.NodesLaunched, d.Evictions, d.WaitedMinutes)})
		}
		return rows
	})
}

// replayRow is a row of a table: what it is about, and its cells.
type replayRow struct{ of, cells string }

// replayRows writes a table of the rows that columns have, by what they are about.
func replayRows(out io.Writer, r *Replay, head string, rows func(*ReplayColumn) []replayRow) {
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintln(t, head)
	lines := map[string][]string{}
	for i := range r.Columns {
		for _, row := range rows(&r.Columns[i]) {
			lines[row.of] = append(lines[row.of], r.Columns[i].Name+"\t"+row.cells)
		}
	}
	for _, of := range slices.Sorted(maps.Keys(lines)) {
		for _, line := range lines[of] {
			fmt.Fprintf(t, "%s\t%s\n", cmp.Or(of, "(none)"), line)
		}
	}
}
