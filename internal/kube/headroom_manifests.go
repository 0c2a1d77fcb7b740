// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// ListHeadrooms reads the Headrooms of a namespace as they are; of all where it is empty.
func ListHeadrooms(ctx context.Context, c *Client, namespace string) ([]dovetailv1alpha1.Headroom, error) {
	var list dovetailv1alpha1.HeadroomList
	err := c.Dovetail.Get().Namespace(namespace).Resource("headrooms").Do(ctx).Into(&list)
	if isNotFound(err) {
		return nil, fmt.Errorf("API server %s does not serve headrooms.%s: install the CustomResourceDefinitions of charts/dovetail/crds", c.Address, dovetailv1alpha1.Group)
	}
	if err != nil {
		return nil, fmt.Errorf("list headrooms of API server %s: %w", c.Address, err)
	}
	slices.SortFunc(list.Items, func(a, b dovetailv1alpha1.Headroom) int { return cmp.Compare(translate.Key(&a), translate.Key(&b)) })
	return list.Items, nil
}

// ReadHeadrooms reads all Headrooms of a cluster and the workloads that they are for, by namespace and name.
func ReadHeadrooms(ctx context.Context, c *Client, table *state.ResourceTable) ([]headroom.Targeted, error) {
	list, err := ListHeadrooms(ctx, c, "")
	if err != nil {
		return nil, err
	}
	x := NewHeadrooms(c, table, nil)
	var out []headroom.Targeted
	for i := range list {
		c.headrooms.set(translate.Key(&list[i]), &list[i])
		in := headroom.Targeted{Object: x.t.Headroom(&list[i])}
		var problem headroom.Problem
		if in.Targets, err = x.Targets(ctx, &in.Spec); errors.As(err, &problem) {
			in.Problems = append(in.Problems, problem)
		} else if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}
