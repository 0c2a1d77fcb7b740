// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	passWindow  = 10 * time.Millisecond // claims that come within it share a read of their group and a change of its desired capacity
	passMost    = 500
	crowdPause  = 150 * time.Millisecond // without another claim of the same plan
	crowdMost   = time.Second            // from the first claim of a plan to the change
	clockSlack  = 30 * time.Second       // by how much clocks may differ where nothing but times tells
	failSlack   = 2 * time.Second        // and between a change and what AWS says of it
	quickFailed = 250 * time.Millisecond
	manyCalls   = 16 // side by side, of those that AWS takes one by one
)

// launchInGroup asks a group for a machine.
//
// What a group should have is its present members and one more for each open claim that has none, counted anew each time; so a
// repetition changes nothing, whoever makes it. A member that has come is matched to the oldest open claim that allows what it is, or
// to the oldest of all where none does, and from then on bears the claim's uid as a tag. Until one has come the answer has no
// provider id: the same request, made again, tells. Members that were there when a group was first looked at are nobody's, unless a
// claim is older than that look.
func (p *Provider) launchInGroup(ctx context.Context, c *groupClass, req cloud.LaunchRequest, l *launch) cloud.LaunchResult {
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: failed(ctx, "launch", req.ClaimName, err)}
	}
	if l.bought != nil {
		return p.again(ctx, req, l)
	}
	o, ch, err := p.groupOffers(ctx, nil, c)
	if err != nil {
		return fail(err)
	}
	if id := req.Annotations[dovetailv1alpha1.AnnotationAdopt]; id != "" {
		m, err := p.adopt(ctx, req, instanceID(id))
		if err != nil {
			return fail(err)
		}
		return p.joined(ctx, ch, req, l, m)
	}
	if !l.looked { // for what another process, or this one long ago, has found for it
		list, err := p.machines(ctx, time.Time{})
		if err != nil {
			return fail(err)
		}
		if m := list.of(req.ClaimUID); m != nil {
			return p.joined(ctx, ch, req, l, m)
		}
		l.looked = true
	}
	if l.tried == nil {
		l.tried = o.groupCandidates(req)
	}
	if len(l.tried) == 0 {
		return fail(&cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("no group of NodeGroupClass %s offers anything for %s that holds %s", c.name, describe(req), requestsOf(req.Requests))})
	}
	for {
		name := p.nextGroup(req.ClaimUID, l)
		if name == "" {
			missing := slices.Clone(l.missing)
			return fail(&cloud.Error{Kind: cloud.InsufficientCapacity, Offerings: sortedKeys(missing), Err: l.reason})
		}
		s := p.scalingOf(name)
		a, told := p.scaled.heard(req.ClaimUID)
		if !told {
			if p.scaled.groupOf(req.ClaimUID) == "" && !s.gather(ctx, p.clock, req.Following) {
				return fail(ctx.Err())
			}
			ask := &opening{uid: req.ClaimUID, name: req.ClaimName, pool: req.Pool, created: req.ClaimCreated, class: c.name, fits: fitting(l.tried, name)}
			answers, ok := s.asks.do(ctx, []*opening{ask})
			if !ok {
				return fail(ctx.Err())
			}
			a = answers[0]
		}
		if a.group != "" {
			name = a.group
		}
		switch {
		case a.m != nil:
			return p.joined(ctx, ch, req, l, a.m)
		case a.full:
			l.reason = a.err
			for _, c := range l.tried {
				if k := c.key(); c.o.Labels[model.LabelNodeGroup] == name {
					k.Group = name
					l.missing = append(l.missing, k)
				}
			}
		case a.lacking:
			l.reason = a.err
			for _, c := range l.tried {
				if c.o.Labels[model.LabelNodeGroup] == name {
					l.missing = append(l.missing, c.key())
				}
			}
		case a.err != nil:
			return fail(a.err)
		default:
			return cloud.LaunchResult{} // one is to come
		}
	}
}

