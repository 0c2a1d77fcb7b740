// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import "time"

// ZonalShift is a decision of an operator, or of the cloud, to move the cluster away from a zone for a time, because the zone is impaired.
type ZonalShift struct {
	Zone   string    // name, as in label topology.kubernetes.io/zone
	ZoneID string    // the cloud's id of the zone
	ID     string    // of the shift; empty: the cloud has started it by itself
	Until  time.Time // when it expires; zero: when the cloud ends it
}

// EndText returns when the shift ends: an instant, or that the cloud decides it.
func (z *ZonalShift) EndText() string {
	if z.Until.IsZero() {
		return "the cloud ends it"
	}
	return z.Until.UTC().Format(time.RFC3339)
}

// ShiftFrom returns the zonal shift away from a zone; nil: there is none.
func ShiftFrom(list []ZonalShift, zone string) *ZonalShift {
	for i := range list {
		if list[i].Zone == zone {
			return &list[i]
		}
	}
	return nil
}

// ShiftFrom returns the zonal shift away from a zone; nil: there is none.
func (s *Snapshot) ShiftFrom(zone string) *ZonalShift { return ShiftFrom(s.Shifts, zone) }
