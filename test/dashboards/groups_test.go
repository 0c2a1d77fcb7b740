// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package dashboards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
)

// groupScrapes is what a controller serves of node groups, twice, a minute apart; a test of internal/controller holds it
// against the code.
var groupScrapes = filepath.Join("..", "..", "internal", "controller", "testdata", "cluster_autoscaler.prom")

// groupQueries are what the dashboard of kubernetes-autoscaling-mixin and common dashboards ask of Cluster Autoscaler, with
// the value after the second scrape.
var groupQueries = map[string]float64{
	`sum(cluster_autoscaler_nodes_count)`:       6,
	`sum(cluster_autoscaler_max_nodes_count)`:   13,
	`sum(cluster_autoscaler_node_groups_count)`: 2,
	`round(sum(cluster_autoscaler_nodes_count{state="ready"}) / sum(cluster_autoscaler_nodes_count) * 100)`:                                                       17,
	`sum(cluster_autoscaler_cluster_safe_to_autoscale)`:                                                                                                           1,
	`sum(cluster_autoscaler_unschedulable_pods_count)`:                                                                                                            12,
	`sum by (type) (cluster_autoscaler_unschedulable_pods_count{type="unschedulable"})`:                                                                           12,
	`time() - max(cluster_autoscaler_last_activity{activity="scaleDown"})`:                                                                                        0,
	`time() - max(cluster_autoscaler_last_activity{activity="scaleUp"})`:                                                                                          0,
	`sum(cluster_autoscaler_evicted_pods_total{eviction_result="succeeded"}) - sum(cluster_autoscaler_evicted_pods_total{eviction_result="succeeded"} offset 1m)`: 1,
	`sum by (state) (cluster_autoscaler_nodes_count{state="unregistered"})`:                                                                                       3,
	`sum(cluster_autoscaler_unneeded_nodes_count)`:                                                                                                                2,
	`sum(cluster_autoscaler_scaled_up_nodes_total) - sum(cluster_autoscaler_scaled_up_nodes_total offset 1m)`:                                                     3,
	`sum(cluster_autoscaler_scaled_down_nodes_total) - sum(cluster_autoscaler_scaled_down_nodes_total offset 1m)`:                                                 1,
	`sum(cluster_autoscaler_failed_scale_ups_total{reason="cloudProviderError"})`:                                                                                 1,
	`count(cluster_autoscaler_node_group_min_count)`:                                                                                                              2,
	`round(sum(cluster_autoscaler_node_group_healthiness) / count(cluster_autoscaler_node_group_healthiness) * 100)`:                                              100,
	`round(sum(cluster_autoscaler_node_group_backoff_status) / count(cluster_autoscaler_node_group_backoff_status) * 100)`:                                        50,
	`max by (node_group) (cluster_autoscaler_node_group_max_count{node_group="large"})`:                                                                           10,
	`avg by (node_group) (cluster_autoscaler_node_group_target_count{node_group="small"}) / max by (node_group) (cluster_autoscaler_node_group_max_count) * 3`:    2,
	`max by (node_group) (cluster_autoscaler_node_group_backoff_status{node_group="small"})`:                                                                      1,
	`sum(cluster_autoscaler_scale_down_in_cooldown)`:                                                                                                              0,
	`sum(cluster_autoscaler_cluster_cpu_current_cores)`:                                                                                                           12,
	`sum(cluster_autoscaler_cluster_memory_current_bytes) / 1024 / 1024 / 1024`:                                                                                   48,
	`sum(cluster_autoscaler_errors_total)`:                                                                                                                        1,
	`sum(cluster_autoscaler_pending_node_deletions)`:                                                                                                              1,
}

// TestGroupMetrics: what is served of node groups is read by Prometheus' own parser, and each query about Cluster
// Autoscaler has an answer, which is right.
func TestGroupMetrics(t *testing.T) {
	db, engine := readGroupScrapes(t), promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	for query, want := range groupQueries {
		q, err := engine.NewInstantQuery(t.Context(), db, nil, query, db.last)
		if err != nil {
			t.Fatal(err)
		}
		result, err := q.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		if len(result) != 1 || result[0].F != want {
			t.Errorf("%s\nis %v, want %v", query, result, want)
		}
		q.Close()
	}
}

