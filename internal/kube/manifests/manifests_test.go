// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestManifests runs testdata/*.txt: what pods, pools and so on come of files, and what is said of a mistake.
func TestManifests(t *testing.T) {
	runCases(t, "testdata/*.txt", func(head string) (string, error) {
		comment, input, _ := strings.Cut(head, "\n")
		if !strings.HasPrefix(comment, "#") {
			return "", errors.New("want a comment in one line")
		}
		return feedAll(input), nil
	})
}

// runCases runs the cases of text files: separated by an empty line, each an input, a line ----, and what comes of it. With -update it
// writes what comes of them instead.
func runCases(t *testing.T, glob string, run func(input string) (string, error)) {
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", glob, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cases := strings.Split(strings.TrimSpace(string(data)), "\n\n")
		for i, c := range cases {
			head, want, ok := strings.Cut(strings.TrimSpace(c)+"\n", "\n----\n")
			if !ok {
				t.Fatalf("%s case %d: no ---- line:\n%s", file, i, c)
			}
			have, err := run(head)
			if err != nil {
				t.Fatalf("%s case %d: %v:\n%s", file, i, err, c)
			}
			switch have = strings.TrimSpace(have); {
			case have == "":
				t.Fatalf("%s case %d: nothing came out", file, i)
			case *update:
				cases[i] = head + "\n----\n" + have
			case have != strings.TrimSpace(want):
				t.Errorf("%s:\n%s\n---- have\n%s", file, c, have)
			}
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(cases, "\n\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func feedAll(input string) string {
	m, err := Read("f.yaml", []byte(input))
	if err != nil {
		return "error: " + err.Error()
	}
	s := state.New()
	m.Feed(s)
	snap := s.Snapshot(time.Time{})
	var b strings.Builder
	pod := func(p *model.Pod) {
		fmt.Fprintf(&b, "pod %s of %s %s: %s", p.Key(), p.Owner.Kind, p.Owner.Name, p.Class.Requests.Format(s.Resources().Names()))
		if p.Class.Priority != 0 || !p.Class.Preempts {
			fmt.Fprintf(&b, " priority %d preempts %t", p.Class.Priority, p.Class.Preempts)
		}
		for _, v := range p.Class.Volumes {
			fmt.Fprintf(&b, " volume %s driver %q", v.Claim, v.Driver)
			if v.Problem.Kind != "" {
				fmt.Fprintf(&b, " %s", v.Problem.Kind)
			}
		}
		for _, h := range p.Class.HostPorts {
			fmt.Fprintf(&b, " host port %d/%s", h.Port, h.Protocol)
		}
		for _, term := range p.Class.Terms {
			fmt.Fprintf(&b, " nodes %s", term.Requirements)
		}
		for _, tol := range p.Class.Tolerations {
			if tol.For < 0 {
				fmt.Fprintf(&b, " tolerates %s=%s:%s", tol.Key, tol.Value, tol.Effect)
			}
		}
		for _, v := range p.Class.Unsolved {
			fmt.Fprintf(&b, " unsolved %s", v)
		}
		if p.Unschedulable.IsZero() && p.Node == "" {
			b.WriteString(" not demanded")
		}
		b.WriteString("\n")
	}
	for _, n := range snap.Nodes {
		fmt.Fprintf(&b, "node %s allocatable %s\n", n.Name, n.Allocatable.Format(s.Resources().Names()))
		for _, p := range n.Pods {
			b.WriteString("  ")
			pod(p)
		}
	}
	for _, p := range snap.Pending {
		pod(p)
	}
	for _, d := range snap.Daemons {
		fmt.Fprintf(&b, "daemon %s/%s: %s", d.Namespace, d.Name, d.Class.Requests.Format(s.Resources().Names()))
		for _, h := range d.Class.HostPorts {
			fmt.Fprintf(&b, " host port %d/%s", h.Port, h.Protocol)
		}
		b.WriteString("\n")
	}
	for _, p := range snap.Pools {
		fmt.Fprintf(&b, "pool %s\n", p.Name)
	}
	for _, n := range sortedKeys(snap.Namespaces) {
		fmt.Fprintf(&b, "namespace %s %v\n", n, snap.Namespaces[n])
	}
	for _, n := range m.NotMade {
		fmt.Fprintf(&b, "not made: %d of %s: %s\n", n.Pods, n.Owner, n.Why)
	}
	for _, k := range m.Missing {
		fmt.Fprintf(&b, "missing %s\n", k)
	}
	for _, k := range m.Custom {
		fmt.Fprintf(&b, "custom %s\n", k)
	}
	for _, k := range m.Skipped {
		fmt.Fprintf(&b, "skipped %s\n", k)
	}
	return b.String()
}

// FuzzManifests: whatever a file holds is read or refused with a place in it, and nothing else.
func FuzzManifests(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds in testdata/manifests: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(data), "\n\n") {
			input, _, _ := strings.Cut(c, "\n----\n")
			f.Add(input)
		}
	}
	f.Fuzz(func(t *testing.T, input string) {
		if regexp.MustCompile(`(replicas|arallelism)\W*\d{4}`).MatchString(input) {
			t.Skip("a workload of very many pods only takes long")
		}
		m := New()
		err := m.Read("f", []byte(input))
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Line > 1+strings.Count(input, "\n")+1 || e.Reason == "" {
				t.Fatalf("of %q came the error %#v", input, err)
			}
			return
		}
		s := state.New()
		m.Feed(s)
		s.Snapshot(time.Time{})
	})
}
