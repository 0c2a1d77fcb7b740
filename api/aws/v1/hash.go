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

// EC2NodeClassHashVersion is the version of the rule by which Hash is computed. Two hashes of different versions are not comparable.
// What is hashed is what Karpenter's v6 hashes; that the numbers agree is not known, so the name differs and neither takes a machine
// of the other's for drifted.
const EC2NodeClassHashVersion = "v6-dovetail"

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

// hashed is what counts.
type hashed struct {
	Spec                      EC2NodeClassSpec
	Family, CABundle, Kubelet string
}

// Hash is a number in decimal that changes when the settings change in a way that machines cannot follow. Selector terms do not
// count, for whether a machine is of what they choose is asked of the machine. caBundle is the cluster's, which machines boot with.
func (s *EC2NodeClassSpec) Hash(caBundle string) (string, error) {
	kubelet := map[string]any{}
	if s.Kubelet != nil && len(s.Kubelet.Raw) > 0 {
		if err := json.Unmarshal(s.Kubelet.Raw, &kubelet); err != nil {
			return "", fmt.Errorf("hash spec: kubelet: %w", err)
		}
	}
	// The JSON of a map has its keys in order: equal settings are equal text, however they were written.
	canonical, err := json.Marshal(kubelet)
	if err != nil {
		return "", fmt.Errorf("hash spec: kubelet: %w", err)
	}
	h, err := hashstructure.Hash(hashed{*s, s.Family(), caBundle, string(canonical)}, hashstructure.FormatV2, &hashstructure.HashOptions{
		SlicesAsSets: true, IgnoreZeroValue: true, ZeroNil: true,
	})
	if err != nil {
		return "", fmt.Errorf("hash spec: %w", err)
	}
	return strconv.FormatUint(h, 10), nil
}
