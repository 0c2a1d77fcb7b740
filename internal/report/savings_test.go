// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/savings"
)

// TestSavingsText shows an account of an hour on spot with what is not known of it.
func TestSavingsText(t *testing.T) {
	begin := time.Date(2026, 7, 1, 9, 0, 0, 0, time.UTC)
	l := &savings.Ledger{}
	spot := savings.Machine{UID: "a", Launched: begin, Series: savings.Series{Pool: "default", CapacityType: model.Spot}, Rates: savings.Rates{Paid: 400_000, Catalog: 500_000, OnDemand: 2_000_000}}
	o := &savings.Observation{Now: begin, Headroom: 100_000, Machines: []savings.Machine{spot, {UID: "b", Launched: begin}}}
	l.Observe(o)
	o.Now = begin.Add(time.Hour)
	l.Observe(o)
	var b bytes.Buffer
	if err := SavingsText(&b, NewSavings(l.Since(begin))); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range strings.Split(b.String(), "\n") {
		if words := strings.Join(strings.Fields(line), " "); words != "" {
			got = append(got, words)
		}
	}
	want := `2026-07-01 09:00 to 2026-07-01 10:00 UTC
COST OF NODES $
paid $0.4000
without removals and replacements $0.4000
at on-demand list prices $2.0000
both, without Headrooms (reference) $1.9000
SAVED BY $
spot instead of on demand $1.5000
NodeOverlay prices $0.1000
nodes held for Headrooms -$0.1000
total $1.5000
NODEPOOL CAPACITY TYPE PAID $ REFERENCE $
default spot $0.4000 $2.0000
Incomplete: 1h of nodes without a price.`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	b.Reset()
	if err := SavingsText(&b, NewSavings((&savings.Ledger{}).Since(begin))); err != nil || b.String() != "No savings data for this period.\n" {
		t.Errorf("%s %v", b.String(), err)
	}
}
