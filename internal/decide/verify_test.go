// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide_test

import (
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/decide"
)

func init() {
	decide.SecondOpinion = func(out *decide.Output) error { return controller.Verified(out).Err() }
}
