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
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// instance is an instance of the cluster's.
type instance struct {
	id, zone, instanceType, capacityType string
	image, subnet, reservation           string
	securityGroups                       []string // sorted: security groups
	autoScalingGroup                     string   // of Auto Scaling; empty: none
	claimUID, claimName                  string
	launched                             time.Time
	protectedSince                       time.Time // since when it is protected from scale-in for a moment; zero: it is not
	gone                                 bool
}

// instanceIndex is what was last listed, and what this process knows better.
type instanceIndex struct {
	turn chan struct{} // holds one token; who has it may list

	mu       sync.Mutex
	last     *instanceList
	launched map[string]instance  // bought since the last list was asked for
	ended    map[string]time.Time // by instance id: ended by this process, and when
}

// instanceList is all instances at one moment.
type instanceList struct {
	at    time.Time  // when it was asked for
	all   []instance // by provider id
	byUID map[string][]int
	byID  map[string]int
}

// byClaim is the machine of a claim: one that lives before one that has ended; nil if there is none.
func (l *instanceList) byClaim(uid string) *instance {
	var out *instance
	for _, i := range l.byUID[uid] {
		if m := &l.all[i]; out == nil || out.gone && !m.gone {
			out = m
		}
	}
	return out
}

func (f *instanceIndex) addLaunched(m instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.launched == nil {
		f.launched = map[string]instance{}
	}
	f.launched[m.id] = m
}

func (f *instanceIndex) hasEnded(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.ended[id]
	return ok
}

func (f *instanceIndex) markEnded(id string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == nil {
		f.ended = map[string]time.Time{}
	}
	f.ended[id] = now
	for k, t := range f.ended {
		if now.Sub(t) > 2*time.Hour { // EC2 has forgotten it, too
			delete(f.ended, k)
		}
	}
}

