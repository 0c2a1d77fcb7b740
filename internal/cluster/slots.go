// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cluster

import (
	"crypto/sha256"
	"encoding/base32"
	"sort"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// nameEncoding writes hashes as Kubernetes likes names: lower case letters and digits.
var nameEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// HashName returns a hash of the parts with n characters that are valid in Kubernetes names.
func HashName(n int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return nameEncoding.EncodeToString(h.Sum(nil))[:n]
}

// ClassHash returns the hash that identifies a class in a slot.
func ClassHash(c *model.Class) string {
	if c.SlotKey != "" {
		return HashName(13, c.SlotKey)
	}
	return HashName(13, c.Key)
}

// SlotOwner returns the owner whose replacement pods inherit a slot: the pod's ProvisioningRequest, its Deployment (because a
// restart creates a new ReplicaSet), its controller, or the pod itself.
func SlotOwner(p *model.Pod) string {
	if p.Consumes.UID != "" {
		return p.Consumes.UID
	}
	if p.Deployment != "" {
		return "deployment/" + p.Namespace + "/" + p.Deployment
	}
	if p.Owner.UID != "" {
		return p.Owner.UID
	}
	return p.UID
}

// SlotKey is a kind of slot: the class of its pods (ClassHash) and their owner (SlotOwner).
type SlotKey struct{ Class, Owner string }

// KeyOf returns the kind of a slot.
func KeyOf(s model.Slot) SlotKey { return SlotKey{Class: s.Class, Owner: s.Owner} }

// slotKeys finds the kinds of slot that pods take, and hashes each class once.
type slotKeys struct {
	classHashes map[*model.Class]string // ClassHash
	lastPod     *model.Pod              // the pod whose key lastKey is
	lastKey     SlotKey
}

// SlotKeyOf returns the kind of slot of a pod and of its replacement.
func (sk *slotKeys) SlotKeyOf(p *model.Pod) SlotKey {
	last, c := sk.lastPod, p.SlotClass()
	if last == nil || last.SlotClass() != c || last.Owner != p.Owner || last.Deployment != p.Deployment || last.Consumes != p.Consumes || last.Namespace != p.Namespace || p.Owner.UID == "" {
		h, ok := sk.classHashes[c]
		if !ok {
			if sk.classHashes == nil {
				sk.classHashes = map[*model.Class]string{}
			}
			h = ClassHash(c)
			sk.classHashes[c] = h
		}
		sk.lastKey = SlotKey{h, SlotOwner(p)}
	}
	sk.lastPod = p
	return sk.lastKey
}

// SlotsForPods returns the slots for a set of pods, sorted by class and owner.
func SlotsForPods(pods []*model.Pod) []model.Slot {
	count := map[SlotKey]*model.Slot{}
	for _, p := range pods {
		c := p.CreatedAs()
		k := SlotKey{ClassHash(p.SlotClass()), SlotOwner(p)}
		s := count[k]
		if s == nil {
			s = &model.Slot{Class: k.Class, Owner: k.Owner, Requests: c.Requests, Loose: c.ToleratesEverything()}
			count[k] = s
		}
		s.Count++
	}
	return sortedSlots(count)
}

// MergeSlots returns the slots with additional pods added to them.
func MergeSlots(have []model.Slot, pods []*model.Pod) []model.Slot {
	count := map[SlotKey]*model.Slot{}
	for _, s := range have {
		count[SlotKey{s.Class, s.Owner}] = &s
	}
	for _, s := range SlotsForPods(pods) {
		k := SlotKey{s.Class, s.Owner}
		if old := count[k]; old != nil {
			old.Count += s.Count
		} else {
			count[k] = &s
		}
	}
	return sortedSlots(count)
}

// sortedSlots returns slots by class and owner.
func sortedSlots(m map[SlotKey]*model.Slot) []model.Slot {
	out := make([]model.Slot, 0, len(m))
	for _, s := range m {
		out = append(out, *s)
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Class != out[j].Class {
			return out[i].Class < out[j].Class
		}
		return out[i].Owner < out[j].Owner
	})
	return out
}
