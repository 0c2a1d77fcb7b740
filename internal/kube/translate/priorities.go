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

// PriorityConfigMap is where Cluster Autoscaler's expander priority has its priorities, in Cluster Autoscaler's own namespace.
const PriorityConfigMap = "cluster-autoscaler-priority-expander"

// PriorityKey is the entry of that ConfigMap: a map of priorities to regular expressions on the names of groups, in YAML.
const PriorityKey = "priorities"

// ParsePriorities reads that entry, the highest first.
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
