// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
)

// What the supervisor is doing.
const (
	Starting = "starting"
	Ready    = "ready"
	Stopping = "stopping"
)

// What a child is doing.
const (
	Running    = "running"
	Exited     = "exited"     // died, and stays dead
	Restarting = "restarting" // died, and is about to be started again
	Stopped    = "stopped"    // was told to
)

// State is what DIR/state.json says: the one record by which other processes
// (status, down, tests) know what runs.
type State struct {
	Phase       string        `json:"phase"`
	Supervisor  Process       `json:"supervisor"`
	StartedAt   time.Time     `json:"startedAt"`
	Server      string        `json:"server"`
	MachinesURL string        `json:"machinesURL,omitempty"`
	AWSURL      string        `json:"awsURL,omitempty"`
	Kubeconfig  string        `json:"kubeconfig"`
	Journal     string        `json:"journal,omitempty"`
	Options     plane.Options `json:"options"`
	Components  []Child       `json:"components"`
}

// Process is a process that can't be mistaken for a later one with the same id.
type Process struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // the kernel's word for when it began
}

// Child is one component as it runs, or ran.
type Child struct {
	Name string `json:"name"`
	Process
	State     string         `json:"state"`
	Ports     map[string]int `json:"ports"`
	Health    string         `json:"health,omitempty"` // URL that answers 200 when it is ready
	StartedAt time.Time      `json:"startedAt"`
	Restarts  int            `json:"restarts"`
	Exit      string         `json:"exit,omitempty"` // how it last ended
	ExitedAt  *time.Time     `json:"exitedAt,omitempty"`
	Log       string         `json:"log"`
}

// Dead are the children that should run and don't.
func (s *State) Dead() []Child {
	var dead []Child
	for _, child := range s.Components {
		if child.State == Exited || child.State == Running && !child.Alive() {
			dead = append(dead, child)
		}
	}
	return dead
}

// Alive reports whether this very process still runs. A zombie does not.
func (p Process) Alive() bool {
	started, err := startTime(p.PID)
	return p.PID > 0 && err == nil && started == p.Started
}

// Kill ends the process and its group, if it is still the same process.
func (p Process) Kill() error {
	if !p.Alive() {
		return nil
	}
	// Children lead groups of their own, the supervisor its session's.
	if err := syscall.Kill(-p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	return nil
}

// Read is the directory's state, or nil where there is none.
func Read(dir plane.Dir) (*State, error) {
	data, err := os.ReadFile(dir.State())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's state: %w", err)
	}
	s := &State{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("read the sandbox's state: %s: %w", dir.State(), err)
	}
	return s, nil
}

// write replaces the file in one step, so that no reader sees half of it.
func (s *State) write(dir plane.Dir) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the sandbox's state: %w", err)
	}
	next := dir.State() + ".next"
	if err := os.WriteFile(next, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the sandbox's state: %w", err)
	}
	if err := os.Rename(next, dir.State()); err != nil {
		return fmt.Errorf("write the sandbox's state: %w", err)
	}
	return nil
}

// Remove forgets the directory's state.
func Remove(dir plane.Dir) error {
	if err := os.Remove(dir.State()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the sandbox's state: %w", err)
	}
	return nil
}

// ErrLocked says that the directory has a supervisor.
var ErrLocked = errors.New("the sandbox directory is in use")

// Acquire takes the directory's lock. The lock belongs to the open file: a
// process that inherits it holds it too, which is how `up` hands it to the
// supervisor without a moment in which it is free.
func Acquire(dir plane.Dir) (*os.File, error) {
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, fmt.Errorf("make the sandbox directory: %w", err)
	}
	file, err := os.OpenFile(dir.Lock(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the sandbox's lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", dir.Lock(), err)
}

// LogTail is the end of a log, at most lines long.
func LogTail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	data = bytes.TrimRight(data, "\n")
	if len(data) == 0 {
		return "(the log is empty)"
	}
	all := strings.Split(string(data), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// DeathReport names a dead child, says how it ended and shows the end of its log.
func DeathReport(name, exit, log string) string {
	const lines = 15
	return fmt.Sprintf("%s died (%s); the end of %s:\n%s", name, exit, log, indent(LogTail(log, lines)))
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}