// gather holds a claim back while others of its plan are about to come, so that they share one change of the group's desired capacity: until
// the last of them has come, or none for a while. It says whether the context still lasts.
func (s *scaling) gather(ctx context.Context, clock cloud.Clock, following int) bool {
	s.mu.Lock()
	if s.crowd == nil {
		s.crowd = &crowd{since: clock.Now(), all: make(chan struct{})}
	}
	c := s.crowd
	c.last = clock.Now()
	if following == 0 {
		s.leave(c)
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		left := min(c.last.Add(crowdPause).Sub(clock.Now()), c.since.Add(crowdMost).Sub(clock.Now()))
		if left <= 0 {
			s.leave(c)
		}
		s.mu.Unlock()
		timed, cancel := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = clock.Wait(timed, left) // or the crowd has left
		}()
		select {
		case <-c.all:
			cancel()
			return ctx.Err() == nil
		case <-over:
			cancel()
			if ctx.Err() != nil {
				return false
			}
		}
	}
}

// leave has a crowd go on together. The caller holds mu.
func (s *scaling) leave(c *crowd) {
	if s.crowd == c {
		s.crowd = nil
		close(c.all)
	}
}

// crowd is claims for a group that wait for each other.
type crowd struct {
	since, last time.Time
	all         chan struct{} // closed when they go on
}

// fitting says whether a member is one of the offerings of a group that a claim allows.
func fitting(list []candidate, group string) func(*machine) bool {
	return func(m *machine) bool {
		return slices.ContainsFunc(list, func(c candidate) bool {
			return c.o.Labels[model.LabelNodeGroup] == group && c.key() == cloud.OfferingKey{InstanceType: m.instanceType, Zone: m.zone, CapacityType: m.capacityType}
		})
	}
}

// nextGroup is the group to ask: the one that was asked already, or that of the cheapest offering which is not known to be missing.
func (p *Provider) nextGroup(uid string, l *launch) string {
	if name := p.scaled.groupOf(uid); name != "" {
		return name
	}
	for _, c := range l.tried {
		group := c.o.Labels[model.LabelNodeGroup]
		if !slices.ContainsFunc(l.missing, func(k cloud.OfferingKey) bool {
			return k.Group == group || k.Group == "" && k == c.key()
		}) {
			return group
		}
	}
	return ""
}

// joined answers for a member that has become a claim's: as what it is, whatever was asked for.
func (p *Provider) joined(ctx context.Context, ch *chosen, req cloud.LaunchRequest, l *launch, m *machine) cloud.LaunchResult {
	if m.gone {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.NotFound, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its machine %s has ended", m.id)}}
	}
	g, err := p.goods(ctx, false)
	if err != nil {
		return cloud.LaunchResult{Err: failed(ctx, "launch", req.ClaimName, err)}
	}
	var a *autoGroup
	for _, x := range ch.groups {
		if x.name == m.group {
			a = x
		}
	}
	t := g.find(m.instanceType)
	var o *offered
	if a != nil && t != nil {
		o = p.groupType(a, t)
	}
	if o == nil {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName,
			Err: fmt.Errorf("its machine %s is a %s of group %s, of which NodeGroupClass %s knows nothing", m.id, m.instanceType, m.group, ch.name)}}
	}
	price, modelled := g.price(t, m.zone, m.capacityType)
	labels := model.Labels{model.LabelNodeGroup: a.name}
	for k, v := range a.labels {
		labels[k] = v
	}
	res := result(candidate{o, &model.Offering{Zone: m.zone, CapacityType: m.capacityType, PriceMicro: price, Modelled: modelled, Labels: labels}}, m.id, req, "")
	res.Annotations = nil
	if m.image != "" {
		res.ImageID = m.image
	}
	for _, k := range l.missing {
		if k.InstanceType != m.instanceType || k.Zone != m.zone {
			res.Unavailable = append(res.Unavailable, k)
		}
	}
	res.Unavailable = sortedKeys(res.Unavailable)
	l.bought, l.boughtAt, l.tried = &res, p.clock.Now(), nil
	p.scaled.closed(req.ClaimUID)
	return res
}

