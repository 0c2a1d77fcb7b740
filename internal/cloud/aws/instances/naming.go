// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package instances

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// nameInterval is the interval at which instances without a name are searched. nameCallInterval is the pause between
// requests, which share a rate limit with launches.
const (
	nameInterval     = 10 * time.Second
	nameCallInterval = time.Second
)

// WatchNames sets the tag Name of instances launched for a NodeClaim to the name of their node, until the context ends.
// It uses the last list, skips instances that have the tag, and retries failures with the next list. Members of Auto
// Scaling groups get names from the tags of their group.
func (x *Index) WatchNames(ctx context.Context) {
	named := map[string]bool{} // in the list or since
	denied := false
	for x.aws.Clock.Wait(ctx, nameInterval) == nil {
		x.mu.Lock()
		last := x.last
		x.mu.Unlock()
		if last == nil {
			continue
		}
		for i := range last.All {
			m := &last.All[i]
			if m.Named || m.Gone || m.AutoScalingGroup != "" || m.ClaimUID == "" || m.PrivateName == "" || named[m.ID] || x.hasEnded(m.ID) {
				continue
			}
			err := x.giveName(ctx, m)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil || awsapi.ErrorCode(err) == awsapi.CodeInstanceUnknown:
				named[m.ID] = true
			case !denied:
				denied = awsapi.IsDenied(awsapi.ErrorCode(err))
				x.aws.Log.Warn("tag Name of an instance was not set, trying again; allow ec2:CreateTags", "instance", m.ID, "error", awsapi.ReadableError(err))
			}
			if x.aws.Clock.Wait(ctx, nameCallInterval) != nil {
				return
			}
		}
		for id := range named {
			if _, listed := last.ByID[id]; !listed {
				delete(named, id)
			}
		}
	}
}

// giveName writes the tag Name of one instance.
func (x *Index) giveName(ctx context.Context, m *Instance) error {
	ctx, cancel := context.WithTimeout(ctx, awsapi.BatchTimeout)
	defer cancel()
	key := tagName
	_, err := x.aws.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{m.ID}, Tags: []types.Tag{{Key: &key, Value: &m.PrivateName}}})
	return err
}
