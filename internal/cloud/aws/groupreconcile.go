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
	reconcileWindow    = 10 * time.Millisecond // claims that come within it share a read of their group and a change of its desired capacity
	maxReconcileClaims = 500
	batchPause         = 150 * time.Millisecond // without another claim of the same plan
	batchMaxWait       = time.Second            // from the first claim of a plan to the change
	clockSlack         = 30 * time.Second       // by how much clocks may differ where nothing but times tells
	activitySlack      = 2 * time.Second        // and between a change and what AWS says of it
	activityCheckAfter = 250 * time.Millisecond
	maxConcurrentCalls = 16 // side by side, of those that AWS takes one by one
)

// launchInGroup asks a group for a machine.
//
// What a group should have is its present members and one more for each open claim that has none, counted anew each time; so a
// repetition changes nothing, whoever makes it. A member that has come is matched to the oldest open claim that allows what it is, or
// to the oldest of all where none does, and from then on bears the claim's uid as a tag. Until one has come the answer has no
// provider id: the same request, made again, tells. Members that were there when a group was first looked at are nobody's, unless a
// claim is older than that look.
func (p *Provider) launchInGroup(ctx context.Context, c *nodeGroupClass, req cloud.LaunchRequest, l *claimLaunch) cloud.LaunchResult {
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	}
	if l.result != nil {
		return p.confirmLaunched(ctx, req, l)
	}
	o, ch, err := p.groupOfferings(ctx, nil, c)
	if err != nil {
		return fail(err)
	}
	if id := req.Annotations[dovetailv1alpha1.AnnotationAdopt]; id != "" {
		m, err := p.adoptMember(ctx, req, instanceID(id))
		if err != nil {
			return fail(err)
		}
		return p.answerMatched(ctx, ch, req, l, m)
	}
	if !l.searched { // for what another process, or this one long ago, has found for it
		list, err := p.listInstances(ctx, time.Time{})
		if err != nil {
			return fail(err)
		}
		if m := list.byClaim(req.ClaimUID); m != nil {
			return p.answerMatched(ctx, ch, req, l, m)
		}
		l.searched = true
	}
	if l.options == nil {
		l.options = o.groupLaunchOptions(req)
	}
	if len(l.options) == 0 {
		return fail(&cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("no group of NodeGroupClass %s offers anything for %s that holds %s", c.name, describeRequest(req), formatRequests(req.Requests))})
	}
	for {
		name := p.nextGroup(req.ClaimUID, l)
		if name == "" {
			missing := slices.Clone(l.unavailable)
			return fail(&cloud.Error{Kind: cloud.InsufficientCapacity, Offerings: sortOfferingKeys(missing), Err: l.lastFailure})
		}
		s := p.groupStateOf(name)
		a, told := p.registry.takeOutcome(req.ClaimUID)
		if !told {
			if p.registry.groupOfClaim(req.ClaimUID) == "" && !s.waitForBatch(ctx, p.clock, req.Following) {
				return fail(ctx.Err())
			}
			ask := &openClaim{uid: req.ClaimUID, name: req.ClaimName, pool: req.Pool, created: req.ClaimCreated, class: c.name, fits: matchesGroupOption(l.options, name)}
			answers, ok := s.reconciles.ask(ctx, []*openClaim{ask})
			if !ok {
				return fail(ctx.Err())
			}
			a = answers[0]
		}
		if a.group != "" {
			name = a.group
		}
		switch {
		case a.member != nil:
			return p.answerMatched(ctx, ch, req, l, a.member)
		case a.full:
			l.lastFailure = a.err
			for _, c := range l.options {
				if k := c.key(); c.offering.Labels[model.LabelNodeGroup] == name {
					k.Group = name
					l.unavailable = append(l.unavailable, k)
				}
			}
		case a.noCapacity:
			l.lastFailure = a.err
			for _, c := range l.options {
				if c.offering.Labels[model.LabelNodeGroup] == name {
					l.unavailable = append(l.unavailable, c.key())
				}
			}
		case a.err != nil:
			return fail(a.err)
		default:
			return cloud.LaunchResult{} // one is to come
		}
	}
}

