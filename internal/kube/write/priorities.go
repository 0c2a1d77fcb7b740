// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"errors"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
)

// ranks are the priorities of node groups in the ConfigMap, or its last valid contents.
type ranks struct {
	mu    sync.Mutex
	known bool // it was read, or is not there
	list  []dovetailv1alpha1.NodeGroupPriority
}

func (r *ranks) set(list []dovetailv1alpha1.NodeGroupPriority) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.list = true, list
}

func (r *ranks) get() (list []dovetailv1alpha1.NodeGroupPriority, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, r.known
}

// followPriorities reads the ConfigMap that ranks groups, and each change of it. Of one that can't be read is told why, and what was read
// last stays in force; without one no group is preferred, as with Cluster Autoscaler.
func (d *Discovery) followPriorities(ctx context.Context) {
	where := d.Priorities + "/" + translate.PriorityConfigMap
	watch.ConfigMap(ctx, d.c, d.Priorities, translate.PriorityConfigMap, func(m *corev1.ConfigMap) {
		text, ok := m.Data[translate.PriorityKey]
		list, err := translate.ParsePriorities(text)
		if !ok {
			err = errors.New("it is missing")
		}
		if err != nil {
			said := "data." + translate.PriorityKey + ": " + err.Error() + "; the last valid priorities stay in effect"
			d.Log.Warn("priorities of node groups can't be read", "configmap", where, "what", said)
			d.Tell("ConfigMap", m.Namespace, m.Name, string(m.UID), true, "PriorityConfigMapInvalid", said)
			return
		}
		d.ranks.set(list)
		d.Log.Info("priorities of node groups read", "configmap", where, "priorities", len(list))
		d.c.Seen.GroupsChanged.Raise()
	}, func() {
		d.ranks.set(nil)
		d.Log.Warn("the priority expander's ConfigMap is missing: no node group is preferred", "configmap", where)
		d.c.Seen.GroupsChanged.Raise()
	})
}

// weights are those of the pools of groups by group, and whether they are the ConfigMap's rather than the user's. Before one could be read
// they are those that the pools have: what was read by the process before.
func (d *Discovery) weights() (map[string]int32, bool, error) {
	if d.Priorities == "" {
		return nil, false, nil
	}
	if list, known := d.ranks.get(); known {
		out, err := translate.GroupWeights(d.groups, list)
		return out, true, err
	}
	out := map[string]int32{}
	for _, pool := range d.c.Seen.Pools.Sorted() {
		if w := pool.Spec.Weight; w != nil && translate.IsDiscovered(pool) {
			for name := range strings.SplitSeq(pool.Annotations[dovetailv1alpha1.AnnotationGroups], ",") {
				out[name] = *w
			}
		}
	}
	return out, true, nil
}
