// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
)

// A NodePool that was taken over names its node class by another group, and so do the NodeClaims launched from it.
// Karpenter sees to those of its provider's own group alone, so the others are nobody's to it: it neither launches for
// such a pool nor touches such a claim. The node class is the same object. docs/design/0014-takeover.md says why.

const (
	// AnnotationManagedBy on a NodePool names the autoscaler that it was given back to: Dovetail leaves it alone. On one of
	// node groups "dovetail" says that these were taken over.
	AnnotationManagedBy = dovetailv1alpha1.Group + "/managed-by"
	// AnnotationRelease on a NodePool says how far giving it back has come, see model.NodePool.
	AnnotationRelease = dovetailv1alpha1.Group + "/release"
)

// Who scales the groups of a NodePool of node groups, as values of AnnotationManagedBy.
const (
	ManagedByDovetail          = "dovetail"
	ManagedByClusterAutoscaler = "cluster-autoscaler"
)

// TakenGroups are the groups of node class references in NodePools that were taken over, by the group of the class.
var TakenGroups = map[string]string{
	kwokv1alpha1.Group: "kwok." + dovetailv1alpha1.Group,
	awsv1.Group:        "aws." + dovetailv1alpha1.Group,
}

// ClassGroup returns the group of the node class that a reference means, and whether it is that of a pool that was
// taken over.
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
