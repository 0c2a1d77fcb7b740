// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

func TestNearestName(t *testing.T) {
	s := &model.Snapshot{Pools: []*model.NodePool{{Name: "default"}, {Name: "gpu"}},
		Pending: []*model.Pod{{Namespace: "shop", Name: "checkout-1", Deployment: "checkout"}}}
	for subject, want := range map[string]string{"nodepool/defualt": "nodepool/default", "nodepool/nope": "", "deployment/shop/chekout": "deployment/shop/checkout",
		"deployment/other/cart": "", "pod/shop/checkout-2": "pod/shop/checkout-1", "node/default": "", "nodepool/": ""} {
		if got := nearestName(s, subject); got != want {
			t.Errorf("%s: %q, want %q", subject, got, want)
		}
	}
}
