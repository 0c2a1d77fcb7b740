// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/record"
)

// unreadable is the exit status of a recording of which a part can't be read.
const unreadable = 3

const (
	// flushEvery is how much of a recording a SIGKILL may cost.
	flushEvery = 2 * time.Second
	// idleEvery is how often a recording says that nothing has changed.
	idleEvery = time.Minute
	// recordPatience is how often progress is written where there is no terminal.
	recordPatience = time.Hour
)

type recordFlags struct {
	clusterFlags
	out, check      string
	length          time.Duration
	anonymize       bool
	maxMiB, maxKept int
}

func recordCommand() *cobra.Command {
	f := recordFlags{}
	c := &cobra.Command{
		Use:   "record [--out FILE] [--for DURATION]",
		Short: "Record the objects of a cluster and their changes, for plan, doctor and replay",
		Long: `Writes a file with the objects that an autoscaler reads, and every change to them: pods, nodes, NodePools, NodeClaims,
node classes, PodDisruptionBudgets, workloads and volumes. The cluster may run any autoscaler. The command needs
permission to list and watch these kinds, changes nothing, and makes no other requests. Kinds that it is not permitted to
read are skipped and reported.

The file never contains environment variables, arguments, commands, images, messages, or the contents of ConfigMaps and Secrets.
It contains only the fields listed in docs/RECORD.md, including labels and certain annotations. With --anonymize, names,
namespaces and label values are replaced with tokens. The names of NodePools and node classes, label keys, and the values
of well-known labels such as zones and instance types are kept. The random key that generates the tokens is stored in
FILE.key. Delete it when the recording is complete.

The command ends after --for, or on Ctrl-C. A crash loses at most the last two seconds. If FILE is a recording of the same
cluster, the command appends to it. A file that reaches --max-file-size (without its initial snapshot) is renamed to
FILE.1, FILE.2, and so on.

'dovetail plan -f FILE' and 'dovetail doctor -f FILE' read the cluster at the end of a recording. --check prints a summary
of a recording.

Exit status: 0 success, also if interrupted while recording; 1 the cluster cannot be read, or the file cannot be written
or read; 2 usage error; 3 part of the recording cannot be read (--check); 130 or 143 interrupted or terminated before
anything was recorded.`,
		Example: "  dovetail record --out week.zst --for 168h\n" +
			"  dovetail record --out week.zst --anonymize\n" +
			"  dovetail record --check week.zst\n" +
			"  dovetail plan --compare -f week.zst",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runRecord(c, f) },
	}
	g := c.Flags()
	g.StringVar(&f.out, "out", "recording.zst", "File to write. If it is a recording of the same cluster, the command appends to it")
	g.DurationVar(&f.length, "for", 0, "How long to record, for example 168h. 0 means until interrupted")
	g.BoolVar(&f.anonymize, "anonymize", false, "Replace names, namespaces and label values with tokens. Their key is stored in FILE.key")
	g.IntVar(&f.maxMiB, "max-file-size", 256, "Size in MiB, without the initial snapshot, at which the file is rotated. 0 means no limit")
	g.IntVar(&f.maxKept, "max-files", 0, "Number of rotated files to keep. The oldest is deleted. 0 means all")
	g.StringVar(&f.check, "check", "", "Print a summary of this recording instead of recording")
	f.clusterFlags.add(g)
	return c
}

func (f *recordFlags) validate(c *cobra.Command) error {
	switch {
	case f.length < 0:
		return exit{2, fmt.Errorf("--for %s: need a duration above 0, such as 168h, or 0 to record until interrupted", f.length)}
	case f.maxMiB < 0:
		return exit{2, fmt.Errorf("--max-file-size %d: need a number of MiB, or 0 for no limit", f.maxMiB)}
	case f.maxKept < 0:
		return exit{2, fmt.Errorf("--max-files %d: need a number of files, or 0 for all", f.maxKept)}
	case f.out == "":
		return exit{2, errors.New("--out: need the name of a file")}
	case f.check != "":
		for _, name := range []string{"out", "for", "anonymize", "max-file-size", "max-files", "kubeconfig", "context"} {
			if c.Flags().Changed(name) {
				return exit{2, fmt.Errorf("--check reads a recording and records nothing: leave out --%s", name)}
			}
		}
	}
	return nil
}

func runRecord(c *cobra.Command, f recordFlags) error {
	if err := f.validate(c); err != nil {
		return err
	}
	if f.check != "" {
		return checkRecording(c.OutOrStdout(), f.check)
	}
	errs := c.ErrOrStderr()
	shown := showProgressEvery(errs, recordPatience)
	defer shown.end()
	shown.at("connecting")
	client, name, err := connectUser(c.Context(), f.clusterFlags, "record")
	if err != nil {
		return err
	}
	if client.Log, err = logger(errs, "text", "warn"); err != nil {
		return err
	}
	have, err := watch.ReadRecordable(c.Context(), client)
	if err != nil {
		return err
	}
	w, resumed, err := openRecording(f, have)
	if err != nil {
		return err
	}
	what := "Recording"
	if resumed {
		what = "Appending the recording of"
	}
	fmt.Fprintf(errs, "%s %s to %s, until %s.\n", what, name, f.out, f.until())
	if len(have.Denied) > 0 {
		fmt.Fprintf(errs, "Not recorded, since the rights to list and watch them in all namespaces are missing: %s.\n", strings.Join(have.Denied, ", "))
	}
	if f.anonymize {
		fmt.Fprintf(errs, "The key of the tokens is in %s. Do not share it, and delete it when the recording is complete.\n", f.keyFile())
	}
	return follow(c, f, have, w, shown)
}

