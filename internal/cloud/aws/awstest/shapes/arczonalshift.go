// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

// The shapes of ARC zonal shift, version 2022-10-30: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type ARCGetManagedResourceRequest struct {
	ResourceIdentifier string `uri:"resourceIdentifier"`
}

type ARCGetManagedResourceResponse struct {
	AppliedWeights       map[string]float64        `json:"appliedWeights"`
	Arn                  string                    `json:"arn,omitempty"`
	Autoshifts           []ARCAutoshiftInResource  `json:"autoshifts,omitempty"`
	Name                 string                    `json:"name,omitempty"`
	ZonalAutoshiftStatus string                    `json:"zonalAutoshiftStatus,omitempty"`
	ZonalShifts          []ARCZonalShiftInResource `json:"zonalShifts"`
}

type ARCZonalShiftInResource struct {
	AppliedStatus      string `json:"appliedStatus"`
	AwayFrom           string `json:"awayFrom"`
	Comment            string `json:"comment"`
	ExpiryTime         *Epoch `json:"expiryTime"`
	ResourceIdentifier string `json:"resourceIdentifier"`
	StartTime          *Epoch `json:"startTime"`
	ZonalShiftId       string `json:"zonalShiftId"`
}

type ARCAutoshiftInResource struct {
	AppliedStatus string `json:"appliedStatus"`
	AwayFrom      string `json:"awayFrom"`
	StartTime     *Epoch `json:"startTime"`
}
