// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A node whose deletion was asked for is draining, and still costs; it is removed when its NodeClaim has ended. What the
// nodes cost in the end is what they cost now, not what was hoped for.
func TestHistoryText(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	now := int64(300_000)
	because := []plan.Reason{{Code: plan.Empty, Pool: "default"}}
	h := History{Since: at.Add(-time.Hour), Until: at, Now: &now, Entries: []ledger.Entry{
		{At: at, Kind: "create", Subject: "nodeclaim/a", Why: []plan.Reason{{Code: plan.Demand, Pool: "default"}}, Type: "m5.large", Micro: 100_000, Before: 400_000, After: 500_000},
		{At: at, Kind: "delete", Subject: "nodeclaim/b", Related: []string{"node/b"}, Why: because, Type: "m5.large", Micro: 100_000, Before: 500_000, After: 500_000},
		{At: at, Kind: "delete", Subject: "nodeclaim/c", Related: []string{"node/c"}, Why: because, Before: 500_000, After: 500_000},
		{At: at, Kind: "delete", Subject: "nodeclaim/d", Why: []plan.Reason{{Code: plan.LaunchTimeout, Pool: "default", Detail: plan.OfTimeout{Within: 5 * time.Minute}}}, Before: 500_000, After: 500_000},
		{At: at, Kind: "remove", Subject: "nodeclaim/b", Related: []string{"node/b"}, Why: because, Type: "m5.large", Micro: 100_000, Before: 500_000, After: 400_000},
	}}
	// Each node of a command, and each replacement, says what the whole command does, so that no saving is counted twice.
	command := &ledger.Command{Nodes: 3, Replacements: 2, Saved: 1_344_500, Cost: 56_000}
	cheaper := []plan.Reason{{Code: plan.Underutilized, Pool: "default", Detail: plan.OfUnderutilized{Cost: 56_000, Saving: 1_344_500}}}
	h.Entries = append(h.Entries,
		ledger.Entry{At: at, Kind: "create", Subject: "nodeclaim/e", Why: []plan.Reason{{Code: plan.Underutilized, Pool: "default"}}, Command: command, MorePods: 8},
		ledger.Entry{At: at, Kind: "move", Subject: "node/f", Why: cheaper, Command: command, Pods: []string{"shop/web-1"}},
		ledger.Entry{At: at, Kind: "move", Subject: "node/g", Why: cheaper, Command: &ledger.Command{Nodes: 1, Saved: 10_000, Cost: 1000}},
		ledger.Entry{At: at, Kind: ledger.Bind, Subject: "node/h", Why: []plan.Reason{{Code: plan.Demand}}, Pods: []string{"a/1", "a/2", "a/3", "a/4", "a/5"}},
		ledger.Entry{At: at, Kind: ledger.Blocked, Subject: "node/c", Why: []plan.Reason{{Code: plan.DisruptionBudgetPDB, Detail: plan.OfPDB{Name: "shop/web"}, Subject: "pod/shop/web-1"}}})
	var b strings.Builder
	if err := HistoryText(&b, &h); err != nil {
		t.Fatal(err)
	}
	want := `2026-03-01 02:00:00 to 03:00:00 UTC

  TIME      WHAT       OBJECT       CLUSTER $/H     WHY
  03:00:00  launched   nodeclaim/a  $0.40 to $0.50  NodePool default: pods need it [m5.large, $0.10/h]
  03:00:00  removed    node/b       $0.50 to $0.40  NodePool default: the node is empty [m5.large, $0.10/h]
  03:00:00  draining   node/c       $0.50           NodePool default: the node is empty
  03:00:00  deleting   nodeclaim/d  $0.50           NodePool default: no instance within 5m
  03:00:00  launched   nodeclaim/e  -               NodePool default: one of 2 replacements for 3 nodes, at lower cost [8 pods]
  03:00:00  disrupted  node/f       -               NodePool default: its pods can run on other nodes at lower cost; replacing 3 nodes with 2 saves $1.3445/h; the evictions cost $0.056 once [1 pod]
  03:00:00  disrupted  node/g       -               NodePool default: its pods can run on other nodes at lower cost; removing it saves $0.01/h; the evictions cost $0.001 once
  03:00:00  bound      node/h       -               a/1, a/2, a/3 and 2 more
  03:00:00  blocked    node/c       -               PodDisruptionBudget shop/web allows no disruption of pod shop/web-1 now

2 launched, 2 disrupted, 1 still draining, 1 still deleting, 1 removed, 1 blocked, 1 bound; cost of NodePool nodes: $0.40/h before, $0.30/h now.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// The history of a node lists the pods that its disruption moves.
func TestHistoryListsPods(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	h := History{Since: at.Add(-time.Hour), Until: at, Subject: "node/f", Entries: []ledger.Entry{
		{At: at, Kind: "move", Subject: "node/f", Why: []plan.Reason{{Code: plan.Empty}}, Pods: []string{"shop/web-1", "shop/web-2"}, MorePods: 3}}}
	var b strings.Builder
	if err := HistoryText(&b, &h); err != nil {
		t.Fatal(err)
	}
	if want := "Pods on the disrupted node\n  03:00:00  shop/web-1, shop/web-2 and 3 more\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%s\ndoes not list the pods: %s", b.String(), want)
	}
}

// Rows of one second are in the order of their costs, whichever answer of the API server came first, and the sum begins with the first of them. The cost of
// the cluster says nothing about one object.
func TestHistoryOrder(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	entry := func(ms int, name string, before int64) ledger.Entry {
		return ledger.Entry{At: at.Add(time.Duration(ms) * time.Millisecond), Kind: "create", Subject: "nodeclaim/" + name, Why: []plan.Reason{{Code: plan.Demand}}, Before: before, After: before + 100_000}
	}
	h := History{Since: at.Add(-time.Hour), Until: at.Add(time.Minute), Entries: []ledger.Entry{entry(1, "c", 200_000), entry(2, "a", 0), entry(3, "b", 100_000), entry(2000, "e", 400_000), entry(2001, "d", 300_000)}}
	var b strings.Builder
	if err := HistoryText(&b, &h); err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		i := strings.Index(b.String(), "nodeclaim/"+name)
		if i <= last {
			t.Errorf("nodeclaim/%s is not in the order of costs:\n%s", name, b.String())
		}
		last = i
	}
	if !strings.Contains(b.String(), "$0.00/h before, $0.50/h after") {
		t.Errorf("the sum does not begin with the first cost:\n%s", b.String())
	}
	h.Subject = "deployment/shop/web"
	b.Reset()
	if err := HistoryText(&b, &h); err != nil || strings.Contains(b.String(), "cost of NodePool nodes") {
		t.Errorf("the history of one object sums up the cost of the cluster: %v\n%s", err, b.String())
	}
}

// The steps of a node's removal are one row, also if others are removed meanwhile, and rows that share a cause are summed up. A failed step is a row
// of its own.
func TestHistoryRows(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	because := []plan.Reason{{Code: plan.Empty, Pool: "default"}}
	h := History{Since: at.Add(-time.Hour), Until: at.Add(time.Minute)}
	cost := int64(500_000)
	add := func(after time.Duration, kind, subject, related, outcome string, change int64) {
		h.Entries = append(h.Entries, ledger.Entry{At: at.Add(after), Kind: kind, Subject: subject, Related: []string{related}, Why: because, Outcome: outcome, Before: cost, After: cost - change})
		cost -= change
	}
	for i, node := range []string{"a", "b", "c"} {
		add(time.Duration(i)*time.Second, "move", "node/"+node, "nodeclaim/"+node, "", 0)
	}
	for i, node := range []string{"c", "a", "b"} {
		add(time.Duration(3+i)*time.Second, "delete", "nodeclaim/"+node, "node/"+node, "", 0)
	}
	add(7*time.Second, "delete", "nodeclaim/a", "node/a", "failed: no answer", 0)
	for i, node := range []string{"b", "a"} {
		add(time.Duration(10+i)*time.Second, "remove", "nodeclaim/"+node, "node/"+node, "", 100_000)
	}
	var b strings.Builder
	if err := HistoryText(&b, &h); err != nil {
		t.Fatal(err)
	}
	want := `2026-03-01 02:00:00 to 03:01:00 UTC

  TIME      WHAT      OBJECT       CLUSTER $/H     WHY
  03:00:02  draining  node/c       $0.50           NodePool default: the node is empty
  03:00:07  failed    nodeclaim/a  $0.50           NodePool default: the node is empty (failed: no answer)
  03:00:10  removed   node/b       $0.50 to $0.40  NodePool default: the node is empty [took 9s]
  03:00:11  removed   node/a       $0.40 to $0.30  NodePool default: the node is empty [took 11s]

3 disrupted, 1 still draining, 2 removed, 1 failed; cost of NodePool nodes: $0.50/h before, $0.30/h after.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	causes := Causes(h.Rows())
	if len(causes) != 3 || causes[0].What != "removed" || causes[0].Count != 2 || causes[0].Micro != -200_000 || !causes[0].Last.Equal(at.Add(11*time.Second)) {
		t.Errorf("the causes are %+v, want first 2 removed by which the cost fell by 200000", causes)
	}
}