// readGroupScrapes returns the scrapes of a job cluster-autoscaler.
func readGroupScrapes(t *testing.T) *database {
	text, err := os.ReadFile(groupScrapes)
	if err != nil {
		t.Fatal(err)
	}
	first, second, both := strings.Cut(string(text), "# a minute later\n")
	if !both {
		t.Fatalf("%s has not two scrapes", groupScrapes)
	}
	db := &database{series: map[string]*series{}}
	for i, scrape := range []string{first, second} {
		if err := db.add(scrapedAt(t, scrape), []byte(scrape), "job", "cluster-autoscaler", "namespace", "kube-system"); err != nil {
			t.Fatalf("scrape %d: %v", i, err)
		}
	}
	return db
}

// scrapedAt is when a scrape was made: the loop was then at work.
func scrapedAt(t *testing.T, text string) time.Time {
	db := &database{series: map[string]*series{}}
	if err := db.add(time.Unix(0, 0), []byte(text)); err != nil {
		t.Fatal(err)
	}
	for _, s := range db.series {
		if s.labels.Get("__name__") == "cluster_autoscaler_last_activity" && s.labels.Get("activity") == "main" {
			return time.Unix(int64(s.samples[0].F()), 0)
		}
	}
	t.Fatal("a scrape does not say when the loop was last at work")
	return time.Time{}
}

// groupAlerts are what the alerts of kubernetes-autoscaling-mixin on Cluster Autoscaler ask, and whether they hold for the
// controller of the scrapes: three quarters of all nodes; pods that no node holds; full and unhealthy groups.
var groupAlerts = map[string]struct {
	expr  string
	holds bool
}{
	"NodeCountNearCapacity":    {`sum by (cluster, namespace, job) (cluster_autoscaler_nodes_count{job="cluster-autoscaler"}) / sum by (cluster, namespace, job) (cluster_autoscaler_max_nodes_count{job="cluster-autoscaler"}) * 100 > 75`, false},
	"UnschedulablePods":        {`sum by (cluster, namespace, job) (cluster_autoscaler_unschedulable_pods_count{job="cluster-autoscaler"}) > 0`, true},
	"NodeGroupAtCapacity":      {`avg by (cluster, namespace, job, node_group) (cluster_autoscaler_node_group_target_count{job="cluster-autoscaler"}) / max by (cluster, namespace, job, node_group) (cluster_autoscaler_node_group_max_count{job="cluster-autoscaler"}) * 100 >= 95`, false},
	"NodeGroupUnhealthy":       {`min by (cluster, namespace, job, node_group) (cluster_autoscaler_node_group_healthiness{job="cluster-autoscaler"}) == 0`, false},
	"NoHealthyNodeGroups":      {`max by (cluster, namespace, job) (cluster_autoscaler_node_group_healthiness{job="cluster-autoscaler"}) == 0`, false},
	"NotSafeToAutoscale":       {`cluster_autoscaler_cluster_safe_to_autoscale != 1`, false},
	"FailedScaleUps":           {`sum(cluster_autoscaler_failed_scale_ups_total) - sum(cluster_autoscaler_failed_scale_ups_total offset 1m) > 0`, true},
	"LoopStands":               {`time() - cluster_autoscaler_last_activity{activity="main"} > 600`, false},
	"UnregisteredForLong":      {`cluster_autoscaler_nodes_count{state="longUnregistered"} > 0`, false},
	"GroupWithoutItsMinimum":   {`cluster_autoscaler_node_group_target_count < cluster_autoscaler_node_group_min_count`, false},
	"BackoffOfANodeGroup":      {`cluster_autoscaler_node_group_backoff_status == 1`, true},
	"ScaleDownWaitsAfterAnAdd": {`cluster_autoscaler_scale_down_in_cooldown == 1`, false},
}

// TestGroupAlerts: each alert on Cluster Autoscaler's metrics holds when it should, and doesn't when it should not.
func TestGroupAlerts(t *testing.T) {
	db, engine := readGroupScrapes(t), promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	for name, alert := range groupAlerts {
		q, err := engine.NewInstantQuery(t.Context(), db, nil, alert.expr, db.last)
		if err != nil {
			t.Fatal(err)
		}
		result, err := q.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		if holds := len(result) > 0; holds != alert.holds {
			t.Errorf("%s: %s\nis %v", name, alert.expr, result)
		}
		q.Close()
	}
}
