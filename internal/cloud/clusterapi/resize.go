// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// sized is a group as it was read for a change.
type sized struct {
	object   *object
	resource string
	machines []object
}

// readForChange reads a group that may be changed now. An error says why it may not be.
func (s *server) readForChange(ctx context.Context, group string) (*sized, error) {
	o, resource, err := s.find(ctx, group)
	if err != nil {
		return nil, err
	}
	owner, err := s.get(ctx, resourceClusters, s.name)
	if err != nil {
		return nil, err
	}
	if why := cmp.Or(s.paused(resource, o, owner), s.managed(resource, o, owner)); why != "" {
		return nil, &nodegroups.CallError{Kind: cloud.NotReady, Err: errors.New(why)}
	}
	machines, err := s.machinesOf(ctx, resource, o)
	return &sized{o, resource, machines}, err
}

// write changes a group's size and notes which Machines that size does not count. The write holds only for what was read.
func (s *server) write(ctx context.Context, g *sized, replicas int64, removed []string) error {
	removed = slices.DeleteFunc(slices.Clone(removed), func(uid string) bool {
		return !slices.ContainsFunc(g.machines, func(m object) bool { return string(m.Metadata.UID) == uid })
	})
	var note any // nil takes the annotation away
	if len(removed) > 0 {
		slices.Sort(removed)
		note = strings.Join(slices.Compact(removed), ",")
	}
	return s.patch(ctx, g.resource, g.object.Metadata.Name, map[string]any{
		"metadata": map[string]any{"resourceVersion": g.object.Metadata.ResourceVersion, "annotations": map[string]any{annotationRemoved: note}},
		"spec":     map[string]any{"replicas": replicas},
	})
}

// change computes and applies a change of a group, and retries on conflicts.
func (s *server) change(ctx context.Context, group string, do func(*sized) error) error {
	var err error
	for range writes {
		var g *sized
		if g, err = s.readForChange(ctx, group); err != nil {
			return err
		}
		if err = do(g); !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// Raise implements nodegroups.Server. While a Machine that the size does not count is not being deleted, the group
// waits, because raising the size to the number of Machines would keep that Machine.
func (s *server) Raise(ctx context.Context, group string, _, to int64) error {
	return s.change(ctx, group, func(g *sized) error {
		for i := range g.machines {
			if m := &g.machines[i]; m.isRemoved(g.object) && m.Metadata.DeletionTimestamp == nil {
				if g.isStuck() {
					if err := s.remove(ctx, g, nil); err != nil {
						return err
					}
				}
				return &nodegroups.CallError{Kind: cloud.Throttled, After: throttlePause, Err: fmt.Errorf("%s %s/%s is scaled up when the deletion of Machine %s has started", kindOf(g.resource), s.namespace, group, m.Metadata.Name)}
			}
		}
		if g.object.replicas() >= to {
			return nil
		}
		return s.write(ctx, g, to, removedOf(g.object))
	})
}

// isStuck reports whether Cluster API has no Machine left to delete to reach the size of the group, because another
// client deleted one instead of one that the size does not count.
func (g *sized) isStuck() bool { return isStuck(g.object, len(g.machines)) }

func isStuck(o *object, machines int) bool { return int64(machines) <= o.replicas() }

// isRemoved reports whether the size of its group does not count a Machine.
func (o *object) isRemoved(group *object) bool {
	return slices.Contains(removedOf(group), string(o.Metadata.UID))
}

// Lower implements nodegroups.Server, for Machines without a provider ID.
func (s *server) Lower(ctx context.Context, group string, by int64) error {
	return s.change(ctx, group, func(g *sized) error {
		var pick []*object
		for i := range g.machines {
			if m := &g.machines[i]; int64(len(pick)) < by && m.Spec.ProviderID == "" && m.Metadata.DeletionTimestamp == nil && !m.isRemoved(g.object) {
				pick = append(pick, m)
			}
		}
		if int64(len(pick)) < by {
			return &nodegroups.CallError{Kind: cloud.Unknown, Err: fmt.Errorf("%s %s/%s: %d of %d unneeded Machines do not exist yet", kindOf(g.resource), s.namespace, group, by-int64(len(pick)), by)}
		}
		return s.remove(ctx, g, pick)
	})
}

// End implements nodegroups.Server.
func (s *server) End(ctx context.Context, group string, ids []string) error {
	return s.change(ctx, group, func(g *sized) error {
		if isRollingOut(g.object) { // whether old or new Machines would go is not known
			return &nodegroups.CallError{Kind: cloud.NotReady, Err: fmt.Errorf("%s %s/%s is rolling out; its Machines are removed when the rollout completes", kindOf(g.resource), s.namespace, group)}
		}
		var pick []*object
		for i := range g.machines {
			if m := &g.machines[i]; slices.Contains(ids, s.idOf(m)) && m.Metadata.DeletionTimestamp == nil && (!m.isRemoved(g.object) || g.isStuck()) {
				pick = append(pick, m)
			}
		}
		if len(pick) == 0 {
			return nil // they are on their way out, or gone
		}
		return s.remove(ctx, g, pick)
	})
}

// remove marks Machines and makes their group as large as the number of Machines that stay: without those, those that the size did not count
// before, and those that somebody else deletes. Cluster API counts Machines on their way out, then takes marked ones, so no other may be
// marked, and none may be about to be created.
func (s *server) remove(ctx context.Context, g *sized, pick []*object) error {
	if int64(len(g.machines)) < g.object.replicas() {
		return &nodegroups.CallError{Kind: cloud.Throttled, After: throttlePause, Err: fmt.Errorf("%s %s/%s has %d of %d Machines; it is scaled down when the others exist", kindOf(g.resource), s.namespace, g.object.Metadata.Name, len(g.machines), g.object.replicas())}
	}
	var stay int64
	var removed []string
	for i := range g.machines {
		m := &g.machines[i]
		value, marked := m.Metadata.Annotations[annotationDelete]
		switch {
		case m.Metadata.DeletionTimestamp != nil || m.isRemoved(g.object) || slices.Contains(pick, m):
			removed = append(removed, string(m.Metadata.UID))
			continue
		case marked && value != deletedBy:
			//lint:ignore ST1005 it begins with a kind
			return &nodegroups.CallError{Kind: cloud.Denied, Err: fmt.Errorf("Machine %s/%s: annotation %s, which Dovetail did not set: Cluster API might delete it instead of another; remove the annotation, or delete the Machine", s.namespace, m.Metadata.Name, annotationDelete)}
		case marked: // left from before: its size was not lowered
			if err := s.mark(ctx, m, nil); err != nil {
				return err
			}
		}
		stay++
	}
	for _, m := range pick {
		if m.Metadata.Annotations[annotationDelete] == deletedBy {
			continue
		}
		if err := s.mark(ctx, m, deletedBy); err != nil {
			return err
		}
	}
	return s.write(ctx, g, min(stay, g.object.replicas()), removed)
}

// mark sets the annotation of a Machine by which Cluster API deletes it first; nil takes it away.
func (s *server) mark(ctx context.Context, m *object, value any) error {
	return s.patch(ctx, resourceMachines, m.Metadata.Name, map[string]any{
		"metadata": map[string]any{"uid": m.Metadata.UID, "annotations": map[string]any{annotationDelete: value}},
	})
}