// waitForBatch holds a claim back while others of its plan are about to come, so that they share one change of the group's desired capacity: until
// the last of them has come, or none for a while. It says whether the context still lasts.
func (s *groupState) waitForBatch(ctx context.Context, clock cloud.Clock, following int) bool {
	s.mu.Lock()
	if s.batch == nil {
		s.batch = &launchBatch{since: clock.Now(), released: make(chan struct{})}
	}
	c := s.batch
	c.last = clock.Now()
	if following == 0 {
		s.releaseBatch(c)
	}
	s.mu.Unlock()
	for {
		s.mu.Lock()
		left := min(c.last.Add(batchPause).Sub(clock.Now()), c.since.Add(batchMaxWait).Sub(clock.Now()))
		if left <= 0 {
			s.releaseBatch(c)
		}
		s.mu.Unlock()
		timed, cancel := context.WithCancel(ctx)
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = clock.Wait(timed, left) // or the batch was released
		}()
		select {
		case <-c.released:
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

// releaseBatch lets the claims of a batch go on together. The caller holds mu.
func (s *groupState) releaseBatch(c *launchBatch) {
	if s.batch == c {
		s.batch = nil
		close(c.released)
	}
}

// launchBatch is claims for a group that wait for each other.
type launchBatch struct {
	since, last time.Time
	released    chan struct{} // closed when they go on
}

// matchesGroupOption says whether a member is one of the offerings of a group that a claim allows.
func matchesGroupOption(list []launchOption, group string) func(*instance) bool {
	return func(m *instance) bool {
		return slices.ContainsFunc(list, func(c launchOption) bool {
			return c.offering.Labels[model.LabelNodeGroup] == group && c.key() == cloud.OfferingKey{InstanceType: m.instanceType, Zone: m.zone, CapacityType: m.capacityType}
		})
	}
}

// nextGroup is the group to ask: the one that was asked already, or that of the cheapest offering which is not known to be missing.
func (p *Provider) nextGroup(uid string, l *claimLaunch) string {
	if name := p.registry.groupOfClaim(uid); name != "" {
		return name
	}
	for _, c := range l.options {
		group := c.offering.Labels[model.LabelNodeGroup]
		if !slices.ContainsFunc(l.unavailable, func(k cloud.OfferingKey) bool {
			return k.Group == group || k.Group == "" && k == c.key()
		}) {
			return group
		}
	}
	return ""
}

// answerMatched answers for a member that has become a claim's: as what it is, whatever was asked for.
func (p *Provider) answerMatched(ctx context.Context, ch *selectedGroups, req cloud.LaunchRequest, l *claimLaunch, m *instance) cloud.LaunchResult {
	if m.gone {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.NotFound, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its machine %s has ended", m.id)}}
	}
	g, err := p.loadCatalogue(ctx, false)
	if err != nil {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	}
	var a *scalingGroup
	for _, x := range ch.groups {
		if x.name == m.autoScalingGroup {
			a = x
		}
	}
	t := g.findType(m.instanceType)
	var o *offeredType
	if a != nil && t != nil {
		o = p.buildGroupType(a, t)
	}
	if o == nil {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName,
			Err: fmt.Errorf("its machine %s is a %s of group %s, of which NodeGroupClass %s knows nothing", m.id, m.instanceType, m.autoScalingGroup, ch.name)}}
	}
	price, modelled := g.priceMicro(t, m.zone, m.capacityType)
	labels := model.Labels{model.LabelNodeGroup: a.name}
	for k, v := range a.labels {
		labels[k] = v
	}
	res := launchResult(launchOption{o, &model.Offering{Zone: m.zone, CapacityType: m.capacityType, PriceMicro: price, Modelled: modelled, Labels: labels}}, m.id, req, "")
	res.Annotations = nil
	if m.image != "" {
		res.ImageID = m.image
	}
	for _, k := range l.unavailable {
		if k.InstanceType != m.instanceType || k.Zone != m.zone {
			res.Unavailable = append(res.Unavailable, k)
		}
	}
	res.Unavailable = sortOfferingKeys(res.Unavailable)
	l.result, l.launchedAt, l.options = &res, p.clock.Now(), nil
	p.registry.noteClosed(req.ClaimUID)
	return res
}

