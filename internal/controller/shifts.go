// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Reasons of events on NodePools when a zonal shift away from one of their zones begins and ends.
const (
	zonalShiftActive  = "ZonalShiftActive"
	zonalShiftCleared = "ZonalShiftCleared"
)

// zonalShifts keeps the zonal shifts of the Snapshot as the provider has them, and reports those that begin and end. Only the loop uses it,
// but for watch.
type zonalShifts struct {
	*edges
	offerings *offerings

	known []model.ZonalShift               // by zone
	read  bool                             // they are those in effect
	told  map[shiftOfPool]model.ZonalShift // of which an event on the NodePool has told
	apart map[shiftOfPool]*model.NodePool  // NodePools that can't launch in the zone, as they were when that was found
}

// shiftOfPool is a zonal shift away from a zone in which a NodePool, by its uid, can launch.
type shiftOfPool struct{ pool, zone string }

// watch wakes the loop when a shift has begun or ended, until the context ends.
func (zs *zonalShifts) watch(ctx context.Context) {
	if source, ok := cloud.As[cloud.ZoneShifter](zs.provider); ok {
		source.WatchZonalShifts(ctx, func() {
			select {
			case zs.changes <- func(*state.State) {}:
			case <-ctx.Done():
			}
		})
	}
}

// update takes in the shifts in effect now. quiet: NodePools are another autoscaler's, and have no events. It returns when the first shift
// expires; zero: none does.
func (zs *zonalShifts) update(quiet bool) (next time.Time) {
	source, ok := cloud.As[cloud.ZoneShifter](zs.provider)
	if !ok {
		return next
	}
	now, read := source.ZonalShifts()
	for _, s := range now {
		next = model.EarlierOf(next, s.Until)
	}
	isOther := !slices.Equal(now, zs.known)
	if isOther || read != zs.read {
		zs.read = read
		zs.state.SetZonalShifts(now, read)
	}
	if isOther {
		was := zs.known
		zs.known = now
		zs.offerings.markUnavailable()
		for _, s := range now {
			if model.ShiftFrom(was, s.Zone) == nil {
				zs.log.Warn("zonal shift has begun: nothing is launched in the zone, and nodes there are left unchanged", "zone", s.Zone, "zoneID", s.ZoneID, "shift", s.ID, "until", s.EndText())
			}
		}
		for _, s := range was {
			if model.ShiftFrom(now, s.Zone) == nil {
				zs.log.Info("zonal shift has ended: nodes are launched in the zone again", "zone", s.Zone, "zoneID", s.ZoneID, "shift", s.ID)
			}
		}
	}
	if len(now) == 0 {
		clear(zs.apart)
	}
	if !quiet && (len(now) > 0 || len(zs.told) > 0) {
		zs.tell(now)
	}
	return next
}

// tell writes an event on each NodePool that can launch in a zone which the cluster has been shifted away from, and when that has ended.
func (zs *zonalShifts) tell(now []model.ZonalShift) {
	pools := zs.state.Pools.ListPools()
	for key, s := range zs.told {
		if model.ShiftFrom(now, s.Zone) != nil {
			continue
		}
		delete(zs.told, key)
		if i := slices.IndexFunc(pools, func(p *model.NodePool) bool { return p.UID == key.pool }); i >= 0 {
			zs.cluster.Event("NodePool", "", pools[i].Name, key.pool, false, zonalShiftCleared, "Nodes are launched in zone "+s.Zone+" ("+s.ZoneID+") again: the zonal shift has ended")
		}
	}
	for _, s := range now {
		for _, p := range pools {
			key := shiftOfPool{p.UID, s.Zone}
			if _, told := zs.told[key]; told || p.Deleting || zs.apart[key] == p {
				continue
			}
			if zs.apart[key] = p; offersIn(p, s.Zone) {
				zs.told[key] = s
				delete(zs.apart, key)
				zs.cluster.Event("NodePool", "", p.Name, p.UID, true, zonalShiftActive, "Nothing is launched in zone "+s.Zone+" ("+s.ZoneID+"): the cluster is shifted away from it until "+s.EndText())
			}
		}
	}
}

// offersIn reports whether a NodePool may launch something in a zone, available now or not.
func offersIn(p *model.NodePool, zone string) bool {
	for _, t := range p.Types {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.Zone == zone && p.MayBuyType(t) && p.MayBuyOffering(o) {
				return true
			}
		}
	}
	return false
}
