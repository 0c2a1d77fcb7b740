// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"strconv"
	"time"
)

// Toleration mirrors the Kubernetes one.
type Toleration struct {
	Key      string
	Exists   bool // operator Exists; else Equal
	Value    string
	Effect   string        // empty: every effect
	For      time.Duration // for NoExecute; negative: for ever
	Operator string        // Gt or Lt where the cluster has numeric tolerations, else empty
}

// Taint mirrors the Kubernetes one.
type Taint struct {
	Key, Value, Effect string
}

// Taint effects.
const (
	NoSchedule       = "NoSchedule"
	PreferNoSchedule = "PreferNoSchedule"
	NoExecute        = "NoExecute"
)

// Tolerates reports whether the toleration covers the taint.
func (t *Toleration) Tolerates(x Taint) bool {
	if t.Effect != "" && t.Effect != x.Effect {
		return false
	}
	if t.Key != "" && t.Key != x.Key {
		return false
	}
	if t.Exists {
		return true
	}
	if t.Operator != "" {
		bound, err := strconv.ParseInt(t.Value, 10, 64)
		have, herr := strconv.ParseInt(x.Value, 10, 64)
		return err == nil && herr == nil && (t.Operator == "Gt" && have > bound || t.Operator == "Lt" && have < bound)
	}
	return t.Key != "" && t.Value == x.Value
}

// Tolerated reports whether some toleration covers the taint.
func Tolerated(x Taint, ts []Toleration) bool {
	for i := range ts {
		if ts[i].Tolerates(x) {
			return true
		}
	}
	return false
}

// Untolerated returns the first hard taint (NoSchedule, NoExecute) that no toleration covers, nil if there is none.
func Untolerated(taints []Taint, ts []Toleration) *Taint {
	for i := range taints {
		if taints[i].Effect != PreferNoSchedule && !Tolerated(taints[i], ts) {
			return &taints[i]
		}
	}
	return nil
}
