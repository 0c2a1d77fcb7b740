// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	sigsjson "sigs.k8s.io/json"
)

// Default thresholds of the kubelet's image garbage collection, in percent of the disk.
const (
	defaultImageGCHigh = 85
	defaultImageGCLow  = 80
)

// checkKubeletFields holds the fields of spec.kubelet against the kubelet's own configuration: with a field that it does not have, or a value that it does not
// accept, the kubelet ends at its start and its node never joins. text is spec.kubelet as it was written, fields what was decoded from it; an expression in
// maxPods is left out. The error names the field below spec.kubelet, the value, and what would be right.
func checkKubeletFields(text []byte, fields map[string]any) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return fmt.Errorf("spec.kubelet: %w", err)
	}
	if _, ok := fields[fieldMaxPods].(string); ok {
		delete(raw, fieldMaxPods)
	}
	var config kubeletv1beta1.KubeletConfiguration
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if err := decodeKubeletField(&config, name, raw[name]); err != nil {
			return err
		}
	}
	return checkKubeletConfiguration(&config)
}

// decodeKubeletField decodes one field of spec.kubelet into the kubelet's configuration, with the case of letters as the kubelet reads it.
func decodeKubeletField(config *kubeletv1beta1.KubeletConfiguration, name string, value json.RawMessage) error {
	one, err := json.Marshal(map[string]json.RawMessage{name: value})
	if err != nil {
		return fmt.Errorf("spec.kubelet.%s: %w", name, err)
	}
	unknown, err := sigsjson.UnmarshalStrict(one, config)
	if err != nil {
		var other *json.UnmarshalTypeError
		if errors.As(json.Unmarshal(one, new(kubeletv1beta1.KubeletConfiguration)), &other) {
			return fmt.Errorf("spec.kubelet.%s: %s: need a value of type %s, found a %s", name, value, other.Type, other.Value)
		}
		return fmt.Errorf("spec.kubelet.%s: %s: %w", name, value, err)
	}
	if len(unknown) == 0 {
		return nil
	}
	if like := kubeletFieldLike(name); like != "" {
		return fmt.Errorf("spec.kubelet.%s: not a field of KubeletConfiguration; write it %s", name, like)
	}
	return fmt.Errorf("spec.kubelet.%s: not a field of KubeletConfiguration (%w)", name, unknown[0])
}

// kubeletFieldLike returns the field of the kubelet's configuration that differs from a name in the case of letters alone; empty: there is none.
func kubeletFieldLike(name string) string {
	t := reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]()
	for i := range t.NumField() {
		have, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if have != name && strings.EqualFold(have, name) {
			return have
		}
	}
	return ""
}

// checkKubeletConfiguration checks what the kubelet checks at its start and its configuration's types do not say, and refuses what would keep a node from being
// what its NodePool says.
func checkKubeletConfiguration(c *kubeletv1beta1.KubeletConfiguration) error {
	switch {
	case len(c.RegisterWithTaints) > 0:
		return fmt.Errorf("spec.kubelet.registerWithTaints: not supported, because nodes would be launched for pods that do not tolerate the taints; write them in spec.template.spec.taints of the NodePool")
	case c.RegisterNode != nil && !*c.RegisterNode:
		return fmt.Errorf("spec.kubelet.registerNode: false: instances would never join the cluster; remove it")
	case c.ProviderID != "":
		return fmt.Errorf("spec.kubelet.providerID: %q: each instance has its own; remove it", c.ProviderID)
	case c.EvictionMaxPodGracePeriod < 0:
		return fmt.Errorf("spec.kubelet.evictionMaxPodGracePeriod: %d: need a number of seconds not below 0", c.EvictionMaxPodGracePeriod)
	}
	if err := checkSoftEviction(c); err != nil {
		return err
	}
	return checkImageThresholds(c)
}

// checkSoftEviction checks that each signal of evictionSoft has a grace period, and no other signal one.
func checkSoftEviction(c *kubeletv1beta1.KubeletConfiguration) error {
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionSoft)) {
		if _, ok := c.EvictionSoftGracePeriod[signal]; !ok {
			return fmt.Errorf("spec.kubelet.evictionSoft.%s: has no grace period; add evictionSoftGracePeriod.%[1]s, for example 2m", signal)
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(c.EvictionSoftGracePeriod)) {
		text := c.EvictionSoftGracePeriod[signal]
		if _, ok := c.EvictionSoft[signal]; !ok {
			return fmt.Errorf("spec.kubelet.evictionSoftGracePeriod.%s: evictionSoft has no %[1]s; add it, or remove the grace period", signal)
		}
		if grace, err := time.ParseDuration(text); err != nil || grace < 0 {
			return fmt.Errorf("spec.kubelet.evictionSoftGracePeriod.%s: %q: need a duration not below 0, for example 2m", signal, text)
		}
	}
	return nil
}

// checkImageThresholds checks the disk usage at which the kubelet begins to remove images against the one at which it ends.
func checkImageThresholds(c *kubeletv1beta1.KubeletConfiguration) error {
	high, low := int32(defaultImageGCHigh), int32(defaultImageGCLow)
	for _, f := range []struct {
		name string
		v    *int32
		into *int32
	}{{"imageGCHighThresholdPercent", c.ImageGCHighThresholdPercent, &high}, {"imageGCLowThresholdPercent", c.ImageGCLowThresholdPercent, &low}} {
		if f.v == nil {
			continue
		}
		if *f.v < 0 || *f.v > 100 {
			return fmt.Errorf("spec.kubelet.%s: %d: need a percentage from 0 to 100", f.name, *f.v)
		}
		*f.into = *f.v
	}
	if low >= high {
		return fmt.Errorf("spec.kubelet.imageGCLowThresholdPercent: %d is not below imageGCHighThresholdPercent, %d (defaults: %d and %d)", low, high, defaultImageGCLow, defaultImageGCHigh)
	}
	return nil
}
