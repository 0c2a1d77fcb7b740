// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestManifests runs testdata/manifests/*.txt: what pods, pools and so on come of files, and what is said of a mistake.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("testdata/manifests/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in testdata/manifests: %v", err)
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
			comment, input, _ := strings.Cut(head, "\n")
			have := strings.TrimSpace(feedAll(input))
			switch {
			case !strings.HasPrefix(comment, "#") || have == "":
				t.Fatalf("%s case %d: want a comment in one line and something to come out:\n%s\n%s", file, i, c, have)
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
	m, err := ReadManifests("f.yaml", []byte(input))
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
		fmt.Fprintf(&b, "daemon %s/%s: %s\n", d.Namespace, d.Name, d.Class.Requests.Format(s.Resources().Names()))
	}
	for _, p := range snap.Pools {
		fmt.Fprintf(&b, "pool %s\n", p.Name)
	}
	for _, n := range sortedKeys(snap.Namespaces) {
		fmt.Fprintf(&b, "namespace %s %v\n", n, snap.Namespaces[n])
	}
	for _, k := range m.Skipped {
		fmt.Fprintf(&b, "skipped %s\n", k)
	}
	return b.String()
}
