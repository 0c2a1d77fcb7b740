// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// SetAsideFor is how long an offering that had no capacity is not offered again.
const SetAsideFor = 3 * time.Minute

// fullFor is the same for a node group that had as many machines as it may: how many more it may have its offerings say by then.
const fullFor = 15 * time.Second

// SetAside marks offerings that had no capacity as unavailable for a while. The marks are lost with the process; the cloud
// then reports missing capacity again. Offerings in zones that a zonal shift moves away from are not available either.
type SetAside struct {
	Provider
	clock Clock
	ttl   time.Duration

	mu      sync.Mutex
	shifts  []model.ZonalShift // by which overlay was made
	until   map[OfferingKey]time.Time
	overlay map[sliceID][]*model.InstanceType // of the offerings set aside now; emptied when those change
	under   map[sliceID][]*model.InstanceType // by what Offerings and Mark have returned: what that was made from
}

// Aside is an offering that is marked unavailable.
type Aside struct {
	Offering OfferingKey
	Until    time.Time
}

// sliceID is the identity of a slice that the provider shares.
type sliceID struct {
	first **model.InstanceType
	n     int
}

// overlays is how many shared slices are remembered: one for each node class in use, and some for those just replaced.
const overlays = 64

// NewSetAside returns a decorated provider.
func NewSetAside(p Provider, clock Clock, ttl time.Duration) *SetAside {
	return &SetAside{Provider: p, clock: clock, ttl: ttl, until: map[OfferingKey]time.Time{}, overlay: map[sliceID][]*model.InstanceType{}, under: map[sliceID][]*model.InstanceType{}}
}

// Unwrap implements Decorator.
func (s *SetAside) Unwrap() Provider { return s.Provider }

// Set marks offerings unavailable from now on, as after an InsufficientCapacity error, or an interruption notice.
func (s *SetAside) Set(keys ...OfferingKey) {
	if len(keys) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for _, k := range keys {
		until := now.Add(s.ttl)
		if k.Full {
			until = now.Add(min(s.ttl, fullFor))
		}
		if until = until.Truncate(time.Second); !s.until[k].Equal(until) {
			clear(s.overlay)
		}
		s.until[k] = until
	}
}

// Asides returns the offerings that are marked unavailable now, by type, zone and capacity type.
func (s *SetAside) Asides() []Aside {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	out := make([]Aside, 0, len(s.until))
	for k, t := range s.until {
		out = append(out, Aside{k, t})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Offering.Less(out[j].Offering) })
	return out
}

// expire drops what is over. The caller holds mu.
func (s *SetAside) expire() {
	now := s.clock.Now()
	for k, t := range s.until {
		if !now.Before(t) {
			delete(s.until, k)
			clear(s.overlay)
		}
	}
}

// Launch implements Provider. The requests are told what is set aside now, so that nobody asks for that again.
func (s *SetAside) Launch(ctx context.Context, requests []LaunchRequest) []LaunchResult {
	known, shifts := s.now(), s.zonalShifts()
	told := slices.Clone(requests)
	var shifted []string
	for _, z := range shifts {
		shifted = append(shifted, z.Zone)
	}
	for i := range told {
		told[i].Unavailable, told[i].ShiftedZones = known, shifted
	}
	results := s.Provider.Launch(ctx, told)
	for i := range results {
		r := &results[i]
		r.Err = nameShifts(r.Err, shifts)
		found := r.Unavailable
		if KindOf(r.Err) == InsufficientCapacity {
			found = slices.Concat(found, OfferingsOf(r.Err))
		}
		s.Set(slices.DeleteFunc(slices.Clone(found), func(k OfferingKey) bool { return known[k] || slices.Contains(shifted, k.Zone) })...) // nobody asked for those
	}
	return results
}

// zonalShifts returns the zonal shifts in effect now.
func (s *SetAside) zonalShifts() []model.ZonalShift {
	if z, ok := As[ZoneShifter](s.Provider); ok {
		shifts, _ := z.ZonalShifts()
		return shifts
	}
	return nil
}

