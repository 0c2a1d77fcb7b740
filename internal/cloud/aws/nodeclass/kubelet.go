// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// KubeletConfig is the part of spec.kubelet that limits what pods may use of a machine. fields are all fields, as
// written. If it has expressions, it is valid only after they have been replaced by their values for an instance type.
type KubeletConfig struct {
	MaxPods        *int64            `json:"-"` // nil also if it is an expression
	PodsPerCore    *int64            `json:"podsPerCore"`
	KubeReserved   map[string]string `json:"kubeReserved"`
	SystemReserved map[string]string `json:"systemReserved"`
	EvictionHard   map[string]string `json:"evictionHard"`
	EvictionSoft   map[string]string `json:"evictionSoft"`

	EvictionMinimumReclaim map[string]string `json:"evictionMinimumReclaim"`

	ClusterDNS []string `json:"clusterDNS"`

	fields      map[string]any
	expressions []expression // by field and key
}

// Fields of spec.kubelet that reserve resources, the resources that can be reserved, and eviction signals.
const (
	fieldMaxPods        = "maxPods"
	fieldKubeReserved   = "kubeReserved"
	fieldSystemReserved = "systemReserved"
)

var (
	reservableResources = []string{"cpu", "memory", "ephemeral-storage", "pid"}
	evictionSignals     = []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"}
)

// readKubeletConfig reads and checks spec.kubelet. The error names the field below it, the value, and what would be
// right.
func readKubeletConfig(raw []byte) (*KubeletConfig, error) {
	k := &KubeletConfig{fields: map[string]any{}}
	if len(raw) == 0 || string(raw) == "null" {
		return k, nil
	}
	if err := json.Unmarshal(raw, &k.fields); err != nil {
		return nil, fmt.Errorf("spec.kubelet: %w", err)
	}
	for _, field := range []string{fieldKubeReserved, fieldSystemReserved, "evictionHard", "evictionSoft", "evictionMinimumReclaim"} {
		m, ok := k.fields[field].(map[string]any)
		if v := k.fields[field]; v != nil && !ok {
			return nil, fmt.Errorf("spec.kubelet.%s: need a map of names to quantities, found %s", field, jsonOf(v))
		}
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if _, ok := m[key].(string); !ok {
				return nil, fmt.Errorf("spec.kubelet.%s.%s: %s: need a string; write it in quotes", field, key, jsonOf(m[key]))
			}
		}
	}
	wire := struct {
		*KubeletConfig
		MaxPods json.RawMessage `json:"maxPods"`
	}{KubeletConfig: k}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return nil, fmt.Errorf("spec.kubelet: %w", err)
	}
	if text, ok := k.fields[fieldMaxPods].(string); ok {
		k.expressions = append(k.expressions, expression{field: fieldMaxPods, text: text})
	} else if len(wire.MaxPods) > 0 {
		if err := json.Unmarshal(wire.MaxPods, &k.MaxPods); err != nil {
			return nil, fmt.Errorf("spec.kubelet.maxPods: %s: need a whole number", wire.MaxPods)
		}
	}
	for _, f := range []struct {
		name string
		v    *int64
	}{{fieldMaxPods, k.MaxPods}, {"podsPerCore", k.PodsPerCore}} {
		if f.v != nil && (*f.v < 0 || *f.v > 1<<20) {
			return nil, fmt.Errorf("spec.kubelet.%s: %d: need a number not below 0", f.name, *f.v)
		}
	}
	for _, f := range []struct {
		name    string
		m       map[string]string
		keys    []string
		percent bool
	}{
		{fieldKubeReserved, k.KubeReserved, reservableResources, false}, {fieldSystemReserved, k.SystemReserved, reservableResources, false},
		{"evictionHard", k.EvictionHard, evictionSignals, true}, {"evictionSoft", k.EvictionSoft, evictionSignals, true},
		{"evictionMinimumReclaim", k.EvictionMinimumReclaim, evictionSignals, true},
	} {
		for _, key := range slices.Sorted(maps.Keys(f.m)) {
			if !slices.Contains(f.keys, key) {
				return nil, fmt.Errorf("spec.kubelet.%s.%s: not one of %s", f.name, key, strings.Join(f.keys, ", "))
			}
			if _, err := resource.ParseQuantity(f.m[key]); err != nil && !f.percent && !strings.HasPrefix(f.m[key], "-") {
				k.expressions = append(k.expressions, expression{f.name, key, f.m[key]})
				continue
			}
			if _, err := parseAmount(key, f.m[key], 0, f.percent); err != nil {
				return nil, fmt.Errorf("spec.kubelet.%s.%s: %q: %w", f.name, key, f.m[key], err)
			}
		}
	}
	if err := checkKubeletFields(raw, k.fields); err != nil {
		return nil, err
	}
	return k, nil
}

