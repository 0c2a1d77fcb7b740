// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress says on the standard error what a verb is at once that takes so long that it might be thought stuck: on a terminal in one line,
// which goes when the verb ends, elsewhere in a line now and then.
type progress struct {
	w        io.Writer
	terminal bool
	began    time.Time
	quit     chan struct{}

	mu    sync.Mutex
	doing string
	shown bool // a line is on the terminal
	ended bool
}

// A terminal has somebody who waits; what else reads the standard error has time.
const (
	terminalPatience = 2 * time.Second
	filePatience     = 10 * time.Second
)

// showProgress begins to wait.
func showProgress(w io.Writer) *progress { return showProgressEvery(w, filePatience) }

// showProgressEvery begins to wait. What is no terminal gets a line as often as it has patience.
func showProgressEvery(w io.Writer, patience time.Duration) *progress {
	f, ok := w.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if ok {
		return progressEvery(w, true, terminalPatience, terminalPatience/2)
	}
	return progressEvery(w, false, patience, patience)
}

func progressEvery(w io.Writer, terminal bool, first, then time.Duration) *progress {
	p := &progress{w: w, terminal: terminal, began: time.Now(), quit: make(chan struct{})}
	go func() {
		t := time.NewTimer(first)
		defer t.Stop()
		for {
			select {
			case <-p.quit:
				return
			case <-t.C:
				p.show()
				t.Reset(then)
			}
		}
	}()
	return p
}

// at says what is done from now on, as in "planning for 3 pods".
func (p *progress) at(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing = fmt.Sprintf(format, args...)
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.doing == "" {
		return
	}
	line := fmt.Sprintf("dovetail: %s, %d s", p.doing, int(time.Since(p.began).Seconds()))
	if p.shown = p.terminal; p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K"+line)
	} else {
		fmt.Fprintln(p.w, line)
	}
}

// end takes the line away. Nothing is written any more, though the verb may be left behind at what it does.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.quit)
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
