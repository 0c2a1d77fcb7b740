// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// Three pods of ten leave, and what is left comes to cost hardly more than the least that it can; then nothing moves any more. How soon
// that is, and how long a pod is without a node, is told here; `make bench-consolidation` holds it against what is promised.
func TestScaleDown(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	o := scaledown.Options{Before: 150, After: 105, ConsolidateAfter: 10 * time.Second, Still: 20 * time.Second, Frozen: 30 * time.Second, Log: t.Logf}
	if os.Getenv("DOVETAIL_SOAK") != "" {
		o.Before, o.After, o.ConsolidateAfter, o.Frozen = 500, 350, 30*time.Second, 10*time.Minute
	}
	res, err := scaledown.Run(t.Context(), t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
	for _, s := range res.Short() {
		t.Error(s)
	}
	for _, s := range res.Slow() {
		t.Log(s)
	}
}
