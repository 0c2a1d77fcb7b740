// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// style defines the colours of the charts for light and dark themes. Charts are used alone or in a page.
const style = `<style>
.compare { --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --rule: #d1d9e0; --c0: #0969da; --c1: #bc4c00; --c2: #6e7781; --c3: #8250df }
@media (prefers-color-scheme: dark) { .compare { --ink: #f0f6fc; --soft: #9198a1; --paper: #0d1117; --rule: #3d444d; --c0: #4493f8; --c1: #f0883e; --c2: #8b949e; --c3: #a371f7 } }
.compare text { font: 13px system-ui, sans-serif; fill: var(--ink) }
.compare .head { font-weight: 600 } .compare .soft { fill: var(--soft); font-size: 12px }
.compare .paper { fill: var(--paper) } .compare .rule { stroke: var(--rule) }
.compare .c0 { fill: var(--c0) } .compare .c1 { fill: var(--c1) } .compare .c2 { fill: var(--c2) } .compare .c3 { fill: var(--c3) }
.compare .l0 { stroke: var(--c0) } .compare .l1 { stroke: var(--c1) }
.compare .line { fill: none; stroke-width: 2 }
</style>`

const (
	width             = 960
	barLeft, barWidth = 190, 160 // within a panel of half the width
)

// panel is a bar chart of one figure, with a bar per system.
type panel struct {
	title string
	figure
}

func panels(s Settings) []panel {
	if s.onAWS() {
		return awsPanels(s)
	}
	burst, down := fmt.Sprintf("%d pods at once: ", s.Pods), fmt.Sprintf("Down to %d pods: ", s.Pods/2*3/10*2)
	return []panel{
		{"One pod that needs a node: until it runs", startRunning}, {burst + "until all run", burstSeconds},
		{burst + "cost above minimum", burstOver}, {down + "until stable", scaleSeconds},
		{down + "cost above minimum", scaleOver}, {down + "pods evicted", scaleEvictions},
	}
}

// picture returns all panels as one SVG.
func picture(r *Results) string {
	all := panels(r.Settings)
	panelHeight := 46 + 26*max(3, len(ran(r.Runs)))
	height := (len(all) + 1) / 2 * panelHeight
	var body, said strings.Builder
	for i, p := range all {
		p.draw(&body, &said, r, i%2*width/2+16, i/2*panelHeight)
	}
	title := "Dovetail compared with " + strings.Join(others(r.Runs), " and ")
	if r.Settings.onAWS() {
		title = strings.Join(ran(r.Runs), ", ") + " on the simulated AWS"
	}
	return svg("compare-bars", height, title, said.String(), body.String())
}

// others returns the systems with runs, except Dovetail.
func others(runs []Run) (out []string) {
	for _, s := range ran(runs) {
		if s != dovetail {
			out = append(out, s)
		}
	}
	return out
}

