// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What ends soon says nothing; what takes longer says what it is at, in one line on a terminal and in lines elsewhere, and nothing once it has ended.
func TestProgress(t *testing.T) {
	for _, x := range []struct {
		terminal bool
		takes    time.Duration
		want     string
	}{
		{true, 1900 * time.Millisecond, ""},
		{true, 3500 * time.Millisecond, "\r\x1b[Kdovetail: reading, 2 s\r\x1b[Kdovetail: planning for 7 pods, 3 s\r\x1b[K"},
		{false, 9 * time.Second, ""},
		{false, 25 * time.Second, "dovetail: planning for 7 pods, 10 s\ndovetail: planning for 7 pods, 20 s\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			first, then := filePatience, filePatience
			if x.terminal {
				first, then = terminalPatience, terminalPatience/2
			}
			p := progressEvery(&out, x.terminal, first, then)
			p.at("reading")
			time.Sleep(min(x.takes, 2500*time.Millisecond))
			p.at("planning for %d pods", 7)
			time.Sleep(max(0, x.takes-2500*time.Millisecond))
			p.end()
			time.Sleep(time.Minute)
			p.at("left behind")
			p.show()
			p.end()
			if out.String() != x.want {
				t.Errorf("after %v it has written %q, want %q", x.takes, out.String(), x.want)
			}
		})
	}
	if p := showProgress(&strings.Builder{}); p.terminal {
		t.Error("what is no file is taken for a terminal")
	} else {
		p.end()
	}
}
