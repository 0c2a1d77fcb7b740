// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	declared "k8s.io/component-helpers/nodedeclaredfeatures"
	declaredtypes "k8s.io/component-helpers/nodedeclaredfeatures/types"
)

// oldestVersion makes kube-scheduler's features required for every version of the cluster, because no version implies
// any of them yet.
var oldestVersion = utilversion.MustParseGeneric("1.35")

// undeclaredFeatures returns why no new node is found for a pod that kube-scheduler places only on nodes that declare
// certain features: the declared features of new nodes are unknown.
func undeclaredFeatures(s *corev1.PodSpec) (out []string) {
	set, err := declared.DefaultFramework.InferForPodScheduling(&declaredtypes.PodInfo{Spec: s}, oldestVersion)
	if err != nil {
		return []string{"features that a node declares: " + err.Error()}
	}
	names, err := declared.DefaultFramework.Unmap(set)
	if err != nil {
		return []string{"features that a node declares: " + err.Error()}
	}
	for _, n := range names {
		out = append(out, "feature "+n+": the pod requires a node that declares it, and new nodes might not")
	}
	return out
}
