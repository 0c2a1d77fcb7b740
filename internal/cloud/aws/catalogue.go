// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// pricingRegion is the nearest region that has the price list service.
func pricingRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "eu-"), strings.HasPrefix(region, "af-"), strings.HasPrefix(region, "me-"), strings.HasPrefix(region, "il-"):
		return "eu-central-1"
	}
	return "us-east-1"
}

// catalogueStore is what can be bought in the region and for how much. A catalogue is never changed, only replaced.
type catalogueStore struct {
	turn chan struct{} // holds one token; who has it may refresh

	mu      sync.Mutex
	current *catalogue
}

// catalogue are types, where they are offered, and prices.
type catalogue struct {
	version       int
	types         []*typeInfo
	zones         map[string][]string // by type, sorted
	onDemandMicro map[string]int64    // micro-dollars by type
	spotMicro     map[string]int64    // by type/zone

	typesAt, pricesAt               time.Time
	onDemandPublished, spotModelled bool // on-demand prices are the region's; spot prices are the model's
}

func (m *catalogueStore) known() *catalogue {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current
}

// nextRefresh is when the catalogue should be asked for again; zero: there are none yet.
func (m *catalogueStore) nextRefresh(c Config) time.Time {
	g := m.known()
	if g == nil {
		return time.Time{}
	}
	a, b := g.typesAt.Add(c.TypesRefresh), g.pricesAt.Add(c.PricesRefresh)
	if a.Before(b) {
		return a
	}
	return b
}

// loadCatalogue answers what is known; when nothing is, or with refresh what is old, is asked for first.
func (p *Provider) loadCatalogue(ctx context.Context, refresh bool) (*catalogue, error) {
	if g := p.catalogue.known(); g != nil && !refresh {
		return g, ctx.Err()
	}
	select {
	case <-p.catalogue.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.catalogue.turn <- struct{}{} }()
	old := p.catalogue.known()
	if old != nil && !refresh {
		return old, nil
	}
	now := p.clock.Now()
	next := &catalogue{}
	if old != nil {
		*next = *old
	}
	if old == nil || now.Sub(old.typesAt) >= p.config.TypesRefresh {
		if err := p.fetchTypes(ctx, next); err != nil {
			return nil, err
		}
		next.typesAt = now
	}
	if old == nil || now.Sub(old.pricesAt) >= p.config.PricesRefresh {
		if err := p.fetchPrices(ctx, next, old); err != nil {
			return nil, err
		}
		next.pricesAt = now
	}
	next.version++
	if old != nil && equalCatalogues(old, next) {
		next.version = old.version
	}
	p.catalogue.mu.Lock()
	p.catalogue.current = next
	p.catalogue.mu.Unlock()
	return next, nil
}

func equalCatalogues(a, b *catalogue) bool {
	text := func(g *catalogue) string {
		var list []typeInfo
		for _, t := range g.types {
			list = append(list, *t)
		}
		return fmt.Sprint(list, g.zones, g.onDemandMicro, g.spotMicro, g.onDemandPublished, g.spotModelled)
	}
	return text(a) == text(b)
}

