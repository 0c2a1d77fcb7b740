// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cluster

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Links maps nodes and NodeClaims of a Snapshot to each other, by position.
type Links struct {
	nodeOf            []int32            // by claim: the only node with its provider id; or None, or Several
	claimOf           []int32            // by node: the claim it names; or None
	claimByProviderID map[string]int32   // by provider id: the last claim that has it
	claimByUID        map[string]int32   // claims
	nodesByProviderID map[string][]int32 // by provider id: its nodes, where they are several
}

// What is said in place of a position.
const (
	None    int32 = -1 // there is none
	Several int32 = -2 // there are several
)

// newLinks finds which nodes and claims of a snapshot belong together.
func newLinks(s *model.Snapshot) *Links {
	x := &Links{nodeOf: make([]int32, len(s.Claims)), claimOf: make([]int32, len(s.Nodes)),
		claimByProviderID: make(map[string]int32, len(s.Claims)), claimByUID: make(map[string]int32, len(s.Claims))}
	var shared map[string][]int32 // claims of one provider id, but for the last
	for i, c := range s.Claims {
		x.nodeOf[i] = None
		if c.UID != "" {
			x.claimByUID[c.UID] = int32(i)
		}
		if c.ProviderID == "" {
			continue
		}
		if at, ok := x.claimByProviderID[c.ProviderID]; ok {
			if shared == nil {
				shared = map[string][]int32{}
			}
			shared[c.ProviderID] = append(shared[c.ProviderID], at)
		}
		x.claimByProviderID[c.ProviderID] = int32(i)
	}
	for i, n := range s.Nodes {
		x.claimOf[i] = None
		at, ok := x.claimByProviderID[n.ProviderID]
		if ok && n.ProviderID != "" {
			for _, at := range append(shared[n.ProviderID], at) {
				switch have := x.nodeOf[at]; have {
				case None:
					x.nodeOf[at] = int32(i)
				case Several:
				default:
					x.nodeOf[at] = Several
				}
			}
		}
		switch {
		case n.Claim == "":
		case ok && s.Claims[at].Name == n.Claim:
			x.claimOf[i] = at
		default:
			x.claimOf[i] = findClaim(s, n.Claim)
		}
	}
	for i, c := range s.Claims {
		if x.nodeOf[i] == Several && x.nodesByProviderID[c.ProviderID] == nil {
			if x.nodesByProviderID == nil {
				x.nodesByProviderID = map[string][]int32{}
			}
			for j, n := range s.Nodes {
				if n.ProviderID == c.ProviderID {
					x.nodesByProviderID[c.ProviderID] = append(x.nodesByProviderID[c.ProviderID], int32(j))
				}
			}
		}
	}
	return x
}

// findClaim returns the position of a claim by its name; None: there is no such claim.
func findClaim(s *model.Snapshot, name string) int32 {
	i, ok := slices.BinarySearchFunc(s.Claims, name, func(c *model.Claim, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return None
	}
	return int32(i)
}

// Instances contains the instances in the cloud's list that belong to NodeClaims, and the others.
type Instances struct {
	instances []*model.Instance
	links     *Links
	unclaimed map[string][]*model.Instance // whose provider id no claim has, by the uid of the claim they bear
	orphans   []*model.Instance            // that no claim wants, those too young to say included
}

// Are reports whether a list of instances is the very one that these were sorted from.
func (x *Instances) Are(list []*model.Instance) bool {
	return len(list) == len(x.instances) && (len(list) == 0 || &list[0] == &x.instances[0])
}

// newInstances sorts the cloud's machines by whether a claim is theirs.
func newInstances(s *model.Snapshot, x *Links) *Instances {
	f := &Instances{instances: s.Instances, links: x, unclaimed: map[string][]*model.Instance{}}
	for _, i := range s.Instances {
		at, owned := x.claimByProviderID[i.ProviderID]
		if owned = owned && i.ProviderID != ""; !owned {
			f.unclaimed[i.ClaimUID] = append(f.unclaimed[i.ClaimUID], i)
		}
		// One without a claim's uid is not ours: another autoscaler launched it, and terminates it.
		if i.Gone || i.ClaimUID == "" || owned && (s.Claims[at].UID == i.ClaimUID || s.Claims[at].Name == i.ClaimName) {
			continue
		}
		// A claim has one machine. Another that bears its name was bought beside it, or made in its likeness by hand.
		if at, ok := x.claimByUID[i.ClaimUID]; ok && (s.Claims[at].ProviderID == "" || s.Claims[at].ProviderID == i.ProviderID) {
			continue
		}
		if at := findClaim(s, i.ClaimName); at >= 0 && s.Claims[at].ProviderID == i.ProviderID {
			continue
		}
		f.orphans = append(f.orphans, i)
	}
	return f
}
