// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// nodeEdits are what somebody may write on a Node, as the script has it. None is a reason to replace it.
var nodeEdits = []string{
	"label=team:moved", "label=team:", "label=disk:ssd", "label=node.kubernetes.io/instance-type:huge", "label=node.kubernetes.io/instance-type:small",
	"label=karpenter.sh/capacity-type:spot", "label=karpenter.sh/nodepool:q", "label=karpenter.sh/nodepool:none", "label=kubernetes.io/arch:arm64",
	"label=karpenter.sh/initialized:false", "label=karpenter.sh/registered:false", "label=dovetail.sh/nodegroup:other",
	"zone=b", "zone=elsewhere", "taint=agent:NoSchedule", "taint=agent:NoExecute", "taint=team=blue:NoSchedule", "taint=own:PreferNoSchedule",
	"keep", "disabled",
}

// TestEditedNodesStay edits Nodes whose machines have nothing wrong with them: labels that the NodePool sets, requires or
// knows nothing of, labels of the machine and of the lifecycle, taints and annotations. No node is replaced for it, also
// hours later.
func TestEditedNodesStay(test *testing.T) {
	test.Parallel()
	rapid.Check(test, func(t *rapid.T) {
		x := newScript(test)
		var told []string
		line := func(format string, args ...any) {
			told = append(told, fmt.Sprintf(format, args...))
			x.line(strings.Fields(told[len(told)-1]))
		}
		line("pool p after=0s policy=all label=team:blue only=zone:a%s", rapid.SampledFrom([]string{"", " taint=team=blue:NoSchedule", " only=disk:ssd", " replicas=2"}).Draw(t, "pool"))
		line("pool q only=zone:b")
		line("type large cpu=4 mem=16Gi price=0.2")
		line("type small cpu=2 mem=8Gi price=0.15")
		const nodes = 2
		for i := range nodes {
			line("claim c%d pool=p types=large zones=a launched=+0s registered=+0s initialized=+0s consolidatable=+0s label=team:blue label=disk:ssd sold=on-demand,a", i)
			line("node n%d type=large zone=a claim=c%d initialized label=team:blue label=disk:ssd", i, i)
			line("pod a%d cpu=3 on=n%d tolerate=*", i, i)
		}
		check := func(at time.Duration) {
			line("at +%s", at)
			if len(x.last.Commands) > 0 {
				t.Fatalf("%s\nstarts command %v", strings.Join(told, "\n"), x.last.Commands[0].Why)
			}
			for _, a := range x.last.Actions {
				switch a := a.(type) {
				case plan.DeleteClaim, plan.CreateClaim, plan.DeleteNode, plan.Terminate, plan.Evict:
					t.Fatalf("%s\ndecides %s", strings.Join(told, "\n"), describeAction(a))
				case plan.UpdateClaim:
					if a.Conditions[lifecycle.Drifted].True() {
						t.Fatalf("%s\ndecides %s", strings.Join(told, "\n"), describeAction(a))
					}
				}
			}
		}
		check(time.Second)
		for round := range rapid.IntRange(1, 4).Draw(t, "edits") {
			i := rapid.IntRange(0, nodes-1).Draw(t, "node")
			edits := rapid.SliceOfN(rapid.SampledFrom(nodeEdits), 1, 4).Draw(t, "edit")
			line("node n%d type=large zone=a claim=c%d initialized label=team:blue label=disk:ssd %s", i, i, strings.Join(edits, " "))
			hour := time.Duration(round+1) * time.Hour
			check(hour)
			check(hour + time.Second)
			check(hour + 30*time.Minute)
		}
	})
}
