// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
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
	ways := slices.DeleteFunc(slices.Clone(a.Ways), func(w plan.Way) bool {
		return slices.ContainsFunc(w.Changes, func(c plan.Change) bool { return !c.IsEditable() })
	})
	of, offered := plan.Code(""), map[plan.Change]bool{}
	for _, f := range groupPods(a.Findings) {
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
		if f.Change != nil && f.Change.IsEditable() && !offered[*f.Change] && !slices.ContainsFunc(ways, func(w plan.Way) bool { return w.Of == plan.Demand && f.Of == plan.Demand }) {
			offered[*f.Change] = true
			fmt.Fprintf(&b, "    change: %s\n", change(*f.Change))
		}
		if !f.Until.IsZero() {
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
		for i := range a.Alternatives {
			fmt.Fprintf(&b, "  - %s\n", alternative(&a.Alternatives[i]))
		}
	}
	if len(ways) > 0 {
		fmt.Fprintf(&b, "\nWhat would change that, best first\n")
		for i := range ways {
			fmt.Fprintf(&b, "  %d. %s\n", i+1, way(&ways[i]))
		}
	}
	if n := len(a.Decided); n > 0 {
		fmt.Fprintf(&b, "\nPast decisions\n")
		first := max(0, n-mostDecided)
		if first > 0 {
			fmt.Fprintf(&b, "  (%d earlier entries left out; -o json has them)\n", first)
		}
		for _, e := range a.Decided[first:] {
			var why []string
			for _, r := range e.Why {
				why = append(why, Sentence(r))
			}
			at := e.At.UTC().Format(time.RFC3339)
			if e.Count > 1 {
				at += fmt.Sprintf(" to %s, %d times,", e.Last.UTC().Format(time.RFC3339), e.Count)
			}
			line := fmt.Sprintf("  %s %s %s: %s", at, HistoryWord(&e), e.Subject, strings.Join(why, "; "))
			if e.Outcome != "" {
				line += " (" + outcomeText(e.Outcome) + ")"
			}
			fmt.Fprintln(&b, line)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

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
	switch plan.Code(cause) {
	case plan.Empty:
		return "looked at because it is empty"
	case plan.Underutilized:
		return "looked at for consolidation"
	case plan.Drifted:
		return "looked at because it has drifted"
	case plan.Expired:
		return "looked at because it has expired"
	case plan.Unhealthy:
		return "looked at because it is unhealthy"
	}
	return outcome
}

// requiredAffinity is a field of affinity, of which changes mean the required part.
var requiredAffinity = regexp.MustCompile(`spec\.affinity\.\w+ffinity`)

// change says an edit.
func change(c plan.Change) string {
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

func way(w *plan.Way) string {
	parts := make([]string, 0, len(w.Changes)+1)
	for _, c := range w.Changes {
		parts = append(parts, change(c))
	}
	if !w.After.IsZero() {
		parts = append(parts, "wait until "+w.After.UTC().Format(time.RFC3339))
	}
	if len(parts) == 0 {
		return "no change is needed: " + alternative(&w.Then)
	}
	s := strings.Join(parts, ", and ") + "; then: " + alternative(&w.Then)
	if w.Waiting > 1 {
		s += "; starts " + startsText(w)
	}
	return s
}

// startsText says how many of the pods that wait for the same reason a way starts.
func startsText(w *plan.Way) string {
	if w.Starts == w.Waiting {
		return fmt.Sprintf("all %d pods that wait for this reason", w.Waiting)
	}
	return fmt.Sprintf("%d of the %s that wait for this reason", w.Starts, model.Count(w.Waiting, "pod"))
}

// alternative says what could be done and what it would cost.
func alternative(a *plan.Alternative) string {
	var machines []string
	for i := range a.Machines {
		m := &a.Machines[i]
		each := ""
		if m.Count > 1 {
			each = " each"
		}
		machines = append(machines, fmt.Sprintf("%d × %s in %s (%s) of NodePool %s for %s/h%s", m.Count, m.Type, or(m.Zone, "any zone"), m.CapacityType, m.Pool, shortUSD(m.PriceMicro), each+
			with(" (price set by NodeOverlay ", m.PriceOverlay, ")")))
	}
	launched := strings.Join(machines, ", ")
	s := ""
	switch {
	case a.Kind == plan.Fit:
		return "fits on " + a.On
	case a.Kind == plan.Usable:
		return a.On + " takes pods"
	case a.Kind == plan.Buy:
		return "launch " + launched
	case a.Kind == plan.Replace && launched == "":
		return "its pods can't run elsewhere" + with(": ", reasonOf(a.Why), "")
	case a.Kind == plan.Replace:
		s = "replace it with " + launched
	default:
		s = "remove it"
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

// reasonOf is the sentence of a reason, empty where there is none.
func reasonOf(r plan.Reason) string {
	if r.Code == "" {
		return ""
	}
	return Sentence(r)
}

// heading is what a list of findings about a subject is about.
func heading(subject string, of plan.Code) string {
	if strings.HasPrefix(subject, "nodepool/") {
		switch of {
		case plan.Demand:
			return "What keeps it from launching nodes"
		case plan.Empty:
			return "What keeps its empty nodes"
		case plan.Underutilized:
			return "What keeps its nodes from being consolidated"
		case plan.Drifted:
			return "What keeps drifted nodes from being replaced"
		}
	}
	if kind, _, _ := strings.Cut(subject, "/"); kind == "pod" || kind == "deployment" {
		switch of {
		case plan.Underutilized:
			return "What keeps it from being rescheduled"
		case plan.Draining:
			return "What keeps it on a node that is being drained"
		}
	}
	switch of {
	case plan.Demand:
		return "Why no node is launched for it"
	case plan.Empty:
		return "It is empty; why it is kept"
	case plan.Underutilized:
		return "Why it is not consolidated"
	case plan.Drifted:
		return "It has drifted; why it is not replaced"
	case plan.Expired:
		return "It has expired; why it is not replaced"
	case plan.Unhealthy:
		return "It is unhealthy; why it is not replaced"
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
			return "What the node it waits for is waiting for"
		}
		return "What its initialization is waiting for"
	}
	return "What blocks " + string(of)
}

// kept says what keeps a node from being disrupted; empty: not a reason of that kind.
func kept(r plan.Reason) string {
	object := objectName(r.Subject)
	switch r.Code {
	case plan.NotInitialized:
		return object + " is not initialized yet"
	case plan.Moving:
		return object + " is already being disrupted" + with(" (", string(plan.DetailOf[plan.OfMoving](r).Command), ")")
	case plan.NoPrice:
		d := plan.DetailOf[plan.OfNoPrice](r)
		return "the catalog no longer has the offering of " + object + " (" + d.InstanceType + " " + d.Zone + " " + d.CapacityType + "), so its price is unknown"
	case plan.DriftBackOff:
		d := plan.DetailOf[plan.OfDriftBackOff](r)
		return "nodes of " + object + " drifted soon after they were launched, " + model.Count(d.Times, "time") + " so far; drifted nodes are replaced when the NodePool and its node class have been unchanged for " +
			durationText(d.Rest) + " (last change: " + instant(d.Changed) + ")"
	case plan.NodeDoNotDisrupt:
		return object + " is annotated " + plan.DetailOf[plan.OfNodeHeld](r).Annotation + "=true"
	case plan.PodDoNotDisrupt:
		d := plan.DetailOf[plan.OfPodHeld](r)
		return object + " is annotated " + d.Annotation + "=" + d.Value
	case plan.SafeToEvict:
		d := plan.DetailOf[plan.OfSafeToEvict](r)
		return object + " is annotated " + d.Annotation + "=" + d.Value
	case plan.Nominated:
		return object + " is kept for pods that are about to be scheduled on it"
	case plan.ConsolidationOff:
		return object + " has spec.disruption.consolidationPolicy: " + or(plan.DetailOf[plan.OfConsolidationOff](r).Policy, "not set") + ", so only empty nodes are removed"
	case plan.Static:
		if r.Detail == nil {
			return "not reserved: a static NodePool does not launch its nodes for specific pods"
		}
		return object + " keeps a fixed number of nodes (spec.replicas: " + strconv.FormatInt(plan.DetailOf[plan.OfStatic](r).Replicas, 10) + ")"
	case plan.ClusterMinimum:
		_, flag := plan.LimitField(model.ClusterLimits, string(plan.DetailOf[plan.OfClusterMinimum](r).Resource))
		d := plan.DetailOf[plan.OfClusterMinimum](r)
		want, have := amountPair(d.Resource, d.Least, d.Have)
		return "without the node, the cluster would be below the minimum of " + flag + " (minimum " + want + ", now " + have + ")"
	case plan.GroupMinimum:
		return object + " is at its minimum size (" + strconv.FormatInt(plan.DetailOf[plan.OfGroupMinimum](r).Least, 10) + ")"
	case plan.GroupNotChosen:
		return "the NodeGroupClass no longer selects " + object + ", so its nodes are left unchanged; see its spec.selectorTerms and its condition GroupsResolved"
	case plan.GroupUnread:
		return "the NodeGroupClass of " + object + " has no status yet, so its minimum size is unknown; Dovetail writes it within a minute"
	case plan.GroupRefresh:
		return "the cloud is replacing the nodes of " + object + " itself (" + plan.DetailOf[plan.OfGroupRefresh](r).Status + ")"
	case plan.WellUsed:
		d := plan.DetailOf[plan.OfWellUsed](r)
		return fmt.Sprintf("pods request %d %% of the %s of %s; its node group removes nodes at or below %d %%", d.Used, d.Resource, object, d.Most)
	case plan.Quiet:
		d := plan.DetailOf[plan.OfQuiet](r)
		if d.Never {
			return object + " has spec.disruption.consolidateAfter: Never"
		}
		return "pods were added or removed " + lengthText(d.Since) + " ago; spec.disruption.consolidateAfter is " + lengthText(d.After)
	case plan.DelayAfterAdd, plan.DelayAfterDelete, plan.DelayAfterFailure:
		what := map[plan.Code]string{plan.DelayAfterAdd: "a node was launched", plan.DelayAfterDelete: "the removal of a node began",
			plan.DelayAfterFailure: "the removal of a node failed"}[r.Code]
		d := plan.DetailOf[plan.OfDelay](r)
		return what + " " + lengthText(d.Since) + " ago; the NodeGroupClass of " + object + " then delays removals for " + lengthText(d.Delay) + " (" + d.Field + ")"
	case plan.Payback:
		return object + " was launched to save money and pays off only after " + instant(plan.DetailOf[plan.OfPayback](r).Until)
	case plan.BadRestartCost:
		return object + " has metadata.annotations[" + model.AnnotationRestartCost + "]: " + strconv.Quote(plan.DetailOf[plan.OfBadRestartCost](r).Value) +
			", which is ignored; it must be dollars from 0 to 1000000, such as 0.05"
	case plan.NoController:
		return object + " has no controller that would recreate it"
	case plan.LocalStorage:
		return object + " would lose its local volume " + plan.DetailOf[plan.OfLocalStorage](r).Volume + ", and its NodeGroupClass keeps nodes with such pods"
	case plan.SystemPod:
		return object + " is in kube-system without a PodDisruptionBudget; its NodeGroupClass keeps its node until the pod is " + lengthText(plan.DetailOf[plan.OfSystemPod](r).After) + " old (now " +
			lengthText(plan.DetailOf[plan.OfSystemPod](r).Age) + ")"
	case plan.CustomController:
		return object + " is controlled by a " + plan.DetailOf[plan.OfCustomController](r).Kind + ", and its NodeGroupClass keeps nodes with pods of controllers that are not built into Kubernetes"
	case plan.FewReplicas:
		d := plan.DetailOf[plan.OfFewReplicas](r)
		return fmt.Sprintf("the controller of %s has %s; its NodeGroupClass keeps nodes with pods of controllers that have fewer than %d", object, model.Count(d.Have, "pod"), d.Least)
	case plan.DisruptionBudgetPDB:
		return "PodDisruptionBudget " + plan.DetailOf[plan.OfPDB](r).Name + " allows no disruption of " + object + " now"
	case plan.SeveralPDBs:
		d := plan.DetailOf[plan.OfSeveralPDBs](r)
		return object + " is covered by " + strconv.Itoa(d.Count) + " PodDisruptionBudgets (" + listText(d.Names.Names(), 0) + "); the eviction API always refuses such a pod"
	case plan.GangApart:
		d := plan.DetailOf[plan.OfGangApart](r)
		return object + " belongs to " + objectName(d.Gang) + ", whose pods run on " + strconv.Itoa(d.Nodes) + " nodes; the pods of a gang are moved together or not at all"
	case plan.Budget:
		return budgetReached(object, plan.DetailOf[plan.OfBudget](r))
	case plan.NoHome:
		s := object + " fits no other node, and none can be launched for it"
		if code := plan.DetailOf[plan.OfNoHome](r).Code; code != "" && code != plan.NoPools {
			f := r.Fields()
			s += " (" + f.Key + with(": requires ", f.Want, "") + with(", available: ", f.Have, "") + ")"
		}
		return s
	case plan.NotCheaper:
		d := plan.DetailOf[plan.OfNotCheaper](r)
		least := ""
		if d.AtLeast {
			least = "at least "
		}
		return "no cheaper node fits its pods: it costs " + money(d.Now) + "/h, and the cheapest alternative " + least + money(d.Elsewhere) + "/h"
	case plan.DoesNotPay:
		d := plan.DetailOf[plan.OfDoesNotPay](r)
		if d.OverTime {
			return "the saving is too small for the disruption: at most " + money(d.Saving) + " in total, and the disruption costs " + money(d.Least) + " once"
		}
		any := ""
		if d.AnyType {
			any = " with any of the types kept by minValues"
		}
		return "the saving is too small: " + money(d.Saving) + "/h, at least " + money(d.Least) + "/h is required" + any
	case plan.ShortLived:
		d := plan.DetailOf[plan.OfShortLived](r)
		return object + " is expected to scale again in " + lengthText(d.After) + ", as it has before; until then the saving is at most " + money(d.Saving) +
			" in total, and the disruption costs " + money(d.Cost) + " once"
	case plan.LaunchesPaused:
		return "consolidation recently removed nodes of " + object + ", and launches no replacement there until " + instant(plan.DetailOf[plan.OfLaunchesPaused](r).Until)
	case plan.NotKept:
		return "the replacement can't be reserved (" + string(plan.DetailOf[plan.OfNotKept](r).Because) + "), so " + object + " might not fit on it"
	case plan.SpotToSpot:
		return "only another spot node is cheaper, and feature gate " + plan.DetailOf[plan.OfSpotToSpot](r).Gate + " is off"
	case plan.NotBalanced:
		return "policy Balanced requires a score of at least 0.5; the best command scores " + strconv.FormatFloat(plan.DetailOf[plan.OfNotBalanced](r).Score, 'f', 2, 64)
	case plan.RepairBlocked:
		d := plan.DetailOf[plan.OfRepairBlocked](r)
		return fmt.Sprintf("too many nodes of %s are unhealthy to repair them: %d of %s, repair allows at most %d", object, d.Unhealthy, model.Count(d.Total, "node"), d.Most)
	case plan.NoSurge:
		f := r.Fields()
		return object + " can't be replaced before it is evicted: " + or(f.Have, f.Key) + with(" (", f.Key, ")")
	case plan.StartupTaints:
		d := plan.DetailOf[plan.OfNodeTaint](r)
		return or(object, "the NodePool") + " has startup taint " + or(d.Taint, d.Key)
	case plan.NoReplacementFound:
		d := plan.DetailOf[plan.OfNoReplacementFound](r)
		return model.Count(d.Times, "search") + " found no way to remove " + object + "; the next search is after " + instant(d.Until)
	case plan.CommandFailed:
		return "the last disruption failed and was cancelled" + with(": ", string(plan.DetailOf[plan.OfAborted](r).Said), "")
	case plan.Aborted:
		d := plan.DetailOf[plan.OfAborted](r)
		if !d.Until.IsZero() {
			return "the last disruption was cancelled" + with(" (", string(d.Last), ")") + ", " + model.Count(d.Times, "time") + " so far; the next attempt is after " + instant(d.Until)
		}
		return "the last disruption was cancelled" + with(": ", string(d.Said), "")
	}
	return ""
}

// budgetReached says that a disruption budget allows no further disruption.
func budgetReached(object string, d plan.OfBudget) string {
	s := "the disruption budget of " + object + with(" (", d.Field(), ")")
	switch {
	case d.Budget == 0:
		return s + fmt.Sprintf(" is reached: %d of %s are unavailable", d.Unavailable, model.Count(int(d.Total), "node"))
	case d.Allows == 0:
		s += " allows no disruption"
	default:
		s += fmt.Sprintf(" is reached: %d unavailable, at most %d allowed", d.Unavailable, d.Allows)
	}
	if d.Schedule != "" {
		s += ", schedule " + strconv.Quote(d.Schedule)
	}
	return s
}

// action says why something is done; empty: not a reason of that kind.
func action(r plan.Reason) string {
	object := objectName(r.Subject)
	switch r.Code {
	case plan.Demand:
		return "pods need it"
	case plan.Scheduling:
		return "waiting for kube-scheduler to bind the pod"
	case plan.PodsEnding:
		return "waiting for pods that are being deleted on its node"
	case plan.Launching:
		return "the NodeClaim has no instance yet"
	case plan.Registering:
		return "its node has joined the cluster"
	case plan.Initializing:
		return "its node is ready"
	case plan.Landed:
		return "its pods are all bound"
	case plan.NoAnswer:
		return "the last write got no response and is retried"
	case plan.LandingTimeout:
		return "its pods were not bound within " + timeAllowed(r) + "; the node is open to all pods now"
	case plan.ReservationEnded:
		return "its capacity reservation ended; it is " + or(plan.DetailOf[plan.OfReservationEnded](r).CapacityType, "on-demand") + " now"
	case plan.Empty:
		return "the node is empty"
	case plan.Underutilized:
		d, ok := r.Detail.(plan.OfUnderutilized)
		if !ok {
			return "its pods can run on other nodes at lower cost"
		}
		return "its pods can run on other nodes at lower cost: saves " + money(d.Saving) + "/h, the disruption costs " + money(d.Cost) + " once"
	case plan.Expired:
		if d, ok := r.Detail.(plan.OfExpired); ok {
			return "the node has expired (expireAfter: " + lengthText(d.After) + ")"
		}
		return "the node has expired (expireAfter)"
	case plan.Drifted:
		return "the node has drifted" + with(" (", driftKey(plan.DetailOf[plan.OfDrifted](r).Kind), ")")
	case plan.Unhealthy:
		return "the node is unhealthy" + unhealthyCondition(r)
	case plan.Rebooting:
		if until := plan.DetailOf[plan.OfRebooting](r).Until; !until.IsZero() {
			return objectName(r.Subject) + " is being rebooted to repair it, and replaced unless it is back by " + instant(until)
		}
		return objectName(r.Subject) + " has been rebooted to repair it"
	case plan.Interrupted:
		return "the cloud is interrupting the instance" + with(" (", plan.DetailOf[plan.OfInterrupted](r).Kind, ")")
	case plan.ScaledDown:
		return "the static NodePool has more nodes than spec.replicas"
	case plan.Replicas:
		return "the static NodePool has fewer nodes than spec.replicas"
	case plan.Leftover:
		return "Cluster Autoscaler left taint " + plan.DetailOf[plan.OfLeftover](r).Taint + " on " + objectName(r.Subject) + " and no longer removes it"
	case plan.Adopted:
		return "a member of a node group had no NodeClaim" + with(" (", string(r.Subject), ")")
	case plan.LaunchTimeout:
		return "no instance within " + timeAllowed(r) + with(": ", string(plan.DetailOf[plan.OfTimeout](r).Said), "")
	case plan.RegistrationTimeout:
		return "no node registered within " + timeAllowed(r)
	case plan.InsufficientCap:
		return "the cloud has no capacity for it" + with(": ", said(r), "")
	case plan.NodeClassNotReady:
		return "the node class is not Ready" + with(": ", said(r), "")
	case plan.InstanceGone:
		return "its instance is gone"
	case plan.Orphan:
		return "the instance has no NodeClaim"
	case plan.Draining:
		return "its pods are being evicted"
	case plan.Terminating:
		return "its instance and its objects are being removed"
	case plan.Reclaimed:
		return "its NodePool was deleted and recreated, and owns it again"
	case plan.Deleted:
		return or(object, "it") + " was deleted"
	case plan.TolerateAll:
		return "not reserved: all its pods tolerate every taint" + with(" (", object, ")")
	case plan.PreemptsOthers:
		return "not reserved: kube-scheduler would preempt other pods for " + object + " while the node is reserved"
	case plan.ExtendedResource:
		return "not reserved: it needs " + plan.DetailOf[plan.OfExtendedResource](r).Resource + ", which a device plugin must register"
	case plan.SpreadTaints:
		return "not reserved: " + object + " spreads over " + labelName(plan.DetailOf[plan.OfSpreadTaints](r).TopologyKey) + " with nodeTaintsPolicy Honor and minDomains"
	case plan.PatchRefused:
		return "not reserved: the API server refused the toleration of " + object
	case plan.LandingOff:
		return "not reserved: --landing=off"
	case plan.HeldForBuffer:
		return "capacity is held for " + or(string(plan.DetailOf[plan.OfHeldForBuffer](r).Held), or(objectName(r.Subject), "a CapacityBuffer"))
	}
	return ""
}

// unhealthyCondition says which condition of a node is bad, where the reason holds it.
func unhealthyCondition(r plan.Reason) string {
	d := plan.DetailOf[plan.OfUnhealthy](r)
	if d.Status == "" || driftKey(d.Condition) == "" {
		return ""
	}
	return ": condition " + d.Condition + " is " + d.State()
}

// timeAllowed writes how long something may take.
func timeAllowed(r plan.Reason) string {
	return or(durationText(plan.DetailOf[plan.OfTimeout](r).Within), "the time allowed")
}

// money writes an amount of money with a dollar sign.
func money(micro plan.Micro) string { return "$" + model.Dollars(int64(micro)) }

// driftKey is the kind of drift; empty for the id of a disruption command, which says nothing to people. Reasons that an
// older version kept have it there.
func driftKey(key string) string {
	if _, ok := plan.ReadCommand(key); ok {
		return ""
	}
	return key
}
