// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// made is what a ReplicaSet has made, and is to have.
type made struct {
	want, have int
	missing    int          // of these, as last weighed; 0: it makes none
	like       *model.Pod   // the youngest of its pods, as last seen
	foreseen   *model.Class // of the pods that it is still to make, once kube-scheduler has refused one like them; nil: not known
}

// counts says whether a pod is one of those that its ReplicaSet does not make anew.
func counts(p *model.Pod) bool {
	return p != nil && p.Owner.Kind == "ReplicaSet" && !p.Terminal && p.Deleting.IsZero()
}

// recount keeps the number of pods of each ReplicaSet; old and p are one pod before and after, nil where it is not there.
func (s *State) recount(old, p *model.Pod) {
	was, is := counts(old), counts(p)
	if was && is && old.Owner.UID == p.Owner.UID {
		if m := s.made[p.Owner.UID]; m.like.UID == p.UID {
			m.like = p
			s.makingDirty = s.makingDirty || s.short[p.Owner.UID]
		}
		return
	}
	if was {
		s.madeOf(old.Owner.UID).have--
		s.weigh(old.Owner.UID)
	}
	if is {
		m := s.madeOf(p.Owner.UID)
		m.have++
		if m.like == nil || !p.Created.Before(m.like.Created) {
			if m.like != nil && p.Created.Sub(m.like.Created) >= model.ExpectFor {
				m.foreseen = nil // nothing was expected any more
			}
			m.like = p
		}
		s.weigh(p.Owner.UID)
	}
}

func (s *State) madeOf(uid string) *made {
	m := s.made[uid]
	if m == nil {
		m = &made{}
		s.made[uid] = m
	}
	return m
}

// weigh finds whether a ReplicaSet has to make pods, and forgets one that has none and is to have none.
func (s *State) weigh(uid string) {
	m := s.made[uid]
	missing := 0
	if m.like != nil {
		missing = max(0, m.want-m.have)
	}
	if missing > 0 || s.short[uid] {
		s.makingDirty = true
	}
	if delete(s.short, uid); missing > 0 {
		s.short[uid] = true
	}
	if missing == 0 || missing > m.missing { // nobody has looked at what is more than before
		m.foreseen = nil
	}
	s.missing += missing - m.missing
	m.missing = missing
	if m.have == 0 && m.want == 0 {
		delete(s.made, uid)
	}
}

// foresee notes what a ReplicaSet is still to make if kube-scheduler has refused pods like it.
func (s *State) foresee(uid string) {
	if m := s.made[uid]; m != nil && m.missing > 0 && s.verdicts[m.like.Class] > 0 {
		m.foreseen = m.like.Class
	}
}

// foreseen says whether a pod comes as no surprise: decide has bought for it with those that came before it, or will.
func (s *State) foreseen(p *model.Pod) bool {
	m := s.made[p.Owner.UID]
	return counts(p) && !p.Gated && m != nil && m.foreseen == p.Class && s.missing <= model.MostExpected && s.limits[p.Namespace] == 0
}

// SetReplicas takes in how many pods a ReplicaSet is to have; 0: none, or it makes none.
func (s *State) SetReplicas(uid string, want int) {
	s.madeOf(uid).want = max(0, want)
	s.weigh(uid)
}

// SetQuota takes in that a namespace has a ResourceQuota, by namespace/name: what is to be made there may not be allowed.
func (s *State) SetQuota(key string) {
	if !s.quotas[key] {
		s.limits[namespaceOf(key)]++
	}
	s.quotas[key], s.makingDirty = true, true
}

// DeleteQuota forgets a ResourceQuota by namespace/name.
func (s *State) DeleteQuota(key string) {
	if in := namespaceOf(key); s.quotas[key] {
		if s.limits[in]--; s.limits[in] == 0 {
			delete(s.limits, in)
		}
	}
	delete(s.quotas, key)
	s.makingDirty = true
}

func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// making are the ReplicaSets that have to make pods and may, by uid.
func (s *State) making() (out []model.Making) {
	for _, uid := range slices.Sorted(maps.Keys(s.short)) {
		if m := s.made[uid]; s.limits[m.like.Namespace] == 0 {
			out = append(out, model.Making{Like: m.like, Have: m.have, Want: m.want})
		}
	}
	return out
}
