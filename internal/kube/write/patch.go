// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// MarshalJSON keeps the value null of a test for an absent value.
func (o operation) MarshalJSON() ([]byte, error) {
	type full struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	type bare struct {
		Op   string `json:"op"`
		Path string `json:"path"`
	}
	if o.Op == "remove" {
		return json.Marshal(bare{o.Op, o.Path})
	}
	return json.Marshal(full(o))
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// difference returns the merge patch from have to want: null for removed keys.
func difference(have, want map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range want {
		h, ok := have[k]
		switch {
		case v == plan.Unset && ok:
			out[k] = nil
		case v != plan.Unset && (!ok || h != v):
			out[k] = v
		}
	}
	return out
}

func finalizers(have []string, name string, add, remove bool) ([]string, bool) {
	is := slices.Contains(have, name)
	switch {
	case add && !is:
		return append(slices.Clone(have), name), true
	case remove && is:
		return slices.DeleteFunc(slices.Clone(have), func(s string) bool { return s == name }), true
	}
	return have, false
}

// replaceList is a merge patch that leaves nothing of the list before.
func replaceList(have, want corev1.ResourceList) map[string]any {
	out := map[string]any{}
	for k := range have {
		out[string(k)] = nil
	}
	for k, q := range want {
		out[string(k)] = q.String()
	}
	return out
}

// mergeConditions writes conditions into a list; the time of transition changes with the status only, and one with an empty status
// is taken away. parts are the conditions that Ready sums up; those not decided yet are Unknown, as a reader of the API expects.
func mergeConditions(have []metav1.Condition, want map[string]model.Condition, generation int64, now time.Time, parts ...string) ([]metav1.Condition, bool) {
	out := slices.Clone(have)
	changed := false
	set := func(c metav1.Condition) {
		c.Reason = cmp.Or(c.Reason, c.Type)
		c.ObservedGeneration = generation
		if len(c.Message) > 32768 {
			c.Message = c.Message[:32768]
		}
		i := slices.IndexFunc(out, func(o metav1.Condition) bool { return o.Type == c.Type })
		if i < 0 {
			c.LastTransitionTime = metav1.NewTime(now)
			out, changed = append(out, c), true
			return
		}
		c.LastTransitionTime = out[i].LastTransitionTime
		if out[i].Status != c.Status {
			c.LastTransitionTime = metav1.NewTime(now)
		}
		if out[i] != c {
			out[i], changed = c, true
		}
	}
	for _, p := range parts {
		if _, given := want[p]; !given && !slices.ContainsFunc(out, func(o metav1.Condition) bool { return o.Type == p }) {
			set(metav1.Condition{
				Type: p, Status: metav1.ConditionUnknown, Reason: karpv1.ReasonAwaitingReconciliation, Message: "object is awaiting reconciliation",
			})
		}
	}
	for _, t := range slices.Sorted(maps.Keys(want)) {
		c := want[t]
		if c.Status == "" {
			n := len(out)
			out = slices.DeleteFunc(out, func(o metav1.Condition) bool { return o.Type == t })
			changed = changed || len(out) != n
			continue
		}
		set(metav1.Condition{Type: t, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message})
	}
	if _, given := want[karpv1.ConditionReady]; len(parts) > 0 && !given {
		ready := metav1.Condition{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue, Reason: karpv1.ConditionReady}
		var not []string
		for _, p := range parts {
			i := slices.IndexFunc(out, func(o metav1.Condition) bool { return o.Type == p })
			if i < 0 || out[i].Status == metav1.ConditionTrue {
				continue
			}
			not = append(not, p+"="+string(out[i].Status))
			if ready.Status == metav1.ConditionTrue || out[i].Status == metav1.ConditionFalse {
				ready.Status = out[i].Status
			}
		}
		if len(not) > 0 {
			ready.Reason, ready.Message = karpv1.ReasonUnhealthyDependents, strings.Join(not, ", ")
		}
		set(ready)
	}
	return out, changed
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func mapPatch(ops []operation, path string, have, want map[string]string) []operation {
	if have == nil {
		set := map[string]string{}
		for k, v := range want {
			if v != plan.Unset {
				set[k] = v
			}
		}
		if len(set) > 0 {
			ops = append(ops, operation{"test", path, nil}, operation{"add", path, set})
		}
		return ops
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		h, ok := have[k]
		switch {
		case want[k] == plan.Unset && ok:
			ops = append(ops, operation{"remove", path + "/" + pointer.Replace(k), nil})
		case want[k] != plan.Unset && (!ok || h != want[k]):
			ops = append(ops, operation{"add", path + "/" + pointer.Replace(k), want[k]})
		}
	}
	return ops
}

func listPatch[T any](ops []operation, path string, have, want []T) []operation {
	if len(have) == 0 {
		return append(ops, operation{"test", path, nil}, operation{"add", path, want})
	}
	ops = append(ops, operation{"test", path, have})
	if len(want) == 0 {
		return append(ops, operation{"remove", path, nil})
	}
	return append(ops, operation{"replace", path, want})
}