func (g *groupRegistry) noteOpen(uid, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groupByClaim[uid] = name
}

// groupOfClaim is the group that an open claim has asked; empty: none.
func (g *groupRegistry) groupOfClaim(uid string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groupByClaim[uid]
}

func (g *groupRegistry) noteClosed(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groupByClaim, uid)
}

// claimOutcome is what a look at a group has come to for one claim. All zero: a machine is to come.
type claimOutcome struct {
	member     *instance
	group      string
	full       bool // the group has as many as it may
	noCapacity bool // AWS had none
	err        error
}

// groupView is a group and its instances as they were read together.
type groupView struct {
	*scalingGroup
	at        time.Time
	instances map[string]*instance // by id: its instances as EC2 has them, those that have ended included
}

// readGroupView reads a group.
func (p *Provider) readGroupView(ctx context.Context, name string) (*groupView, error) {
	out := &groupView{at: p.clock.Now(), instances: map[string]*instance{}}
	var wg sync.WaitGroup
	var groupErr, instancesErr error
	wg.Go(func() { out.scalingGroup, groupErr = p.describeGroup(ctx, name) })
	wg.Go(func() {
		var list []instance
		if list, instancesErr = p.listMembers(ctx, []string{name}); instancesErr == nil {
			for i := range list {
				out.instances[list[i].id] = &list[i]
			}
		}
	})
	wg.Wait()
	return out, cmp.Or(groupErr, instancesErr)
}

