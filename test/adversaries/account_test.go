// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/test/watch"
)

// TestAccount has one NodeClaim of each kind: used, unused and deleted, unused and existing, with a DaemonSet's pod only, open, refused.
func TestAccount(t *testing.T) {
	begun := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes float64) time.Time { return begun.Add(time.Duration(minutes * float64(time.Minute))) }
	mine := map[string]string{marker: "taint-kept"}
	const two = "c-2x-amd64-linux"
	c := &watch.Cluster{
		Claims: map[types.UID]*watch.Claim{
			"used":     {Name: "used", Labels: mine, Node: "n1", InstanceType: two, CapacityType: "on-demand", Launched: at(0), Gone: at(6)},
			"vain":     {Name: "vain", Labels: mine, Node: "n2", InstanceType: two, CapacityType: "on-demand", Launched: at(1), Gone: at(7)},
			"standing": {Name: "standing", Labels: mine, InstanceType: two, CapacityType: "on-demand", Launched: at(12)},
			"daemon":   {Name: "daemon", Labels: mine, Node: "n3", InstanceType: two, CapacityType: "on-demand", Launched: at(13)},
			"open":     {Name: "open", Labels: mine, InstanceType: two, CapacityType: "on-demand", Launched: at(17.5)},
			"refused":  {Name: "refused", Labels: mine, Created: at(2)},
			"others":   {Name: "others", InstanceType: two, CapacityType: "on-demand", Launched: at(2)},
		},
		Pods: map[types.UID]*watch.Pod{
			"a": {Node: "n1", Running: at(1), Gone: true},
			"b": {Node: "n2"}, // bound, and never ran
			"c": {Node: "n3", Running: at(14), Daemon: true},
		},
	}
	got, err := account(c, whose, at(18))
	if err != nil {
		t.Fatal(err)
	}
	price, err := watch.Price(two, "on-demand")
	if err != nil {
		t.Fatal(err)
	}
	a := got["taint-kept"]
	if len(got) != 1 || a == nil || a.Launches != 5 || a.Vain != 3 || a.Open != 1 || a.InTen != 2 {
		t.Fatalf("accounts %+v, that of the adversary %+v", got, a)
	}
	if want := price * (6 + 6 + 5) / 60; round(a.VainUSD) != round(want) {
		t.Errorf("$%.6f of unused launches, want $%.6f for 6, 6 and 5 minutes", a.VainUSD, want)
	}
}

// TestCheck has Dovetail exceed each bound once, and not when it stays within.
func TestCheck(t *testing.T) {
	o := options{factor: 1.5, vain: 2}
	part := func(alone bool, p99 float64, waiting, vain int, acts int64) *Part {
		return &Part{Autoscaler: dovetail, Alone: alone, Honest: Honest{P99: p99, Waiting: waiting}, Accounts: map[string]*Account{honestName: {}, "taint-kept": {InTen: vain, Acts: acts}}}
	}
	alone := &Part{Autoscaler: dovetail, Alone: true, Honest: Honest{P99: 6}, Accounts: map[string]*Account{honestName: {}}}
	for _, x := range []struct {
		with *Part
		want string
	}{
		{part(false, 10, 0, 2, 1), ""},
		{part(false, 10.1, 0, 2, 1), "waited 10.1 s (p99)"},
		{part(false, 6, 1, 2, 1), "1 honest pods are still waiting"},
		{part(false, 6, 0, 3, 1), "3 unused launches within ten minutes for the pods of taint-kept"},
		{part(false, 6, 0, 0, 0), "adversary taint-kept did nothing"},
	} {
		err := check([]*Part{alone, x.with}, o)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%+v: %v, want %q", x.with, err, x.want)
		}
	}
	if text := table([]*Part{alone, part(false, 6, 0, 2, 1)}); !strings.Contains(text, "| taint-kept | – | 0 / 0 / $0.0000 |") {
		t.Errorf("the table:\n%s", text)
	}
}
