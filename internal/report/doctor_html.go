// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	_ "embed"
	"html/template"
	"io"

	"github.com/dovetail-sh/dovetail/internal/doctor"
)

//go:embed doctor.html.tmpl
var doctorPage string

var doctorTemplate = template.Must(template.New("doctor").Parse(doctorPage))

type pageRow struct {
	Name, Month, Takes string
	Share              int64 // of what the cluster costs now, in percent
	Now                bool
}

type pageFinding struct {
	Dollars, Text string
	Commands      []string
}

type pageSection struct {
	Title    string
	Findings []pageFinding
}

// DoctorHTML writes an examination as one page that needs no other file and runs no script.
func DoctorHTML(w io.Writer, d *Doctor) error {
	today := d.TodayMicro()
	share := func(micro int64) int64 {
		if today <= 0 {
			return 0
		}
		return micro * 100 / today
	}
	page := struct {
		Cluster              string
		Nodes, Pods, Pending int
		Rows                 []pageRow
		Notes                []string
		Sections             []pageSection
		Steps                []DoctorStep
	}{Cluster: or(d.Cluster, "cluster"), Nodes: d.Nodes, Pods: d.Pods, Pending: d.Pending, Notes: doctorNotes(d), Steps: d.Steps, Rows: []pageRow{
		{Name: "Now", Month: perMonth(today), Share: share(today), Now: true},
		{Name: "After consolidation", Month: perMonth(d.ConsolidatedMicro), Share: share(d.ConsolidatedMicro), Takes: movesText(&d.Moves)},
		{Name: "Repacked, nothing held", Month: perMonth(d.RepackedMicro), Share: share(d.RepackedMicro), Takes: movesText(&d.RepackedMoves)},
		{Name: "Least possible", Month: perMonth(d.LeastMicro), Share: share(d.LeastMicro), Takes: "no packing of these pods costs less"},
	}}
	section := doctor.Severity(-1)
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Severity != section {
			section = f.Severity
			page.Sections = append(page.Sections, pageSection{Title: doctorSections[section]})
		}
		at := &page.Sections[len(page.Sections)-1]
		dollars := ""
		if f.SavingMicro > 0 {
			dollars = perMonth(f.SavingMicro)
		}
		at.Findings = append(at.Findings, pageFinding{Dollars: dollars, Text: DoctorSentence(f), Commands: DoctorCommands(f)})
	}
	return doctorTemplate.Execute(w, page)
}
