// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/fleet"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/replay/recording"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Names of columns of a replay that are no file.
const (
	recordedColumn = "recorded"
	currentColumn  = "current"
)

type replayFlags struct {
	files   []string
	compare string
	failIf  string
	boot    bootFlag
	pace    time.Duration
	check   bool
	priceFlags
	output, scheduler, html, trace string
}

// bootFlag is the value of --boot: a duration of 0 or more, or unset.
type bootFlag struct {
	d   time.Duration
	set bool
}

// String implements pflag.Value. It returns "" if the flag is unset, so that the help shows no default.
func (f *bootFlag) String() string {
	if !f.set {
		return ""
	}
	return f.d.String()
}

// Set implements pflag.Value. It returns an error if s is not a duration of 0 or more.
func (f *bootFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return errors.New("need a duration of 0 or more, for example 40s")
	}
	f.d, f.set = d, true
	return nil
}

// Type implements pflag.Value.
func (f *bootFlag) Type() string { return "duration" }

func replayCommand() *cobra.Command {
	f := replayFlags{}
	c := &cobra.Command{
		Use:   "replay FILE [-f policy.yaml]…",
		Short: "Replay a recording with other NodePools, and compare cost, waiting pods and evictions",
		Long: `Replays a recording ('dovetail record') in virtual time: workloads request the recorded number of pods, and Dovetail
launches and removes the nodes. Prints recorded and simulated results side by side: cost, pod waiting time, evictions by
reason, nodes launched and utilization, in total, per NodePool and per day. It needs no cluster and no network.

Each -f is replayed separately, and is one column of the result. It is a file or a directory with the NodePools, node
classes and NodeOverlays that replace those of the same name in the recording, or are added to them. Without -f, the
recording is replayed with its own NodePools.

Startup times of nodes are those recorded for their NodePool, unless --boot is set. Recorded interruptions hit a node of
the same instance type, zone and capacity type. docs/REPLAY.md lists what is modelled, and what is not.

Exit status: 0 done, 1 invalid input or --fail-if is true, 2 usage error, 130 or 143 interrupted or
terminated. An interrupted replay prints a partial result.`,
		Example: "  dovetail replay week.zst\n" +
			"  dovetail replay week.zst -f nodepools/ --fail-if 'dollars > 1.05 * current || waiting.p99 > 120s'\n" +
			"  dovetail replay week.zst --compare current -f nodepools/\n" +
			"  dovetail replay week.zst -f small.yaml -f large.yaml -o json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit{2, fmt.Errorf("replay needs one recording, got %d arguments; see '%s --help'", len(args), c.CommandPath())}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return runReplay(c, f, args[0]) },
	}
	g := c.Flags()
	g.StringArrayVarP(&f.files, "filename", "f", nil, "File or directory with NodePools to replay with. Can be repeated: each is a column")
	g.StringVar(&f.trace, "trace", "", "Read FILE as a public trace in this format: "+strings.Join(recording.TraceFormats(), " or ")+" (docs/REPLAY.md#traces). Needs -f")
	g.StringVar(&f.compare, "compare", "", "Also replay with the recording's own NodePools. Supported value: current")
	g.StringVar(&f.failIf, "fail-if", "", "Exit with status 1 if this CEL expression is true for a replay of -f, for example 'dollars > 1.05 * current || waiting.p99 > 120s' (docs/REPLAY.md#as-a-gate)")
	g.Var(&f.boot, "boot", "Time from the launch of a node until it is Ready, for example 40s. If unset, the recorded times")
	g.DurationVar(&f.pace, "pace", 0, "Minimum time between decisions while only pods on existing nodes change. For large recordings, 30s is faster. 0 means the controller's own pace")
	g.BoolVar(&f.check, "check-decisions", false, "Also repeat each decision on the recorded cluster state, and compare it with Dovetail's recorded decision (docs/REPLAY.md#accuracy)")
	f.priceFlags.add(g, catalogUsage)
	g.StringVar(&f.scheduler, "scheduler-config", "", schedulerConfigUsage)
	addOutput(g, &f.output)
	g.StringVar(&f.html, "html", "", "Also write the result as an HTML page with charts to this file")
	return c
}

func (f *replayFlags) validate() error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	if f.compare != "" && f.compare != currentColumn {
		return exit{2, fmt.Errorf("--compare %q: use current", f.compare)}
	}
	switch {
	case f.trace == "":
	case !slices.Contains(recording.TraceFormats(), f.trace):
		return exit{2, fmt.Errorf("--trace %q: use %s", f.trace, strings.Join(recording.TraceFormats(), " or "))}
	case len(f.files) == 0 || f.compare != "":
		return exit{2, fmt.Errorf("--trace %s: a trace has no NodePools; add them with -f, and leave out --compare", f.trace)}
	}
	if f.pace < 0 {
		return exit{2, fmt.Errorf("--pace %s: need a duration of 0 or more, for example 30s", f.pace)}
	}
	if slices.Contains(f.files, "-") {
		return exit{2, errors.New("-f -: replay reads each file more than once; write the standard input to a file")}
	}
	return nil
}

