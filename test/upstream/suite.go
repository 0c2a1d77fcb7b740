// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// result is what a suite said about one autoscaler.
type result struct {
	Suite      string  `json:"suite"`
	Karpenter  string  `json:"karpenterVersion"` // of the suite, and of the controller where that is Karpenter's
	Autoscaler string  `json:"autoscaler"`
	Seconds    float64 `json:"seconds"`
	Passed     int     `json:"passed"`
	Failed     int     `json:"failed"`
	Skipped    int     `json:"skipped"`
	Specs      []spec  `json:"specs"` // in the order in which they ran, without those that -focus or -skip left out
}

type spec struct {
	Name    string  `json:"name"`
	State   string  `json:"state"` // ginkgo's: passed, failed, skipped, timedout, panicked …
	Seconds float64 `json:"seconds"`
	Reason  string  `json:"reason,omitempty"` // first line of the failure, or why it was skipped
	Text    string  `json:"text,omitempty"`   // file of the whole failure and of what the spec printed
	Phases  []phase `json:"phases,omitempty"`
}

// phase is one report of the performance suite, in the suite's own figures.
type phase struct {
	Name           string  `json:"name"` // scale-out, consolidation or drift; the second of a kind has a 2
	Pods           int     `json:"pods"`
	Nodes          int     `json:"nodes"`
	CPUReserved    float64 `json:"cpuReserved"` // average over nodes, a part of 1
	MemoryReserved float64 `json:"memoryReserved"`
	Seconds        float64 `json:"seconds"` // of a consolidation or drift with the minutes of silence that end it
	Heap           float64 `json:"heapMB"`  // of the autoscaler: 95th percentile of the live heap
	CPU            float64 `json:"cpu"`     // of the autoscaler: average cores
}

// runSuite runs the suite against an autoscaler on a new sandbox, which is down again when it returns. That specs fail
// is no error. Where the context ends the run, the result holds what had ended until then.
func runSuite(ctx context.Context, o options, b built, autoscaler string) (r *result, err error) {
	dir := filepath.Join(o.dir, autoscaler)
	reports := filepath.Join(dir, "reports")
	if err := os.MkdirAll(reports, 0o755); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "starting a sandbox with %s; logs are in %s\n", autoscaler, dir)
	c, err := startCluster(ctx, dir, o, b, autoscaler)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()

	log, err := os.Create(filepath.Join(dir, "suite.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	report := filepath.Join(dir, "ginkgo.json")
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err // an earlier run's must not be taken for this one's
	}
	// The same seed: specs run in the same order against both.
	cmd := exec.CommandContext(ctx, b.suite, "-ginkgo.v", "-ginkgo.no-color", "-ginkgo.seed=1", "-ginkgo.timeout=6h",
		"-ginkgo.json-report="+report, "-ginkgo.focus="+o.focus, "-ginkgo.skip="+o.skip)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig(), "OUTPUT_DIR="+reports)
	// Ctrl-C is for us: ginkgo cleans the cluster up and writes its report after one signal, and neither after two.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	shown := make(chan error, 1)
	go func() { shown <- showProgress(io.TeeReader(out, log), os.Stderr) }()
	began := time.Now()
	runErr := cmd.Run() // fails also where only specs do
	_ = in.Close()
	if err := <-shown; err != nil {
		return nil, err
	}
	r = &result{Suite: o.suite, Karpenter: b.version, Autoscaler: autoscaler, Seconds: time.Since(began).Seconds()}
	if err := r.read(report, dir); err != nil {
		return nil, errors.Join(runErr, err)
	}
	return r, ctx.Err()
}

// ended is the line that ginkgo prints after a spec: • [12.345 seconds], • [FAILED] [1.234 seconds], S [SKIPPED]
// [0.001 seconds].
var ended = regexp.MustCompile(`^[•S](?: \[([A-Z ]+)\])? \[([0-9.]+) seconds\]$`)

// location is where ginkgo says that a spec is written: path/to/drift_test.go:50.
var location = regexp.MustCompile(`^\S+_test\.go:[0-9]+$`)

