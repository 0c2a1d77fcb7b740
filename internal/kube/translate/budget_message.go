// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"strings"
)

// budgetOf is the name of the budget in the API server's words: "The disruption budget NAME needs …", or "… is still …".
func BudgetOf(said string) (string, bool) {
	_, rest, ok := strings.Cut(said, "disruption budget ")
	name, _, _ := strings.Cut(rest, " ")
	return name, ok && name != ""
}
