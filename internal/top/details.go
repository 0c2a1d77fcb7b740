// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// DetailLine is a line of details; Subject is what Enter opens on it, empty: nothing.
type DetailLine struct {
	Line    Line
	Subject string
}

// detail collects lines.
type detail struct {
	v     *View
	width int
	lines []DetailLine
}

func (d *detail) title(s string) { d.lines = append(d.lines, DetailLine{Line: text(s, Head)}) }

// fact adds a name and a value, on several lines where one is too short; a value that is empty is left out.
func (d *detail) fact(name, value string, tone Tone) {
	if value == "" {
		return
	}
	const indent = 14
	name = pad("  "+name, indent, false) + " "
	for i, part := range wrap(clean(value), max(16, d.width-width(name))) {
		if i > 0 {
			name = strings.Repeat(" ", indent+1)
		}
		d.lines = append(d.lines, DetailLine{Line: Line{{name, Dim}, {part, tone}}})
	}
}

func (d *detail) gap() { d.lines = append(d.lines, DetailLine{}) }

// pods adds a table of pods, each of which can be opened.
func (d *detail) pods(list []*Pod) {
	type podRow = *Pod
	columns := []column[podRow]{
		{title: "POD", least: 12, shrinks: 1, middle: true, text: func(p *podRow) string { return clean((*p).Namespace + "/" + (*p).Name) }},
		{title: "CORES", right: true, text: func(p *podRow) string { return cores((*p).Requests.CPU) }},
		{title: "MEM", right: true, text: func(p *podRow) string { return bytesText((*p).Requests.Memory) }},
		{title: "AGE", right: true, drop: 20, text: func(p *podRow) string { return ageText(d.v.At.Sub((*p).Created)) }},
		{title: "OF", drop: 30, text: func(p *podRow) string { return orDash((*p).Owner) }},
		{title: "", drop: 40, text: func(p *podRow) string { return remarks(*p) }},
	}
	measured := list[:min(len(list), widthRows)]
	kept, widths := fit(columns, measured, d.width-2)
	d.lines = append(d.lines, DetailLine{Line: append(text("  ", Plain), header(kept, widths, "", false)...)})
	for i := range list {
		d.lines = append(d.lines, DetailLine{
			Line: append(text("  ", Plain), row(kept, widths, &list[i])...), Subject: "pod/" + list[i].Namespace + "/" + list[i].Name})
	}
}

func remarks(p *Pod) string {
	var out []string
	for _, r := range []struct {
		is   bool
		text string
	}{{p.Deleting, "ending"}, {p.Starting, "starting"}, {p.DoNotDisrupt, "do-not-disrupt"}, {p.Daemon, "daemon"}} {
		if r.is {
			out = append(out, r.text)
		}
	}
	return strings.Join(out, ", ")
}

// Detail returns the lines about an object, as Look.Subject names it, for a terminal of that width.
func (b *Board) Detail(v *View, subject string, width int) []DetailLine {
	d := &detail{v: v, width: width}
	kind, name, _ := strings.Cut(subject, "/")
	switch kind {
	case "node", "nodeclaim":
		b.nodeDetail(d, kind, name)
	case "pod":
		b.podDetail(d, name)
	case "cause":
		b.causeDetail(d, name)
	default:
		b.poolDetail(d, subject)
	}
	if kind != "cause" {
		b.decided(d, subject)
	}
	return d.lines
}

func (b *Board) nodeDetail(d *detail, kind, name string) {
	n, c := b.NodeFacts(name)
	if n == nil && c == nil {
		d.title(kind + "/" + clean(name))
		d.fact("", "It no longer exists.", Warn)
		return
	}
	d.title(kind + "/" + clean(name))
	r := d.v.Node(name)
	if r == nil && c != nil {
		r = d.v.Node(c.Node) // a claim that is asked for by its own name, and has a node
	}
	if r != nil {
		d.fact("state", strings.TrimSuffix(r.State+": "+r.Doing, ": "), stateTone(r.State))
		d.fact("pool", r.Pool, Plain)
		d.fact("type", strings.Join(slices.DeleteFunc([]string{r.Type, r.Zone, r.CapacityType}, func(s string) bool { return s == "" }), ", "), Plain)
		price := "not known"
		if r.Priced {
			price = priceText(r.Price.Micro, r.Price.Modelled) + "/h"
		}
		d.fact("price", price, Plain)
		d.fact("age", ageText(r.Age), Plain)
		d.fact("requested", "CPU "+percent(r.Requested.CPU, r.Allocatable.CPU)+" of "+cores(r.Allocatable.CPU)+", memory "+
			percent(r.Requested.Memory, r.Allocatable.Memory)+" of "+bytesText(r.Allocatable.Memory)+", "+strconv.FormatInt(r.Pods, 10)+" of "+strconv.FormatInt(r.PodsMax, 10)+" pods", Plain)
		if r.UseKnown {
			d.fact("in use", "CPU "+percent(r.Used.CPU, r.Allocatable.CPU)+", memory "+percent(r.Used.Memory, r.Allocatable.Memory), Plain)
		}
	}
	if n != nil {
		var taints []string
		for _, t := range n.Taints {
			s := t.Key
			if t.Value != "" {
				s += "=" + t.Value
			}
			taints = append(taints, s+":"+t.Effect)
		}
		d.fact("taints", strings.Join(taints, ", "), Plain)
		for _, k := range slices.Sorted(maps.Keys(n.Annotations)) {
			d.fact("annotation", k+"="+n.Annotations[k], Plain)
		}
	}
	if c != nil {
		d.fact("NodeClaim", c.Name, Plain)
		for _, k := range slices.Sorted(maps.Keys(c.Conditions)) {
			have := c.Conditions[k]
			s := k + " " + have.Status
			if have.Reason != "" && have.Reason != k {
				s += " " + have.Reason
			}
			if have.Message != "" && have.Message != have.Reason {
				s += ": " + have.Message
			}
			tone := Dim
			if have.Status != "True" {
				tone = Plain
			}
			d.fact("", s+", "+when(have.Since, d.v.At), tone)
		}
	}
	if n == nil {
		return
	}
	if pods := b.PodsOn(n.Name); len(pods) > 0 {
		d.gap()
		d.title(model.Count(len(pods), "pod"))
		d.pods(pods)
	}
}

