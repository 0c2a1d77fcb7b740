// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"sigs.k8s.io/yaml"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
)

// PriorityConfigMap is the name of the ConfigMap with the priorities of Cluster Autoscaler's expander priority, in the
// namespace of Cluster Autoscaler.
const PriorityConfigMap = "cluster-autoscaler-priority-expander"

// PriorityKey is the key of the priorities in the ConfigMap: a YAML map of priorities to regular expressions for group
// names.
const PriorityKey = "priorities"

// ParsePriorities parses the priorities, highest first.
func ParsePriorities(text string) ([]dovetailv1alpha1.NodeGroupPriority, error) {
	var m map[string][]string
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("need a map of priorities to lists of regular expressions: %w", err)
	}
	out := []dovetailv1alpha1.NodeGroupPriority{}
	for key, names := range m {
		n, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q: a priority is a whole number", key)
		}
		out = append(out, dovetailv1alpha1.NodeGroupPriority{Priority: int32(n), Names: names})
	}
	slices.SortFunc(out, func(a, b dovetailv1alpha1.NodeGroupPriority) int { return int(b.Priority) - int(a.Priority) })
	if len(out) == 0 {
		return nil, errors.New("there are none")
	}
	_, err := GroupWeights(nil, out)
	return out, err
}