func (g *groups) opened(uid, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at[uid] = name
}

// groupOf is the group that an open claim has asked; empty: none.
func (g *groups) groupOf(uid string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at[uid]
}

func (g *groups) closed(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.at, uid)
}

// passed is what a look at a group has come to for one claim. All zero: a machine is to come.
type passed struct {
	m       *machine
	group   string
	full    bool // the group has as many as it may
	lacking bool // AWS had none
	err     error
}

// sight is a group and its instances as they were read together.
type sight struct {
	*autoGroup
	at  time.Time
	all map[string]*machine // by id: its instances as EC2 has them, those that have ended included
}

// look reads a group.
func (p *Provider) look(ctx context.Context, name string) (*sight, error) {
	out := &sight{at: p.clock.Now(), all: map[string]*machine{}}
	var wg sync.WaitGroup
	var groupErr, instancesErr error
	wg.Go(func() { out.autoGroup, groupErr = p.describeGroup(ctx, name) })
	wg.Go(func() {
		var list []machine
		if list, instancesErr = p.groupMembers(ctx, []string{name}); instancesErr == nil {
			for i := range list {
				out.all[list[i].id] = &list[i]
			}
		}
	})
	wg.Wait()
	return out, cmp.Or(groupErr, instancesErr)
}

// groupMembers are the instances of groups, those included that have ended lately.
func (p *Provider) groupMembers(ctx context.Context, names []string) ([]machine, error) {
	var out []machine
	for some := range slices.Chunk(names, 200) {
		pages := ec2.NewDescribeInstancesPaginator(p.ec2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(1000), Filters: []types.Filter{filter("tag:"+tagGroup, some...)}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, in := range instancesOf(page.Reservations) {
				out = append(out, readInstance(in))
			}
		}
	}
	return out, nil
}

// pass brings a group and its open claims together, once for all who ask at a time: read it, match members to claims, and have it
// grow, or shrink where claims were given up.
func (p *Provider) pass(ctx context.Context, s *scaling, asks []*opening) []passed {
	out := make([]passed, len(asks))
	select {
	case <-s.turn:
	case <-ctx.Done():
		for i := range out {
			out[i].err = ctx.Err()
		}
		return out
	}
	defer func() { s.turn <- struct{}{} }()
	answers := map[string]passed{}
	for _, a := range asks { // kept open from here on, whatever the calls come to
		s.mu.Lock()
		have := s.open[a.uid]
		switch {
		case a.cancel && have != nil:
			delete(s.open, a.uid)
			s.surplus++
		case !a.cancel && have == nil:
			s.open[a.uid] = a
		}
		s.mu.Unlock()
		if !a.cancel {
			p.scaled.opened(a.uid, s.name)
		}
	}
	if err := p.passOver(ctx, s, answers); err != nil {
		for _, a := range asks {
			if _, ok := answers[a.uid]; !ok {
				answers[a.uid] = passed{err: err}
			}
		}
	}
	for i, a := range asks {
		out[i] = answers[a.uid]
		p.scaled.heard(a.uid) // it hears of it here
		if a.cancel && out[i].err == nil {
			p.scaled.closed(a.uid)
		}
	}
	return out
}

