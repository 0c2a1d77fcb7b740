// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// replicaSets counts the pods of each ReplicaSet, and knows which of them have pods still to make. ReplicaSets go by
// uid.
type replicaSets struct {
	byUID   map[string]*replicaSet
	short   map[string]bool // those with fewer pods than they are to have
	missing int             // pods that all of them are still to make
	quotas  map[string]bool // ResourceQuotas, by namespace/name
	limited map[string]int  // ResourceQuotas by namespace
	failing table[*model.FailingReplicas]
	changed bool // since making was last listed
	listed  []model.Making

	templates       map[string]model.Template // by uid
	templatesListed map[string]model.Template // replaced, never changed; nil: templates have changed
}

// replicaSet is what one has made, and is to have.
type replicaSet struct {
	want, have int
	missing    int          // of these, as last updated; 0: it makes none
	youngest   *model.Pod   // the youngest of its pods, as last seen
	lost       bool         // a pod of it has gone and it has made none since: it may have been scaled down, which its own watch tells later
	foreseen   *model.Class // of the pods that it is still to make, once kube-scheduler has refused one like them; nil: not known
}

func newReplicaSets() *replicaSets {
	return &replicaSets{byUID: map[string]*replicaSet{}, short: map[string]bool{}, quotas: map[string]bool{}, limited: map[string]int{},
		failing: newTable(func(a, b *model.FailingReplicas) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.ReplicaSet, b.ReplicaSet))
		})}
}

// isReplica reports whether a pod counts for its ReplicaSet, which makes another one once it does not.
func isReplica(p *model.Pod) bool {
	return p != nil && p.Owner.Kind == "ReplicaSet" && !p.Terminal && p.Deleting.IsZero()
}

// countPod keeps the number of pods of each ReplicaSet. old and p are a pod before and after a change, nil where it is
// not there.
func (r *replicaSets) countPod(old, p *model.Pod) {
	was, is := isReplica(old), isReplica(p)
	if was && is && old.Owner.UID == p.Owner.UID {
		if rs := r.byUID[p.Owner.UID]; rs.youngest.UID == p.UID {
			rs.youngest = p
			r.changed = r.changed || r.short[p.Owner.UID]
		}
		return
	}
	if was {
		rs := r.findOrAdd(old.Owner.UID)
		rs.have--
		rs.lost = true
		r.updateMissing(old.Owner.UID)
	}
	if is {
		rs := r.findOrAdd(p.Owner.UID)
		rs.have++
		rs.lost = false
		if rs.youngest == nil || !p.Created.Before(rs.youngest.Created) {
			if rs.youngest != nil && p.Created.Sub(rs.youngest.Created) >= model.ExpectFor {
				rs.foreseen = nil // nothing was expected any more
			}
			rs.youngest = p
		}
		r.updateMissing(p.Owner.UID)
	}
}

func (r *replicaSets) findOrAdd(uid string) *replicaSet {
	rs := r.byUID[uid]
	if rs == nil {
		rs = &replicaSet{}
		r.byUID[uid] = rs
	}
	return rs
}

// updateMissing finds how many pods a ReplicaSet has to make, and forgets one that has none and is to have none. One
// that has just lost a pod is not said to make another before it does, which takes it milliseconds.
func (r *replicaSets) updateMissing(uid string) {
	rs := r.byUID[uid]
	missing := 0
	if rs.youngest != nil && !rs.lost {
		missing = max(0, rs.want-rs.have)
	}
	if missing > 0 || r.short[uid] {
		r.changed = true
	}
	if delete(r.short, uid); missing > 0 {
		r.short[uid] = true
	}
	if missing == 0 || missing > rs.missing { // nobody has looked at what is more than before
		rs.foreseen = nil
	}
	r.missing += missing - rs.missing
	rs.missing = missing
	if rs.have == 0 && rs.want == 0 {
		delete(r.byUID, uid)
	}
}

// foreseePods notes that the pods a ReplicaSet is still to make are known demand if kube-scheduler has refused pods of
// their class; refused counts those by class.
func (r *replicaSets) foreseePods(uid string, refused map[*model.Class]int) {
	if rs := r.byUID[uid]; rs != nil && rs.missing > 0 && refused[rs.youngest.Class] > 0 {
		rs.foreseen = rs.youngest.Class
	}
}

// isForeseen reports whether a pod that comes was foreseen: decide has bought for it with those that came before it, or
// will.
func (r *replicaSets) isForeseen(p *model.Pod) bool {
	rs := r.byUID[p.Owner.UID]
	return isReplica(p) && !p.Gated && !p.HasGang() && rs != nil && rs.foreseen == p.Class && r.missing <= model.MostExpected && r.limited[p.Namespace] == 0
}

// setReplicas takes in how many pods a ReplicaSet is to have; 0: none, or it makes none.
func (r *replicaSets) setReplicas(uid string, want int) {
	r.findOrAdd(uid).want = max(0, want)
	r.updateMissing(uid)
}

// setFailing takes in which pods a ReplicaSet can't create; nil: none.
func (r *replicaSets) setFailing(uid string, f *model.FailingReplicas) {
	if f == nil {
		r.failing.delete(uid)
		return
	}
	r.failing.set(uid, f)
}

// setTemplate takes in the pod template of a controller; nil: it is gone.
func (r *replicaSets) setTemplate(uid string, t *model.Template) {
	if t == nil {
		delete(r.templates, uid)
	} else {
		if r.templates == nil {
			r.templates = map[string]model.Template{}
		}
		r.templates[uid] = *t
	}
	r.templatesListed = nil
}

// listTemplates returns all templates by uid. The map must not be changed.
func (r *replicaSets) listTemplates() map[string]model.Template {
	if r.templatesListed == nil && r.templates != nil {
		r.templatesListed = model.MarkSuperseded(r.templates)
	}
	return r.templatesListed
}

// setQuota takes in that a namespace has a ResourceQuota, by namespace/name: what is to be made there may not be
// allowed.
func (r *replicaSets) setQuota(key string) {
	if !r.quotas[key] {
		r.limited[namespaceOf(key)]++
	}
	r.quotas[key], r.changed = true, true
}

// deleteQuota forgets a ResourceQuota by namespace/name.
func (r *replicaSets) deleteQuota(key string) {
	if namespace := namespaceOf(key); r.quotas[key] {
		if r.limited[namespace]--; r.limited[namespace] == 0 {
			delete(r.limited, namespace)
		}
	}
	delete(r.quotas, key)
	r.changed = true
}

// listMaking returns the ReplicaSets that have pods to make and may, by uid; nil: none has. It must not be changed.
func (r *replicaSets) listMaking() []model.Making {
	if !r.changed {
		return r.listed
	}
	r.changed = false
	r.listed = nil
	for _, uid := range slices.Sorted(maps.Keys(r.short)) {
		if rs := r.byUID[uid]; r.limited[rs.youngest.Namespace] == 0 {
			r.listed = append(r.listed, model.Making{Like: rs.youngest, Have: rs.have, Want: rs.want})
		}
	}
	return r.listed
}

func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}
