// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalogue

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
)

// NewStore returns an empty Store. An error is an error of the built-in catalog.
func NewStore(a *awsapi.Account) (*Store, error) {
	builtin, err := catalog.Builtin()
	if err != nil {
		return nil, err
	}
	return &Store{aws: a, builtin: builtin, turn: cloud.NewLock()}, nil
}

// Known returns the last fetched Catalogue; nil if none was fetched.
func (s *Store) Known() *Catalogue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// NextRefresh returns when types or prices expire; zero before the first fetch.
func (s *Store) NextRefresh() time.Time {
	g := s.Known()
	if g == nil {
		return time.Time{}
	}
	a, b := g.typesAt.Add(s.aws.Config.TypesRefresh), g.pricesAt.Add(s.aws.Config.PricesRefresh)
	if a.Before(b) {
		return a
	}
	return b
}

// Load returns the Catalogue. It fetches a missing Catalogue and, with refresh, expired parts. An error is an error of
// fetching; the previous Catalogue then stays in use.
func (s *Store) Load(ctx context.Context, refresh bool) (*Catalogue, error) {
	if g := s.Known(); g != nil && !refresh {
		return g, ctx.Err()
	}
	if err := s.turn.Acquire(ctx); err != nil {
		return nil, err
	}
	defer s.turn.Release()
	old := s.Known()
	if old != nil && !refresh {
		return old, nil
	}
	now := s.aws.Clock.Now()
	next := &Catalogue{}
	if old != nil {
		*next = *old
	}
	if old == nil || now.Sub(old.typesAt) >= s.aws.Config.TypesRefresh {
		if err := s.fetchTypes(ctx, next); err != nil {
			return nil, err
		}
		next.typesAt = now
	}
	if old == nil || now.Sub(old.pricesAt) >= s.aws.Config.PricesRefresh {
		if err := s.fetchPrices(ctx, next, old); err != nil {
			return nil, err
		}
		next.pricesAt = now
	}
	next.Version++
	if old != nil && equalCatalogues(old, next) {
		next.Version = old.Version
	}
	s.mu.Lock()
	s.current = next
	s.mu.Unlock()
	return next, nil
}

// fetchTypes fetches instance types and the zones that offer them into g.
func (s *Store) fetchTypes(ctx context.Context, g *Catalogue) error {
	g.Types, g.Zones = nil, map[string][]string{}
	pages := ec2.NewDescribeInstanceTypesPaginator(s.aws.EC2, &ec2.DescribeInstanceTypesInput{})
	for pages.HasMorePages() {
		page, err := nextPageWithRetry(ctx, s.aws.Clock, pages.NextPage)
		if err != nil {
			return err
		}
		for i := range page.InstanceTypes {
			if t := readTypeInfo(&page.InstanceTypes[i], s.aws.Region); t != nil {
				if known := s.builtin.Find(t.Name); known != nil && known.Capacity[resourcePodENI] > 0 {
					t.ExtendedResources[resourcePodENI] = known.Capacity[resourcePodENI] // EC2 does not tell
				}
				g.Types = append(g.Types, t)
			}
		}
	}
	awsapi.SortByKey(g.Types, func(t *TypeInfo) string { return t.Name })
	where := ec2.NewDescribeInstanceTypeOfferingsPaginator(s.aws.EC2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: types.LocationTypeAvailabilityZone})
	for where.HasMorePages() {
		page, err := nextPageWithRetry(ctx, s.aws.Clock, where.NextPage)
		if err != nil {
			return err
		}
		for _, o := range page.InstanceTypeOfferings {
			n := string(o.InstanceType)
			g.Zones[n] = append(g.Zones[n], awsapi.Deref(o.Location))
		}
	}
	for _, z := range g.Zones {
		awsapi.SortByKey(z, func(s string) string { return s })
	}
	return nil
}