// jsonOf is a value that was decoded from JSON, as it was written.
func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// parseAmount reads a quantity of a resource or eviction signal, or if percent is allowed a share of the whole. A share of 100% switches
// the signal off, so it is 0.
func parseAmount(key, text string, whole int64, percent bool) (int64, error) {
	if digits, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(digits, 64)
		switch {
		case !percent:
			return 0, fmt.Errorf("need a quantity, not a percentage")
		case err != nil || !(p >= 0 && p <= 100): // NaN is neither
			return 0, fmt.Errorf("need a quantity or a percentage from 0%% to 100%%")
		case p == 100:
			return 0, nil
		}
		return int64(float64(whole) * p / 100), nil
	}
	unit := key
	if strings.HasPrefix(key, "memory") || strings.HasPrefix(key, "nodefs") || strings.HasPrefix(key, "imagefs") || key == "pid" {
		unit = "memory" // bytes or pieces, both without a fraction
	}
	if positive, ok := strings.CutPrefix(text, "-"); ok {
		if _, err := catalog.ParseQuantity(unit, positive); err == nil {
			return 0, fmt.Errorf("must not be negative")
		}
	}
	return catalog.ParseQuantity(unit, text)
}

// amountOrZero is parseAmount for what was checked before.
func amountOrZero(key, text string, whole int64) int64 {
	v, err := parseAmount(key, text, whole, true)
	if err != nil {
		return 0
	}
	return v
}

// MaxPodsOn returns the maximum number of pods on a machine of a type: the number of VPC addresses, without interfaces
// that are not used for pods, unless the kubelet configuration sets it.
func (k *KubeletConfig) MaxPodsOn(t *catalogue.TypeInfo, family string, podlessENIs int64) int64 {
	n := int64(110)
	if k.MaxPods != nil {
		n = *k.MaxPods
	} else if !IsWindows(family) && t.ENIs > 0 {
		n = max(0, (t.ENIs-podlessENIs)*(t.Addresses-1)) + 2
		if t.ENIs <= podlessENIs {
			n = 0
		}
	}
	if k.PodsPerCore != nil && *k.PodsPerCore > 0 && family != FamilyBottlerocket {
		n = min(n, *k.PodsPerCore*t.CPUs)
	}
	return n
}

// reservedMilliCPU is what EKS's images keep for the kubelet: 6 % of the first core, 1 % of the second, 0.5 % of the
// next two and 0.25 % of all others.
func reservedMilliCPU(cpus int64) int64 {
	hundredthsOfMilli := int64(0)
	for _, step := range []struct{ cores, perCore int64 }{{1, 6000}, {1, 1000}, {2, 500}, {1 << 40, 250}} {
		n := min(cpus, step.cores)
		hundredthsOfMilli += n * step.perCore
		cpus -= n
	}
	return hundredthsOfMilli / 100
}

// ReservedResources returns the part of a machine's capacity that pods cannot use: kubeReserved, systemReserved, and the
// thresholds of evictionHard. The kubelet does not subtract evictionSoft from allocatable.
func (k *KubeletConfig) ReservedResources(capacity model.Resources) model.Resources {
	pods, storage, memory := capacity.At(model.Pods), capacity.At(model.EphemeralStorage), capacity.At(model.Memory)
	kube := map[string]int64{"cpu": reservedMilliCPU(capacity.At(model.CPU) / 1000), "memory": (255 + 11*pods) * catalogue.MiB, "ephemeral-storage": catalogue.GiB}
	out := make(model.Resources, model.FirstExtended)
	for dim, key := range []string{"cpu", "memory", "ephemeral-storage"} {
		reserved := kube[key]
		if text, ok := k.KubeReserved[key]; ok {
			reserved = amountOrZero(key, text, 0)
		}
		if text, ok := k.SystemReserved[key]; ok {
			reserved += amountOrZero(key, text, 0)
		}
		out[dim] = reserved
	}
	eviction := func(signal string, whole, standard int64) int64 {
		most := standard
		if text, ok := k.EvictionHard[signal]; ok {
			most = amountOrZero(signal, text, whole)
		}
		return most
	}
	out[model.Memory] += eviction("memory.available", memory, 100*catalogue.MiB)
	out[model.EphemeralStorage] += eviction("nodefs.available", storage, storage/10)
	return out
}

// expression is a CEL expression in spec.kubelet, in place of a number or quantity.
type expression struct {
	field, key string // kubeReserved and cpu; maxPods has no key
	text       string
}

// path names the field that the expression stands in.
func (x expression) path() string {
	if x.key == "" {
		return "spec.kubelet." + x.field
	}
	return "spec.kubelet." + x.field + "." + x.key
}

// quoted returns the expression for a message, truncated if it is long.
func (x expression) quoted() string {
	const shown = 200
	if runes := []rune(x.text); len(runes) > shown {
		return strconv.Quote(string(runes[:shown])) + "…"
	}
	return strconv.Quote(x.text)
}

// disabledText says that the expression is not evaluated, since the gate is off.
func (x expression) disabledText() string {
	what, instead := "is a CEL expression", "a number"
	if x.key != "" {
		what, instead = "is not a quantity, so it is treated as a CEL expression", "a quantity such as 100m or 500Mi"
	}
	return fmt.Sprintf("%s: %s %s, and feature gate NodeClassCEL is off. Write %s, or turn the gate on with AWS_FEATURE_GATES=NodeClassCEL=true", x.path(), x.quoted(), what, instead)
}
