// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

// groupScrapes is what a scrape says of node groups, minute by minute: test/dashboards reads it with Prometheus' own parser,
// and asks it what the dashboards and alerts for Cluster Autoscaler ask.
const groupScrapes = "testdata/cluster_autoscaler.prom"

// member shows a node of a group with its claim.
func member(name, group string, change func(*model.Claim, *model.Node)) state.Change {
	return func(s *state.State) {
		now := time.Now()
		c := &model.Claim{Name: name, UID: "uid-" + name, NodeName: "n-" + name, ProviderID: "m-" + name, Pool: "p", Created: now, ClassGroup: "g", ClassKind: "K", ClassName: "c",
			HasFinalizer: true, ExpireAfter: -1, TerminationGracePeriod: -1, Labels: model.Labels{model.LabelNodeGroup: group, model.LabelNodePool: "p"}, Conditions: map[string]model.Condition{}}
		n := &model.Node{Name: "n-" + name, UID: "uid-n-" + name, ProviderID: "m-" + name, Ready: true, ReadySince: now, Created: now, Claim: name,
			Labels: model.Labels{model.LabelNodeGroup: group, model.LabelNodePool: "p", model.LabelRegistered: "true"}, Capacity: model.Resources{4000, 16 << 30, 0, 110}, Allocatable: model.Resources{4000, 16 << 30, 0, 110}}
		for _, k := range []string{lifecycle.Launched, lifecycle.Registered, lifecycle.Initialized} {
			c.Conditions[k] = model.Condition{Status: "True", Reason: k, Since: now}
		}
		change(c, n)
		s.SetNode(n, 1)
		s.SetClaim(c, 1)
	}
}

// familiesOfGroups is a scrape's text without other metrics.
func (b *bench) familiesOfGroups(t *testing.T) string {
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, f := range families {
		// How many steps were made, and when, depends on the machine that runs this.
		if name := f.GetName(); strings.HasPrefix(name, "cluster_autoscaler_") && name != "cluster_autoscaler_function_duration_seconds" {
			if name == "cluster_autoscaler_last_activity" {
				for _, m := range f.Metric {
					if age := float64(time.Now().Unix()) - *m.Gauge.Value; age < 0 || age > 61 {
						t.Errorf("%v was %v s ago", m.Label, age)
					}
					*m.Gauge.Value = float64(time.Now().Truncate(time.Minute).Unix())
				}
			}
			if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out.String()
}

// What is served of node groups follows what becomes of them: nodes that come, fail and go, and pods that wait.
func TestGroupMetrics(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		if text := b.familiesOfGroups(t); text != "" {
			t.Errorf("without node groups there is\n%s", text)
		}
		large, small := groupType("large", 4000, 8, 10), groupType("small", 2000, 1, 3)
		small.Offerings[0].Available = false
		driveGroups(b, large, small)
		b.emit(func(s *state.State) {
			l := &model.CapacityLimit{Name: model.ClusterLimits, Nodes: -1, MicroPerHour: -1, Least: model.Resources{2000}}
			l.SetMost(model.CPU, 640_000)
			l.SetMost(model.Memory, 2560<<30)
			s.SetLimit(l)
		})
		for _, name := range []string{"ready", "unready", "young", "going"} {
			b.bought = append(b.bought, model.Instance{ProviderID: "m-" + name, ClaimUID: "uid-" + name, ClaimName: name, Launched: time.Now()})
		}
		b.emit(member("ready", "large", func(*model.Claim, *model.Node) {}))
		b.emit(member("unready", "large", func(_ *model.Claim, n *model.Node) { n.Ready = false }))
		b.emit(member("young", "small", func(c *model.Claim, n *model.Node) {
			c.Conditions[lifecycle.Initialized], n.Ready = model.Condition{}, false
		}))
		time.Sleep(5 * time.Minute)
		scrapes := []string{b.familiesOfGroups(t)}

		fails := true
		b.launch = func(_ context.Context, r cloud.LaunchRequest) cloud.LaunchResult {
			if fails {
				fails = false
				return cloud.LaunchResult{ClaimUID: r.ClaimUID, Err: errors.New("RequestLimitExceeded")}
			}
			return b.buy(r)
		}
		b.pod("huge", "huge")
		for i := range 11 {
			b.pod(fmt.Sprint("web-", i), "web")
		}
		b.emit(func(s *state.State) {
			s.SetPod(&model.Pod{Namespace: "default", Name: "huge", UID: "uid-huge", Created: time.Now(), Unschedulable: time.Now(),
				Class: &model.Class{Key: "huge", Namespace: "default", Requests: model.Resources{64000, 1 << 30, 0, 1}, Scheduler: "default-scheduler"}})
		})
		b.emit(member("going", "large", func(c *model.Claim, n *model.Node) { c.Deleting, n.Deleting = time.Now(), time.Now() }))
		b.c.Emit(func(s *state.State) {
			b.c.recorder.Output(time.Now(), &model.Snapshot{}, &decide.Output{Plan: plan.Plan{Actions: []plan.Action{plan.DeleteClaim{Claim: "going", UID: "uid-going", Why: plan.Reason{Code: plan.Empty, Command: "m"}}}}})
			b.c.answers.answerEvict(plan.Evict{Namespace: "default", Pod: "web-x", Node: "n-going"})(s, nil)
			b.c.answers.answerEvict(plan.Evict{Namespace: "default", Pod: "web-y", Node: "n-going"})(s, errors.New("the API server is gone"))
		})
		time.Sleep(time.Minute)
		got := strings.Join(append(scrapes, b.familiesOfGroups(t)), "# a minute later\n")
		if *update {
			if err := os.WriteFile(groupScrapes, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(groupScrapes)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs; go test ./internal/controller -run TestGroupMetrics -args -update writes:\n%s", groupScrapes, got)
		}
	})
}
