// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// write writes results.json and its pages.
func write(dir string, r *Results) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	page, err := html(r)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"results.json": append(text, '\n'), "compare.md": []byte(markdown(r)),
		"compare.svg": []byte(picture(r)), "compare.html": page} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// conditions describes how the figures were measured.
func conditions(r *Results) []string {
	var kubernetes string
	if len(r.Runs) > 0 {
		kubernetes = r.Runs[0].Kubernetes
	}
	if r.Settings.onAWS() {
		return withLoad(awsConditions(r, kubernetes), r.Runs)
	}
	out := []string{
		"Medians of all runs, minimum and maximum in brackets. Lower is better.",
		"Machine: " + r.Machine + ".",
		"Systems: " + strings.Join(names(r.Runs), "; ") + ".",
		fmt.Sprintf("Control plane: Kubernetes %s (etcd, kube-apiserver, kube-controller-manager, kube-scheduler), new for each run. kwok simulates nodes and containers, which start immediately.", kubernetes),
		fmt.Sprintf("Instance types: Karpenter's KWOK catalog, amd64, Linux, on-demand, below %d CPUs. Cluster Autoscaler has one node group per type, of 0 to 1,000 nodes.", r.Settings.Below),
		"Pods: half with 900m CPU and 3100Mi, half with 3500m CPU and 28Gi.",
		fmt.Sprintf("Settings: consolidateAfter %s and a disruption budget of 100 %%; Cluster Autoscaler with --expander=least-waste, --scale-down-unneeded-time=%[1]s and --scale-down-delay-after-add=%[1]s. Otherwise defaults.", short(r.Settings.ConsolidateAfter)),
		fmt.Sprintf("Stable: no pod and no node has changed for %s; the time is that of the last change.", short(r.Settings.Still)),
		"Proven minimum: the lower bound on cost that `dovetail plan` prints for these pods.",
	}
	for _, run := range r.Runs {
		if run.ScaleDown.Unrested {
			out = append(out, fmt.Sprintf("%s was not stable %s after the scale-down, when the wait ended; its figures are from that time.", run.System, seconds(run.ScaleDown.Seconds)))
			break
		}
	}
	return withLoad(out, r.Runs)
}

// withLoad adds a note about other load on the machine.
func withLoad(conditions []string, runs []Run) []string {
	if note := loaded(runs); note != "" {
		conditions = append(conditions, note)
	}
	return conditions
}

// short formats a duration without zero parts: 30s, 1m.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// markdown returns the tables and the conditions of the measurement.
func markdown(r *Results) string {
	var b strings.Builder
	all := ran(r.Runs)
	for _, s := range sections(r.Settings) {
		fmt.Fprintf(&b, "**%s**\n\n| | %s |\n|---|%s\n", s.title, strings.Join(all, " | "), strings.Repeat("---|", len(all)))
		for _, f := range s.figures {
			fmt.Fprintf(&b, "| %s |", f.name)
			for _, system := range all {
				fmt.Fprintf(&b, " %s |", f.text(r.Runs, system))
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	for _, h := range r.Headroom {
		fmt.Fprintf(&b, "**Two months of a web log, nodes that boot in %d min: capacity ahead of demand**\n\n", h.BootMinutes)
		b.WriteString("| | pending pod-minutes per thousand | idle |\n|---|---|---|\n")
		for _, p := range h.shown() {
			fmt.Fprintf(&b, "| %s | %.1f | %.1f %% |\n", p.Policy, p.Waiting, p.Idle)
		}
		b.WriteString("\n")
	}
	for _, c := range conditions(r) {
		fmt.Fprintf(&b, "- %s\n", c)
	}
	return b.String()
}

// shown returns the points of a replay with at most 60 % idle capacity. Points above are only used for interpolation.
func (h Horizon) shown() (out []Point) {
	for _, p := range append(append([]Point{}, h.Standing...), h.Forecast...) {
		if p.Idle <= 60 {
			out = append(out, p)
		}
	}
	return out
}

var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dovetail, Karpenter and Cluster Autoscaler compared</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
svg { width: 100%; height: auto }
table { border-collapse: collapse; width: 100%; margin: 0 0 1.5rem; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding: .5rem 0 }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid color-mix(in srgb, currentColor 25%, transparent) }
tbody th { font-weight: 400 }
</style>
<h1>Dovetail compared with Karpenter and Cluster Autoscaler</h1>
<p>The same workload on the same control plane, one system after another. Lower is better in every chart.</p>
{{.Picture}}
{{range .Tables}}<table><caption>{{.Title}}</caption>
<thead><tr><td></td>{{range .Head}}<th scope="col">{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr><th scope="row">{{.Name}}</th>{{range .Cells}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody></table>
{{end}}{{range .Headroom}}{{.}}
{{end}}<h2>How it was measured</h2>
<ul>{{range .Conditions}}<li>{{.}}</li>
{{end}}</ul>
</html>
`))

// row and table are the data of the page template.
type row struct {
	Name  string
	Cells []string
}

type table struct {
	Title string
	Head  []string
	Rows  []row
}

// html returns a self-contained page.
func html(r *Results) ([]byte, error) {
	var tables []table
	all := ran(r.Runs)
	for _, s := range sections(r.Settings) {
		t := table{Title: s.title, Head: all}
		for _, f := range s.figures {
			one := row{Name: f.name}
			for _, system := range all {
				one.Cells = append(one.Cells, f.text(r.Runs, system))
			}
			t.Rows = append(t.Rows, one)
		}
		tables = append(tables, t)
	}
	var pictures []template.HTML
	for _, h := range r.Headroom {
		pictures = append(pictures, template.HTML(curve(h)))
	}
	var out bytes.Buffer
	err := page.Execute(&out, map[string]any{"Picture": template.HTML(picture(r)), "Tables": tables, "Headroom": pictures, "Conditions": conditions(r)})
	return out.Bytes(), err
}
