// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"time"

	"github.com/dovetail-sh/dovetail/internal/groupstatus"
)

// GroupStatus writes the status of node groups for readers of Cluster Autoscaler's status.
type GroupStatus interface {
	// StatusObject returns the ConfigMap of the status; its UID is empty before the first write.
	StatusObject() (namespace, name, uid string)
	StoreGroupStatus(context.Context, *groupstatus.Status) error
}

const (
	groupStatusEvery  = 10 * time.Second // the status is written at most this often, and where it says something new
	groupStatusAtMost = time.Minute      // or this long after it was written last, so that readers see that somebody is at work
	groupStatusLimit  = 5 * time.Second  // of one call
)

// keepGroupStatus writes the status of node groups until the context ends, where there are any. While another autoscaler is
// live, which may write its own there, nothing is written: the context ends then, or a step tells that pools are divided.
func (c *Controller) keepGroupStatus(ctx context.Context) {
	if c.GroupStatus == nil {
		return
	}
	var last *groupstatus.Status
	var written time.Time
	failed := ""
	tick := time.NewTicker(groupStatusEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		v := c.view.Load()
		if v == nil || v.Divided {
			continue
		}
		groups := v.NodeGroups()
		if len(groups) == 0 {
			continue
		}
		now := time.Now()
		next := groupstatus.Build(v.ObserveGroups(groups, now), last, now)
		if last != nil && groupstatus.SaysSame(last, next) && now.Sub(written) < groupStatusAtMost {
			continue
		}
		call, cancel := context.WithTimeout(ctx, groupStatusLimit)
		err := c.GroupStatus.StoreGroupStatus(call, next)
		cancel()
		if err != nil {
			if ctx.Err() == nil && err.Error() != failed {
				failed = err.Error()
				namespace, name, _ := c.GroupStatus.StatusObject()
				c.Log.Warn("the status of node groups can't be written, trying again; 'dovetail manifests --group-status' prints the missing permissions, --write-status-configmap=false disables the status",
					"configmap", namespace+"/"+name, "error", failed)
			}
			continue
		}
		last, written, failed = next, now, ""
	}
}
