// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// Shift starts a zonal shift of the cluster.
type Shift struct {
	ID         string            `json:"id,omitempty"` // in responses
	AwayFrom   string            `json:"awayFrom"`     // zone name or zone ID
	ExpiresIn  machines.Duration `json:"expiresIn,omitzero"`
	Comment    string            `json:"comment,omitempty"`
	NotApplied bool              `json:"notApplied,omitempty"` // another shift takes precedence
	Autoshift  bool              `json:"autoshift,omitempty"`  // started by AWS; it does not expire
}

// ShiftEnd ends zonal shifts early.
type ShiftEnd struct {
	ID string `json:"id,omitempty"` // empty: all
}

// shift is a zonal shift as it is kept.
type shift struct {
	ID, ZoneID, Comment string
	Started, Expires    time.Time // Expires zero: an autoshift
	NotApplied          bool      `json:",omitempty"`
}

// status is whether the shift is the one in effect, in the words of ARC.
func (s *shift) status() string {
	if s.NotApplied {
		return "NOT_APPLIED"
	}
	return "APPLIED"
}

// defaultShift is how long a shift lasts whose length is not given.
const defaultShift = time.Hour

// zoneIDs are the ids of the zones in which the cluster has subnets, in the order of these.
func (t *tx) zoneIDs() (out []string) {
	for _, s := range t.world.subnets {
		if !slices.Contains(out, s.AvailabilityZoneId) {
			out = append(out, s.AvailabilityZoneId)
		}
	}
	return out
}

func (t *tx) startShift(in Shift) (Shift, error) {
	known := t.zoneIDs()
	for _, id := range []string{in.AwayFrom, zoneID(t.catalog.Region, in.AwayFrom)} {
		if !slices.Contains(known, id) {
			continue
		}
		in.AwayFrom, in.ID = id, t.freshID("zs")
		s := shift{ID: in.ID, ZoneID: id, Comment: in.Comment, Started: t.now, NotApplied: in.NotApplied}
		if !in.Autoshift {
			if in.ExpiresIn <= 0 {
				in.ExpiresIn = machines.Duration(defaultShift)
			}
			s.Expires = t.now.Add(time.Duration(in.ExpiresIn))
		}
		t.shifts.put(t, s.ID, s)
		return in, nil
	}
	return in, fmt.Errorf("shift: awayFrom %q: the cluster has no subnet there; use one of %v", in.AwayFrom, known)
}

func (t *tx) endShift(in ShiftEnd) (struct{}, error) {
	if in.ID != "" && t.shifts.items[in.ID] == nil {
		return struct{}{}, fmt.Errorf("shift: there is no shift %q", in.ID)
	}
	for _, s := range t.shifts.sorted() {
		if in.ID == "" || in.ID == s.ID {
			t.shifts.drop(t, s.ID)
		}
	}
	return struct{}{}, nil
}

func (t *tx) getManagedResource(in *shapes.ARCGetManagedResourceRequest) (*shapes.ARCGetManagedResourceResponse, error) {
	arn := t.arn("eks", "cluster/"+t.settings.Cluster)
	if in.ResourceIdentifier != arn {
		return nil, &wire.Error{Code: "ResourceNotFoundException", Message: "The resource " + in.ResourceIdentifier + " is not registered for zonal shift.", Status: http.StatusNotFound}
	}
	out := &shapes.ARCGetManagedResourceResponse{
		AppliedWeights: map[string]float64{}, Arn: arn, Name: t.settings.Cluster, ZonalAutoshiftStatus: "DISABLED", ZonalShifts: []shapes.ARCZonalShiftInResource{},
	}
	for _, id := range t.zoneIDs() {
		out.AppliedWeights[id] = 1
	}
	for _, s := range t.shifts.sorted() {
		if !s.Expires.IsZero() && !t.now.Before(s.Expires) {
			continue
		}
		if !s.NotApplied {
			out.AppliedWeights[s.ZoneID] = 0
		}
		if s.Expires.IsZero() {
			out.ZonalAutoshiftStatus = "ENABLED"
			out.Autoshifts = append(out.Autoshifts, shapes.ARCAutoshiftInResource{AppliedStatus: s.status(), AwayFrom: s.ZoneID, StartTime: new(shapes.Epoch(s.Started))})
			continue
		}
		out.ZonalShifts = append(out.ZonalShifts, shapes.ARCZonalShiftInResource{
			AppliedStatus: s.status(), AwayFrom: s.ZoneID, Comment: s.Comment, ExpiryTime: new(shapes.Epoch(s.Expires)), ResourceIdentifier: arn, StartTime: new(shapes.Epoch(s.Started)), ZonalShiftId: s.ID,
		})
	}
	return out, nil
}
