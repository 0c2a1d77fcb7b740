// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package claims

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// launchWait is how old a claim may be for another claim to wait for its launch. A launch takes a second or two.
const launchWait = 4 * time.Second

// trialAge is how old a launched claim may be to tell that there is capacity: as long as a shortage is remembered.
const trialAge = 3 * time.Minute

// shortages finds which launches wait for others because some offerings have no capacity:
//
//   - a launch, while another one asks for one of the same offerings, and offerings like them had no capacity: both would find out the
//     same;
//   - the end of a launch that failed, while others are about to fail because all their offerings have none: their pods get one plan
//     together.
//
// Launches from node groups wait for nothing.
type shortages struct {
	view  *cluster.View
	begun []*model.Claim        // launches that this step has decided on
	pools map[string]*poolShort // by name; nil: none of its offerings is missing
}

// poolShort is a pool of which some offerings have no capacity.
type poolShort struct {
	types   map[string][]*model.InstanceType // by name
	missing []missingOffering
	claims  []*model.Claim
	offers  map[*model.Claim][]claimOffering
}

type missingOffering struct {
	of           *model.InstanceType
	capacityType string
	micro        int64
}

// claimOffering is an offering that a claim may become.
type claimOffering struct {
	instanceType, zone, capacityType string

	micro     int64
	available bool
}

// awaited returns whose launch a claim waits for, and until when at the latest; empty: for none.
func (s *shortages) awaited(c *model.Claim) lifecycle.AwaitedLaunch {
	if c.ProviderID != "" || !c.Deleting.IsZero() || c.Provisional {
		return lifecycle.AwaitedLaunch{}
	}
	p := s.pool(c.Pool)
	if p == nil {
		return lifecycle.AwaitedLaunch{}
	}
	if failure, failed := s.view.Snapshot.Failures[c.UID]; failed {
		if failure.Kind != "InsufficientCapacity" {
			return lifecycle.AwaitedLaunch{}
		}
		return s.last(p, c, func(d *model.Claim) bool { return s.isUnanswered(d) && p.isHopeless(d) })
	}
	if s.isInFlight(c) || !p.isDoubtful(c) {
		return lifecycle.AwaitedLaunch{}
	}
	for _, d := range p.claims {
		if d.ProviderID != "" && d.Deleting.IsZero() && s.view.Now.Before(d.Created.Add(trialAge)) && slices.ContainsFunc(p.offersOf(c), func(o claimOffering) bool {
			return o.instanceType == d.Labels[model.LabelInstanceType] && o.zone == d.Labels[model.LabelZone] && o.capacityType == d.Labels[model.LabelCapacityType]
		}) {
			return lifecycle.AwaitedLaunch{} // there is capacity
		}
	}
	return s.last(p, c, func(d *model.Claim) bool {
		return s.isUnanswered(d) && s.isInFlight(d) && p.shareOffering(c, d)
	})
}

// last returns the youngest of the claims that something is true of.
func (s *shortages) last(p *poolShort, c *model.Claim, is func(*model.Claim) bool) (out lifecycle.AwaitedLaunch) {
	for _, d := range p.claims {
		if until := d.Created.Add(launchWait); d != c && s.view.Now.Before(until) && until.After(out.Until) && is(d) {
			out = lifecycle.AwaitedLaunch{Claim: d.Name, Until: until}
		}
	}
	return out
}

// isUnanswered reports whether a claim has no instance yet, and nothing is known of its launch.
func (s *shortages) isUnanswered(c *model.Claim) bool {
	_, failed := s.view.Snapshot.Failures[c.UID]
	return c.ProviderID == "" && c.Deleting.IsZero() && !failed
}

// isInFlight reports whether a claim's launch has begun.
func (s *shortages) isInFlight(c *model.Claim) bool {
	_, begun := s.view.Snapshot.InFlight[plan.LaunchClaim{UID: c.UID}.Key()]
	return begun || slices.Contains(s.begun, c)
}

// pool returns what a pool lacks; nil: nothing.
func (s *shortages) pool(name string) *poolShort {
	if p, known := s.pools[name]; known {
		return p
	}
	if s.pools == nil {
		s.pools = map[string]*poolShort{}
	}
	s.pools[name] = nil
	pool := s.view.Pool(name)
	if pool == nil {
		return nil
	}
	var missing []missingOffering
	for _, t := range pool.Types {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.LacksCapacity() && o.Remaining < 0 {
				missing = append(missing, missingOffering{t, o.CapacityType, o.PriceMicro})
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	p := &poolShort{types: map[string][]*model.InstanceType{}, missing: missing, offers: map[*model.Claim][]claimOffering{}}
	for _, t := range pool.Types {
		p.types[t.Name] = append(p.types[t.Name], t)
	}
	for _, c := range s.view.Snapshot.Claims {
		if c.Pool == name {
			p.claims = append(p.claims, c)
		}
	}
	s.pools[name] = p
	return p
}

// offersOf returns the offerings that a claim may become, without those of node groups.
func (p *poolShort) offersOf(c *model.Claim) []claimOffering {
	if out, known := p.offers[c]; known {
		return out
	}
	var out []claimOffering
	if names := c.Requirements.Get(model.LabelInstanceType); names != nil && !names.Complement {
		for _, name := range names.Values {
			for _, t := range p.types[name] {
				for i := range t.Offerings {
					if o := &t.Offerings[i]; o.Remaining < 0 && c.Requirements.AllowOffering(o) {
						out = append(out, claimOffering{name, o.Zone, o.CapacityType, o.PriceMicro, o.Available})
					}
				}
			}
		}
	}
	p.offers[c] = out
	return out
}

// isHopeless reports whether no offering of a claim has capacity.
func (p *poolShort) isHopeless(c *model.Claim) bool {
	offers := p.offersOf(c)
	return len(offers) > 0 && !slices.ContainsFunc(offers, func(o claimOffering) bool { return o.available })
}

// isDoubtful reports whether an offering is missing that a claim could have named: of its capacity type, large enough, and no dearer than
// those that it names.
func (p *poolShort) isDoubtful(c *model.Claim) bool {
	dearest := map[string]int64{}
	for _, o := range p.offersOf(c) {
		dearest[o.capacityType] = max(dearest[o.capacityType], o.micro)
	}
	return len(dearest) > 0 && slices.ContainsFunc(p.missing, func(m missingOffering) bool {
		return m.micro <= dearest[m.capacityType] && c.Requests.Fits(m.of.Allocatable)
	})
}

// shareOffering reports whether two claims name an offering that may have capacity.
func (p *poolShort) shareOffering(a, b *model.Claim) bool {
	other := p.offersOf(b)
	return slices.ContainsFunc(p.offersOf(a), func(o claimOffering) bool { return o.available && slices.Contains(other, o) })
}
