// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

func (b *budget) selects(c *model.Class) bool {
	is, ok := b.classes[c]
	if !ok {
		is = c.Namespace == b.pdb.Namespace && b.pdb.Selector != nil && b.pdb.Selector.Matches(c.Labels)
		b.classes[c] = is
	}
	return is
}

// setBudget creates a PodDisruptionBudget or changes it.
func (k *workloads) setBudget(p *model.PDB) {
	next := &budget{pdb: p, classes: map[*model.Class]bool{}, dirty: true}
	for _, q := range k.w.Pods {
		if isHealthy(q) && next.selects(q.Class) {
			next.healthy++
		}
	}
	for i, b := range k.budgets {
		if b.pdb.Key() == p.Key() {
			k.budgets[i] = next
			return
		}
	}
	k.budgets = append(k.budgets, next)
}

func isHealthy(p *model.Pod) bool { return p != nil && p.Node != "" && p.Deleting.IsZero() }

// countHealthy takes in that a pod changes.
func (k *workloads) countHealthy(old, now *model.Pod) {
	was, is := isHealthy(old), isHealthy(now)
	if was == is {
		return
	}
	p, n := now, 1
	if was {
		p, n = old, -1
	}
	for _, b := range k.budgets {
		if b.selects(p.Class) {
			b.healthy += n
			b.dirty = true
		}
	}
}

// desired returns how many pods a budget wants healthy, and how many there should be.
func (k *workloads) desired(b *budget) (desired, expected int) {
	for _, o := range k.owners {
		if len(o.Pods) > 0 && b.selects(o.Pods[0].Pod.Class) {
			expected += o.wanted()
		}
	}
	if m := b.pdb.MaxUnavailable; m != "" {
		return max(0, expected-scaled(m, expected)), expected
	}
	return scaled(b.pdb.MinAvailable, expected), expected
}

// scaled reads a number, or a share of a total, which it rounds up.
func scaled(text string, of int) int {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.Atoi(percent)
		if err != nil {
			return 0
		}
		return (n*of + 99) / 100
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// updateBudget writes the status of a budget as its controller would.
func (k *workloads) updateBudget(b *budget) {
	if !b.dirty && b.shown != nil {
		return
	}
	b.dirty = false
	desired, expected := k.desired(b)
	p := *b.pdb
	p.Healthy, p.Desired, p.Expected = int32(b.healthy), int32(desired), int32(expected)
	p.DisruptionsAllowed = 0
	if expected > 0 {
		p.DisruptionsAllowed = int32(max(0, b.healthy-desired))
	}
	if b.shown != nil && b.shown.Healthy == p.Healthy && b.shown.Desired == p.Desired && b.shown.Expected == p.Expected {
		return
	}
	b.shown = &p
	k.w.SetPDB(&p)
}

// MayEvict implements sim.Controllers: it reports whether the PodDisruptionBudgets of a replay allow the eviction of a pod.
func (k *workloads) MayEvict(p *model.Pod) bool {
	if p.Node == "" {
		return true
	}
	for _, b := range k.budgets {
		if b.selects(p.Class) {
			if desired, expected := k.desired(b); expected == 0 || b.healthy <= desired {
				return false
			}
		}
	}
	return true
}
