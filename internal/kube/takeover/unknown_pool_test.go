// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import "testing"

// The error for a NodePool that does not exist names the flag, the value, and the existing NodePools with a similar name.
func TestUnknownPool(t *testing.T) {
	have := []string{"default", "batch-spot", "batch", "patch", "gpu", "general-purpose"}
	for name, want := range map[string]string{
		"bacth":   `--pool "bacth": the cluster has no such NodePool; did you mean batch?`,
		"batchs":  `--pool "batchs": the cluster has no such NodePool; did you mean batch or patch?`,
		"defualt": `--pool "defualt": the cluster has no such NodePool; did you mean default?`,
		"general": `--pool "general": the cluster has no such NodePool; did you mean general-purpose?`,
		"system":  `--pool "system": the cluster has no such NodePool.`,
	} {
		if got := unknownPool(name, have); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
