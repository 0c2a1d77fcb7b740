// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package supervise

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
)

// What can be done to a component for a while.
const (
	Kill = "kill" // SIGKILL, and started again afterwards
	Stop = "stop" // SIGSTOP, and SIGCONT afterwards: its connections stay open, and nobody answers
	Slow = "slow" // stopped and continued ten times a second, so that it runs a part of the time only
)

// Fault is one of them.
type Fault struct {
	Kind  string
	For   time.Duration
	Share float64 // of the time in which a slow component runs, more than 0 and less than 1
}

// slowPeriod is long beside a scheduler's time slice and short beside every
// time limit of the components.
const slowPeriod = 100 * time.Millisecond

// Inflict does this to the component of a name and returns when it answers its
// health check again. When ctx ends the fault ends early.
func Inflict(ctx context.Context, dir plane.Dir, client *plane.Client, name string, f Fault) error {
	victim, err := runningChild(dir, name)
	if err != nil {
		return err
	}
	restarts := victim.Restarts
	switch f.Kind {
	case Kill:
		restarts++
		err = killForAWhile(dir, victim, f.For)
	case Stop:
		err = pause(ctx, victim, f.For)
	case Slow:
		err = slowDown(ctx, victim, f)
	default:
		err = fmt.Errorf("unknown fault %q: use %s, %s or %s", f.Kind, Kill, Stop, Slow)
	}
	if err != nil {
		return err
	}
	return waitBack(ctx, dir, client, name, restarts, f.For)
}

// runningChild is the component as it runs now.
func runningChild(dir plane.Dir, name string) (Child, error) {
	state, err := Read(dir)
	if err != nil {
		return Child{}, err
	}
	if state == nil || !state.Supervisor.Alive() {
		return Child{}, fmt.Errorf("no sandbox runs in %s", dir)
	}
	var names []string
	for _, child := range state.Components {
		if names = append(names, child.Name); child.Name != name {
			continue
		}
		if child.State != Running || !child.Alive() {
			return Child{}, fmt.Errorf("%s is not running (%s)", name, child.State)
		}
		return child, nil
	}
	slices.Sort(names) // they are listed in the order in which they were started last
	return Child{}, fmt.Errorf("the sandbox has no component %q; it has %s", name, strings.Join(names, ", "))
}

// comeBack is the wish that a process, once it has died, be started again.
type comeBack struct {
	Process
	After time.Duration
}

// killForAWhile writes down the wish that the child be started again, then
// kills it.
func killForAWhile(dir plane.Dir, victim Child, away time.Duration) error {
	wish, err := json.Marshal(comeBack{Process: victim.Process, After: away})
	if err != nil {
		return fmt.Errorf("encode when %s comes back: %w", victim.Name, err)
	}
	if err := os.WriteFile(dir.ComeBack(victim.Name), wish, 0o600); err != nil {
		return fmt.Errorf("write down when %s comes back: %w", victim.Name, err)
	}
	return victim.Kill()
}

// takeComeBack reads and removes the wish about a process that has died. A wish
// about an earlier process of that name is none.
func takeComeBack(dir plane.Dir, name string, died Process) (after time.Duration, wished bool) {
	data, err := os.ReadFile(dir.ComeBack(name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false
	}
	var wish comeBack
	if err == nil {
		err = errors.Join(json.Unmarshal(data, &wish), os.Remove(dir.ComeBack(name)))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s read when %s comes back: %v\n", time.Now().UTC().Format(time.RFC3339Nano), name, err)
		return 0, false
	}
	return wish.After, wish.Process == died
}

// pause stops a child for a while.
func pause(ctx context.Context, victim Child, away time.Duration) error {
	if err := victim.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	wait(ctx, away)
	return victim.signal(syscall.SIGCONT)
}

// slowDown lets a child run only a share of the time, for a while.
func slowDown(ctx context.Context, victim Child, f Fault) error {
	runs := time.Duration(f.Share * float64(slowPeriod))
	for end := time.Now().Add(f.For); time.Now().Before(end) && ctx.Err() == nil; {
		if err := pause(ctx, victim, slowPeriod-runs); err != nil {
			return err
		}
		wait(ctx, runs)
	}
	return nil
}

// signal tells the process and its group something, if it is still the same
// process; one that has ended is told nothing.
func (p Process) signal(s syscall.Signal) error {
	if !p.Alive() {
		return nil
	}
	if err := syscall.Kill(-p.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to process %d: %w", s, p.PID, err)
	}
	return nil
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// waitBack returns when the component runs, has been started again as often as
// that, and answers its health check.
func waitBack(ctx context.Context, dir plane.Dir, client *plane.Client, name string, restarts int, away time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, away+startLimit, fmt.Errorf("%s was not back after %s", name, away+startLimit))
	defer cancel()
	for {
		state, err := Read(dir)
		if err != nil {
			return err
		}
		if state == nil {
			return fmt.Errorf("the sandbox in %s is gone", dir)
		}
		for _, child := range state.Components {
			switch {
			case child.Name != name || child.Restarts < restarts:
			case child.State == Exited:
				return errors.New(DeathReport(name, child.Exit, child.Log))
			case child.State == Running && client.Healthy(ctx, child.Health) == nil:
				return nil
			}
		}
		if wait(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