// nameShifts returns the error of a launch. If it lacks capacity, offerings in zones that the cluster is shifted away from are left out, and the error
// says why nothing was launched there.
func nameShifts(err error, shifts []model.ZonalShift) error {
	var lacks *Error
	if !errors.As(err, &lacks) || lacks.Kind != InsufficientCapacity {
		return err
	}
	out := *lacks
	out.Offerings = nil
	isIn := make([]bool, len(shifts)) // by shift: the launch allows an offering in the zone
	for _, k := range lacks.Offerings {
		at := slices.IndexFunc(shifts, func(z model.ZonalShift) bool { return z.Zone == k.Zone })
		if at < 0 {
			out.Offerings = append(out.Offerings, k)
			continue
		}
		isIn[at] = true
	}
	if len(out.Offerings) == len(lacks.Offerings) {
		return err
	}
	if len(out.Offerings) == 0 {
		out.Err = nil // no capacity was asked for
	}
	for i := range shifts {
		if !isIn[i] {
			continue
		}
		shift := fmt.Errorf("nothing is launched in zone %s: the cluster is shifted away from it until %s", shifts[i].Zone, shifts[i].EndText())
		if out.Err != nil {
			shift = fmt.Errorf("%w; %w", out.Err, shift)
		}
		out.Err = shift
	}
	return &out
}

// now returns the offerings set aside now; nil: none.
func (s *SetAside) now() map[OfferingKey]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if len(s.until) == 0 {
		return nil
	}
	out := make(map[OfferingKey]bool, len(s.until))
	for k := range s.until {
		out[k] = true
	}
	return out
}

// Offerings implements Provider.
func (s *SetAside) Offerings(ctx context.Context, pool *model.NodePool, class NodeClass) ([]*model.InstanceType, error) {
	types, err := s.Provider.Offerings(ctx, pool, class)
	if err != nil || len(types) == 0 {
		return types, err
	}
	return s.Mark(types), nil
}

// Mark returns instance types, which Offerings returned earlier, with their current availability. It does not call the cloud.
func (s *SetAside) Mark(types []*model.InstanceType) []*model.InstanceType {
	if len(types) == 0 {
		return types
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if shifts := s.zonalShifts(); !slices.Equal(shifts, s.shifts) {
		s.shifts = shifts
		clear(s.overlay)
	}
	if below, ok := s.under[idOf(types)]; ok {
		types = below
	}
	if len(s.until) == 0 && len(s.shifts) == 0 {
		return types
	}
	id := idOf(types)
	if out, ok := s.overlay[id]; ok {
		return out
	}
	out := s.mark(types)
	if len(s.overlay) >= overlays {
		clear(s.overlay)
	}
	if len(s.under) >= overlays {
		clear(s.under)
	}
	s.overlay[id] = out
	if idOf(out) != id {
		s.under[idOf(out)] = types
	}
	return out
}

// idOf returns the identity of a slice with at least one element.
func idOf(types []*model.InstanceType) sliceID { return sliceID{&types[0], len(types)} }

// mark returns types with the offerings not available that are set aside, or in zones shifted away from. The caller holds mu.
func (s *SetAside) mark(types []*model.InstanceType) []*model.InstanceType {
	quotas, hasQuotas := As[QuotaTeller](s.Provider)
	out := types
	byType := map[string][]OfferingKey{}
	for k := range s.until {
		byType[k.InstanceType] = append(byType[k.InstanceType], k)
	}
	withdraw := func(i, j int) *model.Offering {
		t := types[i]
		if &out[0] == &types[0] {
			out = append([]*model.InstanceType(nil), types...)
		}
		if out[i] == t {
			changed := *t
			changed.Offerings = append([]model.Offering(nil), t.Offerings...)
			out[i] = &changed
		}
		out[i].Offerings[j].Available = false
		return &out[i].Offerings[j]
	}
	for i, t := range types {
		for j, o := range t.Offerings {
			if z := model.ShiftFrom(s.shifts, o.Zone); z != nil {
				withdraw(i, j).Shift = z
			}
			for _, k := range byType[t.Name] {
				if !o.Available || o.Zone != k.Zone || o.CapacityType != k.CapacityType || k.Group != "" && k.Group != o.Labels[model.LabelNodeGroup] {
					continue
				}
				set := withdraw(i, j)
				set.Until = model.LaterOf(set.Until, s.until[k])
				if hasQuotas {
					set.Quota = quotas.ReachedQuota(t, o.CapacityType)
				}
			}
		}
	}
	return out
}
