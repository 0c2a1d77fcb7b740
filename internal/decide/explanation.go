// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// explanation is a step that only looks.
type explanation struct {
	*step
}

// newExplanation returns a step that only looks: how everything stands, with nothing decided.
func newExplanation(s *model.Snapshot, mem Memory, now time.Time, pol Policy) *explanation {
	st := read(s, mem, now, pol, Request{}, explaining)
	st.run(st.decisions(Request{}), explaining)
	return &explanation{st}
}

// addFact adds a fact to an answer.
func addFact(a *plan.Answer, name, value string) {
	a.Facts = append(a.Facts, plan.Fact{Name: name, Value: value})
}

// formatDollars writes micro-dollars as $ and four decimals.
func formatDollars(micro int64) string {
	return "$" + strconv.FormatFloat(float64(micro)/1e6, 'f', 4, 64)
}
