// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Pod annotations of Cluster Autoscaler, in addition to annotationSafeToEvict.
const (
	annotationSafeVolumes    = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
	annotationScaleUpDelay   = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay"
	annotationDaemonEviction = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
)

// podRuleFacts sets the fields of a pod that the rules of node groups use.
func podRuleFacts(out *model.Pod, p *corev1.Pod) {
	out.LocalVolume = localVolume(p)
	if len(p.Annotations) == 0 {
		return
	}
	out.DaemonEviction = p.Annotations[annotationDaemonEviction]
	if d, err := time.ParseDuration(p.Annotations[annotationScaleUpDelay]); err == nil && d > 0 {
		out.ScaleUpDelay = d
	}
}

// localVolume is the first volume of a pod that is lost with its node, and that the pod's annotation does not call safe
// to lose: hostPath, or emptyDir on the node's disk. Empty: there is none.
func localVolume(p *corev1.Pod) string {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		local := v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
		if local && !slices.Contains(strings.Split(p.Annotations[annotationSafeVolumes], ","), v.Name) {
			return v.Name
		}
	}
	return ""
}

// disruptionCost returns what evicting a pod costs by its annotations: karpenter.sh/disruption-cost, or else
// controller.kubernetes.io/pod-deletion-cost, unless that was written by us. A value that is not a 32-bit integer counts as 0, as in Karpenter.
func disruptionCost(annotations map[string]string) int32 {
	s, ok := annotations[karpv1.AnnotationDisruptionCost]
	if !ok {
		if s = annotations[corev1.PodDeletionCost]; s == annotations[model.AnnotationDeletionCost] {
			return 0
		}
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}
