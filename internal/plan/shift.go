// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import "github.com/dovetail-sh/dovetail/internal/model"

// ShiftOf returns the Detail of a zonal shift.
func ShiftOf(s *model.ZonalShift) OfZonalShift {
	return OfZonalShift{Zone: s.Zone, Until: s.Until, Shift: s.ID}
}