func (f *recordFlags) keyFile() string { return f.out + ".key" }

func (f *recordFlags) until() string {
	if f.length == 0 {
		return "interrupted"
	}
	return time.Now().Add(f.length).Format(time.RFC3339)
}

func openRecording(f recordFlags, have *watch.Recordable) (w *record.Writer, resumed bool, err error) {
	c := record.Config{
		Path: f.out, MaxBytes: int64(f.maxMiB) << 20, MaxFiles: f.maxKept, Idle: idleEvery, Now: time.Now,
		Header: record.Header{Program: version(), Cluster: have.Cluster, Kinds: have.Kinds, Missing: have.Missing, Denied: have.Denied},
	}
	if f.anonymize {
		files, err := record.Files(f.out)
		if err != nil {
			return nil, false, err
		}
		isNew := len(files) == 1 && !exists(files[0])
		if c.Anonymizer, err = record.OpenAnonymizer(f.keyFile(), isNew); err != nil {
			return nil, false, err
		}
	}
	return record.Open(c)
}

// follow records until the time is over or a signal comes.
func follow(c *cobra.Command, f recordFlags, have *watch.Recordable, w *record.Writer, shown *progress) error {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if f.length > 0 {
		timed, end := context.WithTimeout(ctx, f.length)
		defer end()
		ctx = timed
	}
	began := time.Now()
	synced := have.Follow(ctx, w)
	isSynced := false
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var err error
	for err == nil && ctx.Err() == nil {
		select {
		case <-synced:
			synced, isSynced = nil, true
			if err = w.Synced(); err == nil {
				fmt.Fprintf(c.ErrOrStderr(), "%s: the first snapshot is complete, with %d objects.\n", f.out, w.Stats().Objects)
			}
		case <-tick.C:
			err = w.Flush()
		case <-ctx.Done():
		}
		s := w.Stats()
		if shown.at("recording: %d objects, %d changes, %s in %s", s.Objects, s.Changes, sizeText(s.Bytes), f.out); !isSynced {
			shown.at("recording: reading the cluster, %d objects so far", s.Objects)
		}
	}
	cancel() // the watches end before the file does
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	shown.end()
	if !isSynced {
		if s := (stopped{}); errors.As(context.Cause(c.Context()), &s) {
			return exit{128 + int(s.signal), fmt.Errorf("%w before the first snapshot was complete: nothing was recorded", s)}
		}
		return fmt.Errorf("the API server did not return all objects within --for %s: nothing was recorded; use a longer --for", f.length)
	}
	s := w.Stats()
	_, err = fmt.Fprintf(c.OutOrStdout(), "Recorded %s to %s: %d changes, %d objects at the end, %s.\n",
		time.Since(began).Round(time.Second), f.out, s.Changes, s.Objects, sizeText(s.Bytes))
	return err
}

// sizeText writes a number of bytes.
func sizeText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// checkRecording prints what a recording holds.
func checkRecording(w io.Writer, path string) error {
	objects, report, err := record.Objects(path)
	if err != nil {
		return err
	}
	const second = "2006-01-02 15:04:05"
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s to %s UTC, %s in %s\n", path, report.From.Format(second), report.To.Format(second), sizeText(report.Bytes), model.Count(report.Files, "file"))
	fmt.Fprintf(&b, "Format version %d, by dovetail %s; names %s\n", report.Header.Version, report.Header.Program, map[bool]string{true: "kept", false: "anonymized"}[report.Header.Key == ""])
	for _, g := range report.Gaps {
		fmt.Fprintf(&b, "Nothing was recorded from %s to %s\n", g.From.Format(second), g.To.Format(second))
	}
	if d := report.Header.Denied; len(d) > 0 {
		fmt.Fprintf(&b, "Not recorded, since the recorder could not watch them: %s\n", strings.Join(d, ", "))
	}
	count := map[string]int{}
	for _, o := range objects {
		count[o.Kind]++
	}
	kinds := slices.Sorted(maps.Keys(report.Changes))
	kinds = slices.AppendSeq(kinds, maps.Keys(count))
	slices.Sort(kinds)
	fmt.Fprintf(&b, "\n%-24s%9s%9s\n", "KIND", "OBJECTS", "CHANGES")
	for _, k := range slices.Compact(kinds) {
		fmt.Fprintf(&b, "%-24s%9d%9d\n", k, count[k], report.Changes[k])
	}
	if len(report.Problems) > 0 {
		b.WriteString("\nNot readable:\n")
	}
	for _, p := range report.Problems {
		fmt.Fprintf(&b, "  %s\n", p)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		return exit{unreadable, errors.New("")}
	}
	return nil
}
