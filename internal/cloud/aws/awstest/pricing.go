// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"encoding/json"
	"fmt"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// product is an entry of the Price List, which is JSON in JSON and in no service model.
type product struct {
	Product struct {
		ProductFamily string            `json:"productFamily"`
		Attributes    map[string]string `json:"attributes"`
		SKU           string            `json:"sku"`
	} `json:"product"`
	ServiceCode     string                     `json:"serviceCode"`
	Terms           map[string]map[string]term `json:"terms"`
	Version         string                     `json:"version"`
	PublicationDate string                     `json:"publicationDate"`
}

type term struct {
	PriceDimensions map[string]priceDimension `json:"priceDimensions"`
	SKU             string                    `json:"sku"`
	EffectiveDate   string                    `json:"effectiveDate"`
	OfferTermCode   string                    `json:"offerTermCode"`
	TermAttributes  map[string]string         `json:"termAttributes"`
}

type priceDimension struct {
	Unit         string            `json:"unit"`
	Description  string            `json:"description"`
	RateCode     string            `json:"rateCode"`
	PricePerUnit map[string]string `json:"pricePerUnit"`
	BeginRange   string            `json:"beginRange"`
	EndRange     string            `json:"endRange"`
	AppliesTo    []string          `json:"appliesTo"`
}

// getProducts has the on-demand prices of Linux on shared and bare-metal hosts.
func (t *tx) getProducts(in *shapes.PriceGetProductsRequest) (*shapes.PriceGetProductsResponse, error) {
	if in.ServiceCode != "AmazonEC2" {
		return nil, wire.Refuse("NotFoundException", "Service code %q is not simulated; use AmazonEC2", in.ServiceCode)
	}
	if in.FormatVersion != "" && in.FormatVersion != "aws_v1" {
		return nil, wire.Refuse("InvalidParameterException", "Format version %q: use aws_v1", in.FormatVersion)
	}
	type entry struct{ name, text string }
	var all []entry
	for i := range t.catalog.Types {
		it := &t.catalog.Types[i]
		p := t.product(it)
		if p == nil {
			continue
		}
		pass := true
		for _, f := range in.Filters {
			if f.Type != "TERM_MATCH" {
				return nil, wire.Refuse("InvalidParameterException", "Filter type %q is not simulated; use TERM_MATCH", f.Type)
			}
			have := p.Product.Attributes[f.Field]
			switch f.Field {
			case "productFamily":
				have = p.Product.ProductFamily
			case "ServiceCode", "serviceCode", "servicecode":
				have = p.ServiceCode
			}
			pass = pass && have == f.Value
		}
		if !pass {
			continue
		}
		raw, err := json.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("encode the price of %s: %w", it.Name, err)
		}
		all = append(all, entry{it.Name, string(raw)})
	}
	some, next := page(all, func(e entry) string { return e.name }, in.NextToken, in.MaxResults, 100)
	out := &shapes.PriceGetProductsResponse{FormatVersion: "aws_v1", NextToken: next, PriceList: []string{}}
	for _, e := range some {
		out.PriceList = append(out.PriceList, e.text)
	}
	return out, nil
}

func (t *tx) product(it *catalog.Type) *product {
	var micro int64
	for _, o := range it.Offerings {
		if o.CapacityType == model.OnDemand {
			micro = o.PriceMicro
		}
	}
	if micro == 0 {
		return nil
	}
	const published = "2026-07-20T00:00:00Z"
	sku := id("SKU", it.Name)[4:]
	family, tenancy := "Compute Instance", "Shared"
	if len(it.Name) > 6 && it.Labels[catalog.EC2Labels+"instance-hypervisor"] == "" {
		family, tenancy = "Compute Instance (bare metal)", "Dedicated"
	}
	p := &product{ServiceCode: "AmazonEC2", Version: "20260720000000", PublicationDate: published}
	p.Product.SKU, p.Product.ProductFamily = sku, family
	p.Product.Attributes = map[string]string{
		"instanceType": it.Name, "regionCode": t.catalog.Region, "operatingSystem": "Linux", "preInstalledSw": "NA", "capacitystatus": "Used",
		"tenancy": tenancy, "licenseModel": "No License required", "servicecode": "AmazonEC2", "marketoption": "OnDemand", "operation": "RunInstances", "locationType": "AWS Region",
		"vcpu": fmt.Sprint(it.Capacity["cpu"] / 1000), "memory": fmt.Sprintf("%d GiB", it.Capacity["memory"]>>30), "currentGeneration": "Yes",
	}
	if t.catalog.Region == "us-east-1" { // other regions have a prefix and a name that no rule tells
		p.Product.Attributes["location"], p.Product.Attributes["usagetype"] = "US East (N. Virginia)", "BoxUsage:"+it.Name
	}
	const offer, rate = "JRTCKXETXF", "6YS6EN2CT7"
	p.Terms = map[string]map[string]term{"OnDemand": {sku + "." + offer: {
		SKU: sku, EffectiveDate: published, OfferTermCode: offer, TermAttributes: map[string]string{},
		PriceDimensions: map[string]priceDimension{sku + "." + offer + "." + rate: {
			Unit: "Hrs", Description: "$" + usd(micro) + " per On Demand Linux " + it.Name + " Instance Hour", RateCode: sku + "." + offer + "." + rate,
			PricePerUnit: map[string]string{"USD": usd(micro) + "0000"}, BeginRange: "0", EndRange: "Inf", AppliesTo: []string{},
		}},
	}}}
	return p
}
