// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// ReplayHTML writes a replay as one page that needs no other file and runs no script.
func ReplayHTML(w io.Writer, r *Replay) error {
	p := &htmlPage{}
	p.writeHead("dovetail replay: " + r.Recording)
	p.write("<h1>%s</h1>\n<p>%s</p>\n", r.Recording, replaySpan(r))
	if r.Partial {
		p.write("<p><strong>%s</strong></p>\n", partialReplay)
	}
	p.writeReplayTotals(r)
	for _, c := range replayCharts {
		p.writeChart(r, c)
	}
	for _, d := range replayDetails(r) {
		p.writeTable(d.head, d.rows)
	}
	for _, x := range replaySections(r) {
		if x.text != "" {
			p.write("<p>%s</p>\n", x.text)
		}
		if len(x.list) > 0 {
			p.write("<h2>%s</h2>\n<ul>\n", x.title)
			for _, line := range x.list {
				p.write("<li>%s</li>\n", line)
			}
			p.write("</ul>\n")
		}
	}
	p.write("<p class=\"note\">Prices: %s</p>\n</html>\n", replayPrices(r))
	_, err := p.WriteTo(w)
	return err
}

// writeReplayTotals adds the table of totals, with a bar for what each column costs.
func (p *htmlPage) writeReplayTotals(r *Replay) {
	p.write("<table>\n<thead><tr><th scope=\"col\"></th>")
	most := 0.0
	for i, c := range r.Columns {
		p.write("<th scope=\"col\"><span class=\"key s%d\"></span>%s</th>", i%replaySeries, c.Name)
		most = max(most, c.Dollars)
	}
	p.write("</tr></thead>\n<tbody>\n")
	if most > 0 {
		p.write("<tr><td></td>")
		for i, c := range r.Columns {
			p.write("<td><div class=\"bar s%d\" style=\"width:%.0f%%\"></div></td>", i%replaySeries, 100*c.Dollars/most)
		}
		p.write("</tr>\n")
	}
	for _, l := range replayLines(r) {
		p.write("<tr><th scope=\"row\"%s>%s</th>", htmlText(classIf(l.isPart, "part")), l.title)
		for _, cell := range l.cells {
			p.write("<td class=\"n\">%s</td>", cell)
		}
		p.write("</tr>\n")
	}
	p.write("</tbody>\n</table>\n")
}

func classIf(is bool, class string) string {
	if !is {
		return ""
	}
	return ` class="` + class + `"`
}

// writeTable adds a table. Cells after the second are numbers.
func (p *htmlPage) writeTable(head []string, rows [][]string) {
	p.write("<table>\n<thead><tr>")
	for _, h := range head {
		p.write("<th scope=\"col\">%s</th>", h)
	}
	p.write("</tr></thead>\n<tbody>\n")
	for _, row := range rows {
		p.write("<tr>")
		for i, cell := range row {
			p.write("<td%s>%s</td>", htmlText(classIf(i > 1, "n")), cell)
		}
		p.write("</tr>\n")
	}
	p.write("</tbody>\n</table>\n")
}

// replaySeries is how many columns have a colour of their own.
const replaySeries = 6

// replayChart is a chart of one figure by the hour, with a line for each column.
type replayChart struct {
	title, unit string
	of          func(*ReplayHour) float64
}

var replayCharts = []replayChart{
	{"Cost of each hour", "$", func(h *ReplayHour) float64 { return h.Dollars }},
	{"Node hours in each hour", "", func(h *ReplayHour) float64 { return h.NodeHours }},
	{"Pod-minutes waiting in each hour", "", func(h *ReplayHour) float64 { return h.WaitedMinutes }},
	{"Evictions in each hour", "", func(h *ReplayHour) float64 { return float64(h.Evictions) }},
}

// Sizes of a chart in pixels.
const (
	chartWidth, chartHeight = 920.0, 160.0
	chartLeft, chartBottom  = 60.0, 20.0
)

// writeChart adds a chart as SVG: hours are steps. One hour is a number, not a chart.
func (p *htmlPage) writeChart(r *Replay, c replayChart) {
	first, hours, most := r.From.UTC().Truncate(time.Hour), 0, 0.0
	for i := range r.Columns {
		for j := range r.Columns[i].Hours {
			h := &r.Columns[i].Hours[j]
			most, hours = max(most, c.of(h)), max(hours, int(h.Hour.Sub(first)/time.Hour)+1)
		}
	}
	if hours < 2 || most == 0 {
		return
	}
	x := func(hour int) float64 { return chartLeft + (chartWidth-chartLeft)*float64(hour)/float64(hours) }
	y := func(v float64) float64 { return (chartHeight - chartBottom) * (1 - v/most) }
	p.write("<h2>%s</h2>\n<svg viewBox=\"0 -10 %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n", c.title, chartWidth, chartHeight+10, c.title)
	for _, v := range []float64{0, most / 2, most} {
		p.write("<line class=\"grid\" x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
			chartLeft, chartWidth, y(v), y(v), chartLeft-6, y(v)+4, c.unit+axisText(v))
	}
	every := max(1, (hours+7)/8)
	layout := "15:04"
	if hours > 48 {
		every, layout = (every+23)/24*24, "01-02"
	}
	for h := 0; h < hours; h++ {
		if at := first.Add(time.Duration(h) * time.Hour); h%every == 0 && layout == "15:04" || layout != "15:04" && int(at.Unix()/3600)%every == 0 {
			p.write("<text x=\"%.1f\" y=\"%.0f\">%s</text>\n", x(h), chartHeight-4, at.Format(layout))
		}
	}
	for i := range r.Columns {
		var path strings.Builder
		for j := range r.Columns[i].Hours {
			h := &r.Columns[i].Hours[j]
			n, move := int(h.Hour.Sub(first)/time.Hour), "L"
			if j == 0 {
				move = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1fH%.1f", move, x(n), y(c.of(h)), x(n+1))
		}
		p.write("<path class=\"line s%d\" d=\"%s\"><title>%s</title></path>\n", i%replaySeries, path.String(), r.Columns[i].Name)
	}
	p.write("</svg>\n")
}

// axisText is a number with three digits.
func axisText(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 1:
		return fmt.Sprintf("%.3f", v)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
