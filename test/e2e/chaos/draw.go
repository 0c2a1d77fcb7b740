// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// What is done to components.
const (
	Kill  = "kill"  // SIGKILL, and started again afterwards
	Stop  = "stop"  // SIGSTOP and, afterwards, SIGCONT
	Slow  = "slow"  // runs a twentieth of the time only
	Lease = "lease" // another holds the controller's lease
)

// Kinds are what can be done to a component.
var Kinds = []string{Kill, Stop, Slow, Lease}

// Components are what it can be done to. Of the controllers it is the one that leads.
var Components = []string{"kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager", "kwok", "machines", sandbox.Controller}

// Changes are what goes on in the cluster when a fault comes.
var Changes = []string{Grow, Shrink, Sway, Drift, Expiry}

// What goes on in the cluster.
const (
	Grow   = "growing"
	Shrink = "shrinking"
	Sway   = "shrinking and growing" // the Deployments are scaled down, and up again three seconds later
	Drift  = "drift"                 // the NodePool's template changes
	Expiry = "expiry"                // nodes expire
)

// Fault is what is done, when, and to whom.
type Fault struct {
	Change     string        `json:"change"`
	After      time.Duration `json:"after"` // since the change began; of an expiry, since a second before
	Kind       string        `json:"kind"`
	Components []string      `json:"components"`
	For        time.Duration `json:"for"`
	Replicas   []int         `json:"replicas"` // what the Deployments are scaled to, in the order of workloads
}

func (f Fault) String() string {
	return fmt.Sprintf("%s %s for %s, %s after the beginning of %s to %v", f.Kind, strings.Join(f.Components, " and "), f.For, f.After, f.Change, f.Replicas)
}

// Choice is what faults are drawn from.
type Choice struct {
	Kinds, Components, Changes []string
	Longest                    time.Duration // of a fault
}

// Draw is the next fault of a series, where the Deployments have so many replicas.
func Draw(rnd *rand.Rand, c Choice, replicas []int) Fault {
	f := Fault{Change: pick(rnd, c.Changes), Kind: pick(rnd, c.Kinds)}
	switch used := share(replicas); { // what can't grow or shrink much does the other
	case used > 0.7 && f.Change == Grow && slices.Contains(c.Changes, Shrink):
		f.Change = Shrink
	case used < 0.3 && f.Change == Shrink && slices.Contains(c.Changes, Grow):
		f.Change = Grow
	}
	first := pick(rnd, c.Components)
	if f.Components = []string{first}; rnd.IntN(4) == 0 && len(c.Components) > 1 {
		others := slices.DeleteFunc(slices.Clone(c.Components), func(s string) bool { return s == first })
		f.Components = append(f.Components, pick(rnd, others))
	}
	if f.Kind == Lease {
		f.Components = []string{sandbox.Controller} // the others have none here
	}
	f.For = time.Second + time.Duration(rnd.Int64N(int64(c.Longest)))
	within := map[string]time.Duration{Grow: 4 * time.Second, Shrink: 12 * time.Second, Sway: 10 * time.Second, Drift: 10 * time.Second, Expiry: 8 * time.Second}[f.Change]
	f.After = time.Duration(rnd.Int64N(int64(within)))
	f.For, f.After = f.For.Round(100*time.Millisecond), f.After.Round(100*time.Millisecond)
	f.Replicas = slices.Clone(replicas)
	for i, w := range workloads {
		switch f.Change {
		case Grow:
			f.Replicas[i] = min(w.most, f.Replicas[i]+2+rnd.IntN(w.most))
		case Shrink, Sway:
			f.Replicas[i] = rnd.IntN(1 + replicas[i])
		}
	}
	return f
}

// share is how much of all replicas that there may be there are.
func share(replicas []int) float64 {
	have, most := 0, 0
	for i, w := range workloads {
		have, most = have+replicas[i], most+w.most
	}
	return float64(have) / float64(most)
}

func pick(rnd *rand.Rand, of []string) string { return of[rnd.IntN(len(of))] }
