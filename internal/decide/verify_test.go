// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide_test

import (
	"strings"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/explain"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

func init() {
	decide.Why, decide.Apply = explain.Why, explain.Apply
	decide.WhyText = func(a *plan.Answer) string {
		var b strings.Builder
		if err := report.WhyText(&b, &report.Why{Answer: *a}); err != nil {
			panic(err)
		}
		return b.String()
	}
	decide.SecondOpinion = func(s *model.Snapshot, out *decide.Output) ([]decide.RefusedBinding, error) {
		o := approve.Verify(s, out)
		return o.Bindings, o.Err()
	}
}
