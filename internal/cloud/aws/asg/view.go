// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
)

// view is a group and its instances as they were read together. group is nil when AWS has none of the name.
type view struct {
	*group
	at        time.Time
	instances map[string]*instances.Instance // by id: its instances as EC2 has them, those that have ended included
	read      bool                           // the instances were read
}

// readGroupView reads a group and its instances, now.
func (gs *scaler) readGroupView(ctx context.Context, name string) (*view, error) {
	v := &view{at: gs.aws.Clock.Now(), instances: map[string]*instances.Instance{}}
	var err error
	if v.group, err = gs.reader.describeGroup(ctx, name); err != nil || v.group == nil {
		return v, err
	}
	return v, gs.readInstances(ctx, v)
}

// readChangedView is readGroupView without the instances if this process has matched every member of the group to a claim that waits no longer: what EC2
// says of those changes no match.
func (gs *scaler) readChangedView(ctx context.Context, s *groupState) (*view, error) {
	v := &view{at: gs.aws.Clock.Now(), instances: map[string]*instances.Instance{}}
	var err error
	if v.group, err = gs.reader.describeGroup(ctx, s.name); err != nil || v.group == nil {
		return v, err
	}
	waits := map[string]bool{"": true} // whose member is to be read; the empty uid: that of one which is nobody's
	for _, a := range s.openClaims() {
		waits[a.uid] = true
	}
	if !slices.ContainsFunc(v.members, func(m member) bool { return waits[s.matched[m.id]] }) {
		return v, nil
	}
	return v, gs.readInstances(ctx, v)
}

// readInstances reads the instances of a group into its view, unless they are there.
func (gs *scaler) readInstances(ctx context.Context, v *view) error {
	if v.read || len(v.members)+len(v.leaving) == 0 {
		return nil
	}
	list, err := gs.reader.describeMembers(ctx, v.name)
	if err != nil {
		return err
	}
	v.read = true
	for i := range list {
		v.instances[list[i].ID] = &list[i]
	}
	return nil
}