// listMembers are the instances of groups, those included that have ended lately.
func (p *Provider) listMembers(ctx context.Context, names []string) ([]instance, error) {
	var out []instance
	for some := range slices.Chunk(names, 200) {
		pages := ec2.NewDescribeInstancesPaginator(p.ec2, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(1000), Filters: []types.Filter{newFilter("tag:"+tagGroup, some...)}})
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

// reconcile brings a group and its open claims together, once for all who ask at a time: read it, match members to claims, and have it
// grow, or shrink where claims were given up.
func (p *Provider) reconcile(ctx context.Context, s *groupState, asks []*openClaim) []claimOutcome {
	out := make([]claimOutcome, len(asks))
	select {
	case <-s.turn:
	case <-ctx.Done():
		for i := range out {
			out[i].err = ctx.Err()
		}
		return out
	}
	defer func() { s.turn <- struct{}{} }()
	answers := map[string]claimOutcome{}
	for _, a := range asks { // kept open from here on, whatever the calls come to
		s.mu.Lock()
		have := s.open[a.uid]
		switch {
		case a.cancelled && have != nil:
			delete(s.open, a.uid)
			s.surplus++
		case !a.cancelled && have == nil:
			s.open[a.uid] = a
		}
		s.mu.Unlock()
		if !a.cancelled {
			p.registry.noteOpen(a.uid, s.name)
		}
	}
	if err := p.reconcileOnce(ctx, s, answers); err != nil {
		for _, a := range asks {
			if _, ok := answers[a.uid]; !ok {
				answers[a.uid] = claimOutcome{err: err}
			}
		}
	}
	for i, a := range asks {
		out[i] = answers[a.uid]
		p.registry.takeOutcome(a.uid) // it hears of it here
		if a.cancelled && out[i].err == nil {
			p.registry.noteClosed(a.uid)
		}
	}
	return out
}

func (p *Provider) reconcileOnce(ctx context.Context, s *groupState, answers map[string]claimOutcome) error {
	var failure *astypes.Activity
	for {
		v, err := p.readGroupView(ctx, s.name)
		if err != nil {
			return err
		}
		if v.scalingGroup == nil {
			for _, a := range s.openClaims() {
				s.closeClaim(p, a, answers, claimOutcome{err: notReadyError("launch", a.name, "NodeGroupClass %s: group %s does not exist; create it or take it out of spec.selectorTerms", a.class, s.name)})
			}
			return nil
		}
		s.noteDesired(v.desired, v.at)
		s.noteInitialMembers(v.scalingGroup, v.at)
		wait, coming := p.matchMembers(ctx, s, v, answers)
		open := s.openClaims()
		if failure != nil { // what has come in spite of it has been matched now
			for _, a := range open {
				if !a.countedAt.IsZero() && a.countedAt.Before(failure.StartTime.Add(activitySlack)) {
					s.surplus++
					s.closeClaim(p, a, answers, launchFailureOutcome(s.name, a, deref(failure.StatusMessage)))
				}
			}
			open = s.openClaims()
		}
		if wait {
			return nil // who of the members is whose will be known in a moment
		}
		most := p.registry.maxSizeOf(s.name, v.max)
		present := int64(len(v.members))
		for i := len(open) - 1; i >= 0 && present+max(0, int64(len(open))-coming) > most; i-- { // the youngest
			s.closeClaim(p, open[i], answers, claimOutcome{full: true, err: fmt.Errorf("group %s has %d machines of at most %d", s.name, present+int64(i), most)})
			open = open[:i]
		}
		want := present + max(0, int64(len(open))-coming)
		switch {
		case want > v.desired:
			s.markCounted(open, p.clock.Now())
			if err := p.setDesiredCapacity(ctx, s, want); err != nil {
				return err
			}
			s.surplus = 0
			return nil
		case s.surplus > 0 && v.desired > max(want, v.min):
			return p.shrinkGroup(ctx, s, v, max(v.desired-s.surplus, want, v.min), want-present)
		}
		s.surplus = 0
		now := p.clock.Now()
		s.markCounted(open, now) // somebody else had it grow already
		late := slices.ContainsFunc(open, func(a *openClaim) bool { return now.Sub(a.countedAt) >= activityCheckAfter })
		if failure != nil || !late {
			return nil
		}
		if failure, err = p.lastFailedActivity(ctx, s.name, open); err != nil || failure == nil {
			return err
		}
	}
}

// launchFailureOutcome is the answer for a claim that a group could not launch a member for.
func launchFailureOutcome(group string, a *openClaim, message string) claimOutcome {
	low := strings.ToLower(message)
	for _, word := range []string{"launch template", "not authorized", "unauthorized", "security group", "invalid", "key pair", "ami ", "instance profile", "does not exist"} {
		if strings.Contains(low, word) && !strings.Contains(low, "capacity") {
			return claimOutcome{err: notReadyError("launch", a.name, "NodeGroupClass %s: group %s can't launch: %s", a.class, group, message)}
		}
	}
	return claimOutcome{noCapacity: true, err: fmt.Errorf("group %s: %s", group, message)}
}

// markCounted notes that a group's desired capacity counts these claims by now.
func (s *groupState) markCounted(open []*openClaim, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range open {
		if a.countedAt.IsZero() {
			a.countedAt = now
		}
	}
}

// openClaims are the open claims of a group, oldest first.
func (s *groupState) openClaims() []*openClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*openClaim, 0, len(s.open))
	for _, a := range s.open {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *openClaim) int {
		return cmp.Or(a.created.Compare(b.created), compareCounted(a.countedAt, b.countedAt), strings.Compare(a.name, b.name), strings.Compare(a.uid, b.uid))
	})
	return out
}

// compareCounted has claims that nobody was asked for come last.
func compareCounted(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		if a.IsZero() {
			return 1
		}
		return -1
	}
	return a.Compare(b)
}

