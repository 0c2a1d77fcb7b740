// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Why is an answer about one object, and what was decided about it before.
type Why struct {
	plan.Answer
	Gone    bool           `json:"gone,omitempty"` // the cluster doesn't have the object any more: Decided is all that is known of it
	Decided []ledger.Entry `json:"decided"`        // oldest first
}

// WhyJSON writes an answer for programs.
func WhyJSON(w io.Writer, a *Why) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(a)
}

// mostDecided is how many earlier decisions the text shows; the JSON has all.
const mostDecided = 10

// WhyText writes an answer for people.
func WhyText(w io.Writer, a *Why) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s at %s\n", a.Subject, a.At.UTC().Format(time.RFC3339))
	for _, f := range a.Facts {
		fmt.Fprintf(&b, "  %s: %s\n", f.Name, f.Value)
	}
	ways := slices.DeleteFunc(slices.Clone(a.Ways), func(w plan.Way) bool { return !w.IsEditable() })
	of, offered := plan.Code(""), map[plan.Change]bool{}
	for _, f := range groupPods(byCause(ofAnyCause(a.Subject, a.Findings))) {
		if f.Of != of {
			of = f.Of
			fmt.Fprintf(&b, "\n%s\n", heading(a.Subject, of))
		}
		pool := ""
		if of == plan.Demand && f.Reason.Pool != "" && a.Subject != "nodepool/"+f.Reason.Pool {
			pool = "NodePool " + f.Reason.Pool + ": "
		}
		if f.Pods > 0 {
			pool += model.Count(f.Pods, "pod") + ": "
		}
		fmt.Fprintf(&b, "  - %s%s\n", pool, Sentence(f.Reason))
		// Where it is known what starts a pod, a change that only ends one obstacle is not told.
		waits := f.Reason.Code == plan.Quiet && !f.Until.IsZero() && f.Until.Sub(a.At) < time.Hour // what helps is to wait
		isKnown := of == plan.Demand && isOfPods(a.Subject) && len(a.Ways) > 0
		if f.Change != nil && f.Change.IsEditable() && !isKnown && !waits && !offered[*f.Change] && !slices.ContainsFunc(ways, func(w plan.Way) bool { return w.Of == plan.Demand && f.Of == plan.Demand }) {
			offered[*f.Change] = true
			fmt.Fprintf(&b, "    change: %s\n", change(*f.Change))
		}
		switch {
		case f.Until.IsZero(), f.Reason.Code == plan.OutOfCapacity && !f.Until.After(a.At):
		case f.Reason.Code == plan.OutOfCapacity:
			fmt.Fprintf(&b, "    next attempt: %s, in %s\n", f.Until.UTC().Format(time.RFC3339), lengthText(f.Until.Sub(a.At)))
		default:
			fmt.Fprintf(&b, "    until %s\n", f.Until.UTC().Format(time.RFC3339))
		}
	}
	switch {
	case a.Gone:
		fmt.Fprintf(&b, "\nIt no longer exists. Past decisions about it:\n")
	default:
		if s := underWay(a); s != "" {
			fmt.Fprintf(&b, "\n%s\n", s)
		}
	}
	if len(a.Alternatives) > 0 {
		fmt.Fprintf(&b, "\n%s\n", alternativesHeading(a))
		told := map[string]bool{}
		for i := range a.Alternatives {
			if text := alternative(a.Subject, &a.Alternatives[i]); !told[text] {
				told[text] = true
				fmt.Fprintf(&b, "  - %s\n", text)
			}
		}
	}
	if len(ways) > 0 {
		fmt.Fprintf(&b, "\nWhat would change that, best first\n")
		for i := range ways {
			fmt.Fprintf(&b, "  %d. %s\n", i+1, way(a.Subject, &ways[i]))
		}
	}
	if rows := decidedRows(a.Decided); len(rows) > 0 {
		fmt.Fprintf(&b, "\nPast decisions\n")
		first := max(0, len(rows)-mostDecided)
		if first > 0 {
			left := 0
			for _, x := range rows[:first] {
				left += 1 + x.more
			}
			fmt.Fprintf(&b, "  (%d earlier entries left out; -o json has them)\n", left)
		}
		for _, x := range rows[first:] {
			fmt.Fprintln(&b, x.text())
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// isOfPods reports whether an answer is about a pod, or about those of a Deployment.
func isOfPods(subject string) bool {
	kind, _, _ := strings.Cut(subject, "/")
	return kind == "pod" || kind == "deployment"
}

// decidedRow is an entry, and how many others say the same of other pods.
type decidedRow struct {
	ledger.Entry
	why  string
	more int
}

// decidedRows returns entries with those as one that refuse pods for the same reasons within a minute, such as all pods of a Deployment.
func decidedRows(list []ledger.Entry) (out []decidedRow) {
	refusals := map[string][]int{} // by what they say: indexes into out
	for _, e := range list {
		why := make([]string, 0, len(e.Why))
		for _, r := range e.Why {
			why = append(why, Sentence(r))
		}
		x := decidedRow{Entry: e, why: strings.Join(why, "; ")}
		if e.Kind != ledger.Refuse {
			out = append(out, x)
			continue
		}
		// Entries are in order of time: rows more than a minute old take no more.
		rows := refusals[x.why]
		for len(rows) > 0 && e.At.Sub(out[rows[0]].At) > time.Minute {
			rows = rows[1:]
		}
		if len(rows) > 0 && out[rows[0]].Subject != e.Subject { // all of them are about one subject
			out[rows[0]].more++
		} else {
			rows = append(rows, len(out))
			out = append(out, x)
		}
		refusals[x.why] = rows
	}
	return out
}

func (x *decidedRow) text() string {
	at := x.At.UTC().Format(time.RFC3339)
	if x.Count > 1 {
		at += fmt.Sprintf(" to %s, %d times,", x.Last.UTC().Format(time.RFC3339), x.Count)
	}
	line := fmt.Sprintf("  %s %s %s", at, HistoryWord(&x.Entry), x.Subject)
	if x.more > 0 {
		line += fmt.Sprintf(" and %d more", x.more)
	}
	if line += ": " + x.why; x.Outcome != "" {
		line += " (" + outcomeText(x.Outcome) + ")"
	}
	return line
}

// byCause returns findings with those of each cause together, causes in the order of their first finding.
func byCause(list []plan.Finding) []plan.Finding {
	first := map[plan.Code]int{}
	for i, f := range list {
		if _, known := first[f.Of]; !known {
			first[f.Of] = i
		}
	}
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(x, y plan.Finding) int { return cmp.Compare(first[x.Of], first[y.Of]) })
	return out
}

// anyCause stands for every cause for which nodes of a NodePool may be removed.
const anyCause plan.Code = "any"

// ofAnyCause returns findings with those of a NodePool that hold for each cause as one.
func ofAnyCause(subject string, list []plan.Finding) (out []plan.Finding) {
	if !strings.HasPrefix(subject, "nodepool/") {
		return list
	}
	type held struct {
		reason plan.Reason
		until  time.Time
		change string
	}
	of := func(f *plan.Finding) held {
		h := held{f.Reason, f.Until, ""}
		if f.Change != nil {
			h.change = change(*f.Change)
		}
		return h
	}
	causesOf := map[held]int{}
	for i := range list {
		if causes[list[i].Of].keptInPool != "" {
			causesOf[of(&list[i])]++
		}
	}
	told := map[held]bool{}
	for i, f := range list {
		h := of(&list[i])
		if causes[f.Of].keptInPool == "" || causesOf[h] < len(poolCauses) {
			out = append(out, f)
			continue
		}
		if f.Of = anyCause; !told[h] {
			told[h], out = true, append(out, f)
		}
	}
	return out
}

// poolCauses are the causes that an answer about a NodePool goes through.
var poolCauses = [...]plan.Code{plan.Empty, plan.Underutilized, plan.Drifted}

// groupPods has one finding for all pods that the same holds for, where the answer has one for each.
func groupPods(list []plan.Finding) []plan.Finding {
	var out []plan.Finding
	at := map[plan.Finding]int{} // by what they share
	pods := map[int]int{}
	for _, f := range list {
		if f.Reason.Subject.Kind() != "pod" || f.Pods > 0 {
			out = append(out, f)
			continue
		}
		shared := f
		var edit plan.Change
		if f.Change != nil {
			edit = *f.Change
		}
		if edit.Object == string(f.Reason.Subject) {
			edit.Object = "each pod"
		}
		shared.Reason.Subject, shared.Change = plan.ObjectOf("", fmt.Sprint(edit)), nil
		i, known := at[shared]
		if !known {
			i = len(out)
			at[shared] = i
			out = append(out, f)
		}
		if pods[i]++; pods[i] > 1 {
			out[i].Pods = pods[i]
			out[i].Reason.Subject = "each"
			if f.Reason.Code == plan.DisruptionBudgetPDB {
				out[i].Reason.Subject = "any of them"
			}
			if f.Change != nil {
				out[i].Change = &edit
			}
		}
	}
	return out
}

// alternativesHeading is what is said of the alternatives: whether they are possible, and would be done.
func alternativesHeading(a *Why) string {
	impossible := func(alt plan.Alternative) bool { return alt.Kind == plan.Replace && len(alt.Machines) == 0 }
	switch {
	case strings.HasPrefix(a.Subject, "nodepool/"):
		return "On nodes of other NodePools"
	case !slices.ContainsFunc(a.Alternatives, func(alt plan.Alternative) bool { return !impossible(alt) }):
		return "Not possible"
	case len(a.Findings) > 0:
		return "Possible if nothing blocked it"
	}
	return "Possible"
}

// outcomeText says an entry's outcome: of a node that was kept, what it was looked at for.
func outcomeText(outcome string) string {
	cause, ok := strings.CutPrefix(outcome, "looked at because: ")
	if !ok {
		return outcome
	}
	if text := causes[plan.Code(cause)].evaluated; text != "" {
		return text
	}
	return outcome
}

// requiredAffinity is a field of affinity, of which changes mean the required part.
var requiredAffinity = regexp.MustCompile(`spec\.affinity\.\w+ffinity`)

// change says an edit, and which nodes it makes drift.
func change(c plan.Change) string {
	return edit(c) + with(" (", driftText(c), ")")
}

// driftText says which nodes a change makes drift; empty: none.
func driftText(c plan.Change) string {
	if c.Drifts == 0 {
		return ""
	}
	if c.DriftBlocked {
		return "causes drift of " + model.Count(c.Drifts, "node") + ", whose replacement disruption budgets block"
	}
	return "causes drift of " + model.Count(c.Drifts, "node") + " and evicts " + model.Count(c.Evicts, "pod")
}

// edit says an edit.
func edit(c plan.Change) string {
	if c.Field == "" && c.Op == plan.Add {
		return "create " + c.Object
	}
	if c.Field == "" {
		return string(c.Op) + " " + c.Object
	}
	if c.Object == plan.Controller {
		return "the controller's flag " + controllerFlag(c)
	}
	at := c.Object + " " + requiredAffinity.ReplaceAllString(c.Field, "$0.requiredDuringSchedulingIgnoredDuringExecution")
	switch c.Op {
	case plan.Add:
		return at + ": add " + c.Value
	case plan.Remove:
		return at + ": remove"
	}
	return at + ": " + c.Value
}

// controllerFlag is a flag of the controller as a command line has it.
func controllerFlag(c plan.Change) string {
	if strings.Contains(c.Field, "=") { // of several of one name, each for another resource
		return c.Field + ":" + c.Value
	}
	return c.Field + "=" + c.Value
}

// way says changes of an answer about a subject, and what follows from them.
func way(subject string, w *plan.Way) string {
	parts := make([]string, 0, len(w.Changes)+1)
	for _, c := range w.Changes {
		parts = append(parts, change(c))
	}
	if !w.After.IsZero() {
		parts = append(parts, "wait until "+w.After.UTC().Format(time.RFC3339))
	}
	if len(parts) == 0 {
		return "no change is needed: " + alternative(subject, &w.Then)
	}
	s := strings.Join(parts, ", and ") + "; then: " + alternative(subject, &w.Then)
	if w.Waiting > 1 {
		s += "; starts " + startsText(w)
	}
	return s
}

// startsText says how many of the pods that wait for the same reason a way starts.
func startsText(w *plan.Way) string {
	if w.Starts == w.Waiting {
		return fmt.Sprintf("all %d pods that are pending for this reason", w.Waiting)
	}
	return fmt.Sprintf("%d of the %s that are pending for this reason", w.Starts, model.Count(w.Waiting, "pod"))
}

// nodesOf names the nodes that an alternative for a subject is about, and their pods.
func nodesOf(subject string) (nodes, pods string) {
	switch kind, _, _ := strings.Cut(subject, "/"); kind {
	case "node":
		return "it", "its pods"
	case "nodepool":
		return "its nodes", "its pods"
	case "deployment":
		return "the nodes of its pods", "the pods of these nodes"
	}
	return "its node", "the pods of its node"
}

// alternative says what could be done about a subject and what it would cost.
func alternative(subject string, a *plan.Alternative) string {
	var machines []string
	count := 0
	for i := range a.Machines {
		m := &a.Machines[i]
		count += m.Count
		each := ""
		if m.Count > 1 {
			each = " each"
		}
		machines = append(machines, fmt.Sprintf("%d × %s in %s (%s) of NodePool %s for %s/h%s", m.Count, m.Type, or(m.Zone, "any zone"), m.CapacityType, m.Pool, shortUSD(m.PriceMicro), each+
			with(" (price set by NodeOverlay ", m.PriceOverlay, ")")))
	}
	launched := strings.Join(machines, ", ")
	s := ""
	nodes, pods := nodesOf(subject)
	switch {
	case a.Kind == plan.Fit:
		return "fits on " + a.On
	case a.Kind == plan.Usable:
		return a.On + " takes pods"
	case a.Kind == plan.Buy && count > 1:
		return "launch " + launched + ", " + shortUSD(a.NewMicro) + "/h in total"
	case a.Kind == plan.Buy:
		return "launch " + launched
	case a.Kind == plan.Replace && launched == "":
		return pods + " can't run elsewhere" + with(": ", reasonOf(a.Why), "")
	case a.Kind == plan.Replace:
		s = "replace " + nodes + " with " + launched
	case a.Kind == plan.TerminateFirst:
		s = "remove " + nodes + ", then launch a replacement with the capacity that this frees"
	default:
		s = "remove " + nodes
	}
	s += "; evicts " + model.Count(a.Pods, "pod")
	if a.Standing > 0 {
		s += fmt.Sprintf(" (%d to existing nodes)", a.Standing)
	}
	if saved := a.SavingMicro(); saved >= 0 {
		s += ", saves " + shortUSD(saved) + "/h of " + shortUSD(a.NowMicro) + "/h"
	} else {
		s += ", costs " + shortUSD(-saved) + "/h more than now"
	}
	s += ", disruption cost " + shortUSD(a.OnceMicro)
	return s + with("; not done: ", reasonOf(a.Why), "")
}

// heading is what a list of findings about a subject is about.
func heading(subject string, of plan.Code) string {
	if strings.HasPrefix(subject, "nodepool/") {
		switch of {
		case plan.Demand:
			return "What keeps it from launching nodes"
		case anyCause:
			return "What keeps its nodes from being disrupted"
		}
		if text := causes[of].keptInPool; text != "" {
			return text
		}
	}
	if isOfPods(subject) {
		switch of {
		case plan.PodsNotCreated:
			return "Why some of its pods do not exist"
		case plan.Underutilized:
			return "What keeps it from being rescheduled"
		case plan.Draining:
			return "What keeps it on a node that is being drained"
		}
	}
	switch of {
	case plan.Demand:
		return "Why no node is launched for it"
	case plan.Rebooting:
		return "What its reboot is waiting for"
	case plan.Moving:
		return "What its removal is waiting for"
	case plan.Launching:
		return "What the launch is waiting for"
	case plan.Registering:
		return "What its registration is waiting for"
	case plan.Draining:
		return "What its drain is waiting for"
	case plan.Terminating:
		return "What its termination is waiting for"
	case plan.PodTerminating:
		return "What its deletion is waiting for"
	case plan.Landed:
		return "What its reservation is waiting for"
	case plan.Initializing:
		if strings.HasPrefix(subject, "pod/") {
			return "What its node is waiting for"
		}
		return "What its initialization is waiting for"
	}
	return or(causes[of].kept, "What blocks "+string(of))
}

// reasonOf is the sentence of a reason, empty where there is none.
func reasonOf(r plan.Reason) string {
	if r.Code == "" {
		return ""
	}
	return Sentence(r)
}
