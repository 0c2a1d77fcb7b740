// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/doctor"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Doctor is an examination of a cluster, for people.
type Doctor struct {
	*doctor.Report
	Cluster      string   // what was examined: a context of the kubeconfig, or files
	Files        []string // that were read; none: a cluster
	Flags        DoctorFlags
	Catalog      string // where prices are from
	PricesAsOf   string
	PriceFile    string        // empty: none
	ClockSkew    time.Duration // how far this machine's clock is ahead of the cluster's; 0: they are taken as equal
	Elsewhere    bool          // prices are of another region than the nodes
	OwnTypes     bool          // the catalog is of another cloud than the nodes: types are those of nodes with a price in the price file or on their NodeClaims
	NoTypes      bool          // the catalog is of another cloud than the nodes, and no node has a price: there is nothing to compare with
	ByClaim      int           // nodes whose price is what their NodeClaims say that they cost at launch
	ByNode       int           // nodes whose price is that of their own annotation
	Booting      int           // NodeClaims without a node
	BootingMicro int64         // what their nodes cost by the NodeClaims, in micro-dollars an hour; 0: not known
	GroupPools   bool          // there are NodePools of node groups, and what those may launch is not known
	Unknown      []string      // what the prices can't take into account, and what is assumed instead
	Ignored      []string      // codes of findings that somebody has asked to leave out
	Steps        []DoctorStep  // set by Complete
}

// DoctorStep is one thing to do next.
type DoctorStep struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// doctorSteps is how many next steps there are.
const doctorSteps = 3

// DoctorFlags are the flags that an examination depends on, as the words of a command line, for the commands that follow it.
type DoctorFlags struct {
	Cluster  []string // of dovetail
	Kubectl  []string // of kubectl, for the same cluster
	Prices   []string
	Planning []string // of commands that place pods
	Doctor   []string // of doctor alone
}

// Complete leaves out the findings that are ignored and chooses the next steps: the changes of the first findings that
// a command can make, then ways to look closer.
func (d *Doctor) Complete() {
	d.Findings = slices.DeleteFunc(d.Findings, func(f doctor.Finding) bool { return slices.Contains(d.Ignored, string(f.Code)) })
	taken := map[doctor.Code]bool{}
	for i := range d.Findings {
		f := &d.Findings[i]
		if len(d.Steps) == doctorSteps {
			return
		}
		if commands := d.Commands(f); len(commands) > 0 && !taken[f.Code] && !strings.HasPrefix(commands[0], "#") && (f.Severity != doctor.Costly || f.SavingMicro > 0) {
			taken[f.Code] = true
			command := commands[0]
			if len(f.Others) > 0 { // one alone is of no use
				command = strings.Join(commands, " && ")
			}
			d.Steps = append(d.Steps, DoctorStep{command, DoctorSentence(f)})
		}
	}
	more := []DoctorStep{{d.command("plan", "--compare"), "shows the nodes that a repacked cluster would have; 'dovetail record' and 'dovetail replay' compare other NodePools over days"}}
	if len(d.Files) == 0 {
		more = append(more, DoctorStep{d.command("top"), "shows nodes, pending pods and decisions as they change"})
	} else {
		more = append(more, DoctorStep{d.command("plan"), "shows the nodes for pods that are pending"})
	}
	more = append(more, DoctorStep{d.command("doctor", "--html", "doctor.html"), "writes this report as an HTML page"})
	d.Steps = append(d.Steps, more[:doctorSteps-len(d.Steps)]...)
}

// command returns a command line of dovetail about what was examined, with the flags that the examination depends on.
func (d *Doctor) command(verb string, own ...string) string {
	words := append([]string{"dovetail", verb}, own...)
	for _, name := range d.Files {
		words = append(words, "-f", name)
	}
	if verb == "plan" && len(d.Files) == 0 {
		words = append(words, "--live")
	}
	words = slices.Concat(words, d.Flags.Cluster, d.Flags.Prices)
	if verb != "top" {
		words = append(words, d.Flags.Planning...)
	}
	if verb == "doctor" {
		words = append(words, d.Flags.Doctor...)
	}
	return ShellLine(words)
}

