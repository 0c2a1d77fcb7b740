// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi

import "github.com/dovetail-sh/dovetail/internal/model"

// Annotations returns all annotations of groups that have a value.
func Annotations() []string {
	out := []string{annotationMin, annotationMax, model.AnnotationPrice}
	for key := range amounts {
		out = append(out, annotationCapacity+key)
	}
	for _, key := range []string{keyGPUType, keyDRADriver, keyCSI, keyLabels, keyTaints} {
		out = append(out, annotationCapacity+key)
	}
	for _, name := range []string{optionUtilization, optionGPUUtilization, optionUnready, optionProvision} {
		out = append(out, annotationOption+name)
	}
	return out
}
