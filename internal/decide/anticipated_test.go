// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestMostExpected: nobody means a million pods, and a replica count may yet be put right.
func TestMostExpected(t *testing.T) {
	out := run(t, `
		pool p
		type large cpu=8 mem=32Gi price=0.4
		pod a x2
		replicas a 1000000
		pod b x2
		replicas b 9
		at +1s`)
	if n := strings.Count(out, "to come)"); n != model.MostExpected {
		t.Errorf("%d pods are expected, want %d", n, model.MostExpected)
	}
}