// ShellLine writes words as a command line of a POSIX shell.
func ShellLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// ShellWord writes a word as a POSIX shell takes it.
func ShellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+:,./@%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// What the two comparisons say where they move nothing: the first keeps to all that forbids disruption, the second to nothing.
const (
	noneAllowed = "no allowed disruption reduces the cost"
	noneFound   = "no cheaper packing was found"
)

// movesText says what it takes to come from one set of nodes to another, or none where that is nothing and saves nothing.
func movesText(m *doctor.Moves, saves bool, none string) string {
	switch {
	case m.Removed > 0 || len(m.Launched) > 0:
	case !saves:
		return none
	case m.Pods > 0:
		return "reschedule " + model.Count(m.Pods, "pod") + ", so that the pending pods fit on the existing nodes"
	default:
		return "the pending pods fit on the existing nodes"
	}
	return fmt.Sprintf("remove %s, launch %d, reschedule %s", model.Count(m.Removed, "node"), m.LaunchedNodes(), model.Count(m.Pods, "pod"))
}

// doctorSections are the headings of findings by severity.
var doctorSections = [...]string{doctor.Broken: "What does not work", doctor.Costly: "What costs money", doctor.Risky: "What may go wrong"}

// mostFindings is how many findings of one code the text shows; the JSON has all.
const mostFindings = 5

