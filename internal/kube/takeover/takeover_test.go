// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

// What somebody changes in a pool while it is handed over is kept; what was changed to keep Karpenter still is not.
func TestEditsDuringTakeover(t *testing.T) {
	pool := func(spec rawObject) rawObject {
		spec["template"] = rawObject{"spec": rawObject{"nodeClassRef": rawObject{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}
		return rawObject{"metadata": rawObject{"name": "p"}, "spec": spec}
	}
	still := func() rawObject {
		return rawObject{"budgets": []any{rawObject{"nodes": "0"}}, "consolidateAfter": "1m"}
	}
	have := pool(rawObject{"limits": rawObject{"memory": "10Gi"}, "disruption": rawObject{"budgets": []any{rawObject{"nodes": "10%"}}, "consolidateAfter": "1m"}})
	want := runtime.DeepCopyJSON(have)
	write.Field(want, "spec", "template", "spec", "nodeClassRef").(rawObject)["group"] = "kwok.dovetail.sh"
	for what, x := range map[string]struct {
		now    rawObject
		edited bool
		change func(spec rawObject) // of the manifest
	}{
		"nothing": {pool(rawObject{"limits": rawObject{"cpu": "0", "memory": "10Gi"}, "disruption": still()}), false, func(rawObject) {}},
		"weight": {pool(rawObject{"weight": int64(5), "limits": rawObject{"cpu": "0", "memory": "10Gi"}, "disruption": still()}), true,
			func(spec rawObject) { spec["weight"] = int64(5) }},
		"another limit": {pool(rawObject{"limits": rawObject{"cpu": "0", "memory": "20Gi"}, "disruption": still()}), true,
			func(spec rawObject) { spec["limits"] = rawObject{"memory": "20Gi"} }},
		"the limit that keeps it still": {pool(rawObject{"limits": rawObject{"cpu": "7", "memory": "10Gi"}, "disruption": still()}), true,
			func(spec rawObject) { spec["limits"] = rawObject{"cpu": "7", "memory": "10Gi"} }},
	} {
		next := runtime.DeepCopyJSON(want)["spec"].(rawObject)
		x.change(next)
		spec, edited := carryEdits(have, want, x.now)
		if edited != x.edited || !reflect.DeepEqual(spec, next) {
			t.Errorf("%s: edited %t, %v; want %t, %v", what, edited, spec, x.edited, next)
		}
	}
}
