// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	"fmt"
	"strconv"

	"github.com/mitchellh/hashstructure/v2"
)

// NodePoolHashVersion is the version of the rule by which Hash is computed. Two hashes of different versions are not comparable.
const NodePoolHashVersion = "v3"

// Hash is a number in decimal that changes when a NodePool's template changes in a way that its machines cannot follow. The
// requirements of the template do not count, for whether a machine meets them is asked of the machine; nor do the order of a
// list, fields at their zero value, or the spelling of a duration.
//
// It equals Karpenter's, so that a cluster that changes from one to the other keeps its machines. The rule hashes the names of
// types and fields and is sensitive to the order of fields, which is why the types below NodePoolSpec.Template keep theirs.
func (p *NodePool) Hash() (string, error) {
	h, err := hashstructure.Hash(p.Spec.Template, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets:    true,
		IgnoreZeroValue: true,
		ZeroNil:         true,
	})
	if err != nil {
		return "", fmt.Errorf("hash template of nodepool %q: %w", p.Name, err)
	}
	return strconv.FormatUint(h, 10), nil
}
