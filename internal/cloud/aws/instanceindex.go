// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// instanceIndex is what was last listed, and what this process knows better.
type instanceIndex struct {
	aws          *account
	groupNames   func() []string         // Auto Scaling groups whose members are listed, too
	terminations *batcher[string, error] // of machines that are in no group
	turn         contextLock             // who has it may list

	mu       sync.Mutex
	last     *instanceList
	launched map[string]instance  // bought since the last list was asked for
	ended    map[string]time.Time // by instance id: ended by this process, and when
}

func newInstanceIndex(a *account, groupNames func() []string) *instanceIndex {
	x := &instanceIndex{
		aws: a, groupNames: groupNames, turn: newContextLock(), launched: map[string]instance{}, ended: map[string]time.Time{},
	}
	x.terminations = newBatcher(a.clock, 20*time.Millisecond, 500, x.terminateNow)
	return x
}

// addLaunched notes a machine that was bought, or one whose owner has changed, before it is listed so.
func (x *instanceIndex) addLaunched(m instance) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.launched[m.id] = m
}

// hasEnded says whether this process has ended a machine.
func (x *instanceIndex) hasEnded(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.ended[id]
	return ok
}

// markEnded notes that this process has ended a machine: Describe may not show it for a while.
func (x *instanceIndex) markEnded(id string, now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended[id] = now
	for k, t := range x.ended {
		if now.Sub(t) > 2*time.Hour { // EC2 has forgotten it, too
			delete(x.ended, k)
		}
	}
}

// list lists all instances of the cluster, unless that was done since a moment; the zero moment: ever.
func (x *instanceIndex) list(ctx context.Context, since time.Time) (*instanceList, error) {
	known := func() *instanceList {
		x.mu.Lock()
		defer x.mu.Unlock()
		if last := x.last; last != nil && (since.IsZero() || last.at.After(since)) {
			return last
		}
		return nil
	}
	if last := known(); last != nil {
		return last, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, batchTimeout) // who lists keeps all others from it
	defer cancel()
	if err := x.turn.lock(ctx); err != nil {
		return nil, err
	}
	defer x.turn.unlock()
	if last := known(); last != nil { // somebody else's
		return last, nil
	}
	out := &instanceList{at: x.aws.clock.Now(), byUID: map[string][]int{}, byID: map[string]int{}}
	pages := ec2.NewDescribeInstancesPaginator(x.aws.EC2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(1000), Filters: []types.Filter{
		newFilter("tag:kubernetes.io/cluster/"+x.aws.config.ClusterName, "owned"), newFilter("tag-key", awsv1.TagNodeClaim, awsv1.TagNodePool),
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, in := range flattenReservations(page.Reservations) {
			out.all = append(out.all, readInstance(in))
		}
	}
	if names := x.groupNames(); len(names) > 0 {
		members, err := x.listMembers(ctx, names)
		if err != nil {
			return nil, err
		}
		have := map[string]bool{}
		for _, m := range out.all {
			have[m.id] = true
		}
		out.all = append(out.all, slices.DeleteFunc(members, func(m instance) bool { return have[m.id] })...)
	}
	sortByKey(out.all, func(m instance) string { return providerID(m.zone, m.id) })
	x.mu.Lock()
	defer x.mu.Unlock()
	for i := range out.all {
		m := &out.all[i]
		if _, ok := x.ended[m.id]; ok {
			m.gone = true // Describe may not know yet
		}
		out.byID[m.id] = i
		if m.claimUID != "" {
			out.byUID[m.claimUID] = append(out.byUID[m.claimUID], i)
		}
	}
	for id, m := range x.launched {
		if _, listed := out.byID[id]; listed || out.at.Sub(m.launched) > ListDelay {
			delete(x.launched, id)
		}
	}
	x.last = out
	return out, nil
}

// listMembers are the instances of groups, those included that have ended lately.
func (x *instanceIndex) listMembers(ctx context.Context, names []string) ([]instance, error) {
	var out []instance
	for some := range slices.Chunk(names, 200) {
		pages := ec2.NewDescribeInstancesPaginator(x.aws.EC2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(1000), Filters: []types.Filter{newFilter("tag:"+tagGroup, some...)}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, in := range flattenReservations(page.Reservations) {
				out = append(out, readInstance(in))
			}
		}
	}
	return out, nil
}

// groupNamesOf are the groups that machines are members of, by what EC2 lists of them, be their groups known yet or not; empty for one that is in none.
func (x *instanceIndex) groupNamesOf(ctx context.Context, providerIDs []string) ([]string, error) {
	out := make([]string, len(providerIDs))
	find := func(l *instanceList) (missing bool) {
		x.mu.Lock()
		defer x.mu.Unlock()
		for i, id := range providerIDs {
			id := instanceID(id)
			if m, ok := x.launched[id]; ok {
				out[i] = m.autoScalingGroup
			} else if l == nil {
				missing = true
			} else if at, ok := l.byID[id]; ok {
				out[i] = l.all[at].autoScalingGroup
			} else if _, gone := x.ended[id]; !gone && !strings.HasPrefix(providerIDs[i], placeholderPrefix) {
				missing = true
			}
		}
		return missing
	}
	x.mu.Lock()
	last := x.last
	x.mu.Unlock()
	if !find(last) {
		return out, nil
	}
	list, err := x.list(ctx, x.aws.clock.Now())
	if err != nil {
		return nil, err
	}
	find(list)
	return out, nil
}

// maxNoticeListAge is how old a list may be by which an instance counts as none of the cluster's.
const maxNoticeListAge = 5 * time.Second

// findProviderID is the provider id of an instance of the cluster's; empty when it is none.
func (x *instanceIndex) findProviderID(ctx context.Context, id string) (string, error) {
	known := func(l *instanceList) string {
		if l != nil {
			if i, ok := l.byID[id]; ok {
				return providerID(l.all[i].zone, id)
			}
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if m, ok := x.launched[id]; ok {
			return providerID(m.zone, id)
		}
		return ""
	}
	x.mu.Lock()
	last := x.last
	x.mu.Unlock()
	if where := known(last); where != "" {
		return where, nil
	}
	list, err := x.list(ctx, x.aws.clock.Now().Add(-maxNoticeListAge))
	if err != nil {
		return "", err
	}
	return known(list), nil
}

// isRunning says whether an instance that was launched at a moment is there, and not on its way out. One that EC2 does not describe yet is.
func (x *instanceIndex) isRunning(ctx context.Context, id string, launchedAt time.Time) (bool, error) {
	if x.hasEnded(id) {
		return false, nil
	}
	res, err := x.aws.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if errorCode(err) == codeInstanceUnknown {
		return x.aws.clock.Now().Sub(launchedAt) < ListDelay, nil
	}
	if err != nil {
		return false, err
	}
	for _, in := range flattenReservations(res.Reservations) {
		if isEnding(in.State) {
			return false, nil
		}
	}
	return true, nil
}
