// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demandhistory

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/forecast"
)

// FuzzReadHistory: whatever stands in the ConfigMap of past demand is refused, or is the history of a workload that ends
// by now and is stored under the same key again.
func FuzzReadHistory(f *testing.F) {
	const now = 30_000_000
	h := forecast.New()
	for i := range int64(50) {
		_ = h.Observe(now-60+i, int(i%7))
	}
	f.Add("Deployment.shop.web.v1", h.Encode())
	f.Add("Deployment..web", h.Encode())
	f.Add("...", []byte{})
	f.Add("StatefulSet.a.b", []byte{1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		w, h, err := readHistory(key, data, now)
		if err != nil {
			return
		}
		if last, _, ok := h.Last(); !ok || last > now+clockSkew {
			t.Errorf("its last minute is %d", last)
		}
		if again, ok := historyKey(w); ok && again != key {
			t.Errorf("read from %q, stored under %q", key, again)
		}
		h.Forecast(now, 0, 5, nil)
	})
}