// closeClaim answers for a claim that is not waited for any longer.
func (s *groupState) closeClaim(p *Provider, a *openClaim, answers map[string]claimOutcome, with claimOutcome) {
	s.mu.Lock()
	delete(s.open, a.uid)
	s.mu.Unlock()
	p.registry.noteClosed(a.uid)
	with.group = s.name
	answers[a.uid] = with
	if with.member == nil { // its own call may be over by then; the next one hears of it
		p.registry.keepOutcome(a.uid, with)
	}
}

// noteInitialMembers remembers who was there when a group was first looked at.
func (s *groupState) noteInitialMembers(g *scalingGroup, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.initialMembers != nil {
		return
	}
	s.initialMembers, s.firstViewedAt = map[string]bool{}, at
	for _, m := range g.members {
		s.initialMembers[m.id] = true
	}
}

// matchMembers hands members that are nobody's to open claims. It says whether to wait with everything else, as a member that was there before
// this process may bear a claim's tag that EC2 does not show yet; and how many members have come that EC2 does not show at all.
func (p *Provider) matchMembers(ctx context.Context, s *groupState, v *groupView, answers map[string]claimOutcome) (wait bool, coming int64) {
	there := map[string]bool{}
	for _, m := range v.members {
		there[m.id] = true
	}
	for id := range s.matched {
		if m := v.instances[id]; m == nil && !there[id] || m != nil && m.gone {
			delete(s.matched, id)
		}
	}
	of := map[string]*instance{}
	for id, m := range v.instances {
		if uid, ok := s.matched[id]; ok {
			m.claimUID = uid
		}
		if m.claimUID != "" && (of[m.claimUID] == nil || of[m.claimUID].gone) {
			of[m.claimUID] = m
		}
	}
	open := s.openClaims()
	for _, a := range open {
		if m := of[a.uid]; m != nil {
			s.closeClaim(p, a, answers, claimOutcome{member: m})
		}
	}
	open = s.openClaims()
	s.mu.Lock()
	old, since := s.initialMembers, s.firstViewedAt
	s.mu.Unlock()
	earlier := func(a *openClaim) bool { return !a.created.IsZero() && a.created.Before(since) }
	var free []*instance
	for _, x := range v.members {
		if v.instances[x.id] == nil {
			if !old[x.id] {
				coming++
			} else if v.at.Sub(since) < ListDelay && slices.ContainsFunc(open, earlier) {
				wait = true
			}
		}
		if m := v.instances[x.id]; m != nil && m.claimUID == "" && !m.gone {
			free = append(free, m)
		}
	}
	slices.SortFunc(free, func(a, b *instance) int {
		return cmp.Or(a.launched.Compare(b.launched), strings.Compare(a.id, b.id))
	})
	type pair struct {
		m *instance
		a *openClaim
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
	runConcurrently(len(pairs), func(i int) { errs[i] = p.tagMember(ctx, pairs[i].m, pairs[i].a.uid, pairs[i].a.name, pairs[i].a.pool) })
	for i, x := range pairs {
		switch {
		case errs[i] == nil:
			s.matched[x.m.id] = x.a.uid
			x.m.claimUID, x.m.claimName = x.a.uid, x.a.name
			p.instances.addLaunched(*x.m)
			s.closeClaim(p, x.a, answers, claimOutcome{member: x.m})
		case errorCode(errs[i]) == codeInstanceUnknown: // EC2 does not know it everywhere yet
			wait = true
		default:
			answers[x.a.uid] = claimOutcome{err: errs[i]}
			wait = true // it stays open, and its member nobody's
		}
	}
	return wait, coming
}

// runConcurrently does n things, some side by side.
func runConcurrently(n int, do func(int)) {
	var wg sync.WaitGroup
	room := make(chan struct{}, maxConcurrentCalls)
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
func (p *Provider) tagMember(ctx context.Context, m *instance, uid, name, pool string) error {
	tags := map[string]string{
		awsv1.TagClaimUID: uid, awsv1.TagNodeClaim: name, awsv1.TagClusterName: p.config.ClusterName, "kubernetes.io/cluster/" + p.config.ClusterName: "owned",
	}
	if pool != "" {
		tags[awsv1.TagNodePool] = pool
	}
	_, err := p.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{m.id}, Tags: ec2Tags(tags)})
	return err
}

