// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
)

// A NodePool that was taken over, and the NodeClaims launched from it, refer to their node class by another API group.
// Karpenter manages only references to its provider's group, so it neither launches nodes for such a NodePool nor
// changes such a NodeClaim. The node class is the same object. See docs/design/0014-takeover.md.

const (
	// AnnotationManagedBy on a NodePool names the autoscaler that it was released to: Dovetail leaves the NodePool
	// alone. On a NodePool of node groups, "dovetail" means that they were taken over.
	AnnotationManagedBy = dovetailv1alpha1.Group + "/managed-by"
	// AnnotationRelease on a NodePool is the progress of its release, see model.NodePool.
	AnnotationRelease = dovetailv1alpha1.Group + "/release"
)

// Autoscalers of the groups of a NodePool of node groups, as values of AnnotationManagedBy.
const (
	ManagedByDovetail          = "dovetail"
	ManagedByClusterAutoscaler = "cluster-autoscaler"
)

// TakenGroups are the API groups of node class references in NodePools that were taken over, by the API group of the
// class.
var TakenGroups = map[string]string{
	kwokv1alpha1.Group: "kwok." + dovetailv1alpha1.Group,
	awsv1.Group:        "aws." + dovetailv1alpha1.Group,
}

// ClassGroup returns the API group of the node class that a reference refers to, and whether the NodePool was taken
// over.
func ClassGroup(group string) (of string, taken bool) {
	for of, alias := range TakenGroups {
		if group == alias {
			return of, true
		}
	}
	return group, false
}

// untaken returns a NodePool as it was before it was taken over; one that was not is returned itself.
func untaken(p *karpv1.NodePool) *karpv1.NodePool {
	r := p.Spec.Template.Spec.NodeClassRef
	if r == nil {
		return p
	}
	group, taken := ClassGroup(r.Group)
	if !taken {
		return p
	}
	out := p.DeepCopy()
	out.Spec.Template.Spec.NodeClassRef.Group = group
	return out
}

// referenceGroup is the group by which claims of a pool name its node class.
func referenceGroup(group string, taken bool) string {
	if alias := TakenGroups[group]; taken && alias != "" {
		return alias
	}
	return group
}
