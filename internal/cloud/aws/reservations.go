// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// blockExpiryMargin is how long before its end a capacity block is no longer bought from.
const blockExpiryMargin = 40 * time.Minute

// activeReservations are the active reservations that the terms choose, by id; they may be a minute old. None is no error.
func (cr *classResolver) activeReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]reservation, error) {
	return cr.reservations.get(ctx, selectorKey(terms), func(ctx context.Context) ([]reservation, error) { return cr.findReservations(ctx, terms) })
}

// findReservations are the active reservations that the terms choose. None is no problem: there may be some tomorrow.
func (cr *classResolver) findReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]reservation, error) {
	found := map[string]reservation{}
	ask := func(in *ec2.DescribeCapacityReservationsInput) error {
		in.Filters = append(in.Filters, newFilter("state", "active"))
		pages := ec2.NewDescribeCapacityReservationsPaginator(cr.aws.EC2, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, c := range page.CapacityReservations {
				r := reservation{free: int64(deref(c.AvailableInstanceCount)), taken: &atomic.Int64{}, CapacityReservation: awsv1.CapacityReservation{
					ID: deref(c.CapacityReservationId), InstanceType: deref(c.InstanceType), AvailabilityZone: deref(c.AvailabilityZone),
					InstanceMatchCriteria: string(c.InstanceMatchCriteria), OwnerID: deref(c.OwnerId), Interruptible: deref(c.Interruptible),
					ReservationType: "default", State: "active",
				}}
				if c.ReservationType == types.CapacityReservationTypeCapacityBlock {
					r.ReservationType = "capacity-block"
				}
				if c.EndDate != nil {
					end := metav1.NewTime(*c.EndDate)
					r.EndTime = &end
					if r.ReservationType == "capacity-block" && cr.aws.clock.Now().After(c.EndDate.Add(-blockExpiryMargin)) {
						r.State = "expiring"
					}
				}
				found[r.ID] = r
			}
		}
		return nil
	}
	for _, t := range terms {
		in := &ec2.DescribeCapacityReservationsInput{}
		if t.ID != "" {
			in.CapacityReservationIds = []string{t.ID}
		}
		in.Filters = tagFilters(t.Tags)
		if t.OwnerID != "" {
			in.Filters = append(in.Filters, newFilter("owner-id", t.OwnerID))
		}
		if t.InstanceMatchCriteria != "" {
			in.Filters = append(in.Filters, newFilter("instance-match-criteria", t.InstanceMatchCriteria))
		}
		if err := ask(in); err != nil {
			if strings.HasPrefix(errorCode(err), "InvalidCapacityReservationId") {
				continue
			}
			return nil, err
		}
	}
	var out []reservation
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id])
	}
	return out, nil
}
