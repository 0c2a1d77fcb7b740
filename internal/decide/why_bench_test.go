// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkWhy asks about one object of a cluster of 2,000 machines with ten pods each, and 200 that wait. It is asked beside the loop.
func BenchmarkWhy(b *testing.B) {
	var text strings.Builder
	text.WriteString("pool p after=0s policy=all limit.cpu=32000 budget=0\npool q taint=team=blue:NoSchedule\ntype large cpu=16 mem=64Gi price=0.8\ntype medium cpu=8 mem=32Gi price=0.4\n")
	for i := range 2000 {
		fmt.Fprintf(&text, "claim c%d pool=p types=large zones=a launched=+0s registered=+5s initialized=+10s consolidatable=+10s\nnode n%d type=large zone=a claim=c%d initialized\n", i, i, i)
	}
	for i := range 2000 {
		fmt.Fprintf(&text, "pod s%d x10 owner=w%d cpu=1 mem=2Gi on=n%d\n", i, i%50, i)
	}
	for i := range 200 {
		fmt.Fprintf(&text, "pod p%d owner=v%d cpu=9 mem=4Gi\n", i, i%20)
	}
	x := newScript(b)
	for _, line := range strings.Split(strings.TrimSpace(text.String()), "\n") {
		x.line(strings.Fields(line))
	}
	x.now = x.when("+60s")
	snap := x.st.Snapshot(x.now)
	for _, subject := range []string{"pod/default/p7", "node/n7", "nodepool/p"} {
		b.Run(strings.ReplaceAll(subject, "/", "-"), func(b *testing.B) {
			for b.Loop() {
				a, err := Why(snap, Memory{}, x.now, x.pol, subject)
				if err != nil || len(a.Findings) == 0 {
					b.Fatalf("%+v %v", a, err)
				}
			}
		})
	}
}
