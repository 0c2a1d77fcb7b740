// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestNearestName: an object in another namespace, or a node whose name was typed without its domain, is proposed.
func TestNearestName(t *testing.T) {
	s := &model.Snapshot{
		Pending: []*model.Pod{
			{Namespace: "data", Name: "db-0", Owner: model.Owner{Kind: "StatefulSet", Name: "db"}},
			{Namespace: "shop", Name: "cart-1", Deployment: "cart"},
		},
		Nodes: []*model.Node{{Name: "ip-10-40-205-220.ec2.internal"}, {Name: "ip-10-40-205-22.ec2.internal"}},
	}
	for subject, want := range map[string]string{
		"pod/default/db-0":        "pod/data/db-0",
		"statefulset/default/db":  "statefulset/data/db",
		"deployment/default/cart": "deployment/shop/cart",
		"job/default/db":          "",
		"node/ip-10-40-205-220":   "node/ip-10-40-205-220.ec2.internal",
		"node/ip-10-40":           "",
		"pod/shop/cart-2":         "pod/shop/cart-1",
	} {
		if have := nearestName(s, subject); have != want {
			t.Errorf("%s: have %q, want %q", subject, have, want)
		}
	}
}
