// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"iter"
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// FindPod returns a pod by namespace/name, nil if there is none. It must not be changed.
func (s *State) FindPod(key string) *model.Pod { return s.pods.byKey[key] }

// CountPending counts the pods that are not bound, not terminal and not being deleted.
func (s *State) CountPending() int { return len(s.pods.pending.rows) }

// CountPendingIn counts those of a namespace.
func (s *State) CountPendingIn(namespace string) int { return s.pods.waiting[namespace] }

// ListPendingNamespaces returns the namespaces that have such pods, in no order.
func (s *State) ListPendingNamespaces() iter.Seq[string] { return maps.Keys(s.pods.waiting) }

// ListUnseen says of each namespace with pending pods created after an instant that wait for kube-scheduler's first look
// at one of their class when the youngest of those was created.
func (s *State) ListUnseen(after time.Time) map[string]time.Time { return s.pods.listUnseen(after) }

// TakeDemandChanges returns the namespaces in which pods that wait for a node have come, or kube-scheduler has refused
// the first of a class, since it was last called. The value says that some of them were not foreseen: their ReplicaSet
// was not known to be making them when others like them had been refused.
func (s *State) TakeDemandChanges() map[string]bool {
	out := s.pods.changed
	s.pods.changed = map[string]bool{}
	return out
}

// FindClaim returns a claim by name, nil if there is none. It must not be changed.
func (s *State) FindClaim(name string) *model.Claim { return s.claims.byName[name] }

// FindClaimByProviderID returns the claim of a machine, nil if there is none. Then owned says that the cloud lists the
// machine for a claim that is there, and has yet to be told of its machine.
func (s *State) FindClaimByProviderID(providerID string) (c *model.Claim, owned bool) {
	if c := s.claims.byName[s.claims.byProvider[providerID]]; c != nil && providerID != "" {
		return c, true
	}
	if x := s.instances.findInstance(providerID); x != nil {
		c := s.claims.byName[x.ClaimName]
		return nil, c != nil && c.UID == x.ClaimUID
	}
	return nil, false
}

// FindClaimByNode returns the claim of a node by the node's name, nil if there is none.
func (s *State) FindClaimByNode(name string) *model.Claim {
	e := s.nodes.byName[name]
	if e == nil || e.object.ProviderID == "" {
		return nil
	}
	return s.claims.byName[s.claims.byProvider[e.object.ProviderID]]
}

// CountUnlaunched counts the claims for a node group whose launch has not begun, those included that are being created.
func (s *State) CountUnlaunched(group string) int {
	n := 0
	for _, c := range s.claims.byName {
		q := c.Requirements.Get(model.LabelNodeGroup)
		ofGroup := q != nil && !q.Complement && len(q.Values) == 1 && q.Values[0] == group
		if !ofGroup || c.ProviderID != "" || !c.Deleting.IsZero() || c.Annotations[model.AnnotationAdopt] != "" {
			continue
		}
		if c.Provisional || !s.InFlight.isKnown(launchKey(c.UID)) {
			n++
		}
	}
	return n
}
