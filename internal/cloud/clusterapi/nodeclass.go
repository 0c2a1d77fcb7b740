// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// memberClass is ClusterAPINodeClass, which selects among the objects that are labelled as members.
var memberClass = &nodegroups.OtherClass{ClassKind: cloud.ClassKind{Group: clusterapiv1alpha1.Group, Kind: clusterapiv1alpha1.KindClusterAPINodeClass}, Selector: selectMembers,
	None: "spec.scalableResourceSelector: selects no MachineDeployment, MachineSet or MachinePool with label " + clusterapiv1alpha1.LabelMember + "; set that label on those to be used, and change the selector if their other labels do not match"}

// selectMembers returns which groups the spec of a ClusterAPINodeClass selects.
func selectMembers(raw []byte) (func(*nodegroups.Group) bool, error) {
	var spec clusterapiv1alpha1.ClusterAPINodeClassSpec
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &spec); err != nil {
			return nil, fmt.Errorf("spec: %w", err)
		}
	}
	selector := labels.Everything()
	if spec.ScalableResourceSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(spec.ScalableResourceSelector); err != nil {
			return nil, fmt.Errorf("spec.scalableResourceSelector: %w", err)
		}
	}
	return func(g *nodegroups.Group) bool {
		_, member := g.Tags[clusterapiv1alpha1.LabelMember]
		return member && selector.Matches(labels.Set(g.Tags))
	}, nil
}
