// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command bench measures response times for users on a large cluster: `dovetail top --once`, `dovetail doctor`, and the first
// paint of `dovetail ui` in Chromium, with the peak memory of each. The API server is real; this program creates its nodes
// and pods, and stops the components that would change them. It prints a table and fails if a target is missed.
// `make bench-ui` runs it, after `make build`. Start reading at main.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/ui"
)

// The bars, for a thousand nodes and twenty thousand pods.
const (
	topTarget    = 2 * time.Second
	doctorTarget = 5 * time.Second
	paintTarget  = time.Second
)

// line is a row of the table.
type line struct {
	what   string
	times  []time.Duration
	peakMB float64 // of dovetail's process
	target time.Duration
}

func main() {
	nodes := flag.Int("nodes", 1000, "number of nodes")
	pods := flag.Int("pods", 20000, "number of pods, 1 % of them pending")
	runs := flag.Int("runs", 5, "number of measurements")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	met, err := run(ctx, *nodes, *pods, *runs)
	if err == nil && !met {
		err = errors.New("a target is missed")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-ui:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes, pods, runs int) (met bool, err error) {
	dir, err := os.MkdirTemp("", "dovetail-bench-ui-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sandbox"), "--no-autoscaler", "--boot", "0", "--pull", "0")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	if err := send(s, syscall.SIGSTOP); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, send(s, syscall.SIGCONT)) }() // what stands still does not end when it is told to
	begun := time.Now()
	if err := fill(ctx, s, nodes, pods); err != nil {
		return false, fmt.Errorf("fill the cluster: %w", err)
	}
	fmt.Fprintf(os.Stderr, "created %d nodes and %d pods in %.0f s\n", nodes, pods, time.Since(begun).Seconds())
	var lines []line
	for _, command := range []struct {
		target time.Duration
		args   []string
	}{{topTarget, []string{"top", "--once"}}, {doctorTarget, []string{"doctor"}}} {
		l, err := commandLine(ctx, s, runs, command.target, command.args...)
		if err != nil {
			return false, err
		}
		lines = append(lines, *l)
	}
	shown, err := pageLines(ctx, s, runs, nodes)
	if err != nil {
		return false, err
	}
	return print(append(lines, shown...)), nil
}

// commandLine runs a command several times.
func commandLine(ctx context.Context, s *sandbox.Sandbox, runs int, target time.Duration, args ...string) (*line, error) {
	_, bin, err := sandbox.Binaries()
	if err != nil {
		return nil, err
	}
	l := &line{what: "dovetail " + strings.Join(args, " "), target: target}
	for range runs {
		cmd := exec.CommandContext(ctx, bin, append(args, "--kubeconfig", s.Kubeconfig(sandbox.Admin))...)
		var said strings.Builder
		cmd.Stderr = &said
		begun := time.Now()
		out, err := cmd.Output()
		l.times = append(l.times, time.Since(begun))
		var status *exec.ExitError
		if err != nil && (!errors.As(err, &status) || status.ExitCode() != 3) { // 3: doctor found something
			return nil, fmt.Errorf("%s: %w\n%s", l.what, err, said.String())
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("%s printed nothing", l.what)
		}
		if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			l.peakMB = max(l.peakMB, float64(used.Maxrss)/1024)
		}
	}
	return l, nil
}

// pageLines starts `dovetail ui` several times: how long until it has read the cluster, and, with the page opened anew each time, until
// something is painted and until the overview has every node.
func pageLines(ctx context.Context, s *sandbox.Sandbox, runs, nodes int) ([]line, error) {
	path := ui.FindChromium()
	if path == "" {
		return nil, errors.New("Chromium is not installed; on Debian: apt-get install chromium")
	}
	read := line{what: "dovetail ui: from its start until the overview has every node"}
	paint := line{what: "first contentful paint", target: paintTarget}
	data := line{what: "overview with all nodes, after the page is opened", target: paintTarget}
	for range runs {
		if err := onePage(ctx, s, path, nodes, &read, &paint, &data); err != nil {
			return nil, err
		}
	}
	return []line{read, paint, data}, nil
}

func onePage(ctx context.Context, s *sandbox.Sandbox, path string, nodes int, read, paint, data *line) error {
	browser, stop := ui.Browser(ctx, path)
	defer stop()
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil { // the browser is there before anything is measured
		return err
	}
	begun := time.Now()
	url, pid, stopPage, err := ui.ServePage(ctx, s)
	if err != nil {
		return err
	}
	defer stopPage()
	if err := openPage(browser, url, nodes); err != nil {
		return err
	}
	read.times = append(read.times, time.Since(begun))
	if err := chromedp.Do(browser, chromedp.Navigate("about:blank")); err != nil {
		return err
	}
	begun = time.Now()
	if err := openPage(browser, url, nodes); err != nil {
		return err
	}
	data.times = append(data.times, time.Since(begun))
	painted := -1.0
	for end := time.Now().Add(5 * time.Second); painted < 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // the data may arrive before the first frame is reported
		if painted, err = chromedp.Run(browser, chromedp.Evaluate[float64](`performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1`)); err != nil {
			return err
		}
	}
	if painted < 0 {
		return errors.New("the browser reported no first paint")
	}
	paint.times = append(paint.times, time.Duration(painted*float64(time.Millisecond)))
	peak, err := sandbox.PeakMemoryMiB(pid)
	read.peakMB = max(read.peakMB, peak)
	return err
}

// openPage opens the overview and returns when it says how many nodes there are.
func openPage(browser context.Context, url string, nodes int) error {
	ctx, cancel := context.WithTimeout(browser, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		return err
	}
	want := fmt.Sprintf(`document.body.innerText.match(/nodes\s+%d\b/i) !== null`, nodes)
	for {
		has, err := chromedp.Run(ctx, chromedp.Evaluate[bool](want))
		if err != nil {
			text, _ := chromedp.Run(browser, chromedp.Evaluate[string](`document.body.innerText`)) // to say more; the error is the one before
			return fmt.Errorf("the overview does not contain %d nodes: %w\n%.600s", nodes, err, text)
		}
		if has {
			return nil
		}
	}
}

// print prints the table and reports whether every median meets its target.
func print(lines []line) (met bool) {
	met = true
	fmt.Println("| | median | minimum | maximum | peak memory | target |\n|---|---|---|---|---|---|")
	for _, l := range lines {
		slices.Sort(l.times)
		median := l.times[len(l.times)/2]
		memory, target := "", ""
		if l.peakMB > 0 {
			memory = fmt.Sprintf("%.0f MB", l.peakMB)
		}
		if l.target > 0 {
			target = fmt.Sprintf("%s: met", l.target)
			if median > l.target {
				target, met = fmt.Sprintf("%s: **missed**", l.target), false
			}
		}
		fmt.Printf("| %s | %.2f s | %.2f s | %.2f s | %s | %s |\n", l.what, median.Seconds(), l.times[0].Seconds(), l.times[len(l.times)-1].Seconds(), memory, target)
	}
	return met
}
