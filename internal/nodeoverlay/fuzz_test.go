// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeoverlay

import "testing"

// FuzzPrice: whatever an overlay's price or adjustment is, it is refused, or every price stays within bounds under it,
// and a dearer type does not become the cheaper one.
func FuzzPrice(f *testing.F) {
	for _, s := range []string{"0.25", "-0.25", "+10%", "-100%", "1e9", ".5", "+.", "0x10", "99999999999999999999", "-99999999999%", "1/3", "+0.0000000000000000000000000001%", "", "+", "%", "NaN", "Inf"} {
		f.Add(s, int64(100_000))
	}
	f.Fuzz(func(t *testing.T, s string, micro int64) {
		micro = max(0, min(micro, mostPrice))
		for _, read := range []func(string) (PriceChange, error){ReadPrice, ReadPriceAdjustment} {
			c, err := read(s)
			if err != nil {
				continue
			}
			if !c.IsSet() {
				t.Fatalf("%q was taken and changes nothing", s)
			}
			p, dearer := c.Apply(micro), c.Apply(min(micro+1, mostPrice))
			if p < LeastPrice || p > mostPrice || p > dearer {
				t.Errorf("%q makes %d of %d, and %d of one more", s, p, micro, dearer)
			}
		}
	})
}
