// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

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
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// blockExpiryMargin is how long before its end a capacity block is no longer used for launches.
const blockExpiryMargin = 40 * time.Minute

// ActiveReservations returns the active reservations selected by the terms, by ID, at most one minute old. No
// reservation is not an error.
func (cr *Resolver) ActiveReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]Reservation, error) {
	return cr.reservations.Get(ctx, awsapi.SelectorKey(terms), func(ctx context.Context) ([]Reservation, error) { return cr.findReservations(ctx, terms) })
}

// findReservations are the active reservations that any of the terms chooses, by id. None is no error: there may be
// some tomorrow.
func (cr *Resolver) findReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]Reservation, error) {
	found := map[string]Reservation{}
	ask := func(in *ec2.DescribeCapacityReservationsInput) error {
		in.Filters = append(in.Filters, awsapi.NewFilter("state", "active"))
		pages := ec2.NewDescribeCapacityReservationsPaginator(cr.aws.EC2, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, c := range page.CapacityReservations {
				r := Reservation{Free: int64(awsapi.Deref(c.AvailableInstanceCount)), Taken: &atomic.Int64{}, CapacityReservation: awsv1.CapacityReservation{
					ID: awsapi.Deref(c.CapacityReservationId), InstanceType: awsapi.Deref(c.InstanceType), AvailabilityZone: awsapi.Deref(c.AvailabilityZone),
					InstanceMatchCriteria: string(c.InstanceMatchCriteria), OwnerID: awsapi.Deref(c.OwnerId), Interruptible: awsapi.Deref(c.Interruptible),
					ReservationType: "default", State: "active",
				}}
				if c.ReservationType == types.CapacityReservationTypeCapacityBlock {
					r.ReservationType = "capacity-block"
				}
				if c.EndDate != nil {
					end := metav1.NewTime(*c.EndDate)
					r.EndTime = &end
					if r.ReservationType == "capacity-block" && cr.aws.Clock.Now().After(c.EndDate.Add(-blockExpiryMargin)) {
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
		in.Filters = awsapi.TagFilters(t.Tags)
		if t.OwnerID != "" {
			in.Filters = append(in.Filters, awsapi.NewFilter("owner-id", t.OwnerID))
		}
		if t.InstanceMatchCriteria != "" {
			in.Filters = append(in.Filters, awsapi.NewFilter("instance-match-criteria", t.InstanceMatchCriteria))
		}
		if err := ask(in); err != nil {
			if strings.HasPrefix(awsapi.ErrorCode(err), "InvalidCapacityReservationId") {
				continue
			}
			return nil, err
		}
	}
	var out []Reservation
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id])
	}
	return out, nil
}
