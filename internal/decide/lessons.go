// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Lessons are what Memory must not forget when the process ends, in a form that can be kept: without them machines that come short would be
// bought anew after each restart.
type Lessons struct {
	Types []TypeLesson `json:"types,omitempty"`
	Pods  []PodLesson  `json:"pods,omitempty"`
}

// TypeLesson is what machines of a type came with in a pool. Resources are amounts by name.
type TypeLesson struct {
	Pool     string                      `json:"pool"` // by uid
	Type     string                      `json:"type"`
	Basis    string                      `json:"basis"` // of the pool
	Image    string                      `json:"image,omitempty"`
	Promised map[string]int64            `json:"promised"`
	Came     map[string]map[string]int64 `json:"came"` // by claim uid
}

// PodLesson is the claims whose machines came short for a pod.
type PodLesson struct {
	Pod    string      `json:"pod"` // by uid
	Class  string      `json:"class"`
	Pool   string      `json:"pool"` // by uid
	Basis  string      `json:"basis"`
	Claims []string    `json:"claims"`
	Why    plan.Reason `json:"why"`
}

// keptMachines is how many machines of a type are told of: more prove nothing more.
const keptMachines = 8

// LessonsLearned counts the changes of what Lessons tells.
func (m *Memory) LessonsLearned() int { return m.lessons }

// Lessons are what has been learned; names are the resources by Dim.
func (m *Memory) Lessons(names []string) Lessons {
	amounts := func(r model.Resources) map[string]int64 {
		out := map[string]int64{}
		for d, v := range r {
			if v != 0 {
				out[names[d]] = v
			}
		}
		return out
	}
	var out Lessons
	for k, x := range m.short {
		t := TypeLesson{Pool: k.pool, Type: k.instanceType, Basis: x.basis, Image: x.boots, Promised: amounts(x.promised), Came: map[string]map[string]int64{}}
		uids := sortedKeys(x.came)
		for _, uid := range uids[:min(len(uids), keptMachines)] {
			t.Came[uid] = amounts(x.came[uid])
		}
		if len(t.Came) > 0 {
			out.Types = append(out.Types, t)
		}
	}
	slices.SortFunc(out.Types, func(a, b TypeLesson) int { return strings.Compare(a.Pool+"\x00"+a.Type, b.Pool+"\x00"+b.Type) })
	for _, uid := range sortedKeys(m.mishaps) {
		x := m.mishaps[uid]
		out.Pods = append(out.Pods, PodLesson{uid, x.class, x.pool, x.basis, x.claims, x.why})
	}
	return out
}

// Recall is a Memory that has learned all that was told before; dim numbers a resource.
func (m Memory) Recall(l Lessons, dim func(name string) model.Dim) Memory {
	resources := func(amounts map[string]int64) model.Resources {
		var out model.Resources
		for _, name := range sortedKeys(amounts) {
			out = out.With(dim(name), amounts[name])
		}
		return out
	}
	m.short, m.mishaps = maps.Clone(m.short), maps.Clone(m.mishaps)
	if m.short == nil {
		m.short = map[shortKey]shortfall{}
	}
	if m.mishaps == nil {
		m.mishaps = map[string]mishap{}
	}
	for _, t := range l.Types {
		x := shortfall{basis: t.Basis, boots: t.Image, promised: resources(t.Promised), came: map[string]model.Resources{}}
		for uid, r := range t.Came {
			x.came[uid] = resources(r)
		}
		m.short[shortKey{t.Pool, t.Type}] = x
	}
	for _, p := range l.Pods {
		m.mishaps[p.Pod] = mishap{p.Class, p.Pool, p.Basis, p.Claims, p.Why}
	}
	return m
}