// adoptMember makes a member that was there before a claim the claim's.
func (p *Provider) adoptMember(ctx context.Context, req cloud.LaunchRequest, id string) (*instance, error) {
	read := func() (*instance, error) {
		res, err := p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if err != nil {
			return nil, err
		}
		for _, in := range flattenReservations(res.Reservations) {
			m := readInstance(in)
			return &m, nil
		}
		return nil, &cloud.Error{Kind: cloud.NotFound}
	}
	m, err := read()
	if err != nil || m.gone || m.claimUID == req.ClaimUID {
		return m, err
	}
	if m.autoScalingGroup == "" {
		return nil, &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("instance %s is in no group any more", id)}
	}
	s := p.groupStateOf(m.autoScalingGroup)
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
	p.instances.addLaunched(*m)
	return m, nil
}

func (p *Provider) setDesiredCapacity(ctx context.Context, s *groupState, n int64) error {
	_, err := p.autoscaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &s.name, DesiredCapacity: sdk.Int32(int32(n)), HonorCooldown: sdk.Bool(false)})
	if err == nil {
		s.noteDesired(n, p.clock.Now())
		p.registry.noteChangeResult(s.name, nil)
		return nil
	}
	if isDenied(errorCode(err)) {
		p.registry.noteChangeResult(s.name, readableError(err))
	}
	return err
}

// lastFailedActivity is the last thing that a group tried in vain since it was asked for the members that have not come; nil: there is none.
func (p *Provider) lastFailedActivity(ctx context.Context, name string, open []*openClaim) (*astypes.Activity, error) {
	res, err := p.autoscaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &name, MaxRecords: sdk.Int32(20)})
	if err != nil {
		return nil, err
	}
	for i := range res.Activities {
		a := &res.Activities[i]
		if a.StartTime == nil || a.StatusCode != astypes.ScalingActivityStatusCodeFailed && a.StatusCode != astypes.ScalingActivityStatusCodeCancelled {
			continue
		}
		if slices.ContainsFunc(open, func(o *openClaim) bool {
			return !o.countedAt.IsZero() && o.countedAt.Before(a.StartTime.Add(activitySlack))
		}) {
			return a, nil
		}
	}
	return nil, nil
}

