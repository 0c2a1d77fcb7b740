// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// terminal is the built dovetail on a pseudo-terminal, and what is on its screen.
type terminal struct {
	t    *testing.T
	pty  *os.File
	done chan error // how the process ended

	mu     sync.Mutex
	screen *vt.Emulator
	raw    bytes.Buffer // all that was written
}

// onTerminal starts dovetail on a terminal of that size, with env added to the environment.
func onTerminal(t *testing.T, columns, rows int, env []string, args ...string) *terminal {
	t.Helper()
	_, bin, err := sandbox.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(append(os.Environ(), "TERM=xterm-256color", "NO_COLOR=", "COLORTERM="), env...)
	p, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)})
	if err != nil {
		t.Fatal(err)
	}
	out := &terminal{t: t, pty: p, done: make(chan error, 1), screen: vt.NewEmulator(columns, rows)}
	go func() { _, _ = io.Copy(p, out.screen) }() // answers to questions such as where the cursor is
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 32<<10)
		for {
			n, err := p.Read(buffer)
			out.mu.Lock()
			out.raw.Write(buffer[:n])
			_, _ = out.screen.Write(buffer[:n])
			out.mu.Unlock()
			if err != nil {
				return // a terminal whose process has ended answers EIO
			}
		}
	}()
	go func() {
		err := cmd.Wait()
		<-read
		out.done <- err
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = p.Close()
		_ = out.screen.Close()
		if t.Failed() {
			t.Logf("the screen:\n%s", out.text())
		}
	})
	return out
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen.String()
}

func (x *terminal) written() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.raw.String()
}

// press writes keys as a terminal would.
func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.pty, keys); err != nil {
		x.t.Fatal(err)
	}
}

// resize makes the terminal larger or smaller.
func (x *terminal) resize(columns, rows int) {
	x.t.Helper()
	x.mu.Lock()
	x.screen.Resize(columns, rows)
	x.mu.Unlock()
	if err := pty.Setsize(x.pty, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}); err != nil {
		x.t.Fatal(err)
	}
}

// shows waits until all words are on the screen.
func (x *terminal) shows(words ...string) {
	x.t.Helper()
	err := waitFor(context.Background(), func(context.Context) error {
		text := x.text()
		for _, w := range words {
			if !strings.Contains(text, w) {
				return fmt.Errorf("%q is not on the screen", w)
			}
		}
		return nil
	})
	if err != nil {
		x.t.Fatal(err)
	}
}

// fits waits until no line is longer than the terminal is wide, and there is one that is as wide as it says.
func (x *terminal) fits(columns int) {
	x.t.Helper()
	for line := range strings.Lines(x.text()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > columns {
			x.t.Errorf("a line of %d columns, want at most %d: %q", n, columns, line)
		}
	}
}

// ends waits for the process; status is how it must have ended.
func (x *terminal) ends(status int) {
	x.t.Helper()
	select {
	case err := <-x.done:
		have := 0
		if e := (*exec.ExitError)(nil); errors.As(err, &e) {
			have = e.ExitCode()
		} else if err != nil {
			x.t.Fatal(err)
		}
		if have != status {
			x.t.Errorf("exit status %d, want %d", have, status)
		}
	case <-time.After(testwait.Scale(limit)):
		x.t.Fatal("it has not ended")
	}
}
