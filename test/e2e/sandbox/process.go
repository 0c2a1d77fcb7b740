// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
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
