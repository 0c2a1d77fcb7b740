// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Process is a process that runs next to a sandbox. Whoever started it must call Stop.
type Process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when the process has ended
}

// startProcess starts a command, and writes what it prints to a new file log.
func startProcess(cmd *exec.Cmd, log string) (*Process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("create the log of %s: %w", cmd.Path, err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &Process{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // Ended returns the state of the process
		close(p.done)
	}()
	return p, nil
}

// Stop kills the process and returns when it has ended. It may be called again.
func (p *Process) Stop() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Ended returns an error once the process has ended, and nil as long as it runs.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended, see %s: %s", p.cmd.Path, p.log, p.cmd.ProcessState)
	default:
		return nil
	}
}

// A kubelet restarts a container at once when it ends for the first time, then after firstRestart, which doubles up to mostRestart.
const (
	firstRestart = 10 * time.Second
	mostRestart  = 5 * time.Minute
)

// KeepRunning starts a process, and restarts it when it has ended, after the pauses of a kubelet. before is how often start was called before. An error of
// the first start is returned; a later start that fails counts as a process that has ended, and is reported on stderr. stop kills the process and returns
// when it has ended.
func KeepRunning(start func(before int) (*Process, error)) (stop func(), err error) {
	return keepRunning(start, func(ctx context.Context, d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	})
}

// keepRunning is KeepRunning with a function that waits until a duration has passed or its context has ended.
func keepRunning(start func(before int) (*Process, error), wait func(context.Context, time.Duration)) (stop func(), err error) {
	p, err := start(0)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for before := 1; ; before++ {
			if p != nil {
				select {
				case <-ctx.Done():
					p.Stop()
					return
				case <-p.done:
					fmt.Fprintln(os.Stderr, "restarting:", p.Ended())
				}
			}
			if before > 1 {
				wait(ctx, model.Backoff(firstRestart, before-2, mostRestart))
			}
			if ctx.Err() != nil {
				return
			}
			if p, err = start(before); err != nil {
				p = nil
				fmt.Fprintln(os.Stderr, "restart:", err)
			}
		}
	}()
	return func() {
		cancel()
		<-over
	}, nil
}

// PeakMemoryMiB returns the most memory that a running process has had resident since it started.
func PeakMemoryMiB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("what a process takes is known on Linux only: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
			}
			return kb / 1024, nil
		}
	}
	return 0, fmt.Errorf("process %d: no VmHWM in its status", pid)
}

// ProcessorSeconds returns the processor time that a process has had.
func ProcessorSeconds(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("what a process takes is known on Linux only: %w", err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	var ticks float64
	for _, f := range fields[11:13] { // utime and stime, in hundredths of a second on every Linux that Go runs on
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return ticks / 100, nil
}
