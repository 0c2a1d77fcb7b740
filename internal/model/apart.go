// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"maps"
	"slices"
)

// labelDevices is the key of the label that classes have of how their pods request devices. No label of an object can have this key.
const labelDevices = "(devices)"

// KeepApart keeps pods of the class off the nodes of pods that request some of the same devices in another way: they have an anti-affinity to
// the pods with these marks, which are sorted. Mark is the class's own, empty if no pods are kept apart from its.
func (c *Class) KeepApart(mark string, from []string) {
	if mark != "" {
		labels := Labels{labelDevices: mark}
		maps.Copy(labels, c.Labels)
		c.Labels = labels
	}
	if len(from) > 0 {
		to := Selector{NamespaceL: &Requirements{}, Pods: &Requirements{OneOf(labelDevices, from...)}}
		c.AntiAffinity = append(slices.Clip(c.AntiAffinity), PodTerm{TopologyKey: LabelHostname, Selector: to})
	}
}

// IsOfDevices reports whether a selector is that of KeepApart. No field of a pod has such a selector, and kube-scheduler does not know it.
func (s *Selector) IsOfDevices() bool {
	return s.Pods != nil && len(*s.Pods) == 1 && (*s.Pods)[0].Key == labelDevices
}
