// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// TestLaunchesAreForgotten: also those whose last request had no answer. Their claims are long gone; one that is not is found by its tag.
func TestLaunchesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Provider{clock: cloud.Wall{}, launches: launchRegistry{byClaim: map[string]*claimLaunch{}}}
		for i := range 1000 {
			p.claimLaunchOf(fmt.Sprint(i)).pending = &fleetRequest{}
			time.Sleep(time.Minute)
		}
		if n, most := len(p.launches.byClaim), int(launchRetention/time.Minute)+64; n > most {
			t.Errorf("%d launches are remembered, one a minute for %s; want %d at most", n, launchRetention, most)
		}
	})
}
