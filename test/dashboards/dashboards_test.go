// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package dashboards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/metricseries"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// notKarpenters are metrics that Karpenter doesn't serve either; a query that asks for one is left out.
var notKarpenters = map[string]string{
	"node_time_seconds":      "of node-exporter",
	"node_boot_time_seconds": "of node-exporter",
}

// Each query of each dashboard returns a series, for every value that its variables can have: of those that Karpenter
// publishes and of the chart's own. The metrics of the chart's alerts are served.
func TestDashboards(t *testing.T) {
	own := renderChart(t)
	t.Chdir(filepath.Join("..", "..")) // binaries are found from the repository's root
	dir := filepath.Join("..", "shared", "data", "dashboards")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		at, _ := filepath.Abs(dir)
		t.Fatalf("no dashboards in %s (%v): Karpenter's are wanted there, as *.json", at, err)
	}
	db := &database{series: map[string]*series{}}
	for _, s := range scrape(t) {
		if err := db.add(s.At, s.Text, "job", "karpenter", "instance", "sandbox"); err != nil {
			t.Fatal(err)
		}
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute})
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) { askDashboard(t, db, engine, readDashboard(t, file, text)) })
	}
	for name, text := range own.dashboards {
		t.Run(name, func(t *testing.T) { askDashboard(t, db, engine, readDashboard(t, name, []byte(text))) })
	}
	for _, rule := range own.alerts {
		t.Run(rule.Alert, func(t *testing.T) { askAlert(t, db, engine, rule) })
	}
}

// askDashboard asks every query of a dashboard; each must return a series.
func askDashboard(t *testing.T, db *database, engine *promql.Engine, d *dashboard) {
	asked := 0
	for _, p := range d.allPanels() {
		for _, target := range p.Targets {
			if target.Expr == "" {
				continue
			}
			if name := d.foreignMetric(t, target.Expr); name != "" {
				t.Logf("%s: left out: %s is %s", p.Title, name, notKarpenters[name])
				continue
			}
			for _, query := range d.fill(t, db, target.Expr) {
				asked++
				if n, err := db.ask(t.Context(), engine, query); err != nil {
					t.Errorf("%s: %v\n%s", p.Title, err, query)
				} else if n == 0 {
					t.Errorf("%s: no series\n%s", p.Title, query)
				}
			}
		}
	}
	if asked == 0 {
		t.Error("nothing was asked")
	}
	t.Logf("%d queries", asked)
}

