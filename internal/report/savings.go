// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/savings"
)

// Savings is what nodes cost in a time, and would have cost; docs/design/0022-savings.md defines the amounts. They are in micro-dollars.
type Savings struct {
	Since time.Time `json:"since"` // of whole minutes, hours or days, by how long ago it is
	Until time.Time `json:"until"`
	Begin time.Time `json:"begin"` // of the account

	Cost      int64 `json:"costMicroUSD"`
	Kept      int64 `json:"costWithoutRemovalsMicroUSD"` // had nothing been removed or replaced
	OnDemand  int64 `json:"onDemandMicroUSD"`            // the same machines on demand, at catalog prices
	Reference int64 `json:"referenceMicroUSD"`           // both, without Headrooms

	Causes  []SavingsCause  `json:"causes"` // they sum up to Reference less Cost, but for rounding
	Pools   []SavingsPool   `json:"nodepools"`
	Periods []SavingsPeriod `json:"periods"`
	Unknown SavingsUnknown  `json:"unknown"`
}

// SavingsCause is a part of the difference. Negative: it costs more than it saves.
type SavingsCause struct {
	Cause string `json:"cause"`
	Micro int64  `json:"savedMicroUSD"`
}

// SavingsPool is what the nodes of one NodePool and capacity type cost.
type SavingsPool struct {
	savings.Series
	Cost      int64 `json:"costMicroUSD"`
	Reference int64 `json:"referenceMicroUSD"`
}

// SavingsPeriod is a minute, an hour or a day.
type SavingsPeriod struct {
	Start     time.Time `json:"start"`
	Seconds   int       `json:"seconds"`
	Cost      int64     `json:"costMicroUSD"`
	Reference int64     `json:"referenceMicroUSD"`
}

// SavingsUnknown is what amounts are incomplete for.
type SavingsUnknown struct {
	NoPrice    int64 `json:"machineSecondsWithoutPrice"`
	NoOnDemand int64 `json:"machineSecondsWithoutOnDemandPrice"` // no saving by spot is counted
	Ended      int64 `json:"machineSecondsAfterUnseenEnd"`
	Unseen     int64 `json:"secondsWithoutController"`
	NoCredit   int64 `json:"commandSecondsWithoutCredit"` // of consolidation commands
}

// NewSavings is the report on an account.
func NewSavings(a *savings.Account) *Savings {
	t := &a.Total
	s := &Savings{Since: a.From, Until: a.Until, Begin: a.Begin, Cost: micro(t.Cost), Kept: micro(t.Kept()), OnDemand: micro(t.OnDemand), Reference: micro(t.Reference()),
		Causes: []SavingsCause{}, Pools: []SavingsPool{}, Periods: []SavingsPeriod{}, Unknown: SavingsUnknown{t.NoPrice, t.NoOnDemand, t.Ended, t.Unseen, t.NoCredit}}
	for _, c := range a.Causes().List() {
		s.Causes = append(s.Causes, SavingsCause{c.Name, micro(c.Amount)})
	}
	for i, x := range a.Series {
		if x.Pool != "" {
			s.Pools = append(s.Pools, SavingsPool{x, micro(a.Sums[i].Cost), micro(a.Sums[i].Reference())})
		}
	}
	for i := range a.Periods {
		p := &a.Periods[i]
		s.Periods = append(s.Periods, SavingsPeriod{p.Start, int(p.Length.Seconds()), micro(p.Sum.Cost), micro(p.Sum.Reference())})
	}
	return s
}

// micro converts micro-dollars per hour times seconds to micro-dollars.
func micro(amount int64) int64 { return amount / 3600 }

// SavingsJSON writes savings for programs; docs/reference/json.md says what each field means.
func SavingsJSON(w io.Writer, s *Savings) error { return writeIndented(w, s) }

// causeWords are the causes for people.
var causeWords = map[string]string{
	"consolidation": "nodes removed or replaced by cheaper ones", "spot": "spot instead of on demand", "reservations": "capacity reservations",
	"overlays": "NodeOverlay prices", "headroom": "nodes held for Headrooms",
}

// SavingsText writes savings for people.
func SavingsText(w io.Writer, s *Savings) error {
	var b bytes.Buffer
	if len(s.Periods) == 0 {
		b.WriteString("No savings data for this period.\n")
		_, err := w.Write(b.Bytes())
		return err
	}
	fmt.Fprintf(&b, "%s to %s UTC\n\n", s.Since.UTC().Format("2006-01-02 15:04"), s.Until.UTC().Format("2006-01-02 15:04"))
	t := newTable("COST OF NODES", "$>")
	for _, x := range []struct {
		what  string
		micro int64
	}{{"paid", s.Cost}, {"without removals and replacements", s.Kept}, {"at on-demand list prices", s.OnDemand}, {"both, without Headrooms (reference)", s.Reference}} {
		t.add(x.what, signedUSD(x.micro))
	}
	t.write(&b)
	b.WriteByte('\n')
	t = newTable("SAVED BY", "$>")
	for _, c := range s.Causes {
		if c.Micro != 0 {
			t.add(causeWords[c.Cause], signedUSD(c.Micro))
		}
	}
	t.add("total", signedUSD(s.Reference-s.Cost))
	t.write(&b)
	b.WriteByte('\n')
	t = newTable("NODEPOOL", "CAPACITY TYPE", "PAID $>", "REFERENCE $>")
	for _, p := range s.Pools {
		t.add(p.Pool, p.CapacityType, signedUSD(p.Cost), signedUSD(p.Reference))
	}
	t.write(&b)
	if u := s.Unknown.text(); u != "" {
		fmt.Fprintf(&b, "\nIncomplete: %s.\n", u)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (u *SavingsUnknown) text() string {
	var out []string
	add := func(seconds int64, what string) {
		if seconds > 0 {
			out = append(out, durationText(time.Duration(seconds)*time.Second)+" "+what)
		}
	}
	add(u.NoPrice, "of nodes without a price")
	add(u.NoOnDemand, "of nodes without an on-demand price")
	add(u.Ended, "of nodes that were terminated while no controller was running")
	add(u.Unseen, "without a running controller")
	add(u.NoCredit, "of consolidation commands whose saving is unknown")
	return strings.Join(out, ", ")
}

// signedUSD is an amount with its sign.
func signedUSD(micro int64) string {
	if micro < 0 {
		return "-" + model.ShortDollars(-micro)
	}
	return model.ShortDollars(micro)
}