func (p *Provider) passOver(ctx context.Context, s *scaling, answers map[string]passed) error {
	var failure *astypes.Activity
	for {
		v, err := p.look(ctx, s.name)
		if err != nil {
			return err
		}
		if v.autoGroup == nil {
			for _, a := range s.claims() {
				s.close(p, a, answers, passed{err: notReady("launch", a.name, "NodeGroupClass %s: group %s does not exist; create it or take it out of spec.selectorTerms", a.class, s.name)})
			}
			return nil
		}
		s.left(v.desired, v.at)
		s.first(v.autoGroup, v.at)
		wait, coming := p.match(ctx, s, v, answers)
		open := s.claims()
		if failure != nil { // what has come in spite of it has been matched now
			for _, a := range open {
				if !a.asked.IsZero() && a.asked.Before(failure.StartTime.Add(failSlack)) {
					s.surplus++
					s.close(p, a, answers, noMember(s.name, a, deref(failure.StatusMessage)))
				}
			}
			open = s.claims()
		}
		if wait {
			return nil // who of the members is whose will be known in a moment
		}
		most := p.scaled.most(s.name, v.max)
		present := int64(len(v.members))
		for i := len(open) - 1; i >= 0 && present+max(0, int64(len(open))-coming) > most; i-- { // the youngest
			s.close(p, open[i], answers, passed{full: true, err: fmt.Errorf("group %s has %d machines of at most %d", s.name, present+int64(i), most)})
			open = open[:i]
		}
		want := present + max(0, int64(len(open))-coming)
		switch {
		case want > v.desired:
			s.counted(open, p.clock.Now())
			if err := p.setDesired(ctx, s, want); err != nil {
				return err
			}
			s.surplus = 0
			return nil
		case s.surplus > 0 && v.desired > max(want, v.min):
			return p.shrink(ctx, s, v, max(v.desired-s.surplus, want, v.min), want-present)
		}
		s.surplus = 0
		now := p.clock.Now()
		s.counted(open, now) // somebody else had it grow already
		late := slices.ContainsFunc(open, func(a *opening) bool { return now.Sub(a.asked) >= quickFailed })
		if failure != nil || !late {
			return nil
		}
		if failure, err = p.failure(ctx, s.name, open); err != nil || failure == nil {
			return err
		}
	}
}

// noMember is the answer for a claim that a group could not launch a member for.
func noMember(group string, a *opening, message string) passed {
	low := strings.ToLower(message)
	for _, word := range []string{"launch template", "not authorized", "unauthorized", "security group", "invalid", "key pair", "ami ", "instance profile", "does not exist"} {
		if strings.Contains(low, word) && !strings.Contains(low, "capacity") {
			return passed{err: notReady("launch", a.name, "NodeGroupClass %s: group %s can't launch: %s", a.class, group, message)}
		}
	}
	return passed{lacking: true, err: fmt.Errorf("group %s: %s", group, message)}
}

// counted notes that a group's desired capacity counts these claims by now.
func (s *scaling) counted(open []*opening, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range open {
		if a.asked.IsZero() {
			a.asked = now
		}
	}
}

// claims are the open claims of a group, oldest first.
func (s *scaling) claims() []*opening {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*opening, 0, len(s.open))
	for _, a := range s.open {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *opening) int {
		return cmp.Or(a.created.Compare(b.created), compareAsked(a.asked, b.asked), strings.Compare(a.name, b.name), strings.Compare(a.uid, b.uid))
	})
	return out
}

// compareAsked has claims that nobody was asked for come last.
func compareAsked(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		if a.IsZero() {
			return 1
		}
		return -1
	}
	return a.Compare(b)
}

// close answers for a claim that is not waited for any longer.
func (s *scaling) close(p *Provider, a *opening, answers map[string]passed, with passed) {
	s.mu.Lock()
	delete(s.open, a.uid)
	s.mu.Unlock()
	p.scaled.closed(a.uid)
	with.group = s.name
	answers[a.uid] = with
	if with.m == nil { // its own call may be over by then; the next one hears of it
		p.scaled.tell(a.uid, with)
	}
}

// first remembers who was there when a group was first looked at.
func (s *scaling) first(g *autoGroup, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.old != nil {
		return
	}
	s.old, s.since = map[string]bool{}, at
	for _, m := range g.members {
		s.old[m.id] = true
	}
}

