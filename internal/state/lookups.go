// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"iter"
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// FindPod returns a pod by namespace/name, nil if there is none. The result is read-only.
func (s *State) FindPod(key string) *model.Pod { return s.pods.byKey[key] }

// CountPending returns the number of pods that are not bound, not terminal and not being deleted.
func (s *State) CountPending() int { return len(s.pods.pending.rows) }

// CountPendingIn returns the number of pending pods in a namespace.
func (s *State) CountPendingIn(namespace string) int { return s.pods.waiting[namespace] }

// ListPendingNamespaces returns the namespaces with pending pods, in no particular order.
func (s *State) ListPendingNamespaces() iter.Seq[string] { return maps.Keys(s.pods.waiting) }

// ListUnseen returns, by namespace, the creation time of the youngest ungated pending pod that was created after an instant, if
// kube-scheduler has refused neither the pod nor another one of its class yet. Namespaces without such a pod are missing.
func (s *State) ListUnseen(after time.Time) map[string]time.Time { return s.pods.listUnseen(after) }

// TakeDemandChanges returns the namespaces in which, since its last call, pods without a node were created or kube-scheduler
// refused the first pod of a class. The value is true if some of these pods were not foreseen: when similar pods were refused, it
// was not known that their ReplicaSet was creating them.
func (s *State) TakeDemandChanges() map[string]bool {
	out := s.pods.changed
	s.pods.changed = map[string]bool{}
	return out
}

// FindClaim returns a NodeClaim by name, nil if there is none. The result is read-only.
func (s *State) FindClaim(name string) *model.Claim { return s.claims.byName[name] }

// FindClaimByProviderID returns the NodeClaim of a machine, nil if there is none. owned reports whether the machine belongs
// to a NodeClaim: to c or, if c is nil, to an existing NodeClaim whose provider ID is not recorded yet.
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

// FindClaimByNode returns the NodeClaim of a node by the node's name, nil if there is none.
func (s *State) FindClaimByNode(name string) *model.Claim {
	e := s.nodes.byName[name]
	if e == nil || e.object.ProviderID == "" {
		return nil
	}
	return s.claims.byName[s.claims.byProvider[e.object.ProviderID]]
}

// CountUnlaunched returns the number of NodeClaims of a node group whose launch has not begun, including NodeClaims that are being
// created.
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