// replayColumn is one replay to run.
type replayColumn struct {
	name  string
	files []string
}

func (f *replayFlags) columns() (out []replayColumn) {
	if f.compare == currentColumn || len(f.files) == 0 {
		out = append(out, replayColumn{name: currentColumn})
	}
	for _, file := range f.files {
		name := filepath.Base(file)
		if slices.ContainsFunc(out, func(c replayColumn) bool { return c.name == name }) {
			name = file
		}
		out = append(out, replayColumn{name, []string{file}})
	}
	return out
}

// runReplay replays a recording. Unlike other verbs that only answer, it writes what it has when it is interrupted.
func runReplay(c *cobra.Command, f replayFlags, path string) error {
	if err := f.validate(); err != nil {
		return err
	}
	var condition *replayGate
	if f.failIf != "" {
		var err error
		if condition, err = newReplayGate(f.failIf); err != nil {
			return err
		}
		if condition.reads(currentColumn) {
			f.compare = currentColumn
		}
	}
	shown := showProgress(c.ErrOrStderr())
	defer shown.end()
	r, err := replayed(c.Context(), f, path, shown, c.ErrOrStderr())
	if err != nil {
		return err
	}
	shown.end()
	var answer bytes.Buffer
	write := report.ReplayText
	if isStructured(f.output) {
		write = report.ReplayJSON
	}
	if err := write(&answer, r); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	text, err := fitted(c, c.OutOrStdout(), answer.String())
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c.OutOrStdout(), text); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	var unwritten error // a replay may have taken hours: what else there is to say is said too
	if f.html != "" {
		unwritten = writePage(f.html, func(w io.Writer) error { return report.ReplayHTML(w, r) })
	}
	if r.Partial {
		s := stopped{}
		errors.As(context.Cause(c.Context()), &s)
		return exit{128 + int(s.signal), errors.Join(fmt.Errorf("%w: the result is partial", s), unwritten)}
	}
	if unwritten != nil {
		return unwritten
	}
	if condition != nil {
		return condition.check(r)
	}
	return nil
}