// listInstances lists all instances of the cluster, unless that was done since a moment; the zero moment: ever.
func (p *Provider) listInstances(ctx context.Context, since time.Time) (*instanceList, error) {
	known := func() *instanceList {
		p.instances.mu.Lock()
		defer p.instances.mu.Unlock()
		if last := p.instances.last; last != nil && (since.IsZero() || last.at.After(since)) {
			return last
		}
		return nil
	}
	if last := known(); last != nil {
		return last, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, batchTimeout) // who lists keeps all others from it
	defer cancel()
	select {
	case <-p.instances.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.instances.turn <- struct{}{} }()
	if last := known(); last != nil { // somebody else's
		return last, nil
	}
	out := &instanceList{at: p.clock.Now(), byUID: map[string][]int{}, byID: map[string]int{}}
	pages := ec2.NewDescribeInstancesPaginator(p.ec2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(1000), Filters: []types.Filter{
		newFilter("tag:kubernetes.io/cluster/"+p.config.ClusterName, "owned"), newFilter("tag-key", awsv1.TagNodeClaim, awsv1.TagNodePool),
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
	if names := p.registry.groupNames(); len(names) > 0 {
		members, err := p.listMembers(ctx, names)
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
	p.instances.mu.Lock()
	defer p.instances.mu.Unlock()
	for i := range out.all {
		m := &out.all[i]
		if _, ok := p.instances.ended[m.id]; ok {
			m.gone = true // Describe may not know yet
		}
		out.byID[m.id] = i
		if m.claimUID != "" {
			out.byUID[m.claimUID] = append(out.byUID[m.claimUID], i)
		}
	}
	for id, m := range p.instances.launched {
		if _, listed := out.byID[id]; listed || out.at.Sub(m.launched) > ListDelay {
			delete(p.instances.launched, id)
		}
	}
	p.instances.last = out
	return out, nil
}

func flattenReservations(list []types.Reservation) []*types.Instance {
	var out []*types.Instance
	for i := range list {
		for j := range list[i].Instances {
			out = append(out, &list[i].Instances[j])
		}
	}
	return out
}

func isEnding(s *types.InstanceState) bool {
	return s != nil && (s.Name == types.InstanceStateNameShuttingDown || s.Name == types.InstanceStateNameTerminated)
}

func readInstance(in *types.Instance) instance {
	m := instance{
		id: deref(in.InstanceId), instanceType: string(in.InstanceType), image: deref(in.ImageId), subnet: deref(in.SubnetId),
		reservation: deref(in.CapacityReservationId), launched: deref(in.LaunchTime), gone: isEnding(in.State), capacityType: model.OnDemand,
	}
	if in.Placement != nil {
		m.zone = deref(in.Placement.AvailabilityZone)
	}
	switch {
	case in.InstanceLifecycle == types.InstanceLifecycleTypeSpot:
		m.capacityType = model.Spot
	case m.reservation != "":
		m.capacityType = model.Reserved
	}
	for _, t := range in.Tags {
		switch deref(t.Key) {
		case awsv1.TagNodeClaim:
			m.claimName = deref(t.Value)
		case awsv1.TagClaimUID:
			m.claimUID = deref(t.Value)
		case tagGroup:
			m.autoScalingGroup = deref(t.Value)
		case dovetailv1alpha1.TagShielded:
			m.protectedSince, _ = time.Parse(time.RFC3339, deref(t.Value)) // else it is none of ours
		}
	}
	for _, g := range in.SecurityGroups {
		m.securityGroups = append(m.securityGroups, deref(g.GroupId))
	}
	slices.Sort(m.securityGroups)
	return m
}

// List implements cloud.Provider. Machines that another autoscaler bought for a NodeClaim are there, too, without a claim's uid:
// they are not ours to end unasked.
func (p *Provider) List(ctx context.Context) ([]model.Instance, error) {
	if ctx.Err() != nil {
		return nil, classifyError(ctx, "list", "", ctx.Err())
	}
	l, err := p.listInstances(ctx, p.clock.Now())
	if err != nil {
		return nil, classifyError(ctx, "list", "", err)
	}
	if !cloud.LooksOnly(ctx) {
		p.removeStaleProtection(ctx, l)
		p.trimExcess(ctx)
	}
	now := p.clock.Now()
	out := make([]model.Instance, 0, len(l.all))
	for _, m := range l.all {
		in := model.Instance{ProviderID: providerID(m.zone, m.id), ClaimUID: m.claimUID, ClaimName: m.claimName, Launched: m.launched, Gone: m.gone}
		if m.capacityType == model.OnDemand && now.Sub(m.launched) > ListDelay {
			in.Unreserved = unreservedLabels
		}
		if m.autoScalingGroup != "" && m.claimUID == "" && !m.gone {
			in.Class, in.Labels = p.adoptableAs(&m)
		}
		out = append(out, in)
	}
	out = append(out, p.placeholders()...)
	slices.SortFunc(out, func(a, b model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return out, nil
}

// unreservedLabels is what labels say of an on-demand machine. EC2 names no reservation any more on one that it was bought from and that has ended.
var unreservedLabels = model.Labels{
	model.LabelCapacityType: model.OnDemand, awsv1.LabelCapacityReservationID: "", awsv1.LabelCapacityReservationType: "", awsv1.LabelCapacityReservationInterruptible: "",
}

// Terminate implements cloud.Provider: what several callers ask for at once is one call.
func (p *Provider) Terminate(ctx context.Context, providerIDs []string) []error {
	errs := make([]error, len(providerIDs))
	all := func(err error) []error {
		for i, id := range providerIDs {
			errs[i] = classifyError(ctx, "terminate", id, err)
		}
		return errs
	}
	if len(providerIDs) == 0 {
		return errs
	}
	if ctx.Err() != nil {
		return all(ctx.Err())
	}
	groups, err := p.groupNamesOf(ctx, providerIDs)
	if err != nil {
		return all(err)
	}
	by := map[string][]int{}
	for i, id := range providerIDs {
		key := groups[i]
		if strings.HasPrefix(id, placeholderPrefix) {
			key = id
		}
		by[key] = append(by[key], i)
	}
	var wg sync.WaitGroup
	for key, list := range by {
		wg.Go(func() {
			ids := make([]string, len(list))
			for n, i := range list {
				ids[n] = instanceID(providerIDs[i])
			}
			var answers []error
			ok := true
			switch {
			case strings.HasPrefix(key, placeholderPrefix):
				answers = make([]error, len(ids))
				answers[0] = p.cancelClaim(ctx, ids[0])
			case key != "":
				answers, ok = p.groupStateOf(key).terminations.ask(ctx, ids)
			default:
				answers, ok = p.terminations.ask(ctx, ids)
			}
			for n, i := range list {
				err := ctx.Err()
				if ok {
					err = answers[n]
				}
				errs[i] = classifyError(ctx, "terminate", providerIDs[i], err)
			}
		})
	}
	wg.Wait()
	return errs
}

// groupNamesOf are the groups that machines are members of, by what EC2 lists of them, be their groups known yet or not; empty for one that is in none.
func (p *Provider) groupNamesOf(ctx context.Context, providerIDs []string) ([]string, error) {
	out := make([]string, len(providerIDs))
	find := func(l *instanceList) (missing bool) {
		p.instances.mu.Lock()
		defer p.instances.mu.Unlock()
		for i, id := range providerIDs {
			id := instanceID(id)
			if m, ok := p.instances.launched[id]; ok {
				out[i] = m.autoScalingGroup
			} else if l == nil {
				missing = true
			} else if at, ok := l.byID[id]; ok {
				out[i] = l.all[at].autoScalingGroup
			} else if _, gone := p.instances.ended[id]; !gone && !strings.HasPrefix(providerIDs[i], placeholderPrefix) {
				missing = true
			}
		}
		return missing
	}
	p.instances.mu.Lock()
	last := p.instances.last
	p.instances.mu.Unlock()
	if !find(last) {
		return out, nil
	}
	list, err := p.listInstances(ctx, p.clock.Now())
	if err != nil {
		return nil, err
	}
	find(list)
	return out, nil
}

// adoptAfter is how long a member that is nobody's is left alone: a claim that is open, after a restart, say, may want it.
const adoptAfter = 30 * time.Second

// adoptableAs says for which class a claim may be made for a member that is nobody's, and what the machine is; empty: not now.
func (p *Provider) adoptableAs(m *instance) (class string, labels model.Labels) {
	p.registry.mu.Lock()
	class, s := p.registry.classes[m.autoScalingGroup], p.registry.states[m.autoScalingGroup]
	p.registry.mu.Unlock()
	if class == "" || s == nil {
		return "", nil
	}
	since := m.launched
	if p.started.After(since) && p.started.Sub(m.launched) < 10*time.Minute {
		since = p.started // it may be an open claim's
	}
	if len(s.openClaims()) > 0 || p.clock.Now().Sub(since) < adoptAfter {
		return "", nil
	}
	return class, model.Labels{model.LabelInstanceType: m.instanceType, model.LabelZone: m.zone, model.LabelCapacityType: m.capacityType, model.LabelNodeGroup: m.autoScalingGroup}
}

// placeholders are the machines that groups were asked for and that have not come: each a placeholder that bears its claim.
func (p *Provider) placeholders() []model.Instance {
	var out []model.Instance
	for _, name := range p.registry.groupNames() {
		for _, a := range p.groupStateOf(name).openClaims() {
			out = append(out, model.Instance{ProviderID: placeholderPrefix + a.uid, ClaimUID: a.uid, ClaimName: a.name, Launched: a.created})
		}
	}
	return out
}

// terminateInstances is the call of a batch. EC2 refuses a batch for one id that it does not know: that one is taken out, and the rest is
// asked for again.
func (p *Provider) terminateInstances(ctx context.Context, ids []string) []error {
	out := make([]error, len(ids))
	open := slices.Compact(slices.Sorted(slices.Values(ids)))
	answer := map[string]error{}
	for len(open) > 0 {
		res, err := p.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: open})
		if code := errorCode(err); code == codeInstanceUnknown || code == codeInstanceBad {
			unknown := slices.DeleteFunc(slices.Clone(open), func(id string) bool { return !containsID(err.Error(), id) })
			if len(unknown) == 0 {
				if len(open) > 1 { // it does not say which: one by one
					for _, id := range open {
						answer[id] = p.terminateInstances(ctx, []string{id})[0]
					}
					break
				}
				unknown = open
			}
			for _, id := range unknown {
				answer[id] = err
			}
			open = slices.DeleteFunc(open, func(id string) bool { return slices.Contains(unknown, id) })
			continue
		}
		if code := errorCode(err); len(open) > 1 && code != "" && !isThrottled(code) && !strings.HasPrefix(code, "Internal") {
			for _, id := range open { // one that may not be ended fails the whole call: it must not keep the others
				answer[id] = p.terminateInstances(ctx, []string{id})[0]
			}
			break
		}
		if err != nil {
			for _, id := range open {
				answer[id] = err
			}
			break
		}
		now := p.clock.Now()
		for _, s := range res.TerminatingInstances {
			id := deref(s.InstanceId)
			p.instances.markEnded(id, now)
			if isEnding(s.PreviousState) {
				answer[id] = &cloud.Error{Kind: cloud.NotFound}
			}
		}
		break
	}
	for i, id := range ids {
		out[i] = answer[id]
	}
	return out
}

// containsID says whether a text names an id, and not one that begins or ends with it.
func containsID(text, id string) bool {
	for i := 0; ; {
		j := strings.Index(text[i:], id)
		if j < 0 {
			return false
		}
		at, end := i+j, i+j+len(id)
		word := func(b byte) bool {
			return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '-'
		}
		if (at == 0 || !word(text[at-1])) && (end == len(text) || !word(text[end])) {
			return true
		}
		i = end
	}
}
