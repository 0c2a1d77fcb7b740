// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demand

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

import ()

// LearnedType is what launched machines of an instance type provided in a NodePool. Resources are amounts by name.
type LearnedType struct {
	Pool     string                      `json:"pool"` // UID
	Type     string                      `json:"type"`
	Basis    string                      `json:"basis"` // basis of the NodePool
	Image    string                      `json:"image,omitempty"`
	Promised map[string]int64            `json:"promised"`
	Came     map[string]map[string]int64 `json:"came"` // provided resources, by NodeClaim UID
}

// LearnedPod lists the NodeClaims whose machines had too little capacity for a pod.
type LearnedPod struct {
	Pod    string      `json:"pod"` // UID
	Class  string      `json:"class"`
	Pool   string      `json:"pool"` // UID
	Basis  string      `json:"basis"`
	Claims []string    `json:"claims"`
	Why    plan.Reason `json:"why"`
}

// maxMachinesPerType is how many machines of a type are told of: more prove nothing more.
const maxMachinesPerType = 8

// Changes returns the number of changes of the result of Learned.
func (m *ShortfallMemory) Changes() int { return m.changes }

// Learned returns the state to store across restarts: instance types by NodePool and name, and pods by UID. names are the resource
// names by Dim.
func (m *ShortfallMemory) Learned(names []string) (types []LearnedType, pods []LearnedPod) {
	amounts := func(r model.Resources) map[string]int64 {
		out := map[string]int64{}
		for d, v := range r {
			if v != 0 {
				out[names[d]] = v
			}
		}
		return out
	}
	for k, x := range m.byType {
		t := LearnedType{Pool: k.pool, Type: k.instanceType, Basis: x.basis, Image: x.image, Promised: amounts(x.promised), Came: map[string]map[string]int64{}}
		uids := slices.Sorted(maps.Keys(x.came))
		for _, uid := range uids[:min(len(uids), maxMachinesPerType)] {
			t.Came[uid] = amounts(x.came[uid])
		}
		if len(t.Came) > 0 {
			types = append(types, t)
		}
	}
	slices.SortFunc(types, func(a, b LearnedType) int { return strings.Compare(a.Pool+"\x00"+a.Type, b.Pool+"\x00"+b.Type) })
	for _, uid := range slices.Sorted(maps.Keys(m.byPod)) {
		x := m.byPod[uid]
		pods = append(pods, LearnedPod{uid, x.class, x.pool, x.basis, x.claims, x.why})
	}
	return types, pods
}

// WithLearned returns a memory with the result of Learned added; dim returns the dimension of a resource.
func (m ShortfallMemory) WithLearned(types []LearnedType, pods []LearnedPod, dim func(name string) model.Dim) ShortfallMemory {
	resources := func(amounts map[string]int64) model.Resources {
		var out model.Resources
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			out = out.With(dim(name), amounts[name])
		}
		return out
	}
	m.byType, m.byPod = maps.Clone(m.byType), maps.Clone(m.byPod)
	if m.byType == nil {
		m.byType = map[poolType]shortfall{}
	}
	if m.byPod == nil {
		m.byPod = map[string]podShortfall{}
	}
	for _, t := range types {
		x := shortfall{basis: t.Basis, image: t.Image, promised: resources(t.Promised), came: map[string]model.Resources{}}
		for uid, r := range t.Came {
			x.came[uid] = resources(r)
		}
		m.byType[poolType{t.Pool, t.Type}] = x
	}
	for _, p := range pods {
		m.byPod[p.Pod] = podShortfall{p.Class, p.Pool, p.Basis, p.Claims, p.Why}
	}
	return m
}
