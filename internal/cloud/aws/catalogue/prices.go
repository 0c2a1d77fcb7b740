// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalogue

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// fetchPrices fetches prices into g. Where the price list can't be had the known prices stay, or the built-in ones
// are used, and where spot prices can't be had, those known or a model of them. It is logged, and every offering is
// marked.
func (s *Store) fetchPrices(ctx context.Context, g, old *Catalogue) error {
	onDemand, err := s.fetchOnDemandPrices(ctx)
	switch {
	case err == nil && len(onDemand) > 0:
		g.OnDemandMicro, g.OnDemandPublished = onDemand, true
	case ctx.Err() != nil:
		return ctx.Err()
	case old != nil && old.OnDemandPublished:
		s.aws.Log.Warn("on-demand prices not refreshed; the last known stay in use", "asOf", old.pricesAt, "error", err)
	default:
		g.OnDemandMicro, g.OnDemandPublished = map[string]int64{}, s.aws.Region == s.builtin.Region
		for i := range s.builtin.Types {
			t := &s.builtin.Types[i]
			for _, o := range t.Offerings {
				if o.CapacityType == model.OnDemand {
					g.OnDemandMicro[t.Name] = o.PriceMicro
				}
			}
		}
		s.aws.Log.Warn("the price list is unavailable: using built-in on-demand prices", "of", s.builtin.Region, "asOf", s.builtin.PricesAsOf, "error", err)
	}
	spot, err := s.fetchSpotPrices(ctx)
	switch {
	case err == nil && len(spot) > 0:
		g.SpotMicro, g.SpotModelled = spot, false
	case ctx.Err() != nil:
		return ctx.Err()
	case cloud.KindOf(awsapi.ClassifyError(ctx, "", "", err)) == cloud.Throttled && old == nil:
		return err
	case old != nil && !old.SpotModelled:
		s.aws.Log.Warn("spot prices not refreshed; the last known stay in use", "asOf", old.pricesAt, "error", err)
	default:
		g.SpotMicro, g.SpotModelled = map[string]int64{}, true
		for _, t := range g.Types {
			for _, z := range g.Zones[t.Name] {
				if od := g.OnDemandMicro[t.Name]; od > 0 && t.Spot {
					g.SpotMicro[t.Name+"/"+z] = catalog.ModelledSpot(od, t.Name, z)
				}
			}
		}
		s.aws.Log.Warn("spot prices are unavailable: using estimates", "error", err)
	}
	return nil
}

// priceListEntry is an entry of the price list, as much of it as is read.
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

// fetchOnDemandPrices are the on-demand prices of Linux machines by type, in micro-dollars an hour, or in micro-yuan
// in China. Bare metal is listed with tenancy Dedicated, for a whole machine is one customer's.
func (s *Store) fetchOnDemandPrices(ctx context.Context) (map[string]int64, error) {
	if s.aws.Config.IsolatedVPC {
		return nil, fmt.Errorf("the VPC is isolated (ISOLATED_VPC)")
	}
	out := map[string]int64{}
	for _, tenancy := range [][][2]string{
		{{"tenancy", "Dedicated"}, {"productFamily", "Compute Instance (bare metal)"}},
		{{"tenancy", "Shared"}},
	} {
		if err := s.addOnDemandPrices(ctx, out, tenancy); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addOnDemandPrices adds to prices by type, in micro-dollars an hour, those that the price list has of Linux on demand under
// further filters, pairs of a field and its value.
func (s *Store) addOnDemandPrices(ctx context.Context, prices map[string]int64, further [][2]string) error {
	in := &pricing.GetProductsInput{ServiceCode: sdk.String("AmazonEC2")}
	for _, f := range append([][2]string{
		{"regionCode", s.aws.Region}, {"operatingSystem", "Linux"}, {"preInstalledSw", "NA"}, {"capacitystatus", "Used"}, {"marketoption", "OnDemand"},
	}, further...) {
		in.Filters = append(in.Filters, pricingtypes.Filter{Field: sdk.String(f[0]), Type: pricingtypes.FilterTypeTermMatch, Value: sdk.String(f[1])})
	}
	currency := "USD"
	if strings.HasPrefix(s.aws.Region, "cn-") {
		currency = "CNY"
	}
	pages := pricing.NewGetProductsPaginator(s.aws.Pricing, in)
	for pages.HasMorePages() {
		page, err := nextPageWithRetry(ctx, s.aws.Clock, pages.NextPage)
		if err != nil {
			return err
		}
		for _, text := range page.PriceList {
			var entry priceListEntry
			if err := json.Unmarshal([]byte(text), &entry); err != nil {
				return fmt.Errorf("read the price list: %w", err)
			}
			for _, term := range entry.Terms.OnDemand {
				for _, d := range term.PriceDimensions {
					if micro := parsePriceMicro(d.PricePerUnit[currency]); micro > 0 {
						prices[entry.Product.Attributes.InstanceType] = micro
					}
				}
			}
		}
	}
	return nil
}

// fetchSpotPrices returns the latest spot prices of Linux machines by "type/zone", in micro-dollars per hour.
func (s *Store) fetchSpotPrices(ctx context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	at := map[string]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(s.aws.EC2, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, StartTime: sdk.Time(s.aws.Clock.Now()),
	})
	for pages.HasMorePages() {
		page, err := nextPageWithRetry(ctx, s.aws.Clock, pages.NextPage)
		if err != nil {
			return nil, err
		}
		for _, s := range page.SpotPriceHistory {
			k := string(s.InstanceType) + "/" + awsapi.Deref(s.AvailabilityZone)
			if micro := parsePriceMicro(awsapi.Deref(s.SpotPrice)); micro > 0 && !awsapi.Deref(s.Timestamp).Before(at[k]) {
				out[k], at[k] = micro, awsapi.Deref(s.Timestamp)
			}
		}
	}
	return out, nil
}

// mostPriceMicro is more than the price of any machine, in micro-dollars per hour.
const mostPriceMicro = 1_000_000 * 1_000_000

// parsePriceMicro reads a price in dollars as micro-dollars, at least 1; 0 for a text that is no price above zero and up
// to mostPriceMicro.
func parsePriceMicro(s string) int64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f > 0 && f*1e6 <= mostPriceMicro) { // NaN is neither
		return 0
	}
	return max(1, int64(math.Round(f*1e6)))
}

// maxPageAttempts is the maximum number of attempts per page of types or prices. There are dozens of pages, and one
// throttled call must not discard all earlier ones.
const maxPageAttempts = 5

// nextPageWithRetry fetches a page, and retries if it was throttled or had no response. It only reads, and its only
// waiting callers have no catalogue yet.
func nextPageWithRetry[T, O any](ctx context.Context, clock cloud.Clock, next func(context.Context, ...func(*O)) (*T, error)) (*T, error) {
	for try := 1; ; try++ {
		page, err := next(ctx)
		if err == nil {
			return page, nil
		}
		e := awsapi.ClassifyError(ctx, "", "", err)
		kind := cloud.KindOf(e)
		if try == maxPageAttempts || ctx.Err() != nil || kind != cloud.Throttled && kind != cloud.Unknown {
			return nil, err
		}
		if err := clock.Wait(ctx, max(cloud.AfterOf(e), 100*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}
