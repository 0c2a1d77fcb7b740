// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// wireSlot is a slot in the annotation: resources by name, since dimensions are one process's own.
type wireSlot struct {
	Class    string           `json:"class"`
	Owner    string           `json:"owner,omitempty"`
	Count    int              `json:"count"`
	Requests map[string]int64 `json:"requests"`
	Loose    bool             `json:"loose,omitempty"`
}

// SlotsText returns slots in the format of the annotation.
func (t *Translator) SlotsText(slots []model.Slot) (string, error) {
	names := t.Table.Names()
	out := make([]wireSlot, len(slots))
	for i, s := range slots {
		out[i] = wireSlot{Class: s.Class, Owner: s.Owner, Count: s.Count, Loose: s.Loose, Requests: map[string]int64{}}
		for d, v := range s.Requests {
			if v != 0 {
				out[i].Requests[names[d]] = v
			}
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("write slots: %w", err)
	}
	return string(b), nil
}

func wireTaints(list []model.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range list {
		out = append(out, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	return out
}

// wireNillable writes whole hours as hours, as people do.
func wireNillable(d time.Duration) karpv1.NillableDuration {
	if d < 0 {
		return karpv1.NillableDuration{}
	}
	out := karpv1.NillableDurationOf(d)
	switch {
	case d%time.Hour == 0 && d > 0:
		out.Text = fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0 && d > 0:
		out.Text = fmt.Sprintf("%dm", d/time.Minute)
	default:
		out.Text = fmt.Sprintf("%ds", d/time.Second)
	}
	return out
}

// wireRequirements writes requirements back with the operators of the API. Labels that the API refuses in a NodeClaim's
// requirements are left out: they follow from its metadata.
func wireRequirements(rs model.Requirements) ([]karpv1.Requirement, error) {
	out := make([]karpv1.Requirement, 0, len(rs))
	for i := range rs {
		r := &rs[i]
		if r.Key != karpv1.LabelNodePool && restricted(r.Key) != "" {
			continue
		}
		start := len(out)
		add := func(op corev1.NodeSelectorOperator, values ...string) {
			out = append(out, karpv1.Requirement{Key: r.Key, Operator: op, Values: values})
		}
		switch {
		case r.Empty() && !r.AllowAbsent, r.Complement && r.Max < 0:
			return nil, fmt.Errorf("requirement %s: nothing satisfies it", r)
		case !r.Complement && len(r.Values) > 0:
			add(corev1.NodeSelectorOpIn, r.Values...)
		case !r.Complement:
			add(corev1.NodeSelectorOpDoesNotExist)
		default:
			if len(r.Values) > 0 {
				add(corev1.NodeSelectorOpNotIn, r.Values...)
			}
			// Bounds of the API are not below zero; neither are the labels that have any.
			if op, n, ok := r.LowerBound(); ok && r.Min >= 0 {
				if n < 0 {
					op, n = model.OpGte, r.Min
				}
				add(corev1.NodeSelectorOperator(op), strconv.FormatInt(n, 10))
			}
			if op, n, ok := r.UpperBound(); ok {
				add(corev1.NodeSelectorOperator(op), strconv.FormatInt(n, 10))
			}
			if !r.AllowAbsent && (len(out) == start || len(out) == start+1 && len(r.Values) > 0) {
				add(corev1.NodeSelectorOpExists)
			}
			if len(out) == start {
				continue // no rule at all
			}
		}
		if r.MinValues > 0 {
			n := r.MinValues
			out[start].MinValues = &n
		}
	}
	return out, nil
}
