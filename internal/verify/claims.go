// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

// checkClaims checks that each NodeClaim has a name of its own, and as many slots as pods.
func (c *checker) checkClaims() {
	named := map[string]bool{}
	for i := range c.in.New {
		m := &c.in.New[i]
		if m.Claim == nil {
			continue
		}
		at, name := siteOf(i, m), m.Claim.Name
		switch {
		case name == "":
			c.addViolation(Claims, nil, at, "the NodeClaim has no name")
		case named[name]:
			c.addViolation(Claims, nil, at, "NodeClaim %s is made twice", name)
		case c.in.ClaimNames[name]:
			c.addViolation(Claims, nil, at, "NodeClaim %s exists", name)
		}
		named[name] = true
		pods, slots := 0, 0
		for _, p := range m.Pods {
			if !p.IsVirtual() {
				pods++
			}
		}
		for _, x := range m.Claim.Slots {
			slots += x.Count
		}
		if pods != slots {
			c.addViolation(Claims, nil, at, "%d slots for %d pods", slots, pods)
		}
	}
}
