// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalogue

import "testing"

// FuzzPrice: whatever AWS writes as a price is above zero and no more than a million dollars an hour, or none.
func FuzzPrice(f *testing.F) {
	for _, s := range []string{"0.0960000000", "0", "-1", "NaN", "Inf", "1e300", "0x1p-2", "1e-300", "", "1_000", "12.5 "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v := parsePriceMicro(s); v < 0 || v > mostPriceMicro {
			t.Errorf("%q is %d", s, v)
		}
	})
}
