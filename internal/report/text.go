// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// How much of a long list is written; the JSON has all of it.
const (
	mostWorkloads = 6
	mostNodes     = 20
	mostRefused   = 20
	mostPools     = 5
	mostKinds     = 6
)

// Text writes a plan for people.
func Text(w io.Writer, p *Plan) error {
	t := &text{p: p}
	t.launch()
	t.existing()
	t.decisions("Unschedulable", p.Refused)
	t.decisions("Not planned", p.Ignored)
	if len(p.New)+len(p.Existing)+len(p.Refused)+len(p.Ignored)+len(p.NotCreated)+len(p.Lacking) == 0 {
		t.line("No pod is waiting for a node.")
		t.line("")
	}
	t.notCreated()
	t.lacking()
	t.summary()
	_, err := w.Write(t.b.Bytes())
	return err
}

type text struct {
	p *Plan
	b bytes.Buffer
}

func (t *text) line(format string, args ...any) {
	fmt.Fprintf(&t.b, format+"\n", args...)
}

// row is machines that differ only in what lands on them.
type row struct {
	first    *Machine
	machines int
	total    int64
	requests model.Resources
	pods     []*model.Pod
}

func (t *text) rows() []*row {
	at := map[string]*row{}
	var out []*row
	for i := range t.p.New {
		m := &t.p.New[i]
		k := fmt.Sprintf("%s\x00%s\x00%s\x00%s\x00%d\x00%d\x00%s\x00%s", m.Pool, m.Type.Name, m.Offering.Zone, m.Offering.CapacityType, m.PriceMicro, len(m.Choices),
			strings.Join(m.Zones, " "), m.Offering.PriceOverlay)
		r := at[k]
		if r == nil {
			r = &row{first: m}
			at[k] = r
			out = append(out, r)
		}
		r.machines++
		r.total += m.PriceMicro
		r.requests = r.requests.AddInto(m.Requests, 1)
		r.pods = append(r.pods, m.Pods...)
	}
	slices.SortStableFunc(out, func(a, b *row) int {
		return cmp.Or(strings.Compare(a.first.Pool, b.first.Pool), cmp.Compare(b.total, a.total))
	})
	return out
}

func (t *text) launch() {
	if len(t.p.New) == 0 {
		return
	}
	pods, modelled := 0, false
	for i := range t.p.New {
		pods += len(t.p.New[i].Pods)
		modelled = modelled || t.p.New[i].Offering.Modelled
	}
	t.line("To launch: %s for %s, %s/h", model.Count(len(t.p.New), "node"), model.Count(pods, "pod"), price(t.p.Cost.NewMicroPerHour, modelled))
	t.line("")
	rows := t.rows()
	table := newTable("COUNT>", "TYPE", "ZONE", "CAPACITY", "EACH/H>", "TOTAL/H>", "CPU>", "MEMORY>", "PODS>", "NODEPOOL")
	for _, r := range rows {
		m := r.first
		zone := m.Offering.Zone
		if n := len(m.Zones) - 1; n > 0 {
			zone += " or " + model.Count(n, "other")
		}
		use := func(d model.Dim) string {
			return percent(r.requests.At(d), m.Type.Allocatable.At(d)*int64(r.machines))
		}
		table.add(strconv.Itoa(r.machines), m.Type.Name, zone, m.Offering.CapacityType, price(m.PriceMicro, m.Offering.Modelled),
			price(r.total, m.Offering.Modelled), use(model.CPU), use(model.Memory), strconv.Itoa(len(r.pods)), m.Pool)
		what := list(byWorkload(r.pods), mostWorkloads)
		if m.Static {
			what = strings.TrimSuffix("spec.replicas of the NodePool; "+what, "; ")
		}
		if n := len(m.Choices) - 1; n > 0 {
			what += "; " + model.Count(n, "other instance type") + " would fit"
		}
		table.note("       " + what)
		if o := m.Offering.PriceOverlay; o != "" {
			table.note("       price set by NodeOverlay " + o + "; the list price is " + usd(m.Offering.ListPriceMicro) + "/h")
		}
		if o := m.Type.CapacityOverlays; len(o) > 0 {
			table.note("       resources added by NodeOverlay " + strings.Join(o, ", "))
		}
	}
	table.write(&t.b)
	t.line("")
	if modelled {
		t.line("~ marks an estimated spot price: the price data contains none.")
		t.line("")
	}
}