// scrape runs the series with Dovetail.
func scrape(t *testing.T) []metricseries.Scrape {
	ctx := testwait.ContextFor(t, 5*time.Minute)
	dir := t.TempDir()
	catalog, err := scaledown.WriteCatalogue(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sandbox"), "--boot", "2s", "--catalog", catalog)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	}()
	all, err := s.Components(sandbox.Controller)
	if err != nil {
		t.Fatal(err)
	}
	// A Headroom, for the dashboard about them; what it is for has no pods.
	for path, text := range map[string]string{
		"/apis/apps/v1/namespaces/default/deployments": `{apiVersion: apps/v1, kind: Deployment, metadata: {name: ahead}, spec: {replicas: 0, selector: {matchLabels: {app: ahead}},
			template: {metadata: {labels: {app: ahead}}, spec: {containers: [{name: c, image: "registry.k8s.io/pause:3.10", resources: {requests: {cpu: 100m, memory: 100Mi}}}]}}}}`,
		"/apis/dovetail.sh/v1alpha1/namespaces/default/headrooms": `{apiVersion: dovetail.sh/v1alpha1, kind: Headroom, metadata: {name: ahead}, spec: {
			target: {workload: {kind: Deployment, name: ahead}}, mode: Recommend, calendar: [{name: morning, schedule: 30 8 * * 1-5, duration: 1h, replicas: 5}]}}`,
	} {
		if err := s.Create(ctx, path, text); err != nil {
			t.Fatal(err)
		}
	}
	scrapes, err := metricseries.Run(ctx, s, metricseries.Options{
		Metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", all[0].Ports["metrics"]), Interrupt: true, Log: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	return scrapes
}

// dashboard is what is read of Grafana's JSON.
type dashboard struct {
	Panels     []panel
	Templating struct{ List []variable }
}

type panel struct {
	Title   string
	Targets []struct{ Expr string }
	Panels  []panel // of a row
}

type variable struct {
	Name, Type string
	Query      json.RawMessage
	IncludeAll bool
}

func readDashboard(t *testing.T, file string, text []byte) *dashboard {
	d := &dashboard{}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return d
}

func (d *dashboard) allPanels() (out []panel) {
	for _, p := range d.Panels {
		out = append(append(out, p), p.Panels...)
	}
	return out
}

// builtIn are Grafana's own variables.
var builtIn = strings.NewReplacer("$__rate_interval", "1m", "$__interval", "1m")

// foreignMetric returns the first metric of a query that is not Karpenter's; empty: there is none.
func (d *dashboard) foreignMetric(t *testing.T, query string) (name string) {
	filled := d.replace(builtIn.Replace(query), func(v variable) string {
		if v.Name == "trailing" {
			return "1m"
		}
		return "x"
	})
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(filled)
	if err != nil {
		t.Fatalf("%v\n%s", err, filled)
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok && notKarpenters[s.Name] != "" {
			name = s.Name
		}
		return nil
	})
	return name
}

// replace puts a value in the place of each variable of the dashboard.
func (d *dashboard) replace(query string, value func(variable) string) string {
	for _, v := range d.Templating.List {
		if uses := regexp.MustCompile(`\$` + v.Name + `\b|\$\{` + v.Name + `(:\w+)?\}`); uses.MatchString(query) {
			query = uses.ReplaceAllLiteralString(query, value(v))
		}
	}
	return query
}

// fill returns a query once for each value of the variables in it. A variable that can be All is that.
func (d *dashboard) fill(t *testing.T, db *database, query string) []string {
	queries := []string{builtIn.Replace(query)}
	for _, v := range d.Templating.List {
		one := &dashboard{}
		one.Templating.List = []variable{v}
		var next []string
		for _, q := range queries {
			used := false
			one.replace(q, func(variable) string { used = true; return "" })
			if !used {
				next = append(next, q)
				continue
			}
			for _, value := range v.values(t, db) {
				next = append(next, one.replace(q, func(variable) string { return value }))
			}
		}
		queries = next
	}
	return queries
}

// labelValues is the query of a variable that is filled from a label: label_values(SELECTOR, LABEL).
var labelValues = regexp.MustCompile(`^label_values\((.+), *(\w+)\)$`)

// values are what a variable can be.
func (v variable) values(t *testing.T, db *database) (out []string) {
	var text string
	var object struct{ Query string }
	if json.Unmarshal(v.Query, &text) != nil {
		if err := json.Unmarshal(v.Query, &object); err != nil {
			t.Fatalf("variable %s: %v", v.Name, err)
		}
		text = object.Query
	}
	switch m := labelValues.FindStringSubmatch(text); {
	case v.Type == "custom":
		for value := range strings.SplitSeq(text, ",") {
			out = append(out, strings.TrimSpace(value))
		}
	case m != nil:
		matchers, err := parser.NewParser(parser.Options{}).ParseMetricSelector(m[1])
		if err != nil {
			t.Fatalf("variable %s: %v", v.Name, err)
		}
		for _, s := range db.find(matchers) {
			if value := s.labels.Get(m[2]); value != "" && !slices.Contains(out, value) {
				out = append(out, value)
			}
		}
	default:
		t.Fatalf("variable %s: can't fill %q", v.Name, text)
	}
	if len(out) == 0 {
		t.Errorf("variable %s has no value: %s", v.Name, text)
	}
	slices.Sort(out)
	if v.IncludeAll {
		return []string{"(" + strings.Join(out, "|") + ")"}
	}
	return out
}
