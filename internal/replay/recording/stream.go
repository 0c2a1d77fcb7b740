// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/record"
)

// stream makes one row of changes of the runs of a recording: time never runs backwards in it, and objects that a run begins
// without are gone from its begin on.
type stream struct {
	// take takes in one change at now. snapshot reports whether it was made before: it belongs to the objects with which a run begins.
	take func(c record.Change, snapshot bool)

	from      time.Time // when the first snapshot was complete; zero: it is not
	now       time.Time
	shift     time.Duration // added to the times of this run, so that none is before that of the last line
	backwards int           // runs that were shifted
	most      time.Duration // by at most

	snapshot []record.Change // of the run that begins, until it is complete
	syncing  bool
	first    bool            // the first snapshot is taken in
	have     map[string]bool // kind and key of all objects that there are
}

func newStream(take func(record.Change, bool)) stream {
	return stream{take: take, have: map[string]bool{}}
}

// visitor has a recording read into the stream.
func (s *stream) visitor() record.Visitor {
	return record.Visitor{Begin: s.begin, Synced: s.synced, Change: s.change}
}

func (s *stream) begin(at time.Time, _ record.Header) {
	s.snapshot, s.syncing, s.shift = nil, true, 0
	if back := s.now.Sub(at); back > 0 {
		s.shift, s.backwards, s.most = back, s.backwards+1, max(s.most, back)
	}
	s.now = s.latest(at)
}

// synced takes in the snapshot with which a run begins. What pods refer to comes before them.
func (s *stream) synced(at time.Time) {
	s.now = s.latest(at)
	if s.first = s.from.IsZero(); s.first {
		s.from = s.now
	}
	seen := map[string]bool{}
	for _, pods := range []bool{false, true} {
		for _, c := range s.snapshot {
			if seen[c.Kind+" "+c.Key] = true; (c.Kind == "Pod") == pods {
				s.pass(c, true)
			}
		}
	}
	for _, k := range sorted(s.have) {
		if !seen[k] {
			kind, key, _ := strings.Cut(k, " ")
			s.pass(record.Change{Kind: kind, Key: key}, true)
		}
	}
	s.snapshot, s.syncing, s.first = nil, false, false
}

func (s *stream) change(c record.Change) {
	if !s.syncing {
		s.now = s.latest(c.Time)
		s.pass(c, false)
		return
	}
	if c.Object == nil {
		s.snapshot = slices.DeleteFunc(s.snapshot, func(x record.Change) bool { return x.Kind == c.Kind && x.Key == c.Key })
		return
	}
	s.snapshot = append(s.snapshot, c)
}

func (s *stream) pass(c record.Change, snapshot bool) {
	if k := c.Kind + " " + c.Key; c.Object == nil {
		delete(s.have, k)
	} else {
		s.have[k] = true
	}
	s.take(c, snapshot)
}

// latest returns an instant of this run, not before any other.
func (s *stream) latest(at time.Time) time.Time {
	return model.LaterOf(at.Add(s.shift), s.now)
}

// decode returns the object of a change, which has one.
func decode[T any](c record.Change) (*T, error) {
	out := new(T)
	return out, json.Unmarshal(c.Object, out)
}

func decodeNode(c record.Change) (*corev1.Node, error) {
	o, err := decode[corev1.Node](c)
	if len(o.Status.Allocatable) == 0 { // as the API server has it
		o.Status.Allocatable = o.Status.Capacity
	}
	return o, err
}

// decodeReplicas returns the uid of a ReplicaSet or StatefulSet, and how many pods it wants.
func decodeReplicas(c record.Change) (uid string, want int, err error) {
	o, err := decode[struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			Replicas *int `json:"replicas"`
		} `json:"spec"`
	}](c)
	if want = 1; o.Spec.Replicas != nil {
		want = *o.Spec.Replicas
	}
	return o.Metadata.UID, want, err
}
