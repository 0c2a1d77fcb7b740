// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
)

// FuzzParseQuantity: what is read as a quantity is what Kubernetes reads, to the unit, and never below zero.
func FuzzParseQuantity(f *testing.F) {
	for _, s := range []string{"1", "100m", "1.5Gi", "1e3", "9223372036854775807", "9Ei", "1E", "0.1", "+1", "1n", "999999999999999999999Ki", ".5", "5.", "1e-3", "1Gib"} {
		f.Add("memory", s)
		f.Add("cpu", s)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		have, err := catalog.ParseQuantity(name, text)
		if err != nil {
			return
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatalf("%s %q is read as %d; Kubernetes refuses it: %v", name, text, have, err)
		}
		want := q.Value()
		if name == "cpu" {
			want = q.MilliValue()
		}
		if have < 0 || have != want {
			t.Errorf("%s %q: have %d, Kubernetes has %d", name, text, have, want)
		}
	})
}
