// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// BenchmarkQuotas makes steps over 50 NodePools of 200 instance types in three zones each, 500 nodes and two
// CapacityQuotas that part each NodePool by zone and by instance type, and beside it the same steps without them. In each
// step one pod is another.
func BenchmarkQuotas(b *testing.B) {
	for _, quotas := range []bool{false, true} {
		b.Run(fmt.Sprintf("quotas=%t", quotas), func(b *testing.B) {
			var text strings.Builder
			for i := range 50 {
				fmt.Fprintf(&text, "pool p%d after=0s policy=all weight=%d\n", i, i+1)
			}
			for i := range 200 {
				cpu := 2 << (i % 5)
				fmt.Fprintf(&text, "type t%03d cpu=%d mem=%dGi price=%.4f zones=a,b,c\n", i, cpu, cpu*(2+i%7), float64(cpu)*(0.04+0.0004*float64(i)))
			}
			if quotas {
				text.WriteString("limit capacityquota/zone select=zone:a nodes=5000 cpu=100000\nlimit capacityquota/type select=" + model.LabelInstanceType + ":t001,t002,t003 nodes=5000\n")
			}
			x := newScript(b)
			for _, line := range strings.Split(strings.TrimSpace(text.String()), "\n") {
				x.line(strings.Fields(line))
			}
			for i := range 500 {
				x.line(strings.Fields(fmt.Sprintf("claim c%d pool=p%d types=t003 zones=a launched=+0s registered=+5s initialized=+10s consolidatable=+10s", i, i%50)))
				x.line(strings.Fields(fmt.Sprintf("node n%d type=t003 zone=a claim=c%d initialized", i, i)))
				x.line(strings.Fields(fmt.Sprintf("pod s%d x4 owner=w%d cpu=3 mem=2Gi on=n%d", i, i%50, i)))
			}
			x.now = x.when("+60s")
			var mem Memory
			_, mem = Step(x.st.Snapshot(x.now), mem, x.now, x.pol, Request{})
			work := int64(0)
			for i := 0; b.Loop(); i++ {
				x.now = x.now.Add(time.Second)
				churn(x.st, i)
				_, mem = Step(x.st.Snapshot(x.now), mem, x.now, x.pol, Request{})
				work += mem.search.consolidation.Work
			}
			b.ReportMetric(float64(work)/float64(b.N), "searched/op")
		})
	}
}

// churn has another pod pend, too large for any node there is.
func churn(s *state.State, i int) {
	s.SetPod(&model.Pod{Namespace: "default", Name: "churn", UID: fmt.Sprint("churn-", i), Class: &model.Class{Key: fmt.Sprint("churn-", i%3), Namespace: "default", Scheduler: "default-scheduler",
		Requests: model.Resources{64_000_000, 1 << 30, 0, 1}}})
}