// DoctorText writes an examination for people.
func DoctorText(w io.Writer, d *Doctor) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %s, %s%s\n\n", or(d.Cluster, "cluster"), model.Count(d.Nodes, "node"), model.Count(d.Pods, "pod"), with(" (", pendingText(d.Pending), ")"))
	writeCompared(&b, &d.Compared)
	for _, n := range doctorNotes(d) {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	section := doctor.Severity(-1)
	shown, left := map[doctor.Code]int{}, map[doctor.Code]int{}
	flush := func() {
		for _, c := range doctorCodes {
			if left[c] > 0 {
				fmt.Fprintf(&b, "  - %d more like these; -o json has them all\n", left[c])
			}
		}
		clear(left)
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Severity != section {
			flush()
			section = f.Severity
			fmt.Fprintf(&b, "\n%s\n", doctorSections[section])
		}
		if shown[f.Code]++; shown[f.Code] > mostFindings {
			left[f.Code]++
			continue
		}
		writeFinding(&b, d, f)
	}
	flush()
	if len(d.Findings) == 0 {
		fmt.Fprintf(&b, "\nNo problems found.\n")
	}
	fmt.Fprintf(&b, "\nNext\n")
	for i, s := range d.Steps {
		fmt.Fprintf(&b, "  %d. %s\n     %s\n", i+1, s.Command, s.Why)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func pendingText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + " pending"
}

// writeCompared writes today's cost beside what it could be.
func writeCompared(b *bytes.Buffer, c *doctor.Compared) {
	t := newTable("", "A MONTH>", "NODES>", "")
	if c.IsUnpriced() {
		t.add("Now", "unknown", strconv.Itoa(c.Nodes), "no node has a known price")
		t.write(b)
		return
	}
	today := c.TodayMicro()
	saves := func(micro int64) string {
		if micro >= today {
			return "no savings"
		}
		return "saves " + perMonth(today-micro) + " (" + percent(today-micro, today) + ")"
	}
	nodes := func(m *doctor.Moves) string { return strconv.Itoa(c.Nodes - m.Removed + m.LaunchedNodes()) }
	t.add("Now", perMonth(c.NowMicro), strconv.Itoa(c.Nodes), "")
	if c.PendingMicro > 0 {
		t.add("with nodes for pending pods", perMonth(today), "", "")
	}
	t.add("After consolidation", perMonth(c.ConsolidatedMicro), nodes(&c.Moves), saves(c.ConsolidatedMicro)+": "+movesText(&c.Moves, c.ConsolidatedMicro < today, noneAllowed))
	t.add("Repacked, no blockers", perMonth(c.RepackedMicro), nodes(&c.RepackedMoves), saves(c.RepackedMicro)+": "+movesText(&c.RepackedMoves, c.RepackedMicro < today, noneFound))
	t.add("Least possible", perMonth(c.LeastMicro), "", "no packing of these pods costs less with these NodePools")
	t.write(b)
}

// doctorNotes say what figures rest on.
func doctorNotes(d *Doctor) (out []string) {
	if d.Assumed {
		why, basis := "There is no NodePool to launch from", "compared with prices of EC2 instance families c, m and r in the zones of the nodes"
		if d.GroupPools {
			why = "The instance types of the node groups are unknown here"
		}
		switch {
		case d.NoTypes:
			basis = "there is nothing to compare with, because no instance type of the nodes has a known price (--price-file)"
		case d.OwnTypes:
			basis = "compared with known prices of the nodes' instance types"
		}
		out = append(out, why+": "+basis+".")
	}
	none := d.NoTypes && d.Assumed // no price is used
	var from []string
	switch {
	case none:
	case !d.OwnTypes && d.Catalog != "":
		from = append(from, "the catalog "+d.Catalog+with(" as of ", d.PricesAsOf, ""))
	case d.OwnTypes && d.PriceFile != "":
		from = append(from, d.PriceFile)
	}
	if d.ByClaim > 0 {
		from = append(from, "the NodeClaims of "+model.Count(d.ByClaim, "node")+" (at launch, annotation "+model.AnnotationLaunchPrice+")")
	}
	if d.ByNode > 0 {
		from = append(from, "the annotation "+model.AnnotationPrice+" of "+model.Count(d.ByNode, "node"))
	}
	if len(from) > 0 {
		out = append(out, "Prices are from "+strings.Join(from, " and ")+"; a month has 730 hours.")
	}
	if d.Elsewhere && !none {
		out = append(out, "The catalog lacks the zones of the nodes: prices of the catalog's region are used.")
	}
	for _, what := range d.Unknown {
		out = append(out, "Unknown: "+what+".")
	}
	if d.Unpriced > 0 {
		out = append(out, model.Count(d.Unpriced, "node")+" without a known price: not moved, and not included in costs.")
	}
	if d.Booting > 0 {
		cost := ""
		if d.BootingMicro > 0 {
			cost = " (" + perMonth(d.BootingMicro) + " a month)"
		}
		out = append(out, model.Count(d.Booting, "launched node")+" without a Node yet"+cost+": not included in nodes and costs; the nodes for pending pods may be the same.")
	}
	if d.ClockSkew != 0 {
		where := "ahead of"
		if d.ClockSkew < 0 {
			where = "behind"
		}
		out = append(out, "This machine's clock is "+d.ClockSkew.Abs().String()+" "+where+" the API server's; ages use the API server's clock.")
	}
	for _, a := range d.Autoscalers {
		out = append(out, a.Name+" is running (lease "+a.Lease+").")
	}
	if n := len(d.SetAside); n > 0 {
		out = append(out, "Excluded from all figures: "+model.Count(n, "pending pod")+" for which no node can be launched now: "+fewNames(d.SetAside)+".")
	}
	for i := range d.Blocked {
		f := &d.Blocked[i]
		limits, left := limitsOf(f)
		n := len(f.Others) + 1
		out = append(out, "The figures respect the "+pick(n, "limit", "limits")+" of "+limits+", which "+pick(n, "leaves ", "leave ")+left+" for replacements: raise "+pick(n, "it", "all of them")+" to save "+perMonth(f.SavingMicro)+" more.")
	}
	for _, p := range d.Paused {
		out = append(out, doctorObject(p.Subject)+" allows no consolidation before "+p.Until.UTC().Format("2006-01-02 15:04:05")+" UTC ("+p.Field+"). The figures assume that the budget has ended.")
	}
	if names := d.Moves.Names; len(names) > 0 && d.ConsolidatedMicro < d.TodayMicro() {
		out = append(out, "Consolidation can remove "+pick(len(names), "node ", "nodes ")+fewNames(names)+"."+d.whyNotRemoved(names[0]))
	}
	if len(d.Ignored) > 0 {
		out = append(out, "Ignored: "+strings.Join(d.Ignored, ", ")+".")
	}
	return out
}

// whyNotRemoved is a sentence, with a space before it, about why nodes that consolidation can remove, such as the given one, still exist, or how to find out.
// It is empty if that is unknown.
func (d *Doctor) whyNotRemoved(node string) string {
	if len(d.Files) > 0 {
		return ""
	}
	if len(d.Autoscalers) == 0 {
		return " No autoscaler was found that could remove " + pick(len(d.Moves.Names), "it", "them") + "."
	}
	running := func(name string) bool {
		return slices.ContainsFunc(d.Autoscalers, func(a doctor.Autoscaler) bool { return a.Name == name })
	}
	switch {
	case running("Dovetail"):
		return " '" + ShellLine(slices.Concat([]string{"dovetail", "why", "node/" + node}, d.Flags.Cluster)) + "' shows why it still exists."
	case running("Karpenter"):
		return " '" + ShellLine(slices.Concat([]string{"kubectl"}, d.Flags.Kubectl, []string{"events", "-A", "--for", "node/" + node})) + "' shows why Karpenter keeps it."
	case running("Cluster Autoscaler"):
		return " Cluster Autoscaler removes only nodes whose pods request less than --scale-down-utilization-threshold."
	}
	return ""
}

// limitsOf names the limits that a finding is about, those of one object together, and says what each of them leaves.
func limitsOf(f *doctor.Finding) (limits, left string) {
	objects, fields, have := []string{doctorObject(f.Subject)}, []string{f.Key}, []string{f.Have}
	for _, l := range f.Others {
		have = append(have, l.Have)
		if i := slices.Index(objects, doctorObject(l.Subject)); i >= 0 {
			fields[i] += ", " + l.Key
			continue
		}
		objects, fields = append(objects, doctorObject(l.Subject)), append(fields, l.Key)
	}
	for i := range objects {
		objects[i] += " (" + fields[i] + ")"
	}
	return strings.Join(objects, " and "), strings.Join(have, " and ")
}

// fewNames lists the first names, and says how many more there are.
func fewNames(names []string) string {
	const most = 3
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}

// pick returns one for a single thing, and many otherwise.
func pick(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// holdWords are what holds nodes, as people say it behind another.
var holdWords = map[doctor.Code]string{
	doctor.PodDoNotDisrupt: "do-not-disrupt pods", doctor.SafeToEvict: "pods with safe-to-evict=false", doctor.NoController: "pods without a controller",
	doctor.PDBNeverAllows: "a PodDisruptionBudget that never allows an eviction", doctor.PDBUnhealthy: "a PodDisruptionBudget of pods that are not healthy",
	doctor.SeveralPDBs: "several PodDisruptionBudgets for the same pods", doctor.NodeDoNotDisrupt: "do-not-disrupt on the node", doctor.BudgetZero: "a disruption budget of zero",
	doctor.BudgetUnreadable: "a disruption budget that can't be read", doctor.ConsolidationOff: "a consolidationPolicy that only removes empty nodes",
	doctor.ConsolidateNever: "consolidateAfter: Never", doctor.StaticPool: "a fixed number of nodes", doctor.NodeWithoutPool: "having no NodePool", doctor.PinnedToNode: "pods that select a node by name",
	doctor.LimitBlocks: "a limit that leaves too little for replacements",
}

func writeFinding(b *bytes.Buffer, d *Doctor, f *doctor.Finding) {
	fmt.Fprintf(b, "  - %s%s\n", DoctorSentence(f), with(" [", findingDollars(f), "]"))
	const most = 3
	commands := d.Commands(f)
	for i, c := range commands {
		if i == most && len(commands) > most+1 {
			fmt.Fprintf(b, "      and %d more\n", len(commands)-i)
			break
		}
		fmt.Fprintf(b, "      %s\n", c)
	}
}

// findingDollars says what a finding costs a month; empty: it is no matter of dollars, or not known.
func findingDollars(f *doctor.Finding) string {
	switch {
	case f.SavingMicro > 0:
		return perMonth(f.SavingMicro) + " a month"
	case len(f.AlsoHeld) > 0:
		words := make([]string, len(f.AlsoHeld))
		for i, c := range f.AlsoHeld {
			words[i] = or(holdWords[c], string(c))
		}
		return "nothing by itself: its nodes are also held by " + strings.Join(words, ", ")
	case f.Priced:
		return "costs nothing now"
	case f.HeldMicro > 0:
		return "its nodes cost " + perMonth(f.HeldMicro) + " a month"
	}
	return ""
}

// DoctorJSON writes an examination for programs; docs/reference/json.md says what each field means.
func DoctorJSON(w io.Writer, d *Doctor) error {
	type finding struct {
		doctor.Finding
		Saving   dollars  `json:"savingPerMonth"`
		Message  string   `json:"message"`
		Commands []string `json:"commands"`
	}
	out := struct {
		Cluster string `json:"cluster,omitempty"`
		wireRepacked
		Findings  []finding    `json:"findings"`
		NextSteps []DoctorStep `json:"nextSteps"`
	}{Cluster: d.Cluster, wireRepacked: repackedOf(d), Findings: []finding{}, NextSteps: d.Steps}
	for i := range d.Findings {
		f := &d.Findings[i]
		out.Findings = append(out.Findings, finding{*f, dollars(f.SavingMicro * doctor.HoursPerMonth), DoctorSentence(f), append([]string{}, d.Commands(f)...)})
	}
	return writeIndented(w, out)
}

// wireCompared are dollars a month.
type wireCompared struct {
	Now          dollars `json:"now"`
	WithPending  dollars `json:"nowWithNodesForPendingPods"`
	Consolidated dollars `json:"afterConsolidation"`
	Repacked     dollars `json:"repacked"`
	Least        dollars `json:"leastPossible"`
}

func comparedPerMonth(c *doctor.Compared) wireCompared {
	m := func(micro int64) dollars { return dollars(micro * doctor.HoursPerMonth) }
	return wireCompared{m(c.NowMicro), m(c.TodayMicro()), m(c.ConsolidatedMicro), m(c.RepackedMicro), m(c.LeastMicro)}
}

func writeIndented(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// CompareText writes today's cluster beside a repacked one for people.
func CompareText(w io.Writer, d *Doctor) error {
	var b bytes.Buffer
	writeCompared(&b, &d.Compared)
	for _, n := range doctorNotes(d) {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	for _, of := range []struct {
		title string
		moves *doctor.Moves
	}{{"After consolidation", &d.Moves}, {"Repacked, no blockers", &d.RepackedMoves}} {
		if len(of.moves.Launched) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s, to launch\n", of.title)
		t := newTable("COUNT>", "TYPE", "ZONE", "CAPACITY", "EACH A MONTH>", "NODEPOOL")
		for i, m := range of.moves.Launched {
			if i == mostNodes && len(of.moves.Launched) > mostNodes+1 {
				t.note(fmt.Sprintf("  and %d more kinds", len(of.moves.Launched)-i))
				break
			}
			t.add(strconv.Itoa(m.Count), m.Type, or(m.Zone, "any"), m.CapacityType, perMonth(m.PriceMicro), m.Pool)
		}
		t.write(&b)
	}
	if d.LeastMicro < d.TodayMicro() {
		fmt.Fprintf(&b, "\n'dovetail doctor' explains the difference and the cost of each cause.\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// wireRepacked is today's cluster beside a repacked one, for programs.
type wireRepacked struct {
	PerMonth wireCompared   `json:"dollarsPerMonth"`
	Nodes    int            `json:"nodes"`
	Unpriced int            `json:"nodesWithoutPrice"`
	Pods     int            `json:"pods"`
	Pending  int            `json:"podsPending"`
	SetAside []string       `json:"podsSetAside"`
	Paused   []doctor.Pause `json:"paused"`
	Moves    doctor.Moves   `json:"movesAfterConsolidation"`
	Repack   doctor.Moves   `json:"movesRepacked"`
	Notes    []string       `json:"notes"`
}

func repackedOf(d *Doctor) wireRepacked {
	return wireRepacked{comparedPerMonth(&d.Compared), d.Nodes, d.Unpriced, d.Pods, d.Pending, append([]string{}, d.SetAside...), append([]doctor.Pause{}, d.Paused...), d.Moves, d.RepackedMoves, append([]string{}, doctorNotes(d)...)}
}

// CompareJSON writes today's cluster beside a repacked one for programs.
func CompareJSON(w io.Writer, d *Doctor) error { return writeIndented(w, repackedOf(d)) }
