// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"context"
	"fmt"
	"slices"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// EstimateConfig returns the configuration for use without an account: defaults for the flags of the controller and for
// the data read from EKS.
func EstimateConfig() awsapi.Config {
	c := awsapi.DefaultConfig()
	c.ClusterName, c.KubeletExpressions = "cluster", true
	return c
}

// Estimate resolves a class from its spec and from a status written by a controller, without requests to AWS. For data
// that only the account has, it assumes everything in the catalog. unknown lists these assumptions, each as a clause. An
// error describes what to correct in the class.
func (cr *Resolver) Estimate(ctx context.Context, c *Class, status *awsv1.EC2NodeClassStatus, cat *catalogue.Catalogue) (r *Resolved, unknown []string, err error) {
	r = &Resolved{Class: c, Problems: map[string]model.Condition{}, Profile: c.Spec.Role}
	// Only for user data, whose size is checked.
	r.Cluster = Cluster{Endpoint: "https://cluster.example", CIDR: "10.100.0.0/16", DNS: "10.100.0.10"}
	if r.Subnets = estimateSubnets(status, cat); len(status.Subnets) == 0 {
		unknown = append(unknown, "zones of its subnets: all zones of the catalog are assumed")
	}
	known := true
	if r.Images, known = c.estimateImages(status); !known {
		unknown = append(unknown, "AMIs that spec.amiSelectorTerms select: one per architecture is assumed")
	}
	if len(c.Spec.CapacityReservationSelectorTerms) > 0 {
		unknown = append(unknown, "its capacity reservations and their free capacity: none is assumed")
	}
	if c.Spec.PlacementGroupSelector != nil {
		unknown = append(unknown, "its placement group: none is counted")
	}
	if e := c.Spec.EnclaveOptions; e != nil && e.Enabled {
		unknown = append(unknown, "Nitro Enclaves support: assumed for all instance types")
	}
	if len(c.KubeletConfig.expressions) > 0 {
		unknown = append(unknown, "feature gate NodeClassCEL, required by the expressions in spec.kubelet: assumed to be on")
	}
	if bad := cr.Validate(r); bad.Status != "" {
		return nil, nil, fmt.Errorf("EC2NodeClass %s: %s", c.Name, bad.Message)
	}
	if r.Kubelets, err = cr.EvaluateKubelet(ctx, c, cat); err != nil {
		return nil, nil, fmt.Errorf("EC2NodeClass %s: %w", c.Name, err)
	}
	return r, unknown, nil
}

// estimateSubnets returns a subnet without limits in each zone of the status, in all zones of the catalog if the status
// has none.
func estimateSubnets(status *awsv1.EC2NodeClassStatus, cat *catalogue.Catalogue) (out []*Subnet) {
	add := func(zone, id string) {
		if !slices.ContainsFunc(out, func(s *Subnet) bool { return s.Zone == zone }) {
			out = append(out, &Subnet{ID: "subnet-" + zone, Zone: zone, ZoneID: id, Free: 1 << 30})
		}
	}
	for _, s := range status.Subnets {
		add(s.Zone, s.ZoneID)
	}
	if len(out) == 0 {
		for _, zones := range cat.Zones {
			for _, z := range zones {
				add(z, "")
			}
		}
	}
	slices.SortFunc(out, func(a, b *Subnet) int { return strings.Compare(a.Zone, b.Zone) })
	return out
}

// estimateImages returns the images that the status names, or else those that an alias stands for. known is false where neither tells:
// then there is one image that every type boots from.
func (c *Class) estimateImages(status *awsv1.EC2NodeClassStatus) (out []Image, known bool) {
	for _, a := range status.AMIs {
		im := Image{ID: a.ID, name: a.Name, deprecated: a.Deprecated}
		for _, r := range a.Requirements {
			q, err := model.NewRequirement(r.Key, model.Operator(r.Operator), r.Values...)
			if err != nil {
				continue // written by a controller, so it can be read
			}
			im.Requirements = im.Requirements.With(q)
		}
		out = append(out, im)
	}
	if len(out) > 0 {
		return out, true
	}
	if family, version := c.Spec.Alias(); family != "" {
		for _, v := range aliasImages(family, version, "") {
			out = append(out, Image{ID: v.parameter, Requirements: v.requirements})
		}
		return out, true
	}
	return []Image{{ID: "ami-unknown"}}, false
}
