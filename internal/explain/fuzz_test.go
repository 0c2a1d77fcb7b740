// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// FuzzAmounts: an amount that a change of a what-if names is read back as it was written, or refused.
func FuzzAmounts(f *testing.F) {
	for _, s := range []string{"1", "100m", "2Gi", "9223372036854775807Ti", "-1", "1.000000", "-0.000001", "9223372036854775807.999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range []model.Dim{model.CPU, model.Memory, model.Pods} {
			if v, err := model.ParseAmount(d, s); err == nil {
				if again, err := model.ParseAmount(d, model.FormatAmount(d, v)); err != nil || again != v {
					t.Errorf("%q of resource %d is %d, written %s, then %d, %v", s, d, v, model.FormatAmount(d, v), again, err)
				}
			}
		}
	})
}