// replayed reads a recording and replays it.
func replayed(ctx context.Context, f replayFlags, path string, shown *progress, warnings io.Writer) (*report.Replay, error) {
	in, err := readReplay(f, path, shown, warnings)
	if err != nil {
		return nil, err
	}
	r := in.recording
	if f.check && !r.Trace.Own {
		return nil, fmt.Errorf("--check-decisions: %s has no NodeClaim that Dovetail launched; use a recording of a cluster that runs Dovetail", path)
	}
	out := &report.Replay{Recording: path, From: r.Trace.From, To: r.Trace.To, Catalog: in.cat.Name, PricesAsOf: in.cat.PricesAsOf, Problems: r.Problems, Assumed: r.Assumed}
	recorded := report.ReplayColumnOf(recordedColumn, replay.Measure(r.Trace, in.types))
	recorded.Measured = true
	out.Columns = append(out.Columns, recorded)
	columns := f.columns()
	variants := make([]*replay.Variant, len(columns))
	for i, col := range columns {
		v, assumed, err := in.variant(ctx, f, col)
		if err != nil {
			return nil, err
		}
		variants[i] = v
		for _, a := range assumed {
			if !slices.Contains(out.Assumed, a) {
				out.Assumed = append(out.Assumed, a)
			}
		}
	}
	for i, col := range columns {
		v := variants[i]
		v.Progress = func(at time.Time) bool {
			shown.at("replaying %s: %s of %s", col.name, at.Sub(r.Trace.From).Round(time.Minute), r.Trace.To.Sub(r.Trace.From).Round(time.Minute))
			return ctx.Err() == nil
		}
		result := replay.Play(r.Trace, v)
		x := report.ReplayColumnOf(col.name, &result.Figures)
		x.Notes = notesOf(result)
		if r.Trace.Own && col.name == currentColumn {
			a := replay.Agree(r.Trace.Decisions(), result.Decisions)
			x.Decisions = &report.ReplayDecisions{Recorded: a.Recorded, Same: a.Same, Shifted: a.Shifted, Missing: a.Recorded - a.Same - a.Shifted, Added: a.Added}
		}
		out.Columns = append(out.Columns, x)
		if out.Partial = result.Partial; out.Partial {
			break
		}
	}
	if f.check && !out.Partial {
		if out.Check, out.Partial, err = in.checkDecisions(ctx, f, shown); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkDecisions decides on the recorded cluster. partial reports whether it was interrupted.
func (in *replayInput) checkDecisions(ctx context.Context, f replayFlags, shown *progress) (c *report.ReplayCheck, partial bool, err error) {
	v, _, err := in.variant(ctx, f, replayColumn{name: currentColumn})
	if err != nil {
		return nil, false, err
	}
	t := in.recording.Trace
	v.Progress = func(at time.Time) bool {
		shown.at("checking decisions: %s of %s", at.Sub(t.From).Round(time.Minute), t.To.Sub(t.From).Round(time.Minute))
		return ctx.Err() == nil
	}
	followed, err := in.recording.Follow(v, in.scheduler)
	if err != nil {
		return nil, false, err
	}
	c = &report.ReplayCheck{Recorded: followed.Recorded, Same: followed.Same, Added: followed.Added}
	for _, d := range followed.Differing {
		c.Missing = append(c.Missing, fmt.Sprintf("%s %s %s", d.At.UTC().Format(time.RFC3339), d.Kind, d.Object))
	}
	if n := followed.Recorded - followed.Same - len(c.Missing); n > 0 {
		c.Missing = append(c.Missing, fmt.Sprintf("and %d more", n))
	}
	return c, followed.Partial, nil
}

// notesOf says what a replay could not do as recorded.
func notesOf(r *replay.Result) (out []string) {
	if r.MissedInterruptions > 0 {
		out = append(out, fmt.Sprintf("%d recorded interruptions were skipped: no node had their instance type, zone and capacity type", r.MissedInterruptions))
	}
	if r.Unpriced > 0 {
		out = append(out, fmt.Sprintf("%d nodes have no known price and count as free; add their instance types with --catalog or --price-file", r.Unpriced))
	}
	if r.Restless > 0 {
		out = append(out, fmt.Sprintf("decisions did not settle at %d points in time; each remaining part was decided one second later", r.Restless))
	}
	return append(out, r.Faults...)
}

// replayInput is what was read for a replay.
type replayInput struct {
	recording *recording.Recording
	cat       *catalog.Catalog
	types     []*model.InstanceType
	scheduler translate.SchedulerDefaults
}

func readReplay(f replayFlags, path string, shown *progress, warnings io.Writer) (*replayInput, error) {
	cat, err := f.priceFlags.load(warnings)
	if err != nil {
		return nil, err
	}
	scheduler, err := schedulerConfig(f.scheduler)
	if err != nil {
		return nil, err
	}
	if f.trace == "" {
		err = isRecording(path)
	}
	if err != nil {
		return nil, err
	}
	table := state.NewResourceTable()
	in := &replayInput{cat: cat, types: cat.InstanceTypes(table.Dim), scheduler: scheduler} // first, so that the numbers of resources do not depend on the input
	shown.at("reading %s", path)
	if f.trace == "" {
		in.recording, err = recording.Read(path, scheduler, table)
	} else {
		in.recording, err = recording.ReadTrace(path, f.trace, table)
	}
	if err != nil {
		return nil, err
	}
	elsewhere := false
	if in.cat, elsewhere = cat.InZones(in.recording.Zones()); elsewhere {
		in.types = in.cat.InstanceTypes(table.Dim)
		in.recording.Assumed = append(in.recording.Assumed, "prices: the catalog has none of the zones; prices of another region are used")
	}
	return in, nil
}

// isRecording returns an error for a file that exists and is none, so that a manifest in the place of the recording is named as such.
func isRecording(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return nil // whoever reads it says what is wrong
	}
	defer file.Close()
	head := make([]byte, 4)
	if n, err := io.ReadFull(file, head); n > 0 && (err != nil || !record.IsRecording(head)) {
		return fmt.Errorf("%s: not a recording; need a file that 'dovetail record --out' wrote, and NodePools with -f", path)
	}
	return nil
}

// policyKinds are the kinds of which a file of -f must have an object.
var policyKinds = []string{"NodePool", "NodeOverlay", "Provisioner", "KWOKNodeClass", "EC2NodeClass", "NodeGroupClass", "ClusterAPINodeClass", "CapacityQuota"}

// variant returns what a column is replayed with.
func (in *replayInput) variant(ctx context.Context, f replayFlags, col replayColumn) (*replay.Variant, []string, error) {
	if len(col.files) > 0 {
		mine := manifests.New()
		if err := readFiles(mine, col.files, strings.NewReader("")); err != nil {
			return nil, nil, err
		}
		if !mine.HasAny(policyKinds...) {
			return nil, nil, fmt.Errorf("-f %s: has none of %s, so nothing would differ from the recording; add a NodePool, or leave out -f", col.files[0], strings.Join(policyKinds, ", "))
		}
	}
	offers := offerer{types: in.types}
	v, assumed, err := in.recording.Variant(
		func(m *manifests.Set) error {
			if len(col.files) == 0 {
				return nil
			}
			return readFiles(m, col.files, strings.NewReader(""))
		},
		func(s *state.State) {
			offers.estimator = fleet.NewEstimator(in.cat, s.Resources())
			offers.offer(ctx, s)
		})
	if err != nil {
		return nil, nil, err
	}
	v.Types, v.Policy, v.Pace = in.types, decide.DefaultPolicy(), f.pace
	if f.boot.set {
		v.Boot = f.boot.d
	}
	return v, append(assumed, offers.unknown...), nil
}
