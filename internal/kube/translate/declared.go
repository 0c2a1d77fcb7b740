// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	corev1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	declared "k8s.io/component-helpers/nodedeclaredfeatures"
	declaredtypes "k8s.io/component-helpers/nodedeclaredfeatures/types"
)

// oldestVersion has kube-scheduler's features asked for whatever the version of the cluster: none of them is implied by a version yet.
var oldestVersion = utilversion.MustParseGeneric("1.35")

// undeclaredFeatures returns why a pod that kube-scheduler places only on nodes that declare certain features finds no node: nothing
// says what a node that is still to come will declare in its status.
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