// The history of a repair names the condition and its status, whether a command replaces the node or not, and never the id
// of the command. A time-out is told in its own figure.
func TestHistoryOfRepairsAndTimeouts(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	sick := plan.Reason{Code: plan.Unhealthy, Pool: "default", Subject: "node/n",
		Detail: plan.OfUnhealthy{Condition: "Ready", Status: "Unknown", Since: at.Add(-time.Hour), After: 30 * time.Minute}}
	ofCommand := plan.ReadReason(plan.Unhealthy, plan.Fields{Subject: "node/n", Key: "move dieqada62r", Have: "Unknown"}) // as older versions wrote it
	ofCommand.Pool = "default"
	for _, c := range []struct {
		kind string
		why  plan.Reason
		want string
	}{
		{"delete", sick, "NodePool default: the node is unhealthy: condition Ready is Unknown since 2026-03-01T02:00:00Z"},
		{"create", ofCommand, "NodePool default: the node is unhealthy"},
		{"delete", plan.Reason{Code: plan.RegistrationTimeout, Pool: "default", Detail: plan.OfTimeout{Within: time.Minute}}, "NodePool default: no node registered within 1m"},
		{"delete", plan.Reason{Code: plan.RegistrationTimeout, Pool: "default", Detail: plan.OfTimeout{Within: 15 * time.Minute}}, "NodePool default: no node registered within 15m"},
		{"delete", plan.Reason{Code: plan.LaunchTimeout, Pool: "default", Detail: plan.OfTimeout{Within: 90 * time.Second, Said: "UnauthorizedOperation"}}, "NodePool default: no instance within 1m30s: UnauthorizedOperation"},
	} {
		var b strings.Builder
		h := History{Since: at.Add(-time.Hour), Until: at, Entries: []ledger.Entry{{At: at, Kind: c.kind, Subject: "nodeclaim/a", Why: []plan.Reason{c.why}}}}
		if err := HistoryText(&b, &h); err != nil {
			t.Fatal(err)
		}
		line := ""
		for _, l := range strings.Split(b.String(), "\n") {
			if strings.Contains(l, "nodeclaim/a") {
				line = l
			}
		}
		if !strings.HasSuffix(line, c.want) {
			t.Errorf("%s for %+v: the line is\n%s\nwant at its end\n%s", c.kind, c.why, line, c.want)
		}
	}
}