// shrinkGroup lowers a group's desired capacity to what it has and still waits for, and sees to it that no member goes: while a group has more
// members than it should, it ends some of its own choice. So members lose their protection only when the group has been read again and wants
// all that it has. Where that can't be had, or whether it has been made smaller is not known, they keep it: lift finds them later.
//
// It may die in between, so that each member says first that it is protected for a moment only.
func (p *Provider) shrinkGroup(ctx context.Context, s *groupState, v *groupView, to, outstanding int64) error {
	var ids []string
	had := map[string]bool{}
	for _, m := range v.members {
		had[m.id] = true
		x := v.instances[m.id]
		if m.protected && (x == nil || x.protectedSince.IsZero()) {
			continue
		}
		if x == nil {
			return &cloud.Error{Kind: cloud.Throttled, After: time.Second, Err: fmt.Errorf("group %s can't be made smaller before EC2 describes its member %s", s.name, m.id)}
		}
		ids = append(ids, m.id)
	}
	if err := p.tagProtected(ctx, ids, p.clock.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	err := p.setProtection(ctx, s.name, ids, true)
	if err == nil {
		if err = p.setDesiredCapacity(ctx, s, to); err != nil && !hadNoEffect(err) {
			p.log.Warn("members stay protected from scale-in for now: it is not known what their group should have", "group", s.name, "members", len(ids), "error", readableError(err))
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchTimeout)
	defer cancel()
	if e := p.removeProtection(ctx, s, ids, had, outstanding); e != nil {
		p.log.Warn("members stay protected from scale-in for now", "group", s.name, "members", len(ids), "error", readableError(e))
		return cmp.Or(err, e)
	}
	if err == nil {
		s.surplus = 0
	}
	return err
}

// tagProtected writes down on members since when they are protected for a moment; empty: they are not. A member that EC2 does not know yet, or no
// more, is nothing that whoever asked has done wrong: the group is looked at again.
func (p *Provider) tagProtected(ctx context.Context, ids []string, since string) error {
	for some := range slices.Chunk(ids, 500) {
		_, err := p.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: some, Tags: ec2Tags(map[string]string{dovetailv1alpha1.TagShielded: since})})
		if errorCode(err) == codeInstanceUnknown {
			return &cloud.Error{Kind: cloud.Throttled, After: time.Second, Err: readableError(err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeProtection takes the protection of members back, and then what was written down of it, once the group wants all that it has. To that end it
// is made as large again where members have come beside those that it had and those that are waited for.
func (p *Provider) removeProtection(ctx context.Context, s *groupState, ids []string, had map[string]bool, outstanding int64) error {
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
			if err := p.setDesiredCapacity(ctx, s, n); err != nil {
				return err
			}
		}
	}
	for some := range slices.Chunk(ids, 50) {
		err := p.setProtection(ctx, s.name, some, false)
		if errorCode(err) == "ValidationError" { // one that has left its group keeps no other
			err = nil
			for _, id := range some {
				if e := p.setProtection(ctx, s.name, []string{id}, false); e != nil && errorCode(e) != "ValidationError" {
					err = e
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return p.tagProtected(ctx, ids, "")
}

// protectionLimit is how long after it was written down a protection was certainly forgotten: whoever was at it has ended by then, and clocks
// may differ.
const protectionLimit = batchTimeout + clockSlack

// removeStaleProtection takes back protections that a process which died, or could not, has left behind.
func (p *Provider) removeStaleProtection(ctx context.Context, l *instanceList) {
	left := map[string][]string{}
	for i := range l.all {
		if m := &l.all[i]; m.autoScalingGroup != "" && !m.gone && !m.protectedSince.IsZero() && l.at.Sub(m.protectedSince) > protectionLimit {
			left[m.autoScalingGroup] = append(left[m.autoScalingGroup], m.id)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		s := p.groupStateOf(name)
		select {
		case <-s.turn:
		default:
			continue // somebody is at it
		}
		err := p.removeProtection(ctx, s, left[name], nil, 0)
		s.turn <- struct{}{}
		if err != nil {
			p.log.Warn("members stay protected from scale-in, trying again", "group", name, "members", len(left[name]), "error", readableError(err))
			continue
		}
		p.log.Info("members are not protected from scale-in any more, which was to be for a moment", "group", name, "members", len(left[name]))
	}
}

// trimExcess makes those groups smaller that want what nobody asks for and AWS has not given them for long: claims that were deleted while no
// process knew what they had asked for have left it behind. Whose wish it was is not known; but what has not come by then is not waited for
// in a claim either.
func (p *Provider) trimExcess(ctx context.Context) {
	for _, name := range p.registry.groupNames() {
		s := p.groupStateOf(name)
		least, is := s.takeOverdueExcess(p.clock.Now())
		if !is {
			continue
		}
		select {
		case <-s.turn:
		default:
			continue // somebody is at it
		}
		err := p.trimGroupExcess(ctx, s, least)
		s.turn <- struct{}{}
		if err != nil {
			p.log.Warn("group wants machines that nobody asks for and that do not come, and can't be made smaller now", "group", name, "error", readableError(err))
		}
	}
}

func (p *Provider) trimGroupExcess(ctx context.Context, s *groupState, least int64) error {
	if refresh, err := p.instanceRefreshStatus(ctx, s.name); err != nil || refresh != "" {
		return err // members go and come
	}
	v, err := p.readGroupView(ctx, s.name)
	if err != nil || v.scalingGroup == nil || v.problem != "" {
		return err
	}
	outstanding := int64(len(s.openClaims())) // whether a member is one of theirs already or not
	to := max(int64(len(v.members))+outstanding, v.min, least)
	if v.desired <= to {
		return nil
	}
	if err := p.shrinkGroup(ctx, s, v, to, outstanding); err != nil {
		return err
	}
	p.log.Info("group wanted machines that nobody asks for and that did not come, it is made smaller", "group", s.name, "from", v.desired, "to", to)
	return nil
}

func (p *Provider) setProtection(ctx context.Context, name string, ids []string, on bool) error {
	for some := range slices.Chunk(ids, 50) {
		if _, err := p.autoscaling.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: &name, InstanceIds: some, ProtectedFromScaleIn: &on}); err != nil {
			return err
		}
	}
	return nil
}

// placeholderPrefix is the provider id of a machine that a group was asked for and that has not come.
const placeholderPrefix = "aws:///placeholder/"

// cancelClaim gives up what a claim has asked a group for.
func (p *Provider) cancelClaim(ctx context.Context, uid string) error {
	p.registry.mu.Lock()
	name := p.registry.groupByClaim[uid]
	p.registry.mu.Unlock()
	if name == "" {
		return &cloud.Error{Kind: cloud.NotFound}
	}
	answers, ok := p.groupStateOf(name).reconciles.ask(ctx, []*openClaim{{uid: uid, cancelled: true}})
	if !ok {
		return ctx.Err()
	}
	return answers[0].err
}

// terminateMembers ends members of one group, each by its id, and has the group want as many fewer. Where the group may not become smaller it
// starts another one instead.
func (p *Provider) terminateMembers(ctx context.Context, s *groupState, ids []string) []error {
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
	runConcurrently(len(ids), func(i int) {
		id := ids[i]
		if slices.Index(ids, id) < i {
			errs[i] = &cloud.Error{Kind: cloud.NotFound}
			return
		}
		if g != nil && slices.Contains(g.leaving, id) { // asked again, the group might want one less once more
			p.instances.markEnded(id, p.clock.Now())
			errs[i] = &cloud.Error{Kind: cloud.NotFound}
			return
		}
		end := func(smaller bool) error {
			_, err := p.autoscaling.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: &smaller})
			return err
		}
		err := end(true)
		if e := err; e != nil && errorCode(e) == "ValidationError" && strings.Contains(strings.ToLower(e.Error()), "min size") {
			p.log.Info("group is at its minimum: it will start another member for the one that is ended", "group", s.name, "instance", id)
			err = end(false)
		}
		if err != nil && errorCode(err) == "ValidationError" && strings.Contains(err.Error(), "not found") { // it has left the group, or is on its way out
			err = p.terminateInstances(ctx, []string{id})[0]
		}
		if err == nil {
			p.instances.markEnded(id, p.clock.Now())
		}
		errs[i] = err
	})
	return errs
}

// maxSizeOf is how many machines a group may have: as many as it says, and its class.
func (g *groupRegistry) maxSizeOf(name string, described int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n, ok := g.maxSizes[name]; ok {
		return min(n, described)
	}
	return described
}

// noteChangeResult notes whether the last change of a group was permitted.
func (g *groupRegistry) noteChangeResult(name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		delete(g.denials, name)
	} else {
		g.denials[name] = err
	}
}

// keepOutcome keeps an answer for a claim whose own call was over when it was found.
func (g *groupRegistry) keepOutcome(uid string, a claimOutcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unreadOutcomes[uid] = a
}

// takeOutcome takes the answer that was kept for a claim.
func (g *groupRegistry) takeOutcome(uid string) (claimOutcome, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.unreadOutcomes[uid]
	delete(g.unreadOutcomes, uid)
	return a, ok
}
