// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// LearnedCapacity are what Memory must not forget when the process ends, in a form that can be kept: without them
// machines that come short would be bought anew after each restart.
type LearnedCapacity struct {
	Types []LearnedType `json:"types,omitempty"`
	Pods  []LearnedPod  `json:"pods,omitempty"`

	Launches []unused.Ended        `json:"launches,omitempty"` // that have ended without a pod of theirs
	Unused   []unused.LearnedCount `json:"unused,omitempty"`

	Withheld []LearnedWithheld `json:"withheld,omitempty"`

	Drift map[string]driftCount `json:"drift,omitempty"` // by pool uid
}

// LearnedWithheld is a pod or a NodePool that is left out of plans, or was within the last hour.
type LearnedWithheld struct {
	Pod  string `json:"pod,omitempty"`  // by uid
	Pool string `json:"pool,omitempty"` // by name
	withheldPart
}

// mostLearnedWithheld is how many pods are told of that are left out of plans; NodePools are told of all.
const mostLearnedWithheld = 300

// LearnedType is what machines of a type came with in a pool. Resources are amounts by name.
type LearnedType struct {
	Pool     string                      `json:"pool"` // by uid
	Type     string                      `json:"type"`
	Basis    string                      `json:"basis"` // of the pool
	Image    string                      `json:"image,omitempty"`
	Promised map[string]int64            `json:"promised"`
	Came     map[string]map[string]int64 `json:"came"` // by claim uid
}

// LearnedPod is the claims whose machines came short for a pod.
type LearnedPod struct {
	Pod    string      `json:"pod"` // by uid
	Class  string      `json:"class"`
	Pool   string      `json:"pool"` // by uid
	Basis  string      `json:"basis"`
	Claims []string    `json:"claims"`
	Why    plan.Reason `json:"why"`
}

// maxMachinesPerType is how many machines of a type are told of: more prove nothing more.
const maxMachinesPerType = 8

// LearnedChanges counts the changes of what Learned returns.
func (m *Memory) LearnedChanges() int {
	return m.shortfalls.changes + m.unused.Changes() + m.withholding.changes + m.drift.changes
}

// Learned are what has been learned; names are the resources by Dim.
func (m *Memory) Learned(names []string) LearnedCapacity {
	amounts := func(r model.Resources) map[string]int64 {
		out := map[string]int64{}
		for d, v := range r {
			if v != 0 {
				out[names[d]] = v
			}
		}
		return out
	}
	out := LearnedCapacity{Drift: m.drift.pools}
	for k, x := range m.shortfalls.byType {
		t := LearnedType{Pool: k.pool, Type: k.instanceType, Basis: x.basis, Image: x.image, Promised: amounts(x.promised), Came: map[string]map[string]int64{}}
		uids := slices.Sorted(maps.Keys(x.came))
		for _, uid := range uids[:min(len(uids), maxMachinesPerType)] {
			t.Came[uid] = amounts(x.came[uid])
		}
		if len(t.Came) > 0 {
			out.Types = append(out.Types, t)
		}
	}
	slices.SortFunc(out.Types, func(a, b LearnedType) int { return strings.Compare(a.Pool+"\x00"+a.Type, b.Pool+"\x00"+b.Type) })
	for _, uid := range slices.Sorted(maps.Keys(m.shortfalls.byPod)) {
		x := m.shortfalls.byPod[uid]
		out.Pods = append(out.Pods, LearnedPod{uid, x.class, x.pool, x.basis, x.claims, x.why})
	}
	out.Launches, out.Unused = m.unused.Learned()
	for _, name := range slices.Sorted(maps.Keys(m.withholding.pools)) {
		out.Withheld = append(out.Withheld, LearnedWithheld{Pool: name, withheldPart: m.withholding.pools[name]})
	}
	uids := slices.Sorted(maps.Keys(m.withholding.pods))
	for _, uid := range uids[:min(len(uids), mostLearnedWithheld)] {
		out.Withheld = append(out.Withheld, LearnedWithheld{Pod: uid, withheldPart: m.withholding.pods[uid]})
	}
	return out
}

// WithLearned is a Memory that has learned all that was told before; dim numbers a resource.
func (m Memory) WithLearned(l LearnedCapacity, dim func(name string) model.Dim) Memory {
	resources := func(amounts map[string]int64) model.Resources {
		var out model.Resources
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			out = out.With(dim(name), amounts[name])
		}
		return out
	}
	m.shortfalls.byType, m.shortfalls.byPod = maps.Clone(m.shortfalls.byType), maps.Clone(m.shortfalls.byPod)
	if m.shortfalls.byType == nil {
		m.shortfalls.byType = map[poolType]shortfall{}
	}
	if m.shortfalls.byPod == nil {
		m.shortfalls.byPod = map[string]podShortfall{}
	}
	for _, t := range l.Types {
		x := shortfall{basis: t.Basis, image: t.Image, promised: resources(t.Promised), came: map[string]model.Resources{}}
		for uid, r := range t.Came {
			x.came[uid] = resources(r)
		}
		m.shortfalls.byType[poolType{t.Pool, t.Type}] = x
	}
	for _, p := range l.Pods {
		m.shortfalls.byPod[p.Pod] = podShortfall{p.Class, p.Pool, p.Basis, p.Claims, p.Why}
	}
	m.unused = m.unused.WithLearned(l.Launches, l.Unused)
	m.drift.pools = maps.Clone(l.Drift)
	m.withholding.pods, m.withholding.pools = map[string]withheldPart{}, map[string]withheldPart{}
	for _, x := range l.Withheld {
		if x.Pool != "" {
			m.withholding.pools[x.Pool] = x.withheldPart
		} else {
			m.withholding.pods[x.Pod] = x.withheldPart
		}
	}
	return m
}
