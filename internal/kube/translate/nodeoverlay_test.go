// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestOverlayAddsWholeUnits: of what a NodeOverlay adds to nodes only whole units are given out.
func TestOverlayAddsWholeUnits(t *testing.T) {
	for text, want := range map[string]int64{"1500m": 1, "999m": 0, "2": 2, "1e3": 1000, "0": 0, "100Ei": mostAmount} {
		o := &karpv1alpha1.NodeOverlay{}
		o.Spec.Capacity = corev1.ResourceList{"example.com/seat": resource.MustParse(text)}
		out := (&Translator{Table: state.NewResourceTable()}).NodeOverlay(o)
		if len(out.Capacity) != 1 || out.Capacity[0].Amount != want {
			t.Errorf("%s: %+v, want %d", text, out.Capacity, want)
		}
	}
}
