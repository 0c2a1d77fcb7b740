// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Why, WhyPending (explain.Pending) and Apply are those of package explain, which imports this one: see verify_test.go.
var (
	Why        func(s *model.Snapshot, mem Memory, now time.Time, pol Policy, subject string) (plan.Answer, error)
	WhyPending func(s *model.Snapshot, mem Memory, now time.Time, pol Policy, answer func(pods []*model.Pod, a plan.Answer))
	Apply      func(s *model.Snapshot, ch plan.Change) (*model.Snapshot, error)
)

// formatDollars writes micro-dollars as $ and four decimals.
func formatDollars(micro int64) string { return fmt.Sprintf("$%.4f", float64(micro)/1e6) }

func changeText(c plan.Change) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", c.Op, c.Object, c.Field, c.Value))
}

func alternativeText(a *plan.Alternative) string {
	s := string(a.Kind)
	if a.On != "" {
		s += " on " + a.On
	}
	for _, m := range a.Machines {
		s += fmt.Sprintf(" %d×%s/%s/%s", m.Count, m.Pool, m.Type, m.Zone)
	}
	if a.Kind == plan.Leave || a.Kind == plan.Replace {
		s += fmt.Sprintf(" now %s new %s once %s", formatDollars(a.NowMicro), formatDollars(a.NewMicro), formatDollars(a.OnceMicro))
	}
	return s
}

func (x *script) why(subject string) {
	a, err := Why(x.st.Snapshot(x.now), x.mem, x.now, x.pol, subject)
	fmt.Fprintf(&x.out, "why %s\n", subject)
	if err != nil {
		fmt.Fprintf(&x.out, "  %v\n", err)
		return
	}
	if a.Step != nil {
		fmt.Fprintf(&x.out, "  doing %s", a.Step.Of)
		if !a.Step.Since.IsZero() {
			fmt.Fprintf(&x.out, " since +%s", a.Step.Since.Sub(epoch))
		}
		if a.Step.Command != "" {
			fmt.Fprintf(&x.out, " by command %s", a.Step.Command)
		}
		x.out.WriteByte('\n')
	}
	for _, f := range a.Findings {
		fmt.Fprintf(&x.out, "  %s %s\n", f.Of, reason(f.Reason))
		if f.Change != nil {
			fmt.Fprintf(&x.out, "    %s\n", changeText(*f.Change))
		}
		if !f.Until.IsZero() {
			fmt.Fprintf(&x.out, "    until +%s\n", f.Until.Sub(epoch))
		}
	}
	if len(a.Findings) == 0 {
		x.out.WriteString("  nothing\n")
		for _, f := range a.Facts {
			if strings.HasPrefix(subject, "node/") && (f.Name == "node group" || f.Name == "state") || strings.HasPrefix(subject, "nodepool/") {
				fmt.Fprintf(&x.out, "    %s: %s\n", f.Name, f.Value)
			}
		}
	}
	for i := range a.Alternatives {
		fmt.Fprintf(&x.out, "  would %s\n", alternativeText(&a.Alternatives[i]))
	}
}

// flip makes the changes of the first way, by Apply and nothing else, and decides on what comes of it: the pod must have a place, the
// machine must go.
func (x *script) flip(subject string) {
	snap := x.st.Snapshot(x.now)
	a, err := Why(snap, x.mem, x.now, x.pol, subject)
	if err != nil || len(a.Ways) == 0 {
		x.t.Errorf("flip %s: no way, %v", subject, err)
		return
	}
	fmt.Fprintf(&x.out, "flip %s\n", subject)
	if was := x.became(snap, x.now, subject); was != "" {
		x.t.Errorf("flip %s: without a change already %s", subject, was)
	}
	w := a.Ways[0]
	for _, ch := range w.Changes {
		if snap, err = Apply(snap, ch); err != nil {
			x.t.Errorf("flip %s: %v", subject, err)
			return
		}
		fmt.Fprintf(&x.out, "  %s\n", changeText(ch))
	}
	now := x.now
	if !w.After.IsZero() {
		now = w.After
		fmt.Fprintf(&x.out, "  wait until +%s\n", now.Sub(epoch))
	}
	got := x.became(snap, now, subject)
	if got == "" {
		x.t.Errorf("flip %s: %v by %s changes nothing", subject, w.Changes, now)
	}
	fmt.Fprintf(&x.out, "  → %s\n    foretold: %s\n", got, alternativeText(&w.Then))
	if w.Waiting > 1 {
		fmt.Fprintf(&x.out, "    starts %d of %d\n", w.Starts, w.Waiting)
	}
}

// became decides a few times on a cluster in which nothing else happens, and says what becomes of an object; empty: nothing.
func (x *script) became(s *model.Snapshot, now time.Time, subject string) string {
	kind, name, _ := strings.Cut(subject, "/")
	mem := x.mem
	for range 4 {
		var out Output
		out, mem = Step(s, mem, now, x.pol, Request{Solve: true})
		for _, d := range out.Pods {
			if kind == "pod" && d.Pod.Key() == name && d.Outcome != plan.Refused && d.Outcome != plan.NotOurs {
				return "pod: " + string(d.Outcome)
			}
		}
		for _, m := range out.Commands {
			for _, u := range m.Candidates {
				if kind == "node" && u.Node.Name == name {
					return fmt.Sprintf("node goes, being %s: %d come for it", m.Cause, max(len(m.Replacements), 0))
				}
			}
		}
		for _, y := range out.Actions {
			if u, ok := y.(plan.UpdateClaim); ok && kind == "node" && u.Conditions["Initialized"].True() {
				return "node is initialised"
			}
			if d, ok := y.(plan.DeleteClaim); ok && kind == "node" && d.Why.About() == "node/"+name {
				return "node is deleted, being " + string(d.Why.Code)
			}
		}
		now = now.Add(x.pol.SearchInterval)
	}
	return ""
}