// showProgress reads ginkgo's verbose output line by line to its end, and prints a line for each spec that has ended.
func showProgress(in io.Reader, out io.Writer) error {
	const rule = "------------------------------"
	var title, previous, beforeThat string // a spec begins with a rule, its title and its location
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimSpace(line)
		if m := ended.FindStringSubmatch(line); m != nil {
			state := strings.ToLower(cmp.Or(m[1], "passed"))
			fmt.Fprintf(out, "%s  %-8s %7ss  %s\n", time.Now().Format(time.TimeOnly), state, m[2], title)
		} else if beforeThat == rule && location.MatchString(line) {
			title = previous
		}
		beforeThat, previous = previous, line
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the suite's output: %w", err)
		}
	}
}

// read takes the results from ginkgo's report, the figures from the suite's own reports, and writes a file for each
// failed spec in dir.
func (r *result) read(report, dir string) error {
	data, err := os.ReadFile(report)
	if err != nil {
		return fmt.Errorf("the suite wrote no report: %w; see suite.log in %s", err, dir)
	}
	var suites []types.Report
	if err := json.Unmarshal(data, &suites); err != nil {
		return fmt.Errorf("decode %s: %w", report, err)
	}
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			if !s.LeafNodeType.Is(types.NodeTypeIt) && !s.Failed() || s.State.Is(types.SpecStateSkipped) && s.Failure.Message == "" {
				continue // set-up that went well, or left out by -focus or -skip
			}
			x := spec{Name: cmp.Or(s.FullText(), s.LeafNodeType.String()), State: s.State.String(), Seconds: s.RunTime.Seconds()}
			x.Reason, _, _ = strings.Cut(strings.TrimSpace(s.Failure.Message), "\n")
			switch {
			case s.Failed():
				r.Failed++
				x.Text = filepath.Join(dir, fmt.Sprintf("failed-%d.txt", r.Failed))
				if err := os.WriteFile(x.Text, failureText(s), 0o644); err != nil {
					return err
				}
			case s.State.Is(types.SpecStatePassed):
				r.Passed++
			default:
				r.Skipped++
			}
			if x.Phases, err = readPhases(s.CapturedGinkgoWriterOutput); err != nil {
				return err
			}
			r.Specs = append(r.Specs, x)
		}
	}
	return nil
}

// failureText is all that ginkgo recorded of a failed spec.
func failureText(s types.SpecReport) []byte {
	failures := []types.Failure{s.Failure}
	for _, f := range s.AdditionalFailures {
		failures = append(failures, f.Failure)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s\n%s\n\n", s.FullText(), s.LeafNodeLocation)
	for _, f := range failures {
		fmt.Fprintf(&out, "%s\n%s\n%s\n\n", f.Location, f.Message, f.Location.FullStackTrace)
	}
	fmt.Fprintf(&out, "%s\n%s\n", s.CapturedGinkgoWriterOutput, s.CapturedStdOutErr)
	return out.Bytes()
}

// written is the line by which the performance suite names the file of a report.
var written = regexp.MustCompile(`(?m)^\s*Report written to: (.+)$`)

// readPhases reads the reports that a spec says it has written, in its order.
func readPhases(output string) (out []phase, err error) {
	kinds := map[string]int{}
	for _, m := range written.FindAllStringSubmatch(output, -1) {
		data, err := os.ReadFile(strings.TrimSpace(m[1]))
		if err != nil {
			return nil, err
		}
		var report struct {
			TestType                string        `json:"test_type"`
			TotalPods               int           `json:"total_pods"`
			TotalNodes              int           `json:"total_nodes"`
			TotalTime               time.Duration `json:"total_time"`
			TotalReservedCPUUtil    float64       `json:"total_reserved_cpu_utilization"`
			TotalReservedMemoryUtil float64       `json:"total_reserved_memory_utilization"`
			KarpenterP95HeapMB      float64       `json:"karpenter_p95_heap_mb"`
			KarpenterAvgCPUCores    float64       `json:"karpenter_avg_cpu_cores"`
		}
		if err := json.Unmarshal(data, &report); err != nil {
			return nil, fmt.Errorf("decode %s: %w", m[1], err)
		}
		name := report.TestType
		if kinds[name]++; kinds[name] > 1 {
			name = fmt.Sprintf("%s %d", name, kinds[name])
		}
		out = append(out, phase{Name: name, Pods: report.TotalPods, Nodes: report.TotalNodes, CPUReserved: report.TotalReservedCPUUtil,
			MemoryReserved: report.TotalReservedMemoryUtil, Seconds: report.TotalTime.Seconds(), Heap: report.KarpenterP95HeapMB, CPU: report.KarpenterAvgCPUCores})
	}
	return out, nil
}
