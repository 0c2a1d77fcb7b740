// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"github.com/dovetail-sh/dovetail/internal/model"
)

// claimTable is the NodeClaims by name, as Snapshots show them.
type claimTable struct {
	byName     map[string]*model.Claim
	byProvider map[string]string // name, by provider id
	changed    map[string]bool   // names, since claims were last listed
	listed     []*model.Claim
}

func newClaimTable() *claimTable {
	return &claimTable{byName: map[string]*model.Claim{}, byProvider: map[string]string{}, changed: map[string]bool{}}
}

// setClaim returns the provider ids whose claim is another now; empty ones say nothing.
func (t *claimTable) setClaim(c *model.Claim) [2]string {
	var moved [2]string
	if old := t.byName[c.Name]; old != nil && old.ProviderID != c.ProviderID {
		delete(t.byProvider, old.ProviderID)
		moved[0] = old.ProviderID
	}
	t.showClaim(c)
	if c.ProviderID != "" && t.byProvider[c.ProviderID] != c.Name {
		t.byProvider[c.ProviderID] = c.Name
		moved[1] = c.ProviderID
	}
	return moved
}

// showClaim has a claim shown so from now on; that its provider id is another is for setClaim to take in.
func (t *claimTable) showClaim(c *model.Claim) {
	t.byName[c.Name], t.changed[c.Name] = c, true
}

// deleteClaim returns the provider id that is nobody's now; empty: none is.
func (t *claimTable) deleteClaim(c *model.Claim) string {
	delete(t.byName, c.Name)
	t.changed[c.Name] = true
	if t.byProvider[c.ProviderID] != c.Name {
		return ""
	}
	delete(t.byProvider, c.ProviderID)
	return c.ProviderID
}

// nameByProviderID returns whose a machine is; empty: nobody's.
func (t *claimTable) nameByProviderID(id string) string { return t.byProvider[id] }

// isClaimed reports whether a machine has a claim.
func (t *claimTable) isClaimed(providerID string) bool {
	_, ok := t.byProvider[providerID]
	return ok
}

// listClaims returns the claims by name. The list must not be changed.
func (t *claimTable) listClaims() []*model.Claim {
	if len(t.changed) > 0 {
		t.listed = patched(t.listed, t.changed, func(c *model.Claim) string { return c.Name }, func(name string) *model.Claim { return t.byName[name] })
		clear(t.changed)
	}
	return t.listed
}
