// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Estimator computes the offerings of pools with EC2NodeClasses without an account: from the spec of the class, the
// status written by a controller, and a catalog. Node sizes are computed by the same code as for a Provider. Data that
// only the account has is assumed, and reported as such.
type Estimator struct {
	source *catalog.Catalog
	cat    *catalogue.Catalogue
	p      *Provider
	known  map[string]*Estimate
}

// Estimate are the estimated offerings of a class.
type Estimate struct {
	Types   []*model.InstanceType
	Unknown []string // assumptions, each as a clause
}

// NewEstimator returns an Estimator for a catalog. resources is the process's table of resource names.
func NewEstimator(c *catalog.Catalog, resources awsapi.Resources) *Estimator {
	a := &awsapi.Account{Clients: &awsapi.Clients{Region: c.Region}, Config: nodeclass.EstimateConfig(), Resources: resources, Clock: cloud.Wall{}, Log: slog.New(slog.DiscardHandler)}
	return &Estimator{
		source: c, cat: catalogue.FromCatalog(c), known: map[string]*Estimate{},
		p: &Provider{aws: a, classes: nodeclass.NewResolver(a, nil), types: offering.NewTypeBuilder(a, &catalogue.NodeMemory{})},
	}
}

// Offerings returns the offerings of a pool with a class. Pools with the same class and the same requirements for
// tenancy and partition share one result. An error describes what to correct in the class.
func (e *Estimator) Offerings(ctx context.Context, pool *model.NodePool, nc cloud.NodeClass, status []byte) (*Estimate, error) {
	c, err := nodeclass.Read("estimate", nc)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return nil, err
	}
	var written awsv1.EC2NodeClassStatus
	if len(status) > 0 {
		if err := json.Unmarshal(status, &written); err != nil {
			return nil, fmt.Errorf("EC2NodeClass %s: status: %w", nc.Name, err)
		}
	}
	r, unknown, err := e.p.classes.Estimate(ctx, c, &written, e.cat)
	if err != nil {
		return nil, err
	}
	rules := placementRulesOf(pool.Requirements, r)
	key := c.Name + " " + rules.tenancy + " " + rules.partition
	if have := e.known[key]; have != nil {
		return have, nil
	}
	out := &Estimate{Unknown: unknown}
	for i, t := range e.cat.Types {
		if o := e.p.buildType(r, e.cat, t, rules); o != nil {
			if takePrices(o.InstanceType, e.source.Types[i].Offerings); len(o.InstanceType.Offerings) > 0 {
				out.Types = append(out.Types, o.InstanceType)
			}
		}
	}
	e.known[key] = out
	return out, nil
}

// takePrices gives a type's offerings the prices of a file, which may differ by zone, and drops those that the file does not have.
func takePrices(it *model.InstanceType, from []model.Offering) {
	it.Offerings = slices.DeleteFunc(it.Offerings, func(o model.Offering) bool {
		return !slices.ContainsFunc(from, func(f model.Offering) bool { return f.Zone == o.Zone && f.CapacityType == o.CapacityType })
	})
	for i := range it.Offerings {
		o := &it.Offerings[i]
		for _, f := range from {
			if f.Zone == o.Zone && f.CapacityType == o.CapacityType {
				o.PriceMicro, o.Modelled, o.Available, o.Remaining = f.PriceMicro, f.Modelled, f.Available, f.Remaining
			}
		}
	}
}
