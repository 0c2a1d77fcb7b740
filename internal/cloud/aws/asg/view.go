// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
)

// view is a group and its instances as they were read together. group is nil when AWS has none of the name.
type view struct {
	*group
	at        time.Time
	instances map[string]*instances.Instance // by id: its instances as EC2 has them, those that have ended included
}

// readGroupView reads a group and its instances, now.
func (gs *scaler) readGroupView(ctx context.Context, name string) (*view, error) {
	out := &view{at: gs.aws.Clock.Now(), instances: map[string]*instances.Instance{}}
	var wg sync.WaitGroup
	var groupErr, instancesErr error
	wg.Go(func() { out.group, groupErr = gs.reader.describeGroup(ctx, name) })
	wg.Go(func() {
		var list []instances.Instance
		if list, instancesErr = gs.instances.ListMembers(ctx, []string{name}); instancesErr == nil {
			for i := range list {
				out.instances[list[i].ID] = &list[i]
			}
		}
	})
	wg.Wait()
	return out, cmp.Or(groupErr, instancesErr)
}
