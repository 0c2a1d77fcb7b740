// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package launch

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// TestLaunchesAreForgotten: also those whose last request had no answer. Their claims are long gone; one that is not
// is found by its tag.
func TestLaunchesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry[int](cloud.Wall{})
		for i := range 1000 {
			l, release, err := r.Acquire(t.Context(), fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			*l = i
			release()
			time.Sleep(time.Minute)
		}
		if n, most := len(r.byClaim), int(launchRetention/time.Minute)+64; n > most {
			t.Errorf("%d launches are remembered, one a minute for %s; want %d at most", n, launchRetention, most)
		}
	})
}