func (b *Board) podDetail(d *detail, key string) {
	d.title("pod/" + clean(key))
	p := b.pods[key]
	if p == nil {
		d.fact("", "It no longer exists, or has terminated.", Warn)
		return
	}
	d.fact("node", cmp.Or(p.Node, "none yet"), Plain)
	d.fact("of", p.Owner, Plain)
	d.fact("age", ageText(d.v.At.Sub(p.Created)), Plain)
	d.fact("requests", "CPU "+cores(p.Requests.CPU)+", memory "+bytesText(p.Requests.Memory), Plain)
	d.fact("remarks", remarks(p), Plain)
	if p.Node != "" {
		return
	}
	d.fact("waits for", b.causeText(&p.Waits), Warn)
	d.fact("scheduler", cmp.Or(p.Waits.Message, p.Waits.Reason), Plain)
	if p.Waits.Nominated != "" {
		d.fact("nominated", "to node "+p.Waits.Nominated, Plain)
	}
}

func (b *Board) causeDetail(d *detail, why string) {
	d.title("Pending pods")
	i := slices.IndexFunc(d.v.Pending, func(r CauseRow) bool { return r.Why() == why })
	if i < 0 {
		d.fact("reason", why, Warn)
		d.fact("", "No pod is pending for this reason any more.", Good)
		return
	}
	r := &d.v.Pending[i]
	d.fact("reason", why, Warn)
	d.fact("scheduler", r.Pods[0].Waits.Message, Plain)
	d.gap()
	d.title(model.Count(len(r.Pods), "pod") + ", oldest first")
	d.pods(r.Pods)
}

func (b *Board) poolDetail(d *detail, key string) {
	d.title(clean(key))
	i := slices.IndexFunc(d.v.Pools, func(r PoolRow) bool { return r.Key == key })
	if i < 0 {
		d.fact("", "No details are available.", Plain)
		return
	}
	r := &d.v.Pools[i]
	d.fact("state", r.State, stateTone(r.State))
	d.fact("takeover", r.Takeover, Plain)
	d.fact("nodes", strconv.Itoa(r.Nodes), Plain)
	d.fact("requested", "CPU "+percent(r.Requested.CPU, r.Allocatable.CPU)+" of "+cores(r.Allocatable.CPU)+", memory "+
		percent(r.Requested.Memory, r.Allocatable.Memory)+" of "+bytesText(r.Allocatable.Memory), Plain)
	if r.isPriced() {
		d.fact("price", priceText(r.Micro, r.modelled)+"/h", Plain)
	}
	d.fact("limits", r.Limits, Plain)
	d.gap()
	d.title("Nodes")
	var rows []NodeRow
	for _, n := range d.v.Nodes {
		if n.Pool == key {
			rows = append(rows, n)
		}
	}
	columns := nodeColumns(d.v.UseKnown)
	kept, widths := fit(columns, rows[:min(len(rows), widthRows)], d.width-2)
	d.lines = append(d.lines, DetailLine{Line: append(text("  ", Plain), header(kept, widths, "", false)...)})
	for i := range rows {
		kind := "node/"
		if rows[i].IsClaim {
			kind = "nodeclaim/"
		}
		d.lines = append(d.lines, DetailLine{Line: append(text("  ", Plain), row(kept, widths, &rows[i])...), Subject: kind + rows[i].Name})
	}
}

// mostDecided is how many decisions about an object are shown.
const mostDecided = 20

// decided adds the last decisions about an object, and about the claim of a node.
func (b *Board) decided(d *detail, subject string) {
	names := []string{subject}
	if kind, name, _ := strings.Cut(subject, "/"); kind == "node" {
		if claim := b.claimOf[name]; claim != "" {
			names = append(names, "nodeclaim/"+claim)
		}
	}
	var list []Decision
	for _, x := range d.v.Decisions {
		if slices.Contains(names, x.Subject) && len(list) < mostDecided {
			list = append(list, x)
		}
	}
	if len(list) == 0 {
		return
	}
	d.gap()
	d.title("Decisions")
	for _, x := range list {
		what := x.Kind
		if x.Count > 1 {
			what += " ×" + strconv.Itoa(x.Count)
		}
		d.fact(when(x.LastAt(), d.v.At), x.By+", "+what+": "+x.Text, Plain)
	}
}

// WhyLines are the lines of an answer that somebody gave as text, under a title.
func WhyLines(title, answer string, width int) []DetailLine {
	d := &detail{width: width}
	d.gap()
	d.title(title)
	for line := range strings.Lines(strings.TrimRight(answer, "\n")) {
		line = strings.TrimRight(line, "\n")
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if strings.TrimSpace(line) == "" {
			d.gap()
			continue
		}
		for i, part := range wrap(clean(line), max(16, width-2-len(indent))) {
			if i > 0 {
				part = "  " + part
			}
			d.lines = append(d.lines, DetailLine{Line: text("  "+indent+part, Plain)})
		}
	}
	return d.lines
}
