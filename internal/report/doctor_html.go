// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"io"

	"github.com/dovetail-sh/dovetail/internal/doctor"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// DoctorHTML writes an examination as one page that needs no other file and runs no script.
func DoctorHTML(w io.Writer, d *Doctor) error {
	p := &htmlPage{}
	p.writeHead("dovetail doctor: " + or(d.Cluster, "cluster"))
	p.write("<h1>%s</h1>\n<p>%s, %s", or(d.Cluster, "cluster"), model.Count(d.Nodes, "node"), model.Count(d.Pods, "pod"))
	if d.Pending > 0 {
		p.write(", %d of them pending", d.Pending)
	}
	p.write(".</p>\n")
	p.writeCosts(d)
	for _, note := range doctorNotes(d) {
		p.write("<p class=\"note\">%s</p>\n", note)
	}
	p.writeFindings(d)
	p.write("<h2>Next</h2>\n<ol>\n")
	for _, s := range d.Steps {
		p.write("<li><code>%s</code>%s</li>\n", s.Command, s.Why)
	}
	p.write("</ol>\n</html>\n")
	_, err := p.WriteTo(w)
	return err
}

// writeCosts adds the table of what the cluster costs now and could cost, with a bar for each.
func (p *htmlPage) writeCosts(d *Doctor) {
	p.write("<table>\n<thead><tr><th scope=\"col\"></th><th scope=\"col\">a month</th><th scope=\"col\" style=\"width:45%%\"></th>" +
		"<th scope=\"col\">what it takes</th></tr></thead>\n<tbody>\n")
	today := d.TodayMicro()
	rows := []struct {
		name  string
		micro int64
		takes string
		bar   string
	}{
		{"Now", today, "", "bar now"},
		{"After consolidation", d.ConsolidatedMicro, movesText(&d.Moves, d.ConsolidatedMicro < today, noneAllowed), "bar"},
		{"Repacked, no blockers", d.RepackedMicro, movesText(&d.RepackedMoves, d.RepackedMicro < today, noneFound), "bar"},
		{"Least possible", d.LeastMicro, "no packing of these pods costs less with these NodePools", "bar"},
	}
	if d.IsUnpriced() {
		p.write("<tr><th scope=\"row\">Now</th><td class=\"n\">unknown</td><td></td><td>no node has a known price</td></tr>\n")
		rows = nil
	}
	for _, row := range rows {
		percent := int64(0) // of what it costs now
		if today > 0 {
			percent = row.micro * 100 / today
		}
		p.write("<tr><th scope=\"row\">%s</th><td class=\"n\">%s</td><td><div class=\"%s\" style=\"width:%d%%\"></div></td><td>%s</td></tr>\n",
			row.name, perMonth(row.micro), row.bar, percent, row.takes)
	}
	p.write("</tbody>\n</table>\n")
}

// writeFindings adds a table for each severity that there are findings of.
func (p *htmlPage) writeFindings(d *Doctor) {
	if len(d.Findings) == 0 {
		p.write("<p>No problems found.</p>\n")
		return
	}
	section := doctor.Severity(-1)
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Severity != section {
			if i > 0 {
				p.write("</tbody>\n</table>\n")
			}
			section = f.Severity
			p.write("<h2>%s</h2>\n<table>\n<thead><tr><th scope=\"col\">a month</th><th scope=\"col\">finding and change</th></tr></thead>\n<tbody>\n",
				doctorSections[section])
		}
		dollars := ""
		if f.SavingMicro > 0 {
			dollars = perMonth(f.SavingMicro)
		}
		p.write("<tr><td class=\"n\">%s</td><td>%s", dollars, DoctorSentence(f))
		for _, command := range d.Commands(f) {
			p.write("<code>%s</code>", command)
		}
		p.write("</td></tr>\n")
	}
	p.write("</tbody>\n</table>\n")
}