func (t *text) existing() {
	if len(t.p.Existing) == 0 {
		return
	}
	pods := 0
	for _, s := range t.p.Existing {
		pods += len(s.Pods)
	}
	t.line("Fit on existing nodes: %s on %s", model.Count(pods, "pod"), model.Count(len(t.p.Existing), "node"))
	t.line("")
	table := newTable("NODE", "PODS")
	rest, restPods := 0, 0
	for i, s := range t.p.Existing {
		if i >= mostNodes && len(t.p.Existing) > mostNodes+1 {
			rest++
			restPods += len(s.Pods)
			continue
		}
		table.add(s.Node, list(byWorkload(s.Pods), mostWorkloads))
	}
	table.write(&t.b)
	if rest > 0 {
		t.line("  and %s on %d more nodes", model.Count(restPods, "pod"), rest)
	}
	t.line("")
}

// notCreated writes pods that the API server would refuse.
func (t *text) notCreated() {
	if len(t.p.NotCreated) == 0 {
		return
	}
	pods := 0
	for _, n := range t.p.NotCreated {
		pods += n.Pods
	}
	t.line("Refused by the API server: %s", model.Count(pods, "pod"))
	t.line("")
	for i, n := range t.p.NotCreated {
		if i >= mostRefused && len(t.p.NotCreated) > mostRefused+1 {
			t.line("  and those of %d more workloads; -o json has them all", len(t.p.NotCreated)-i)
			break
		}
		t.line("  %s: %s", n.Owner, model.Count(n.Pods, "pod"))
		t.line("    %s", n.Message)
	}
	t.line("")
}

// lacking writes static NodePools that can't launch all their nodes.
func (t *text) lacking() {
	if len(t.p.Lacking) == 0 {
		return
	}
	t.line("Missing nodes of static NodePools")
	t.line("")
	for _, l := range t.p.Lacking {
		t.line("  NodePool %s can have only %d of %s (spec.replicas): %s", l.Pool, l.Have, model.Count(int(l.Want), "node"), Sentence(l.Why))
	}
	t.line("")
}

// decisions writes pods that get no place, those of one workload with the same reasons together.
func (t *text) decisions(title string, list []plan.PodDecision) {
	if len(list) == 0 {
		return
	}
	t.line("%s: %s", title, model.Count(len(list), "pod"))
	t.line("")
	type entry struct {
		group
		reasons []string
	}
	at := map[string]*entry{}
	var entries []*entry
	for _, d := range list {
		reasons := sentences(d.Reasons)
		key, name := workload(d.Pod)
		k := key + "\x00" + strings.Join(reasons, "\x00")
		e := at[k]
		if e == nil {
			e = &entry{group: group{name: name}, reasons: reasons}
			at[k] = e
			entries = append(entries, e)
		}
		e.pods = append(e.pods, d.Pod)
	}
	for i, e := range entries {
		if i >= mostRefused && len(entries) > mostRefused+1 {
			pods := 0
			for _, r := range entries[i:] {
				pods += len(r.pods)
			}
			t.line("  and %s of %d more workloads; -o json has them all", model.Count(pods, "pod"), len(entries)-i)
			break
		}
		if g := byWorkload(e.pods)[0]; len(g.pods) == 1 {
			t.line("  %s", g.pods[0].Key())
		} else {
			t.line("  %s", g)
		}
		for _, r := range e.reasons {
			t.line("    %s", r)
		}
	}
	t.line("")
}

// sentences are reasons with their pools, nearest miss first.
func sentences(reasons []plan.Reason) []string {
	var out []string
	for i, r := range reasons {
		if i >= mostPools && len(reasons) > mostPools+1 {
			out = append(out, fmt.Sprintf("and %d more NodePools", len(reasons)-i))
			break
		}
		s := Sentence(r)
		if r.Pool != "" {
			s = "NodePool " + r.Pool + ": " + s
		}
		out = append(out, s)
	}
	return out
}

// provers are the names of what proves a bound.
var provers = map[string]string{
	"lp":      "a linear program over resource prices",
	"columns": "column generation",

	"enumeration": "trying every way to fill nodes",
}