// svg returns an SVG document; desc describes it in text.
func svg(id string, height int, title, desc, body string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="compare" viewBox="0 0 %d %d" role="img" aria-labelledby="%s-title %[3]s-desc">
<title id="%[3]s-title">%[4]s</title>
<desc id="%[3]s-desc">%[5]s</desc>
%[6]s
<rect class="paper" width="%[1]d" height="%[2]d"/>
%[7]s</svg>
`, width, height, id, escape(title), escape(strings.TrimSpace(desc)), style, body)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}

// draw adds a panel with its upper left corner at x, y, and its text description.
func (p panel) draw(body, said *strings.Builder, r *Results, x, y int) {
	most := 0.0
	for _, system := range ran(r.Runs) {
		s, _ := p.spreadOf(r.Runs, system)
		most = max(most, s.most)
	}
	fmt.Fprintf(body, `<text class="head" x="%d" y="%d">%s</text>`+"\n", x, y+26, escape(p.title))
	fmt.Fprintf(said, "%s:", p.title)
	for i, system := range ran(r.Runs) {
		s, has := p.spreadOf(r.Runs, system)
		top := y + 38 + 26*i
		length := scale(s.median, most)
		fmt.Fprintf(body, `<text class="soft" x="%d" y="%d">%s</text>`, x, top+15, escape(system))
		fmt.Fprintf(said, " %s %s,", system, p.text(r.Runs, system))
		if !has {
			fmt.Fprintf(body, `<text x="%d" y="%d">–</text>`+"\n", x+barLeft, top+15)
			continue
		}
		fmt.Fprintf(body, `<rect class="c%d" x="%d" y="%d" width="%.1f" height="18" rx="2"/>`, i, x+barLeft, top+1, max(2, length))
		if s.most > s.least { // from the least to the most
			fmt.Fprintf(body, `<path class="line rule" d="M%.1f %dH%.1f"/>`, float64(x+barLeft)+scale(s.least, most), top+10, float64(x+barLeft)+scale(s.most, most))
		}
		fmt.Fprintf(body, `<text x="%.1f" y="%d">%s</text>`+"\n", float64(x+barLeft)+max(2, length, scale(s.most, most))+8, top+15, escape(p.mark(r.Runs, system)+p.format(s.median)))
	}
	text := strings.TrimSuffix(said.String(), ",")
	said.Reset()
	said.WriteString(text + ". ")
}

// scale returns the length of a bar.
func scale(v, most float64) float64 {
	if most <= 0 {
		return 0
	}
	return barWidth * v / most
}

// curve returns a line chart of waiting pods over idle capacity, for fixed buffers and the forecast.
func curve(h Horizon) string {
	const height, left, bottom, right, top = 300, 70, 250, 930, 40
	mostIdle, mostWaiting := 0.0, 0.0
	for _, p := range h.shown() {
		mostIdle, mostWaiting = max(mostIdle, p.Idle), max(mostWaiting, p.Waiting)
	}
	mostIdle, mostWaiting = math.Ceil(mostIdle/10)*10, math.Ceil(mostWaiting/5)*5
	at := func(p Point) (x, y float64) {
		return left + (right-left)*p.Idle/mostIdle, bottom - (bottom-top)*p.Waiting/mostWaiting
	}
	var body, said strings.Builder
	fmt.Fprintf(&body, `<path class="line rule" d="M%d %dV%dH%d"/>`+"\n", left, top, bottom, right)
	for v := 0.0; v <= mostIdle; v += 10 {
		x, _ := at(Point{Idle: v})
		fmt.Fprintf(&body, `<text class="soft" x="%.0f" y="%d" text-anchor="middle">%.0f %%</text>`, x, bottom+18, v)
	}
	for v := 0.0; v <= mostWaiting; v += 5 {
		_, y := at(Point{Waiting: v})
		fmt.Fprintf(&body, `<text class="soft" x="%d" y="%.0f" text-anchor="end">%.0f</text>`, left-8, y+4, v)
	}
	fmt.Fprintf(&body, "\n"+`<text class="soft" x="%d" y="%d" text-anchor="end">idle capacity</text><text class="soft" x="16" y="24">pending pod-minutes per thousand</text>`+"\n", right, bottom+40)
	for i, line := range []struct {
		name   string
		points []Point
	}{{"Dovetail's forecast", h.Forecast}, {"fixed buffer", h.Standing}} {
		d := ""
		fmt.Fprintf(&said, "%s:", line.name)
		for _, p := range line.points {
			if p.Idle > mostIdle {
				continue
			}
			x, y := at(p)
			d += fmt.Sprintf(" %.1f,%.1f", x, y)
			fmt.Fprintf(&body, `<circle class="c%d" cx="%.1f" cy="%.1f" r="4"/>`, i, x, y)
			fmt.Fprintf(&said, " %.1f at %.1f %% idle,", p.Waiting, p.Idle)
		}
		fmt.Fprintf(&body, `<polyline class="line l%d" points="%s"/><rect class="c%[1]d" x="640" y="%[3]d" width="14" height="14"/><text x="662" y="%[4]d">%[5]s</text>`+"\n",
			i, strings.TrimSpace(d), 44+24*i, 56+24*i, escape(line.name))
		text := strings.TrimSuffix(said.String(), ",")
		said.Reset()
		said.WriteString(text + ". ")
	}
	title := fmt.Sprintf("Two months of a web log, nodes that boot in %d min: waiting pods and idle capacity", h.BootMinutes)
	return fmt.Sprintf("<h2>%s</h2>\n", escape(title)) + svg(fmt.Sprintf("compare-headroom-%d", h.BootMinutes), height, title, said.String(), body.String())
}
