// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package instances

import (
	"context"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// AddLaunched adds a launched machine, or one with a changed owner, before it is listed so.
func (x *Index) AddLaunched(m Instance) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.launched[m.ID] = m
}

// hasEnded reports whether this process has terminated a machine.
func (x *Index) hasEnded(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.ended[id]
	return ok
}

// List returns all instances of the cluster: the last list if it was requested after since or since is zero, otherwise a
// new one. Concurrent callers share the new list.
func (x *Index) List(ctx context.Context, since time.Time) (*List, error) {
	known := func() *List {
		x.mu.Lock()
		defer x.mu.Unlock()
		if last := x.last; last != nil && (since.IsZero() || last.At.After(since)) {
			return last
		}
		return nil
	}
	if last := known(); last != nil {
		return last, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, awsapi.BatchTimeout) // who lists keeps all others from it
	defer cancel()
	if err := x.turn.Acquire(ctx); err != nil {
		return nil, err
	}
	defer x.turn.Release()
	if last := known(); last != nil { // somebody else's
		return last, nil
	}
	out := &List{At: x.aws.Clock.Now(), byUID: map[string][]int{}, ByID: map[string]int{}}
	pages := ec2.NewDescribeInstancesPaginator(x.aws.EC2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(1000), Filters: []types.Filter{
		awsapi.NewFilter("tag:kubernetes.io/cluster/"+x.aws.Config.ClusterName, "owned"), awsapi.NewFilter("tag-key", awsv1.TagNodeClaim, awsv1.TagNodePool),
	}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, in := range FlattenReservations(page.Reservations) {
			out.All = append(out.All, ReadInstance(in))
		}
	}
	if names := x.groupNames(); len(names) > 0 {
		members, err := x.ListMembers(ctx, names)
		if err != nil {
			return nil, err
		}
		have := map[string]bool{}
		for _, m := range out.All {
			have[m.ID] = true
		}
		out.All = append(out.All, slices.DeleteFunc(members, func(m Instance) bool { return have[m.ID] })...)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.keepUnlisted(out)
	awsapi.SortByKey(out.All, func(m Instance) string { return ProviderID(m.Zone, m.ID) })
	for i := range out.All {
		m := &out.All[i]
		if _, ok := x.ended[m.ID]; ok {
			m.Gone = true // Describe may not know yet
		}
		out.ByID[m.ID] = i
		if m.ClaimUID != "" {
			out.byUID[m.ClaimUID] = append(out.byUID[m.ClaimUID], i)
		}
	}
	for id, m := range x.launched {
		if _, listed := out.ByID[id]; listed || out.At.Sub(m.Launched) > ListDelay {
			delete(x.launched, id)
		}
	}
	x.last = out
	return out, nil
}

// keepUnlisted adds to a list the instances of the last one that are missing in it and stand in a zone which the cluster is shifted away
// from: EC2 may leave out what it does not reach, and an instance counts as gone only when EC2 says that it has ended. The caller holds mu.
func (x *Index) keepUnlisted(list *List) {
	if x.last == nil {
		return
	}
	have := map[string]bool{}
	for i := range list.All {
		have[list.All[i].ID] = true
	}
	for _, m := range x.last.All {
		if _, ended := x.ended[m.ID]; !have[m.ID] && !m.Gone && !ended && x.inShiftedZone(m.Zone) {
			list.All = append(list.All, m)
		}
	}
}

// ListMembers returns the current instances of Auto Scaling groups, including recently terminated ones.
func (x *Index) ListMembers(ctx context.Context, names []string) ([]Instance, error) {
	var out []Instance
	for some := range slices.Chunk(names, 200) {
		pages := ec2.NewDescribeInstancesPaginator(x.aws.EC2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(1000), Filters: []types.Filter{awsapi.NewFilter("tag:"+tagGroup, some...)}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, in := range FlattenReservations(page.Reservations) {
				out = append(out, ReadInstance(in))
			}
		}
	}
	return out, nil
}

// GroupNamesOf returns the Auto Scaling groups of machines, in the order of their provider IDs, whether or not a class
// selects the groups; empty for a machine without a group. It makes no requests for placeholders and terminated
// machines.
func (x *Index) GroupNamesOf(ctx context.Context, providerIDs []string) ([]string, error) {
	out := make([]string, len(providerIDs))
	find := func(l *List) (missing bool) {
		x.mu.Lock()
		defer x.mu.Unlock()
		for i, id := range providerIDs {
			id := InstanceID(id)
			if m, ok := x.launched[id]; ok {
				out[i] = m.AutoScalingGroup
			} else if l == nil {
				missing = true
			} else if at, ok := l.ByID[id]; ok {
				out[i] = l.All[at].AutoScalingGroup
			} else if _, gone := x.ended[id]; !gone && !strings.HasPrefix(providerIDs[i], PlaceholderPrefix) {
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
	list, err := x.List(ctx, x.aws.Clock.Now())
	if err != nil {
		return nil, err
	}
	find(list)
	return out, nil
}

// maxNoticeListAge is how old a list may be by which an instance counts as not being the cluster's.
const maxNoticeListAge = 5 * time.Second

// FindProviderID returns the provider ID of an instance of the cluster; empty if the instance does not belong to the
// cluster.
func (x *Index) FindProviderID(ctx context.Context, id string) (string, error) {
	known := func(l *List) string {
		if l != nil {
			if i, ok := l.ByID[id]; ok {
				return ProviderID(l.All[i].Zone, id)
			}
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		if m, ok := x.launched[id]; ok {
			return ProviderID(m.Zone, id)
		}
		return ""
	}
	x.mu.Lock()
	last := x.last
	x.mu.Unlock()
	if where := known(last); where != "" {
		return where, nil
	}
	list, err := x.List(ctx, x.aws.Clock.Now().Add(-maxNoticeListAge))
	if err != nil {
		return "", err
	}
	return known(list), nil
}

// IsRunning reports whether an instance launched at launchedAt exists and is not being terminated. It returns true while
// EC2 does not describe it yet.
func (x *Index) IsRunning(ctx context.Context, id string, launchedAt time.Time) (bool, error) {
	if x.hasEnded(id) {
		return false, nil
	}
	res, err := x.aws.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if awsapi.ErrorCode(err) == awsapi.CodeInstanceUnknown {
		return x.aws.Clock.Now().Sub(launchedAt) < ListDelay, nil
	}
	if err != nil {
		return false, err
	}
	for _, in := range FlattenReservations(res.Reservations) {
		if isEnding(in.State) {
			return false, nil
		}
	}
	return true, nil
}

// NewIndex returns an empty Index. groupNames returns the Auto Scaling groups whose members are also listed.
// inShiftedZone reports whether the cluster is shifted away from a zone.
func NewIndex(a *awsapi.Account, groupNames func() []string, inShiftedZone func(zone string) bool) *Index {
	x := &Index{
		aws: a, groupNames: groupNames, inShiftedZone: inShiftedZone, turn: cloud.NewLock(), launched: map[string]Instance{}, ended: map[string]time.Time{},
	}
	x.terminations = awsapi.NewBatcher(a.Clock, 20*time.Millisecond, 500, x.TerminateNow)
	return x
}