// match hands members that are nobody's to open claims. It says whether to wait with everything else, as a member that was there before
// this process may bear a claim's tag that EC2 does not show yet; and how many members have come that EC2 does not show at all.
func (p *Provider) match(ctx context.Context, s *scaling, v *sight, answers map[string]passed) (wait bool, coming int64) {
	there := map[string]bool{}
	for _, m := range v.members {
		there[m.id] = true
	}
	for id := range s.matched {
		if m := v.all[id]; m == nil && !there[id] || m != nil && m.gone {
			delete(s.matched, id)
		}
	}
	of := map[string]*machine{}
	for id, m := range v.all {
		if uid, ok := s.matched[id]; ok {
			m.claimUID = uid
		}
		if m.claimUID != "" && (of[m.claimUID] == nil || of[m.claimUID].gone) {
			of[m.claimUID] = m
		}
	}
	open := s.claims()
	for _, a := range open {
		if m := of[a.uid]; m != nil {
			s.close(p, a, answers, passed{m: m})
		}
	}
	open = s.claims()
	s.mu.Lock()
	old, since := s.old, s.since
	s.mu.Unlock()
	earlier := func(a *opening) bool { return !a.created.IsZero() && a.created.Before(since) }
	var free []*machine
	for _, x := range v.members {
		if v.all[x.id] == nil {
			if !old[x.id] {
				coming++
			} else if v.at.Sub(since) < ListDelay && slices.ContainsFunc(open, earlier) {
				wait = true
			}
		}
		if m := v.all[x.id]; m != nil && m.claimUID == "" && !m.gone {
			free = append(free, m)
		}
	}
	slices.SortFunc(free, func(a, b *machine) int {
		return cmp.Or(a.launched.Compare(b.launched), strings.Compare(a.id, b.id))
	})
	type pair struct {
		m *machine
		a *opening
	}
	var pairs []pair
	for _, m := range free {
		best := -1
		for i, a := range open {
			if old[m.id] && !(earlier(a) && m.launched.After(a.created.Add(-clockSlack))) {
				continue
			}
			if a.fits != nil && a.fits(m) {
				best = i
				break
			}
			if best < 0 {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		if old[m.id] && v.at.Sub(since) < ListDelay {
			return true, coming
		}
		pairs = append(pairs, pair{m, open[best]})
		open = slices.Delete(slices.Clone(open), best, best+1)
	}
	errs := make([]error, len(pairs))
	side(len(pairs), func(i int) { errs[i] = p.tagMember(ctx, pairs[i].m, pairs[i].a.uid, pairs[i].a.name, pairs[i].a.pool) })
	for i, x := range pairs {
		switch {
		case errs[i] == nil:
			s.matched[x.m.id] = x.a.uid
			x.m.claimUID, x.m.claimName = x.a.uid, x.a.name
			p.fleet.bought(*x.m)
			s.close(p, x.a, answers, passed{m: x.m})
		case codeOf(errs[i]) == codeInstanceUnknown: // EC2 does not know it everywhere yet
			wait = true
		default:
			answers[x.a.uid] = passed{err: errs[i]}
			wait = true // it stays open, and its member nobody's
		}
	}
	return wait, coming
}

// side does n things, some side by side.
func side(n int, do func(int)) {
	var wg sync.WaitGroup
	room := make(chan struct{}, manyCalls)
	for i := range n {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	wg.Wait()
}

// tagMember writes down whose a member is.
func (p *Provider) tagMember(ctx context.Context, m *machine, uid, name, pool string) error {
	tags := map[string]string{
		awsv1.TagClaimUID: uid, awsv1.TagNodeClaim: name, awsv1.TagClusterName: p.config.ClusterName, "kubernetes.io/cluster/" + p.config.ClusterName: "owned",
	}
	if pool != "" {
		tags[awsv1.TagNodePool] = pool
	}
	_, err := p.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{m.id}, Tags: tagList(tags)})
	return err
}

// adopt makes a member that was there before a claim the claim's.
func (p *Provider) adopt(ctx context.Context, req cloud.LaunchRequest, id string) (*machine, error) {
	read := func() (*machine, error) {
		res, err := p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if err != nil {
			return nil, err
		}
		for _, in := range instancesOf(res.Reservations) {
			m := readInstance(in)
			return &m, nil
		}
		return nil, &cloud.Error{Kind: cloud.NotFound}
	}
	m, err := read()
	if err != nil || m.gone || m.claimUID == req.ClaimUID {
		return m, err
	}
	if m.group == "" {
		return nil, &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("instance %s is in no group any more", id)}
	}
	s := p.scalingOf(m.group)
	select {
	case <-s.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	if m, err = read(); err != nil { // somebody may have had the turn before
		return nil, err
	}
	if uid := cmp.Or(s.matched[id], m.claimUID); uid != "" && uid != req.ClaimUID {
		return nil, &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("instance %s has become another claim's", id)}
	}
	if err := p.tagMember(ctx, m, req.ClaimUID, req.ClaimName, req.Pool); err != nil {
		return nil, err
	}
	s.matched[id] = req.ClaimUID
	m.claimUID, m.claimName = req.ClaimUID, req.ClaimName
	p.fleet.bought(*m)
	return m, nil
}

