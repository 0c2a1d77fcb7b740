// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// quotaKey names a quota: what an account may have of a capacity type. EC2 counts virtual processors, over all zones,
// for groups of families.
type quotaKey struct{ capacityType, family string }

// allFamilies is the family of a quota that holds for every type.
const allFamilies = ""

// exhaustedQuota says that less than so many virtual processors are left of a quota, zero: none at all, and for how
// long that is believed.
type exhaustedQuota struct {
	cpus  int64
	until time.Time
}

// quotaTracker remembers the quotas that were found exhausted.
type quotaTracker struct {
	mu        sync.Mutex
	exhausted map[quotaKey]exhaustedQuota
}

// accountLimit says whether an error code means that the account may have no more of this in any zone, and whether of
// all families at once.
func accountLimit(code string) (wide, all bool) {
	switch code {
	case "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "InstanceLimitExceeded":
		return true, false
	case "AuthFailure.ServiceLinkedRoleCreationNotPermitted": // nobody may use spot in this account yet
		return true, true
	}
	return false, false
}

// quotaFamily is the group of families that share a quota, for a type's name.
func quotaFamily(name string) string {
	letters := strings.IndexFunc(name, func(r rune) bool { return r < 'a' || r > 'z' })
	if letters < 0 {
		return name
	}
	switch l := name[:letters]; l {
	case "inf", "trn", "dl", "hpc", "f", "p", "x", "u":
		return l
	case "g", "gr", "vt":
		return "g"
	}
	return "standard" // A, C, D, H, I, M, R, T, Z
}

// noteExhausted notes that a machine with so many virtual processors was refused for want of quota.
func (q *quotaTracker) noteExhausted(now time.Time, of quotaKey, cpus int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if have, ok := q.exhausted[of]; ok && now.Before(have.until) {
		cpus = min(cpus, have.cpus)
	}
	q.exhausted[of] = exhaustedQuota{cpus, now.Add(cloud.SetAsideFor)}
}

// isExhaustedFor says whether a quota is known to be too small for a machine of a type. A smaller machine may fit in
// what is left.
func (q *quotaTracker) isExhaustedFor(now time.Time, t *catalogue.TypeInfo, capacityType string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, f := range [...]string{allFamilies, quotaFamily(t.Name)} {
		if s, ok := q.exhausted[quotaKey{capacityType, f}]; ok && now.Before(s.until) && t.CPUs >= s.cpus {
			return true
		}
	}
	return false
}

// quotaLimitedOfferings are the offerings of a class for which a quota of the account is known to be too small,
// whatever was asked for: nobody need ask for them now.
func (p *Provider) quotaLimitedOfferings(o *offering.Set) []cloud.OfferingKey {
	p.quotas.mu.Lock()
	some := len(p.quotas.exhausted) > 0
	p.quotas.mu.Unlock()
	if !some {
		return nil
	}
	now := p.aws.Clock.Now()
	var out []cloud.OfferingKey
	for _, it := range o.Types {
		of := map[string]bool{}
		for _, c := range []string{model.Spot, model.OnDemand} {
			of[c] = p.quotas.isExhaustedFor(now, o.ByName[it.Name].TypeInfo, c)
		}
		for i := range it.Offerings {
			if of[it.Offerings[i].CapacityType] {
				out = append(out, offering.Option{Type: o.ByName[it.Name], Offering: &it.Offerings[i]}.Key())
			}
		}
	}
	return out
}
