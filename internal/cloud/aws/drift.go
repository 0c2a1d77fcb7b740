// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"slices"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Reasons of drift.
const (
	DriftNodeClass           = "NodeClassDrift"
	DriftAMI                 = "AMIDrift"
	DriftSubnet              = "SubnetDrift"
	DriftSecurityGroup       = "SecurityGroupDrift"
	DriftCapacityReservation = "CapacityReservationDrift"
)

// maxDriftListAge is how old a list may be that drift is judged by.
const maxDriftListAge = time.Minute

// Drifted implements cloud.Drifter. A class that is not ready drifts nothing: what it stands for is not known.
func (p *fleetProvider) Drifted(ctx context.Context, queries []cloud.DriftQuery) ([]string, error) {
	out := make([]string, len(queries))
	if len(queries) == 0 {
		return out, nil
	}
	list, err := p.instances.list(ctx, p.aws.clock.Now().Add(-maxDriftListAge))
	if err != nil {
		return nil, classifyError(ctx, "drift", "", err)
	}
	answered := false
	var failure error
	for i, q := range queries {
		if q.Claim == nil || q.Claim.ProviderID == "" {
			continue
		}
		c, err := readNodeClass("drift", q.Class)
		if err != nil {
			continue // not ours, or not readable: its status says so
		}
		r, err := p.classes.resolve(ctx, c)
		if err != nil {
			failure = classifyError(ctx, "drift", c.name, err) // the other classes are not kept waiting
			continue
		}
		answered = true
		if len(r.problems) > 0 {
			continue
		}
		var m *instance
		if at, ok := list.byID[instanceID(q.Claim.ProviderID)]; ok {
			m = &list.all[at]
		}
		if out[i], err = p.driftReason(ctx, r, q.Claim, m); err != nil {
			failure = classifyError(ctx, "drift", c.name, err)
		}
	}
	if failure != nil && !answered {
		return nil, failure
	}
	return out, nil
}

// driftReason is why a machine is no longer what its class asks for, empty when it is. m is nil when it is not listed.
func (p *fleetProvider) driftReason(ctx context.Context, r *resolvedClass, claim *model.Claim, m *instance) (string, error) {
	if claim.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] == awsv1.EC2NodeClassHashVersion {
		if h := claim.Annotations[awsv1.AnnotationEC2NodeClassHash]; h != "" && h != r.hash {
			return DriftNodeClass, nil
		}
	}
	imageID := claim.ImageID
	if m != nil && m.image != "" {
		imageID = m.image
	}
	if imageID != "" && !p.isCurrentImage(r, claim.Labels[model.LabelInstanceType], imageID) {
		return DriftAMI, nil
	}
	if m == nil {
		return "", nil
	}
	if m.subnet != "" && !slices.ContainsFunc(r.subnets, func(s *subnet) bool { return s.id == m.subnet }) {
		return DriftSubnet, nil
	}
	var groups []string
	for _, g := range r.securityGroups {
		groups = append(groups, g.id)
	}
	slices.Sort(groups)
	if len(m.securityGroups) > 0 && !slices.Equal(groups, m.securityGroups) {
		return DriftSecurityGroup, nil
	}
	if m.capacityType == model.Reserved && m.reservation != "" && len(r.spec.CapacityReservationSelectorTerms) > 0 {
		return p.reservationDrift(ctx, r, m.reservation)
	}
	return "", nil
}

// reservationDrift is why a machine must not stay in its reservation: the class does not choose it any more, or it is a block that EC2 is about to
// empty. One that has ended is no reason: its machines run on, and are told to be on-demand ones as soon as EC2 says so of them.
func (p *fleetProvider) reservationDrift(ctx context.Context, r *resolvedClass, id string) (string, error) {
	if i := slices.IndexFunc(r.reservations, func(c reservation) bool { return c.ID == id }); i >= 0 {
		if r.reservations[i].State == "expiring" {
			return DriftCapacityReservation, nil
		}
		return "", nil
	}
	term := []awsv1.CapacityReservationSelectorTerm{{ID: id}}
	active, err := p.classes.activeReservations(ctx, term)
	if err != nil || len(active) == 0 {
		return "", err
	}
	return DriftCapacityReservation, nil
}

// isCurrentImage says whether an image is the one that a machine of the type would boot from now.
func (p *fleetProvider) isCurrentImage(r *resolvedClass, instanceType, imageID string) bool {
	g := p.catalogue.known()
	if g != nil {
		if i, ok := slices.BinarySearchFunc(g.types, instanceType, func(t *typeInfo, n string) int {
			switch {
			case t.name < n:
				return -1
			case t.name > n:
				return 1
			}
			return 0
		}); ok {
			im := r.imageForType(g.types[i])
			return im == nil || im.id == imageID
		}
	}
	return slices.ContainsFunc(r.images, func(im image) bool { return im.id == imageID })
}
