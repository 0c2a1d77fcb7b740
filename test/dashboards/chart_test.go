// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package dashboards

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// chart is what the Helm chart has for Prometheus and Grafana.
type chart struct {
	dashboards map[string]string // JSON by the name of its file
	alerts     []alert
}

type alert struct {
	Alert       string
	Expr        string
	For         string
	Annotations map[string]string
}

// renderChart has Helm render the chart with dashboards and alerts.
func renderChart(t *testing.T) (c chart) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "test", "chart"), "tool", "helm", "template", "dovetail",
		filepath.Join(root, "charts", "dovetail"), "--set", "settings.clusterName=test,prometheusRule.enabled=true,grafana.dashboards.enabled=true")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, &stderr)
	}
	c.dashboards = map[string]string{}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 1<<16); ; {
		var object struct {
			Kind     string
			Metadata struct{ Labels map[string]string }
			Data     map[string]string
			Spec     struct{ Groups []struct{ Rules []alert } }
		}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch {
		case object.Kind == "PrometheusRule":
			for _, group := range object.Spec.Groups {
				c.alerts = append(c.alerts, group.Rules...)
			}
		case object.Kind == "ConfigMap" && object.Metadata.Labels["grafana_dashboard"] != "":
			for name, text := range object.Data {
				c.dashboards[name] = text
			}
		}
	}
	if len(c.dashboards) == 0 || len(c.alerts) == 0 {
		t.Fatalf("the chart has %d dashboards and %d alerts", len(c.dashboards), len(c.alerts))
	}
	return c
}

// askAlert evaluates an alert over the scrapes of a healthy controller. Each metric that it names must be there: an alert
// on a misspelt one would never fire. Only metrics of failures that did not happen may be missing.
func askAlert(t *testing.T, db *database, engine *promql.Engine, rule alert) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			asked++
			if len(db.find(s.LabelMatchers[len(s.LabelMatchers)-1:])) == 0 && s.Name != "karpenter_cloudprovider_errors_total" {
				t.Errorf("the controller serves no %s", s.Name)
			}
		}
		return nil
	})
	if asked == 0 {
		t.Error("it asks for no metric")
	}
	if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
		t.Error("it has no summary, or no description")
	}
	if _, err := db.ask(t.Context(), engine, rule.Expr); err != nil {
		t.Error(err)
	}
}

// firing has for each alert what Prometheus has scraped when it should fire, and what when it should not, as promqltest
// reads series, ten minutes long.
var firing = map[string][2]string{
	"DovetailAbsent":            {"up 1x10", "karpenter_build_info 1x10"},
	"DovetailWithoutLeader":     {"leader_election_master_status{instance=\"a\"} 0x10", "leader_election_master_status{instance=\"a\"} 0x10\n  leader_election_master_status{instance=\"b\"} 1x10"},
	"DovetailPassive":           {"dovetail_standing_down 1x10", "dovetail_standing_down 0x10"},
	"DovetailPodsUnschedulable": {"karpenter_scheduler_unschedulable_pods_count{controller=\"provisioner\"} 3x10", "karpenter_scheduler_unschedulable_pods_count{controller=\"provisioner\"} 0x10"},
	"DovetailNotReady": {"operator_status_condition_count{kind=\"NodePool\",name=\"a\",type=\"Ready\",status=\"False\"} 1x10",
		"operator_status_condition_count{kind=\"NodePool\",name=\"a\",type=\"Ready\",status=\"True\"} 1x10"},
	"DovetailNodesDoNotCome": {"operator_status_condition_count{kind=\"NodeClaim\",name=\"a\",type=\"Initialized\",status=\"Unknown\"} 1x10",
		"operator_status_condition_count{kind=\"NodeClaim\",name=\"a\",type=\"Initialized\",status=\"True\"} 1x10"},
	"DovetailNodePoolAtLimit": {"karpenter_nodepools_usage{nodepool=\"a\",resource_type=\"cpu\"} 95x10\n  karpenter_nodepools_limit{nodepool=\"a\",resource_type=\"cpu\"} 100x10",
		"karpenter_nodepools_usage{nodepool=\"a\",resource_type=\"cpu\"} 80x10\n  karpenter_nodepools_limit{nodepool=\"a\",resource_type=\"cpu\"} 100x10"},
	"DovetailUnusedLaunches": {"operator_status_condition_count{kind=\"NodePool\",name=\"a\",type=\"UnusedLaunches\",status=\"True\"} 1x10",
		"operator_status_condition_count{kind=\"NodePool\",name=\"a\",type=\"UnusedLaunches\",status=\"False\"} 1x10"},
	"DovetailDriftBackOff": {"dovetail_drift_back_off_seconds{nodepool=\"a\"} 120x10", "dovetail_drift_back_off_seconds{nodepool=\"a\"} 0x10"},
	"DovetailSlow": {"karpenter_scheduler_scheduling_duration_seconds_bucket{controller=\"provisioner\",le=\"1\"} 0x10\n  karpenter_scheduler_scheduling_duration_seconds_bucket{controller=\"provisioner\",le=\"5\"} 0+6x10\n  karpenter_scheduler_scheduling_duration_seconds_bucket{controller=\"provisioner\",le=\"+Inf\"} 0+6x10",
		"karpenter_scheduler_scheduling_duration_seconds_bucket{controller=\"provisioner\",le=\"1\"} 0+6x10\n  karpenter_scheduler_scheduling_duration_seconds_bucket{controller=\"provisioner\",le=\"+Inf\"} 0+6x10"},
	"DovetailCloudErrors":  {"karpenter_cloudprovider_errors_total{method=\"Create\"} 0+60x10", "karpenter_cloudprovider_errors_total{method=\"Create\"} 0+1x10"},
	"DovetailPlansRefused": {"dovetail_plans_refused_total 0 0 0 0 0 1x5", "dovetail_plans_refused_total 1x10\n  dovetail_decisions_failed_total 0x10"},
}

// TestAlerts: each alert of the chart holds when it should, and doesn't when it should not.
func TestAlerts(t *testing.T) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	for _, rule := range renderChart(t).alerts {
		t.Run(rule.Alert, func(t *testing.T) {
			cases, ok := firing[rule.Alert]
			if !ok {
				t.Fatal("no series are written down for it")
			}
			for i, series := range cases {
				q, err := engine.NewInstantQuery(t.Context(), loadSeries(t, series), nil, rule.Expr, time.Unix(600, 0))
				if err != nil {
					t.Fatal(err)
				}
				result, err := q.Exec(t.Context()).Vector()
				if err != nil {
					t.Fatal(err)
				}
				if fires := len(result) > 0; fires != (i == 0) {
					t.Errorf("with\n  %s\nit holds: %t", series, fires)
				}
				q.Close()
			}
		})
	}
}

// loadSeries returns a storage with series of a sample a minute.
func loadSeries(t *testing.T, series string) storage.Storage {
	s := promqltest.LoadedStorage(t, "load 1m\n  "+strings.TrimSpace(series)+"\n")
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
