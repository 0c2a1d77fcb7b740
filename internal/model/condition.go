// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import "time"

// Condition is one status condition.
type Condition struct {
	Status  string // True, False, Unknown; empty: not there
	Reason  string
	Message string
	Since   time.Time
}

// True reports whether the condition holds.
func (c Condition) True() bool { return c.Status == "True" }