// costLines say what the new nodes cost and how far that is from the least possible; nothing where none is launched.
func (t *text) costLines(add func(name, format string, args ...any)) {
	c := &t.p.Cost
	if c.NewMicroPerHour == 0 {
		return
	}
	modelled := slices.ContainsFunc(t.p.New, func(m Machine) bool { return m.Offering.Modelled })
	add("Cost", "%s/h", price(c.NewMicroPerHour, modelled))
	if c.PremiumMicroPerHour > 0 {
		add("Premium", "%s/h of it buys resilience: more offerings to choose from, pods kept apart", price(c.PremiumMicroPerHour, modelled))
	}
	bound, by := price(c.BoundMicroPerHour, modelled)+"/h", or(provers[c.ProvenBy], c.ProvenBy)
	switch {
	case c.BoundMicroPerHour <= 0 || by == "":
		add("Minimum", "none proven")
	case c.Gap() == 0:
		add("Minimum", "%s: no cheaper plan exists (proven by %s)", bound, by)
	case len(c.Unpriced) > 0:
		add("Minimum", "at least %s (proven by %s, which doesn't count %s: the true minimum may be higher)", bound, by, strings.Join(c.Unpriced, ", "))
	default:
		add("Minimum", "%s: the cost is at most %s above it (proven by %s)", bound, ratio(c.Gap()), by)
	}
}

func (t *text) summary() {
	p := t.p
	table := newTable("", "")
	add := func(name, format string, args ...any) { table.add(name, fmt.Sprintf(format, args...)) }
	t.costLines(add)
	from := ""
	if p.Catalog != "" {
		from = ", prices from " + p.Catalog + with(" as of ", p.PricesAsOf, "")
	}
	add("Input", "%s in %s, %s%s", model.Count(p.Stats.Pods, "pod"), model.Count(p.Stats.Classes, "class"), model.Count(p.Stats.Offerings, "offering"), from)
	for _, o := range p.Overlays {
		if o.NotApplied != "" {
			add("NodeOverlay "+o.Name, "not applied: %s", o.NotApplied)
		}
	}
	more := ""
	if p.Stats.Truncated {
		more = "; stopped at the work limit before the target gap was reached"
	}
	add("Time", "%s to plan, %s in total%s", span(p.Planned), span(p.Elapsed), more)
	if len(p.Skipped) > 0 {
		add("Ignored", "%s", kinds(p.Skipped))
	}
	for i, what := range p.Unknown {
		name := ""
		if i == 0 {
			name = "Unknown"
		}
		add(name, "%s", what)
	}
	table.write(&t.b)
}

// ratio writes parts per million as percent.
func ratio(ppm int64) string {
	return strconv.FormatFloat(float64(ppm)/1e4, 'f', 2, 64) + " %"
}

func span(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < time.Second:
		return strconv.FormatInt((d+time.Millisecond/2).Milliseconds(), 10) + " ms"
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
}

// kinds counts objects by kind.
func kinds(skipped []string) string {
	n := map[string]int{}
	var order []string
	for _, s := range skipped {
		kind, _, _ := strings.Cut(s, " ")
		if n[kind] == 0 {
			order = append(order, kind)
		}
		n[kind]++
	}
	slices.Sort(order)
	var parts []string
	for i, k := range order {
		if i >= mostKinds && len(order) > mostKinds+1 {
			parts = append(parts, fmt.Sprintf("%d more kinds", len(order)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%d %s", n[k], k))
	}
	return strings.Join(parts, ", ") + ": these kinds don't affect nodes"
}

// table aligns columns; a header that ends in > is of numbers, aligned right. A note is a line of its own below a row.
type table struct {
	right []bool
	rows  [][]string // a row of one cell is a note
}

func newTable(header ...string) *table {
	t := &table{right: make([]bool, len(header))}
	head := make([]string, len(header))
	empty := true
	for i, h := range header {
		head[i], t.right[i] = strings.CutSuffix(h, ">")
		empty = empty && h == ""
	}
	if !empty {
		t.rows = append(t.rows, head)
	}
	return t
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }
func (t *table) note(s string)       { t.rows = append(t.rows, []string{s}) }

func (t *table) write(w *bytes.Buffer) {
	width := make([]int, len(t.right))
	for _, r := range t.rows {
		for i, c := range r {
			if len(r) > 1 {
				width[i] = max(width[i], ansi.StringWidth(c))
			}
		}
	}
	for _, r := range t.rows {
		line := "  "
		for i, c := range r {
			pad := ""
			if len(r) > 1 {
				pad = strings.Repeat(" ", width[i]-ansi.StringWidth(c))
			}
			if i > 0 {
				line += "  "
			}
			if t.right[i] && len(r) > 1 {
				line += pad + c
			} else {
				line += c + pad
			}
		}
		w.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
