// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
)

// catalogueStore is what can be bought in the region and for how much. A catalogue is never changed, only replaced.
type catalogueStore struct {
	aws     *account
	builtin *catalog.Catalog
	turn    contextLock // who has it may refresh

	mu      sync.Mutex
	current *catalogue
}

func newCatalogueStore(a *account) (*catalogueStore, error) {
	builtin, err := catalog.Builtin()
	if err != nil {
		return nil, err
	}
	return &catalogueStore{aws: a, builtin: builtin, turn: newContextLock()}, nil
}

// known is the catalogue as it was last fetched; nil before it was.
func (s *catalogueStore) known() *catalogue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// nextRefresh is when the catalogue should be asked for again; zero: there are none yet.
func (s *catalogueStore) nextRefresh() time.Time {
	g := s.known()
	if g == nil {
		return time.Time{}
	}
	a, b := g.typesAt.Add(s.aws.config.TypesRefresh), g.pricesAt.Add(s.aws.config.PricesRefresh)
	if a.Before(b) {
		return a
	}
	return b
}

// load answers what is known; when nothing is, or with refresh what is old, is asked for first.
func (s *catalogueStore) load(ctx context.Context, refresh bool) (*catalogue, error) {
	if g := s.known(); g != nil && !refresh {
		return g, ctx.Err()
	}
	if err := s.turn.lock(ctx); err != nil {
		return nil, err
	}
	defer s.turn.unlock()
	old := s.known()
	if old != nil && !refresh {
		return old, nil
	}
	now := s.aws.clock.Now()
	next := &catalogue{}
	if old != nil {
		*next = *old
	}
	if old == nil || now.Sub(old.typesAt) >= s.aws.config.TypesRefresh {
		if err := s.fetchTypes(ctx, next); err != nil {
			return nil, err
		}
		next.typesAt = now
	}
	if old == nil || now.Sub(old.pricesAt) >= s.aws.config.PricesRefresh {
		if err := s.fetchPrices(ctx, next, old); err != nil {
			return nil, err
		}
		next.pricesAt = now
	}
	next.version++
	if old != nil && equalCatalogues(old, next) {
		next.version = old.version
	}
	s.mu.Lock()
	s.current = next
	s.mu.Unlock()
	return next, nil
}

func (s *catalogueStore) fetchTypes(ctx context.Context, g *catalogue) error {
	g.types, g.zones = nil, map[string][]string{}
	pages := ec2.NewDescribeInstanceTypesPaginator(s.aws.EC2, &ec2.DescribeInstanceTypesInput{})
	for pages.HasMorePages() {
		page, err := nextPageWithRetry(ctx, s.aws.clock, pages.NextPage)
		if err != nil {
			return err
		}
		for i := range page.InstanceTypes {
			if t := readTypeInfo(&page.InstanceTypes[i], s.aws.Region); t != nil {
				if known := s.builtin.Find(t.name); known != nil && known.Capacity[resourcePodENI] > 0 {
					t.extendedResources[resourcePodENI] = known.Capacity[resourcePodENI] // EC2 does not tell
				}
				g.types = append(g.types, t)
			}
		}
	}
	sortByKey(g.types, func(t *typeInfo) string { return t.name })
	where := ec2.NewDescribeInstanceTypeOfferingsPaginator(s.aws.EC2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: types.LocationTypeAvailabilityZone})
	for where.HasMorePages() {
		page, err := nextPageWithRetry(ctx, s.aws.clock, where.NextPage)
		if err != nil {
			return err
		}
		for _, o := range page.InstanceTypeOfferings {
			n := string(o.InstanceType)
			g.zones[n] = append(g.zones[n], deref(o.Location))
		}
	}
	for _, z := range g.zones {
		sortByKey(z, func(s string) string { return s })
	}
	return nil
}

// maxPageAttempts is how often a page of the market is asked for. The market has dozens of pages: one throttled call must not be the end
// of all that came before it.
const maxPageAttempts = 5

// nextPageWithRetry asks for a page again when it was throttled or the reply was lost. It reads only, and nobody waits for it but those who
// know nothing of the market yet.
func nextPageWithRetry[T, O any](ctx context.Context, clock cloud.Clock, next func(context.Context, ...func(*O)) (*T, error)) (*T, error) {
	for try := 1; ; try++ {
		page, err := next(ctx)
		if err == nil {
			return page, nil
		}
		e := classifyError(ctx, "", "", err)
		kind := cloud.KindOf(e)
		if try == maxPageAttempts || ctx.Err() != nil || kind != cloud.Throttled && kind != cloud.Unknown {
			return nil, err
		}
		if err := clock.Wait(ctx, max(cloud.AfterOf(e), 100*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}
