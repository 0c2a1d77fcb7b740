// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/mitchellh/hashstructure/v2"
)

// EC2NodeClassHashVersion is the version of the rule by which Hash is computed, Karpenter's. Two hashes of different versions are not
// comparable.
const EC2NodeClassHashVersion = "v6"

// Alias is the alias that the images are chosen by: family and version, empty where there is none.
func (s *EC2NodeClassSpec) Alias() (family, version string) {
	for _, t := range s.AMISelectorTerms {
		if name, version, ok := strings.Cut(t.Alias, "@"); ok {
			for _, f := range []string{
				AMIFamilyAL2, AMIFamilyAL2023, AMIFamilyBottlerocket, AMIFamilyWindows2019, AMIFamilyWindows2022, AMIFamilyWindows2025,
			} {
				if strings.EqualFold(f, name) {
					return f, version
				}
			}
		}
	}
	return "", ""
}

// Family is the image family: the one that is set, or the alias's.
func (s *EC2NodeClassSpec) Family() string {
	if s.AMIFamily != nil {
		return *s.AMIFamily
	}
	family, _ := s.Alias()
	return family
}

// Hash is a number in decimal that changes when the settings change in a way that machines cannot follow, Karpenter's number. Selector
// terms do not count, for whether a machine is of what they choose is asked of the machine. caBundle is the cluster's, which machines boot with.
func (s *EC2NodeClassSpec) Hash(caBundle string) (string, error) {
	var kubelet map[string]json.RawMessage
	if s.Kubelet != nil && len(s.Kubelet.Raw) > 0 {
		if err := json.Unmarshal(s.Kubelet.Raw, &kubelet); err != nil {
			return "", fmt.Errorf("hash spec: kubelet: %w", err)
		}
	}
	canonical := []byte("null")
	if len(kubelet) > 0 {
		var err error
		if canonical, err = json.Marshal(kubelet); err != nil { // keys in order; values as they are written
			return "", fmt.Errorf("hash spec: kubelet: %w", err)
		}
	}
	h, err := hashstructure.Hash([]any{*s, s.Family(), caBundle, string(canonical)}, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets: true, IgnoreZeroValue: true, ZeroNil: true,
	})
	if err != nil {
		return "", fmt.Errorf("hash spec: %w", err)
	}
	return strconv.FormatUint(h, 10), nil
}