func (p *Provider) fetchTypes(ctx context.Context, g *catalogue) error {
	g.types, g.zones = nil, map[string][]string{}
	pages := ec2.NewDescribeInstanceTypesPaginator(p.ec2, &ec2.DescribeInstanceTypesInput{})
	for pages.HasMorePages() {
		page, err := nextPageWithRetry(ctx, p, pages.NextPage)
		if err != nil {
			return err
		}
		for i := range page.InstanceTypes {
			if t := readTypeInfo(&page.InstanceTypes[i], p.region); t != nil {
				if known := p.builtin.Find(t.name); known != nil && known.Capacity[resourcePodENI] > 0 {
					t.extendedResources[resourcePodENI] = known.Capacity[resourcePodENI] // EC2 does not tell
				}
				g.types = append(g.types, t)
			}
		}
	}
	sortByKey(g.types, func(t *typeInfo) string { return t.name })
	where := ec2.NewDescribeInstanceTypeOfferingsPaginator(p.ec2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: types.LocationTypeAvailabilityZone})
	for where.HasMorePages() {
		page, err := nextPageWithRetry(ctx, p, where.NextPage)
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

// fetchPrices asks for prices. Where the price list can't be had the built-in one is used, and where spot prices can't be had the
// model; both are said, and marked on every offering.
func (p *Provider) fetchPrices(ctx context.Context, g, old *catalogue) error {
	onDemand, err := p.fetchOnDemandPrices(ctx)
	switch {
	case err == nil && len(onDemand) > 0:
		g.onDemandMicro, g.onDemandPublished = onDemand, true
	case ctx.Err() != nil:
		return ctx.Err()
	case old != nil && old.onDemandPublished:
		p.log.Warn("on-demand prices not refreshed, those known stay in use", "asOf", old.pricesAt, "error", err)
	default:
		g.onDemandMicro, g.onDemandPublished = map[string]int64{}, p.region == p.builtin.Region
		for i := range p.builtin.Types {
			t := &p.builtin.Types[i]
			for _, o := range t.Offerings {
				if o.CapacityType == model.OnDemand {
					g.onDemandMicro[t.Name] = o.PriceMicro
				}
			}
		}
		p.log.Warn("the price list can't be had: built-in on-demand prices are used", "of", p.builtin.Region, "asOf", p.builtin.PricesAsOf, "error", err)
	}
	spot, err := p.fetchSpotPrices(ctx)
	switch {
	case err == nil && len(spot) > 0:
		g.spotMicro, g.spotModelled = spot, false
	case ctx.Err() != nil:
		return ctx.Err()
	case cloud.KindOf(classifyError(ctx, "", "", err)) == cloud.Throttled && old == nil:
		return err
	case old != nil && !old.spotModelled:
		p.log.Warn("spot prices not refreshed, those known stay in use", "asOf", old.pricesAt, "error", err)
	default:
		g.spotMicro, g.spotModelled = map[string]int64{}, true
		for _, t := range g.types {
			for _, z := range g.zones[t.name] {
				if od := g.onDemandMicro[t.name]; od > 0 && t.spot {
					g.spotMicro[t.name+"/"+z] = catalog.ModelledSpot(od, t.name, z)
				}
			}
		}
		p.log.Warn("spot prices can't be had: a model of them is used", "error", err)
	}
	return nil
}

// maxPageAttempts is how often a page of the market is asked for. The market has dozens of pages: one throttled call must not be the end
// of all that came before it.
const maxPageAttempts = 5

// nextPageWithRetry asks for a page again when it was throttled or the reply was lost. It reads only, and nobody waits for it but those who
// know nothing of the market yet.
func nextPageWithRetry[T, O any](ctx context.Context, p *Provider, next func(context.Context, ...func(*O)) (*T, error)) (*T, error) {
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
		if err := p.clock.Wait(ctx, max(cloud.AfterOf(e), 100*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// priceListEntry is an entry of the price list, as much of it as we read.
type priceListEntry struct {
	Product struct {
		Attributes struct {
			InstanceType string `json:"instanceType"`
		} `json:"attributes"`
	} `json:"product"`
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct {
				PricePerUnit map[string]string `json:"pricePerUnit"`
			} `json:"priceDimensions"`
		} `json:"OnDemand"`
	} `json:"terms"`
}

func (p *Provider) fetchOnDemandPrices(ctx context.Context) (map[string]int64, error) {
	if p.config.IsolatedVPC {
		return nil, fmt.Errorf("the VPC is isolated (ISOLATED_VPC)")
	}
	in := &pricing.GetProductsInput{ServiceCode: sdk.String("AmazonEC2")}
	for _, f := range [][2]string{
		{"regionCode", p.region}, {"operatingSystem", "Linux"}, {"preInstalledSw", "NA"}, {"capacitystatus", "Used"},
		{"marketoption", "OnDemand"}, {"tenancy", "Shared"},
	} {
		in.Filters = append(in.Filters, pricingtypes.Filter{Field: sdk.String(f[0]), Type: pricingtypes.FilterTypeTermMatch, Value: sdk.String(f[1])})
	}
	currency := "USD"
	if strings.HasPrefix(p.region, "cn-") {
		currency = "CNY"
	}
	out := map[string]int64{}
	pages := pricing.NewGetProductsPaginator(p.pricing, in)
	for pages.HasMorePages() {
		page, err := nextPageWithRetry(ctx, p, pages.NextPage)
		if err != nil {
			return nil, err
		}
		for _, text := range page.PriceList {
			var entry priceListEntry
			if err := json.Unmarshal([]byte(text), &entry); err != nil {
				return nil, fmt.Errorf("read the price list: %w", err)
			}
			for _, term := range entry.Terms.OnDemand {
				for _, d := range term.PriceDimensions {
					if micro := parsePriceMicro(d.PricePerUnit[currency]); micro > 0 {
						out[entry.Product.Attributes.InstanceType] = micro
					}
				}
			}
		}
	}
	return out, nil
}

func (p *Provider) fetchSpotPrices(ctx context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	at := map[string]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(p.ec2, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, StartTime: sdk.Time(p.clock.Now()),
	})
	for pages.HasMorePages() {
		page, err := nextPageWithRetry(ctx, p, pages.NextPage)
		if err != nil {
			return nil, err
		}
		for _, s := range page.SpotPriceHistory {
			k := string(s.InstanceType) + "/" + deref(s.AvailabilityZone)
			if micro := parsePriceMicro(deref(s.SpotPrice)); micro > 0 && !deref(s.Timestamp).Before(at[k]) {
				out[k], at[k] = micro, deref(s.Timestamp)
			}
		}
	}
	return out, nil
}

// parsePriceMicro reads a price in dollars; 0 where it is none.
func parsePriceMicro(s string) int64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f <= 0 || math.IsInf(f, 0) {
		return 0
	}
	return max(1, int64(math.Round(f*1e6)))
}
