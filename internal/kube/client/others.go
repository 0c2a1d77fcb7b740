// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// OtherLeases are the names of the leases of Karpenter and Cluster Autoscaler, in whichever namespace; the chart's ClusterRole lets them be
// listed.
var OtherLeases = []string{"karpenter-leader-election", "cluster-autoscaler"}

const (
	LeaseInterval = 2 * time.Second  // interval between reads of the leases, equal to their renewal interval
	otherLimit    = 5 * time.Second  // a look is given up after this long
	otherLease    = 15 * time.Second // a lease that does not say for how long it is held
	otherSkew     = time.Minute      // a renewal that is older than this and its duration, by its own account, is no sign of life at first sight
	otherTellGap  = time.Minute      // that leases can't be read is told again after this long
)

// Others reports which other autoscalers are running, based on the leases with these names in any namespace except our own:
// once at the start, and after each change, until the context ends. If leases cannot be read, the last state applies; before
// the first read, this counts as one running autoscaler.
func (c *Client) Others(ctx context.Context, names []string, own Lease, tell func(others []string)) {
	seen := Sightings{}
	var last []string
	var complained time.Time
	known := false
	for ctx.Err() == nil {
		leases, err := c.LeasesNamed(ctx, names)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if now.Sub(complained) >= otherTellGap {
				complained = now
				c.Log.Warn("leases of other autoscalers can't be read, trying again", "error", err.Error())
			}
			if !known {
				tell([]string{err.Error()})
			}
		default:
			live := seen.Live(leases, own, now)
			if !known || !slices.Equal(live, last) {
				known, last = true, live
				tell(live)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(LeaseInterval):
		}
	}
}

// LeasesNamed returns the leases with these names in all namespaces.
func (c *Client) LeasesNamed(ctx context.Context, names []string) ([]coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, otherLimit)
	defer cancel()
	var out []coordinationv1.Lease
	for _, name := range names {
		var list coordinationv1.LeaseList
		// From the server's cache: a lease is as old as its last renewal anyway.
		err := c.Coordination.Get().Resource("leases").Param("fieldSelector", "metadata.name="+name).Param("resourceVersion", "0").Do(ctx).Into(&list)
		if apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("list leases named %s: not allowed: apply the chart's ClusterRole, or run with --ignore-other-autoscalers: %w", name, err)
		}
		if err != nil {
			return nil, fmt.Errorf("list leases named %s: %w", name, err)
		}
		out = append(out, list.Items...)
	}
	return out, nil
}

// Sightings are leases by namespace and name. Our own clock decides whether a lease is current, because its holder's may be
// wrong.
type Sightings map[string]sighting

type sighting struct {
	holder  string
	renewed time.Time // by its holder's clock
	changed time.Time // by ours: when holder or renewal was last seen to change
}

// Live returns descriptions of the leases that have a holder and were renewed within their duration.
func (s Sightings) Live(leases []coordinationv1.Lease, own Lease, now time.Time) []string {
	var out []string
	there := map[string]bool{}
	for _, l := range leases {
		key := l.Namespace + "/" + l.Name
		there[key] = true
		duration := otherLease
		if d := l.Spec.LeaseDurationSeconds; d != nil && *d > 0 {
			duration = time.Duration(*d) * time.Second
		}
		is := sighting{changed: now}
		if l.Spec.HolderIdentity != nil {
			is.holder = *l.Spec.HolderIdentity
		}
		if l.Spec.RenewTime != nil {
			is.renewed = l.Spec.RenewTime.Time
		}
		switch was, ok := s[key]; {
		case ok && was.holder == is.holder && was.renewed.Equal(is.renewed):
			is.changed = was.changed
		case !ok && is.renewed.Add(duration+otherSkew).Before(now):
			is.changed = time.Time{} // left behind long ago
		}
		s[key] = is
		if is.holder != "" && now.Before(is.changed.Add(duration)) && key != own.Namespace+"/"+own.Name {
			out = append(out, "lease "+key+" is held by "+is.holder)
		}
	}
	for key := range s {
		if !there[key] {
			delete(s, key)
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
