// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// notInLabels are characters that a label value may not have.
var notInLabels = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// labelOf returns the label value that stands for a group: its name, or if that is no label value, as a URL, its last part with a sum of the whole.
func labelOf(name string) string {
	if len(validation.IsValidLabelValue(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	last := notInLabels.ReplaceAllString(name[strings.LastIndexByte(strings.TrimRight(name, "/"), '/')+1:], "-")
	last = strings.Trim(last[:min(len(last), 50)], "_.-")
	return strings.TrimPrefix(last+"-"+hex.EncodeToString(sum[:4]), "-")
}
