// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/replay"
)

// reader reads a recording into a Trace.
type reader struct {
	stream
	out    *Recording
	t      *translate.Translator
	lookup *manifests.Set

	classes     map[string]*model.Class
	owners      map[string]*ownerLife // by key
	order       []*ownerLife
	sets        map[string]*setLife // ReplicaSets and StatefulSets by uid
	pods        map[string]*podLife
	nodes       map[string]*nodeLife
	claims      map[string]*replay.Claim
	last        map[string]any   // of PodDisruptionBudgets: as they were last, without their status
	generations map[string]int64 // of NodePools and DaemonSets
	dirty       bool             // volumes were read since they were settled
}

// poolLine is a NodePool from an instant on.
type poolLine struct {
	at   time.Time
	name string
	json json.RawMessage // nil: it is gone
}

// ownerLife is an owner of pods while it is read.
type ownerLife struct {
	*replay.Owner
	uid string
}

// setLife is a ReplicaSet or StatefulSet while it is read.
type setLife struct{ wants []replay.Want }

// podLife is a pod while it is read.
type podLife struct {
	*replay.Pod // nil: nobody asks how it fares
	uid         string
	gated       bool
	kubeletSays string // the reason of its condition DisruptionTarget
}

// nodeLife is a node while it is read.
type nodeLife struct {
	*replay.Node
	changes []replay.Change
	managed bool
	last    *model.Node
}

// counted are the kinds that say how many pods a workload wants.
var counted = []string{"ReplicaSet", "StatefulSet"}

func (r *reader) assume(text string) {
	if !slices.Contains(r.out.Assumed, text) {
		r.out.Assumed = append(r.out.Assumed, text)
	}
}

func (r *reader) intern(c *model.Class) *model.Class {
	if have := r.classes[c.Key]; have != nil {
		return have
	}
	r.classes[c.Key] = c
	return c
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
