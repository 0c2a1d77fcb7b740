// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide_test

import (
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/explain"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

func init() {
	decide.Why, decide.Apply = explain.Why, explain.Apply
	decide.WhyPending = func(s *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, answer func([]*model.Pod, plan.Answer)) {
		for _, w := range explain.Pending(s, mem, now, pol) {
			answer(w.Pods, w.Answer)
		}
	}
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
