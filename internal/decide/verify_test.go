// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide_test

import (
	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/explain"
	"github.com/dovetail-sh/dovetail/internal/model"
)

func init() {
	decide.Why, decide.Apply = explain.Why, explain.Apply
	decide.SecondOpinion = func(s *model.Snapshot, out *decide.Output) ([]decide.RefusedBinding, error) {
		o := approve.Verify(s, out)
		return o.Bindings, o.Err()
	}
}
