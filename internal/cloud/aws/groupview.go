// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// groupView is a group and its instances as they were read together.
type groupView struct {
	*scalingGroup
	at        time.Time
	instances map[string]*instance // by id: its instances as EC2 has them, those that have ended included
}

// readGroupView reads a group.
func (gs *groupScaler) readGroupView(ctx context.Context, name string) (*groupView, error) {
	out := &groupView{at: gs.aws.clock.Now(), instances: map[string]*instance{}}
	var wg sync.WaitGroup
	var groupErr, instancesErr error
	wg.Go(func() { out.scalingGroup, groupErr = gs.reader.describeGroup(ctx, name) })
	wg.Go(func() {
		var list []instance
		if list, instancesErr = gs.instances.listMembers(ctx, []string{name}); instancesErr == nil {
			for i := range list {
				out.instances[list[i].id] = &list[i]
			}
		}
	})
	wg.Wait()
	return out, cmp.Or(groupErr, instancesErr)
}
