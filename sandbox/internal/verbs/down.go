// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verbs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
	"github.com/dovetail-sh/dovetail/sandbox/internal/supervise"
)

// stopLimit is longer than the sum of what the supervisor grants its children.
const stopLimit = 40 * time.Second

func newDown(resolve func() (plane.Dir, error)) *cobra.Command {
	keep := false
	command := &cobra.Command{
		Use:        "down",
		SuggestFor: []string{"stop", "delete"},
		Short:      "Stop the sandbox and remove its data",
		Long: `Stop every process of the sandbox and wait until they have exited. The data and
certificates of the cluster are removed, the logs are kept. With --keep, the data
are kept too, and the next "up" uses them.`,
		Example: `  dovetail-sandbox down
  dovetail-sandbox down --keep`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := resolve()
			if err != nil {
				return err
			}
			return down(dir, keep)
		},
	}
	command.Flags().BoolVar(&keep, "keep", false, "Keep the data of the cluster for the next up")
	return command
}

func down(dir plane.Dir, keep bool) error {
	if _, err := os.Stat(string(dir)); errors.Is(err, os.ErrNotExist) {
		fmt.Printf("no sandbox in %s\n", dir)
		return nil
	}
	began := time.Now()
	wasRunning := false
	lock, err := supervise.Acquire(dir)
	if errors.Is(err, supervise.ErrLocked) {
		wasRunning = true
		lock, err = stop(dir)
	}
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := clearLeftovers(dir); err != nil {
		return err
	}
	if !keep {
		if err := dir.RemoveData(); err != nil {
			return err
		}
	}
	switch {
	case !wasRunning:
		fmt.Printf("no sandbox was running in %s\n", dir)
	case keep:
		fmt.Printf("the sandbox in %s is down after %.1fs; its data are kept\n", dir, time.Since(began).Seconds())
	default:
		fmt.Printf("the sandbox in %s is down after %.1fs\n", dir, time.Since(began).Seconds())
	}
	return nil
}

// stop asks the supervisor to end, makes it end when it doesn't, and returns
// with the directory's lock.
func stop(dir plane.Dir) (*os.File, error) {
	asked := supervise.Process{}
	killed := false
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		lock, err := supervise.Acquire(dir)
		if !errors.Is(err, supervise.ErrLocked) {
			return lock, err
		}
		state, err := supervise.Read(dir)
		if err != nil {
			return nil, err
		}
		// There is no state yet while an `up` only begins: it will be.
		if state != nil && state.Supervisor != asked && state.Supervisor.Alive() {
			asked = state.Supervisor
			if err := syscall.Kill(asked.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return nil, fmt.Errorf("tell the supervisor (process %d) to stop: %w", asked.PID, err)
			}
		}
		switch waited := time.Since(began); {
		case waited > stopLimit+10*time.Second:
			return nil, fmt.Errorf("the lock %s is still held by another process after %s", dir.Lock(), waited.Round(time.Second))
		case waited > stopLimit && !killed:
			killed = true
			fmt.Printf("the supervisor (process %d) did not stop within %s: killing it\n", asked.PID, stopLimit)
			if err := asked.Kill(); err != nil {
				return nil, err
			}
		}
	}
}
