// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"context"
	"slices"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Reasons of drift.
const (
	DriftNodeClass           = "NodeClassDrift"
	DriftAMI                 = "AMIDrift"
	DriftSubnet              = "SubnetDrift"
	DriftSecurityGroup       = "SecurityGroupDrift"
	DriftCapacityReservation = "CapacityReservationDrift"
	DriftPlacementGroup      = "PlacementGroupDrift"
)

// maxDriftListAge is the maximum age of the list of instances that drift is judged by.
const maxDriftListAge = time.Minute

// Drifted implements cloud.Drifter: it returns why each EC2 instance has drifted from its EC2NodeClass. If a class is not ready,
// its instances have not drifted, because the wanted values are unknown. A class that cannot be resolved does not delay the
// others.
func (p *Provider) Drifted(ctx context.Context, queries []cloud.DriftQuery) ([]string, error) {
	out := make([]string, len(queries))
	if len(queries) == 0 {
		return out, nil
	}
	list, err := p.listForDrift(ctx, queries)
	if err != nil {
		return nil, awsapi.ClassifyError(ctx, "drift", "", err)
	}
	answered := false
	var failure error
	for i, q := range queries {
		if q.Claim == nil || q.Claim.ProviderID == "" {
			continue
		}
		c, err := nodeclass.Read("drift", q.Class)
		if err != nil {
			continue // not ours, or not readable: its status says so
		}
		r, err := p.classes.Resolve(ctx, c)
		if err != nil {
			failure = awsapi.ClassifyError(ctx, "drift", c.Name, err) // the other classes are not kept waiting
			continue
		}
		answered = true
		if len(r.Problems) > 0 {
			continue
		}
		var m *instances.Instance
		if at, ok := list.ByID[instances.InstanceID(q.Claim.ProviderID)]; ok {
			m = &list.All[at]
		}
		if out[i], err = p.driftReason(ctx, r, q.Claim, m); err != nil {
			failure = awsapi.ClassifyError(ctx, "drift", c.Name, err)
		}
	}
	if failure != nil && !answered {
		return nil, failure
	}
	return out, nil
}

// listForDrift returns a list of instances for queries: one that is at most maxDriftListAge old, or a new one if that was made before a machine of a
// query was launched. Without the machine, its subnet and its security groups would not be compared until the next check.
func (p *Provider) listForDrift(ctx context.Context, queries []cloud.DriftQuery) (*instances.List, error) {
	now := p.aws.Clock.Now()
	list, err := p.instances.List(ctx, now.Add(-maxDriftListAge))
	if err != nil {
		return nil, err
	}
	for _, q := range queries {
		if q.Claim == nil || q.Claim.ProviderID == "" {
			continue
		}
		if _, ok := list.ByID[instances.InstanceID(q.Claim.ProviderID)]; !ok {
			return p.instances.List(ctx, now)
		}
	}
	return list, nil
}

// driftReason returns why an EC2 instance has drifted from its EC2NodeClass: the hash of the class, AMI, subnet, security groups,
// capacity reservation, or placement group. Empty: it has not drifted. m is nil if the instance is not listed.
func (p *Provider) driftReason(ctx context.Context, r *nodeclass.Resolved, claim *model.Claim, m *instances.Instance) (string, error) {
	if claim.Annotations[awsv1.AnnotationEC2NodeClassHashVersion] == awsv1.EC2NodeClassHashVersion {
		if h := claim.Annotations[awsv1.AnnotationEC2NodeClassHash]; h != "" && h != r.Hash {
			return DriftNodeClass, nil
		}
	}
	imageID := claim.ImageID
	if m != nil && m.Image != "" {
		imageID = m.Image
	}
	if imageID != "" && !p.isCurrentImage(r, claim.Labels[model.LabelInstanceType], imageID) {
		return DriftAMI, nil
	}
	if m == nil {
		return "", nil
	}
	if m.Subnet != "" && !slices.ContainsFunc(r.Subnets, func(s *nodeclass.Subnet) bool { return s.ID == m.Subnet }) {
		return DriftSubnet, nil
	}
	var groups []string
	for _, g := range r.SecurityGroups {
		groups = append(groups, g.ID)
	}
	slices.Sort(groups)
	if len(m.SecurityGroups) > 0 && !slices.Equal(groups, m.SecurityGroups) {
		return DriftSecurityGroup, nil
	}
	if m.CapacityType == model.Reserved && m.Reservation != "" && len(r.Spec.CapacityReservationSelectorTerms) > 0 && !p.aws.Config.NoReservedCapacity {
		if reason, err := p.reservationDrift(ctx, r, m.Reservation); reason != "" || err != nil {
			return reason, err
		}
	}
	group := ""
	if r.Placement != nil {
		group = awsapi.Deref(r.Placement.GroupId)
	}
	if claim.Labels[awsv1.LabelPlacementGroupID] != group {
		return DriftPlacementGroup, nil
	}
	return "", nil
}

// reservationDrift is why a machine must not stay in its reservation: the class does not choose the reservation any
// more, or it is a block that EC2 is about to empty. One that has ended is no reason: its machines run on, and are
// told to be on-demand ones as soon as EC2 says so of them.
func (p *Provider) reservationDrift(ctx context.Context, r *nodeclass.Resolved, id string) (string, error) {
	if i := slices.IndexFunc(r.Reservations, func(c nodeclass.Reservation) bool { return c.ID == id }); i >= 0 {
		if r.Reservations[i].State == "expiring" {
			return DriftCapacityReservation, nil
		}
		return "", nil
	}
	term := []awsv1.CapacityReservationSelectorTerm{{ID: id}}
	active, err := p.classes.ActiveReservations(ctx, term)
	if err != nil || len(active) == 0 {
		return "", err
	}
	return DriftCapacityReservation, nil
}

// isCurrentImage reports whether an image is the one that a machine of the type would boot from now.
func (p *Provider) isCurrentImage(r *nodeclass.Resolved, instanceType, imageID string) bool {
	if cat := p.catalogue.Known(); cat != nil {
		if t := cat.FindType(instanceType); t != nil {
			im := r.ImageForType(t)
			return im == nil || im.ID == imageID
		}
	}
	return slices.ContainsFunc(r.Images, func(im nodeclass.Image) bool { return im.ID == imageID })
}
