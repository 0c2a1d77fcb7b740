// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestNodeFields holds what is to be edited for a label to where the pod says it.
func TestNodeFields(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: map[string]string{"a": "1", "b": "1"}, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "b", Operator: corev1.NodeSelectorOpExists}, {Key: "c", Operator: corev1.NodeSelectorOpExists}}}}}}}}}
	class := (&Translator{Table: state.NewResourceTable()}).Pod(p).Class
	for label, want := range map[string][]string{"a": {"spec.nodeSelector[a]"}, "b": {"spec.nodeSelector[b]", "spec.affinity.nodeAffinity[b]"}, "c": {"spec.affinity.nodeAffinity[c]"}} {
		if got := class.NodeFields(label); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", label, got, want)
		}
	}
}
