// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package recording converts a recording to a replay.Trace and its variants: the recorded NodePools, and NodePools
// from files that replace them.
//
// It reads as much of a recording as possible. Recording.Problems lists what could not be read, and Recording.Assumed
// what was assumed. Start reading at Read, then reader.take (one line of a recording) and assemble (the result of all
// lines).
package recording

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Recording is the content of a recording.
type Recording struct {
	Path   string
	Trace  *replay.Trace
	Report *record.Report
	Table  *state.ResourceTable

	Problems []string // parts that could not be read
	Assumed  []string // assumptions made

	base  map[string]json.RawMessage // by kind and key: what NodePools need, as it was first seen
	pools []poolLine
}

// Zones returns the zones of recorded nodes.
func (r *Recording) Zones() (out []string) {
	for _, n := range r.Trace.Nodes {
		if !slices.Contains(out, n.Zone) {
			out = append(out, n.Zone)
		}
	}
	return out
}

// Read reads a recording. scheduler contains the default topology spread constraints of kube-scheduler.
func Read(path string, scheduler translate.SchedulerDefaults, table *state.ResourceTable) (*Recording, error) {
	lookup := manifests.New()
	lookup.Scheduler = scheduler
	r := &reader{
		out:    &Recording{Path: path, Trace: &replay.Trace{}, Table: table, base: map[string]json.RawMessage{}},
		lookup: lookup, t: &translate.Translator{Table: table, Lookup: lookup, Defaults: scheduler},
		classes: map[string]*model.Class{}, owners: map[string]*ownerLife{}, sets: map[string]*setLife{},
		pods: map[string]*podLife{}, nodes: map[string]*nodeLife{}, claims: map[string]*replay.Claim{}, last: map[string]any{}, generations: map[string]int64{},
	}
	r.stream = newStream(r.take)
	report, err := record.Read(path, r.visitor())
	if err != nil {
		return nil, err
	}
	for _, p := range report.Problems {
		r.out.Problems = append(r.out.Problems, p.String())
	}
	if r.out.Trace.From = r.from; r.from.IsZero() {
		return nil, fmt.Errorf("%s: its first snapshot is incomplete; record again", path)
	}
	if r.out.Trace.To = r.latest(report.To); !r.out.Trace.To.After(r.out.Trace.From) {
		return nil, fmt.Errorf("%s: it covers only one instant, %s; record for longer", path, r.out.Trace.From.Format(time.RFC3339))
	}
	for _, kind := range report.Header.Denied {
		if slices.Contains(counted, kind) {
			r.assume(kind + "s were not recorded: the number of wanted pods is derived from pods alone")
		}
	}
	r.out.Report = report
	for _, g := range report.Gaps {
		if g.To.Sub(g.From) >= time.Minute {
			r.out.Problems = append(r.out.Problems, fmt.Sprintf("%s: nothing was recorded from %s to %s: changes in this gap are dated to its end",
				path, g.From.Format(time.RFC3339), g.To.Format(time.RFC3339)))
		}
	}
	r.assemble()
	if r.backwards > 0 {
		r.out.Problems = append(r.out.Problems, fmt.Sprintf("%s: the clock was set back between %d runs, by %s at most; their times are shifted forward",
			path, r.backwards, r.most.Round(time.Second)))
	}
	return r.out, nil
}

// take takes in one line.
func (r *reader) take(c record.Change, snapshot bool) {
	k, err := c.Kind+" "+c.Key, error(nil)
	switch c.Kind {
	case "Pod":
		err = r.pod(c, snapshot)
	case "Node":
		err = r.node(c)
	case "NodeClaim":
		err = r.claim(c)
	case "ReplicaSet", "StatefulSet":
		err = r.set(c)
	case "NodePool":
		err = r.pool(c)
	case "PodDisruptionBudget":
		err = r.budget(c)
	case "DaemonSet":
		err = r.daemon(c)
	case "Namespace":
		err = r.namespace(c)
	case "NodeOverlay", "KWOKNodeClass", "EC2NodeClass", "NodeGroupClass", "ClusterAPINodeClass", "CapacityQuota":
		if c.Object != nil && r.out.base[k] == nil {
			r.out.base[k] = c.Object
		}
	case "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "LimitRange", "PriorityClass", "RuntimeClass":
		if c.Object != nil {
			r.dirty = true
			err = r.lookup.Read(c.Kind+" "+c.Key, c.Object)
		}
	}
	if err != nil {
		r.out.Problems = append(r.out.Problems, fmt.Sprintf("%s, %s: %s %s can't be read and was left out: %v", r.out.Path, r.now.Format(time.RFC3339), c.Kind, c.Key, err))
	}
}
