// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"strings"
)

// BudgetOf returns the name of the PodDisruptionBudget in an error message of the API server: "The disruption budget
// NAME needs …", or "… is still …".
func BudgetOf(said string) (string, bool) {
	_, rest, ok := strings.Cut(said, "disruption budget ")
	name, _, _ := strings.Cut(rest, " ")
	return name, ok && name != ""
}
