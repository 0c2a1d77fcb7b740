// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestEstimatedLaunchPrice: a price that nobody publishes is noted on the NodeClaim as an estimate, so that nobody takes it for the price of the node.
func TestEstimatedLaunchPrice(t *testing.T) {
	for _, c := range []struct {
		result cloud.LaunchResult
		want   int64
		noted  string
	}{
		{cloud.LaunchResult{PriceMicro: 250_000}, 250_000, "0.25"},
		{cloud.LaunchResult{PriceMicro: 250_000, Modelled: true}, 0, "0.25"}, // limits count it
		{cloud.LaunchResult{}, 0, ""},
	} {
		notes := launchUpdate(&model.Claim{}, c.result).Annotations
		if got := model.LaunchPriceMicro(notes); got != c.want || notes[model.AnnotationLaunchPrice] != c.noted {
			t.Errorf("%+v: %v, a price of %d micro-dollars, want %d", c.result, notes, got, c.want)
		}
	}
}
