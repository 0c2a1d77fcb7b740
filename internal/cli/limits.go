// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// limitFlags are the limits over the whole cluster, Cluster Autoscaler's flags and one of our own.
type limitFlags struct {
	nodes                  int64
	cores, memory, dollars string
	gpus                   []string
}

func (f *limitFlags) add(g *pflag.FlagSet) {
	g.Int64Var(&f.nodes, "max-nodes-total", 0, "Maximum number of nodes in the cluster, including nodes that Dovetail does not manage. 0 means no limit")
	g.StringVar(&f.cores, "cores-total", "", "Minimum and maximum number of cores in the cluster, as MIN:MAX. No launch exceeds MAX, and no consolidation goes below MIN")
	g.StringVar(&f.memory, "memory-total", "", "Minimum and maximum memory in the cluster in GiB, as MIN:MAX")
	g.StringArrayVar(&f.gpus, "gpu-total", nil, "Minimum and maximum number of GPUs in the cluster, as RESOURCE:MIN:MAX, for example nvidia.com/gpu:0:16. Can be repeated")
	g.StringVar(&f.dollars, "max-dollars-per-hour", "", "Maximum hourly cost of all nodes in dollars, for example 12.50. Nodes without a known price are not counted")
}

// clusterLimits are the limits over the whole cluster as they were given.
type clusterLimits struct {
	nodes, micro int64 // negative: not limited
	resources    []limitRange
}

// limitRange is how much of a resource the cluster keeps, and may have.
type limitRange struct {
	name        string
	least, most int64 // milli-cores, bytes, or a count
}

// read says what the flags ask for; nil: nothing.
func (f *limitFlags) read() (*clusterLimits, error) {
	out := &clusterLimits{nodes: -1, micro: -1}
	if f.nodes < 0 {
		return nil, exit{2, fmt.Errorf("--max-nodes-total %d: need a count of 0 or more, 0 for no limit", f.nodes)}
	}
	if f.nodes > 0 {
		out.nodes = f.nodes
	}
	if f.dollars != "" {
		micro, ok := model.ParseDollars(f.dollars)
		if !ok {
			return nil, exit{2, fmt.Errorf("--max-dollars-per-hour %q: need dollars an hour from 0 to 1000000, such as 12.50", f.dollars)}
		}
		out.micro = micro
	}
	add := func(flag, text, name, bounds string, unit int64) error {
		if bounds == "" {
			return nil
		}
		lo, hi, ok := strings.Cut(bounds, ":")
		least, err1 := strconv.ParseInt(lo, 10, 64)
		most, err2 := strconv.ParseInt(hi, 10, 64)
		if !ok || err1 != nil || err2 != nil || least < 0 || most < least || most > (1<<62)/unit {
			return exit{2, fmt.Errorf("--%s %s: need %s, whole numbers, MIN no more than MAX", flag, text, limitForm(flag))}
		}
		out.resources = append(out.resources, limitRange{name, least * unit, most * unit})
		return nil
	}
	if err := add("cores-total", f.cores, "cpu", f.cores, 1000); err != nil {
		return nil, err
	}
	if err := add("memory-total", f.memory, "memory", f.memory, 1<<30); err != nil {
		return nil, err
	}
	for _, text := range f.gpus {
		name, bounds, _ := strings.Cut(text, ":")
		if !strings.Contains(name, "/") {
			return nil, exit{2, fmt.Errorf("--gpu-total %s: need the name of a node resource, such as nvidia.com/gpu:0:16; for one kind of GPU, "+
				"use a CapacityQuota that selects its nodes by label", text)}
		}
		if bounds == "" {
			bounds = ":"
		}
		if err := add("gpu-total", text, name, bounds, 1); err != nil {
			return nil, err
		}
	}
	if out.nodes < 0 && out.micro < 0 && len(out.resources) == 0 {
		return nil, nil
	}
	return out, nil
}

// limitForm is how the value of a flag is written.
func limitForm(flag string) string {
	if flag == "gpu-total" {
		return "RESOURCE:MIN:MAX"
	}
	return "MIN:MAX"
}

// into has a state know the limits; of nil it knows none.
func (l *clusterLimits) into(s *state.State) {
	if l == nil {
		return
	}
	out := &model.CapacityLimit{Name: model.ClusterLimits, Nodes: l.nodes, MicroPerHour: l.micro}
	for _, r := range l.resources {
		d := s.Resources().Dim(r.name)
		out.SetMost(d, r.most)
		if r.least > 0 {
			out.Least = out.Least.With(d, r.least)
		}
	}
	s.SetLimit(out)
}
