// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/savings"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// accounts are a savings ledger of a world, as its controllers keep it, and the bill of the cloud.
type accounts struct {
	*world
	ledger       *savings.Ledger
	recent, days []byte
	looked       time.Time
	stored       time.Time
	bill         float64         // micro-dollars
	untold       float64         // micro-dollars of machines between their end and when the cloud told of it
	running      map[string]bool // uids of the claims whose machines ran when the controller looked last
	lost         bool            // the leader has changed, and the next one begins with what is stored
}

const (
	looksEvery  = 2 * time.Second // as the controller does
	storesEvery = time.Minute
)

// pass lets time pass, at the cloud's prices, and has the controller look and store.
func (a *accounts) pass(d time.Duration) {
	a.bill += float64(a.MicroPerHour()) * d.Hours()
	for uid, m := range a.Machines {
		if m.Gone && a.running[uid] {
			a.untold += float64(m.MicroPerHour()) * d.Hours()
		}
	}
	a.Now = a.Now.Add(d)
	if a.Now.Sub(a.looked) < looksEvery {
		return
	}
	if a.lost {
		l, err := savings.Decode(a.recent, a.days)
		if err != nil {
			a.fatalf("%v", err)
		}
		a.ledger, a.lost = l, false
	}
	o, ok := savings.Read(a.Now, a.st().Snapshot(a.Now), a.Now.Sub(a.stored) >= storesEvery)
	if !ok {
		return
	}
	a.ledger.Observe(o)
	a.looked, a.running = a.Now, map[string]bool{}
	for _, m := range o.Machines {
		a.running[m.UID] = true
	}
	if a.Now.Sub(a.stored) >= storesEvery {
		a.store()
	}
}

func (a *accounts) store() {
	var err error
	if a.recent, a.days, err = a.ledger.Encode(); err != nil {
		a.fatalf("%v", err)
	}
	a.stored = a.Now
}

// reprice changes the price of an instance type for all that runs and is launched from then on.
func (a *accounts) reprice() {
	types := make([]*model.InstanceType, len(a.Types))
	for i, t := range a.Types {
		x := *t
		x.Offerings = append([]model.Offering(nil), t.Offerings...)
		for j := range x.Offerings {
			o := &x.Offerings[j]
			o.PriceMicro = o.PriceMicro * int64(rapid.IntRange(80, 125).Draw(a.t, "price in percent")) / 100
		}
		types[i] = &x
		for _, m := range a.Machines {
			if m.Type.Name != t.Name {
				continue
			}
			for j := range x.Offerings {
				if o := &x.Offerings[j]; o.Zone == m.Offering.Zone && o.CapacityType == m.Offering.CapacityType {
					m.Type, m.Offering = &x, o
				}
			}
		}
	}
	a.Types = types
	a.editPool(func(p *model.NodePool) { p.Types = types })
}

// TestLedgerIsTheBill compares the savings ledger with the cloud's bill over twenty rounds with kills, interruptions, price changes and five
// changes of the leader: what is missing of it beyond 1 % is what the ledger says that it does not know, and what it has beyond that is of machines
// that had ended, which the cloud told later. And it compares the credit for removed nodes with the commands that removed some.
func TestLedgerIsTheBill(t *testing.T) {
	credited, removed, changes, worst := 0, 0, 0, 0.0
	rapid.Check(t, func(t *rapid.T) {
		a := &accounts{world: newWorld(t, false), ledger: &savings.Ledger{}}
		for _, x := range a.Types {
			for i := range 2 {
				spot := x.Offerings[i]
				spot.CapacityType, spot.PriceMicro = model.Spot, spot.PriceMicro*int64(rapid.IntRange(30, 130).Draw(t, "spot in percent"))/100
				x.Offerings = append(x.Offerings, spot)
			}
		}
		a.editPool(func(p *model.NodePool) {
			p.Types, p.ConsolidationPolicy, p.ConsolidateAfter, p.Budgets = a.Types, "WhenEmptyOrUnderutilized", 0, []model.Budget{{Nodes: 1000}}
		})
		commands := map[plan.CommandID]bool{}
		a.did = func(act plan.Action) {
			if d, ok := act.(plan.DeleteClaim); ok && d.Why.Code == plan.Underutilized {
				commands[d.Why.Command] = true
			}
		}
		leaders := 0
		for round := range 20 {
			a.wild(sim.MachineInterrupted, sim.MachineDies, sim.Scaled, sim.PodDeleted, sim.NodeDeleted, sim.ClaimDeleted, sim.NotListedYet, sim.GoneAndNotListed, sim.SlowToBoot)
			for range 3 {
				a.Tick()
				a.pass(time.Second)
			}
			a.Faults.Odds = nil
			if rapid.IntRange(0, 3).Draw(t, "prices change") == 0 {
				a.reprice()
			}
			if round%4 == 3 && leaders < 5 {
				leaders++
				if rapid.Bool().Draw(t, "it stores at its end") && !a.lost {
					a.store()
				}
				a.Controller.Restart()
				a.lost = true
				a.pass(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds without a leader")) * time.Second)
			}
			for end := a.Now.Add(time.Duration(rapid.IntRange(2, 6).Draw(t, "minutes")) * time.Minute); a.Now.Before(end); {
				a.Tick()
				if a.Controller.IsQuiet() {
					a.pass(looksEvery)
				} else {
					a.pass(time.Second)
				}
			}
		}
		a.pass(looksEvery)
		x := a.ledger.Since(time.Time{})
		cost := float64(x.Total.Cost) / 3600
		if a.bill > 0 {
			off := cost/a.bill - 1
			worst = max(worst, off, -off)
			unknown := float64(x.Total.Ended) / 3600 * 500_000 // of machines that may have run, each of the dearest type
			if off > 0.01 && cost-a.bill-a.untold > 0.01*a.bill || off < -0.01 && a.bill-cost-unknown > 0.01*a.bill {
				a.fatalf("the ledger has %.0f micro-dollars, the bill is %.0f: %+v", cost, a.bill, x.Total)
			}
		}
		removed += len(commands)
		changes += leaders
		if x.Total.Removed != 0 {
			credited++
		}
		if len(commands) == 0 && x.Total.Removed > 0 {
			a.fatalf("%d micro-dollars are credited, and no command has removed a node", x.Total.Removed/3600)
		}
	})
	t.Logf("at most %.3f %% from the bill; %d commands, credits in %d worlds, %d changes of the leader", 100*worst, removed, credited, changes)
	if credited == 0 || removed == 0 || changes == 0 {
		untested(t, "nothing was consolidated, or no leader has changed")
	}
}