func (p *Provider) setDesired(ctx context.Context, s *scaling, n int64) error {
	_, err := p.autoscaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &s.name, DesiredCapacity: sdk.Int32(int32(n)), HonorCooldown: sdk.Bool(false)})
	if err == nil {
		s.left(n, p.clock.Now())
		p.scaled.allow(s.name, nil)
		return nil
	}
	if denied(codeOf(err)) {
		p.scaled.allow(s.name, brief(err))
	}
	return err
}

// failure is the last thing that a group tried in vain since it was asked for the members that have not come; nil: there is none.
func (p *Provider) failure(ctx context.Context, name string, open []*opening) (*astypes.Activity, error) {
	res, err := p.autoscaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &name, MaxRecords: sdk.Int32(20)})
	if err != nil {
		return nil, err
	}
	for i := range res.Activities {
		a := &res.Activities[i]
		if a.StartTime == nil || a.StatusCode != astypes.ScalingActivityStatusCodeFailed && a.StatusCode != astypes.ScalingActivityStatusCodeCancelled {
			continue
		}
		if slices.ContainsFunc(open, func(o *opening) bool { return !o.asked.IsZero() && o.asked.Before(a.StartTime.Add(failSlack)) }) {
			return a, nil
		}
	}
	return nil, nil
}

// shrink lowers a group's desired capacity to what it has and still waits for, and sees to it that no member goes: while a group has more
// members than it should, it ends some of its own choice. So members lose their protection only when the group has been read again and wants
// all that it has. Where that can't be had, or whether it has been made smaller is not known, they keep it: lift finds them later.
//
// It may die in between, so that each member says first that it is protected for a moment only.
func (p *Provider) shrink(ctx context.Context, s *scaling, v *sight, to, outstanding int64) error {
	var ids []string
	had := map[string]bool{}
	for _, m := range v.members {
		had[m.id] = true
		x := v.all[m.id]
		if m.protected && (x == nil || x.shielded.IsZero()) {
			continue
		}
		if x == nil {
			return &cloud.Error{Kind: cloud.Throttled, After: time.Second, Err: fmt.Errorf("group %s can't be made smaller before EC2 describes its member %s", s.name, m.id)}
		}
		ids = append(ids, m.id)
	}
	if err := p.noteShield(ctx, ids, p.clock.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	err := p.protect(ctx, s.name, ids, true)
	if err == nil {
		if err = p.setDesired(ctx, s, to); err != nil && !withoutEffect(err) {
			p.log.Warn("members stay protected from scale-in for now: it is not known what their group should have", "group", s.name, "members", len(ids), "error", brief(err))
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchLimit)
	defer cancel()
	if e := p.unshield(ctx, s, ids, had, outstanding); e != nil {
		p.log.Warn("members stay protected from scale-in for now", "group", s.name, "members", len(ids), "error", brief(e))
		return cmp.Or(err, e)
	}
	if err == nil {
		s.surplus = 0
	}
	return err
}

// noteShield writes down on members since when they are protected for a moment; empty: they are not. A member that EC2 does not know yet, or no
// more, is nothing that whoever asked has done wrong: the group is looked at again.
func (p *Provider) noteShield(ctx context.Context, ids []string, since string) error {
	for some := range slices.Chunk(ids, 500) {
		_, err := p.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: some, Tags: tagList(map[string]string{dovetailv1alpha1.TagShielded: since})})
		if codeOf(err) == codeInstanceUnknown {
			return &cloud.Error{Kind: cloud.Throttled, After: time.Second, Err: brief(err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unshield takes the protection of members back, and then what was written down of it, once the group wants all that it has. To that end it
// is made as large again where members have come beside those that it had and those that are waited for.
func (p *Provider) unshield(ctx context.Context, s *scaling, ids []string, had map[string]bool, outstanding int64) error {
	g, err := p.describeGroup(ctx, s.name)
	if err != nil {
		return err
	}
	if g != nil {
		for _, m := range g.members {
			if !had[m.id] {
				outstanding--
			}
		}
		if n := min(int64(len(g.members))+max(0, outstanding), g.max); n > g.desired {
			if err := p.setDesired(ctx, s, n); err != nil {
				return err
			}
		}
	}
	for some := range slices.Chunk(ids, 50) {
		err := p.protect(ctx, s.name, some, false)
		if codeOf(err) == "ValidationError" { // one that has left its group keeps no other
			err = nil
			for _, id := range some {
				if e := p.protect(ctx, s.name, []string{id}, false); e != nil && codeOf(e) != "ValidationError" {
					err = e
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return p.noteShield(ctx, ids, "")
}

// shieldLimit is how long after it was written down a protection was certainly forgotten: whoever was at it has ended by then, and clocks
// may differ.
const shieldLimit = batchLimit + clockSlack

// lift takes back protections that a process which died, or could not, has left behind.
func (p *Provider) lift(ctx context.Context, l *listing) {
	left := map[string][]string{}
	for i := range l.all {
		if m := &l.all[i]; m.group != "" && !m.gone && !m.shielded.IsZero() && l.at.Sub(m.shielded) > shieldLimit {
			left[m.group] = append(left[m.group], m.id)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		s := p.scalingOf(name)
		select {
		case <-s.turn:
		default:
			continue // somebody is at it
		}
		err := p.unshield(ctx, s, left[name], nil, 0)
		s.turn <- struct{}{}
		if err != nil {
			p.log.Warn("members stay protected from scale-in, trying again", "group", name, "members", len(left[name]), "error", brief(err))
			continue
		}
		p.log.Info("members are not protected from scale-in any more, which was to be for a moment", "group", name, "members", len(left[name]))
	}
}

// trim makes those groups smaller that want what nobody asks for and AWS has not given them for long: claims that were deleted while no
// process knew what they had asked for have left it behind. Whose wish it was is not known; but what has not come by then is not waited for
// in a claim either.
func (p *Provider) trim(ctx context.Context) {
	for _, name := range p.scaled.known() {
		s := p.scalingOf(name)
		least, is := s.vain(p.clock.Now())
		if !is {
			continue
		}
		select {
		case <-s.turn:
		default:
			continue // somebody is at it
		}
		err := p.trimGroup(ctx, s, least)
		s.turn <- struct{}{}
		if err != nil {
			p.log.Warn("group wants machines that nobody asks for and that do not come, and can't be made smaller now", "group", name, "error", brief(err))
		}
	}
}

func (p *Provider) trimGroup(ctx context.Context, s *scaling, least int64) error {
	if refresh, err := p.refreshing(ctx, s.name); err != nil || refresh != "" {
		return err // members go and come
	}
	v, err := p.look(ctx, s.name)
	if err != nil || v.autoGroup == nil || v.problem != "" {
		return err
	}
	outstanding := int64(len(s.claims())) // whether a member is one of theirs already or not
	to := max(int64(len(v.members))+outstanding, v.min, least)
	if v.desired <= to {
		return nil
	}
	if err := p.shrink(ctx, s, v, to, outstanding); err != nil {
		return err
	}
	p.log.Info("group wanted machines that nobody asks for and that did not come, it is made smaller", "group", s.name, "from", v.desired, "to", to)
	return nil
}

func (p *Provider) protect(ctx context.Context, name string, ids []string, on bool) error {
	for some := range slices.Chunk(ids, 50) {
		if _, err := p.autoscaling.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: &name, InstanceIds: some, ProtectedFromScaleIn: &on}); err != nil {
			return err
		}
	}
	return nil
}

// placeholder is the provider id of a machine that a group was asked for and that has not come.
const placeholder = "aws:///placeholder/"

// cancel gives up what a claim has asked a group for.
func (p *Provider) cancel(ctx context.Context, uid string) error {
	p.scaled.mu.Lock()
	name := p.scaled.at[uid]
	p.scaled.mu.Unlock()
	if name == "" {
		return &cloud.Error{Kind: cloud.NotFound}
	}
	answers, ok := p.scalingOf(name).asks.do(ctx, []*opening{{uid: uid, cancel: true}})
	if !ok {
		return ctx.Err()
	}
	return answers[0].err
}

// endMembers ends members of one group, each by its id, and has the group want as many fewer. Where the group may not become smaller it
// starts another one instead.
func (p *Provider) endMembers(ctx context.Context, s *scaling, ids []string) []error {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return slices.Repeat([]error{ctx.Err()}, len(ids))
	}
	defer func() { s.turn <- struct{}{} }()
	g, err := p.describeGroup(ctx, s.name)
	if err != nil {
		return slices.Repeat([]error{err}, len(ids))
	}
	errs := make([]error, len(ids))
	side(len(ids), func(i int) {
		id := ids[i]
		if slices.Index(ids, id) < i {
			errs[i] = &cloud.Error{Kind: cloud.NotFound}
			return
		}
		if g != nil && slices.Contains(g.leaving, id) { // asked again, the group might want one less once more
			p.fleet.ended(id, p.clock.Now())
			errs[i] = &cloud.Error{Kind: cloud.NotFound}
			return
		}
		end := func(smaller bool) error {
			_, err := p.autoscaling.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: &smaller})
			return err
		}
		err := end(true)
		if e := err; e != nil && codeOf(e) == "ValidationError" && strings.Contains(strings.ToLower(e.Error()), "min size") {
			p.log.Info("group is at its minimum: it will start another member for the one that is ended", "group", s.name, "instance", id)
			err = end(false)
		}
		if err != nil && codeOf(err) == "ValidationError" && strings.Contains(err.Error(), "not found") { // it has left the group, or is on its way out
			err = p.terminate(ctx, []string{id})[0]
		}
		if err == nil {
			p.fleet.ended(id, p.clock.Now())
		}
		errs[i] = err
	})
	return errs
}

// most is how many machines a group may have: as many as it says, and its class.
func (g *groups) most(name string, described int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n, ok := g.bound[name]; ok {
		return min(n, described)
	}
	return described
}

// allow notes whether the last change of a group was permitted.
func (g *groups) allow(name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		delete(g.refused, name)
	} else {
		g.refused[name] = err
	}
}

// tell keeps an answer for a claim whose own call was over when it was found.
func (g *groups) tell(uid string, a passed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.told[uid] = a
}

// heard takes the answer that was kept for a claim.
func (g *groups) heard(uid string) (passed, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.told[uid]
	delete(g.told, uid)
	return a, ok
}
