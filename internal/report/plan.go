// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Plan is what would be done about pods that wait, and what it was made from.
type Plan struct {
	ResourceNames []string // by Dim

	New      []Machine
	Existing []Standing         // by name
	Refused  []plan.PodDecision // by namespace and name, each with a reason a pool at least
	Ignored  []plan.PodDecision // pods that are not to be placed by anybody but somebody else, each with the reason
	Overlays []Overlay          // by name
	Cost     plan.Cost
	Stats    plan.Stats

	Catalog    string // where types and prices come from
	PricesAsOf string // empty: not said
	Skipped    []string
	Unknown    []string // what the plan can't know, and what it assumes instead
	NotCreated []NotCreated
	Lacking    []LackingPool // by name
	Planned    time.Duration // what planning and checking took
	Elapsed    time.Duration // what all took, reading included
}

// NotCreated are pods of the input that the API server would refuse to create.
type NotCreated struct {
	Owner   string // kind, namespace and name of their workload, or of the pod itself
	Pods    int
	Message string
}

// LackingPool is a static NodePool that can't launch all its nodes.
type LackingPool struct {
	Pool       string
	Have, Want int64 // nodes, those that are launched included
	Why        plan.Reason
}

// Overlay is a NodeOverlay that the plan was made with.
type Overlay struct {
	Name       string
	NotApplied string // why it has no effect; empty: it has
}

// Machine is one to be bought.
type Machine struct {
	Pool       string
	Type       *model.InstanceType // the cheapest choice, which Cost counts
	Offering   model.Offering
	Choices    []*model.InstanceType // every type that would do, Type included, cheapest first
	Zones      []string              // every zone that would do, sorted
	Pods       []*model.Pod          // by namespace and name
	Requests   model.Resources       // pods and DaemonSets
	PriceMicro int64
	Static     bool // one of the fixed number of nodes of its pool, launched whatever the pods are
}

// Standing is a machine that is there or coming, and the waiting pods that it holds.
type Standing struct {
	Node string
	Pods []*model.Pod // by namespace and name
}

// usd writes micro-dollars with a dollar sign.
func usd(micro int64) string { return "$" + model.Dollars(micro) }

// price marks a modelled price.
func price(micro int64, modelled bool) string {
	if modelled {
		return "~" + usd(micro)
	}
	return usd(micro)
}

func percent(part, whole int64) string {
	if whole <= 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(part)*100/float64(whole), 'f', 0, 64) + " %"
}

// group is pods of one workload.
type group struct {
	name string
	pods []*model.Pod
}

func (g group) String() string { return strconv.Itoa(len(g.pods)) + " × " + g.name }

// workload names what a pod belongs to: its Deployment (the ReplicaSet's name without the hash), its controller, or, of pods without
// one, those of its class.
func workload(p *model.Pod) (key, name string) {
	if p.Owner.Name == "" {
		return "pod " + p.Class.Key, p.Key()
	}
	name = p.Owner.Name
	if h := p.Class.Labels["pod-template-hash"]; h != "" && p.Owner.Kind == "ReplicaSet" {
		name = strings.TrimSuffix(name, "-"+h)
	}
	name = p.Namespace + "/" + name
	return p.Owner.Kind + " " + name, name
}

// byWorkload groups pods, most pods first, then by name.
func byWorkload(pods []*model.Pod) []group {
	at := map[string]int{}
	var out []group
	for _, p := range pods {
		k, name := workload(p)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, group{name: name})
		}
		out[i].pods = append(out[i].pods, p)
	}
	for i := range out {
		if g := &out[i]; g.pods[0].Owner.Name == "" && len(g.pods) > 1 {
			g.name = "pods like " + g.name
		}
	}
	slices.SortStableFunc(out, func(a, b group) int {
		return cmp.Or(cmp.Compare(len(b.pods), len(a.pods)), strings.Compare(a.name, b.name))
	})
	return out
}

// list writes at most so many groups.
func list(groups []group, most int) string {
	var parts []string
	rest, pods := 0, 0
	for i, g := range groups {
		if i < most || len(groups) == most+1 {
			parts = append(parts, g.String())
			continue
		}
		rest++
		pods += len(g.pods)
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%s of %d more workloads", model.Count(pods, "pod"), rest))
	}
	return strings.Join(parts, ", ")
}
