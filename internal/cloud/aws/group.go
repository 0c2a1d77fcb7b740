// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// tagGroup is the tag by which AWS says which group an instance is a member of.
const tagGroup = "aws:autoscaling:groupName"

// groupClass is a NodeGroupClass, read.
type groupClass struct {
	name, id string // id changes with the class's generation
	spec     dovetailv1alpha1.NodeGroupClassSpec
}

func ofGroups(c cloud.NodeClass) bool {
	return c.Group == dovetailv1alpha1.Group && c.Kind == dovetailv1alpha1.KindNodeGroupClass
}

func readGroupClass(op string, c cloud.NodeClass) (*groupClass, error) {
	out := &groupClass{name: c.Name, id: fmt.Sprintf("%s/%s/%d", c.Name, c.UID, c.Generation)}
	if len(c.Spec) > 0 {
		if err := json.Unmarshal(c.Spec, &out.spec); err != nil {
			return nil, notReady(op, c.Name, "NodeGroupClass %s: spec: %w", c.Name, err)
		}
	}
	if len(out.spec.SelectorTerms) == 0 {
		return nil, notReady(op, c.Name, "NodeGroupClass %s: spec.selectorTerms: empty; name a group or its tags", c.Name)
	}
	return out, nil
}

// autoGroup is an Auto Scaling group as it was described.
type autoGroup struct {
	name              string
	min, max, desired int64
	members           []member
	leaving           []string                            // ids of those that are on their way out of it
	types             []string                            // all that it may launch, in its own order
	mixed             bool                                // which of them it launches is the group's to decide
	attributes        []types.InstanceRequirementsRequest // what types must have that it may launch; empty: types are listed
	capacityTypes     []string                            // sorted
	zones             []string                            // sorted
	tags              map[string]string
	suspended         []string
	labels            model.Labels  // that its tags say its nodes have
	taints            []model.Taint // and taints
	template          templateRef
	data              *types.ResponseLaunchTemplateData // of its launch template; nil: not known
	problem           string                            // why nothing can be had from it; empty: it can
}

type templateRef struct{ id, name, version string }

func (r templateRef) String() string {
	if r.name != "" {
		return r.name
	}
	return r.id
}

// member is an instance of a group that counts towards its desired capacity.
type member struct {
	id        string
	protected bool
}

// stays says whether an instance in this state counts towards its group's desired capacity.
func stays(state astypes.LifecycleState) bool {
	s := string(state)
	return s == "InService" || strings.HasPrefix(s, "Pending")
}

// scaling is what this process knows of a group beside what AWS says: what is under way in it. Whoever has the turn may read the
// group and change it.
type scaling struct {
	name string
	turn chan struct{}

	asks *batcher[*opening, passed]
	ends *batcher[string, error]

	// Below: whoever has the turn.
	matched map[string]string // claim uid by instance: tagged by this process, whatever Describe says
	surplus int64             // by how much its desired capacity is to be lowered, for claims that were given up

	mu      sync.Mutex
	old     map[string]bool     // members that were there when the group was first looked at
	since   time.Time           // when that was
	open    map[string]*opening // by claim uid: claims that a member is to come for
	crowd   *crowd              // claims of a plan that have come so far; nil: none
	desired int64               // as this process last left it, or saw it
	at      time.Time           // when; zero: never
	excess  time.Time           // since when it wants more than it has and is asked for; zero: it does not
	patient time.Duration       // how long AWS has to give it that
	least   int64               // how many it is to have at least, by its class
}

// opening is a claim for which a group was asked, or is to be asked, for a machine.
type opening struct {
	uid, name, pool string
	created         time.Time
	fits            func(*machine) bool // whether a machine is one that the claim allows
	asked           time.Time           // when the group's desired capacity first counted it; zero: not yet
	class           string
	cancel          bool // it is given up
}

// groups are the groups that this process has to do with.
type groups struct {
	mu      sync.Mutex
	m       map[string]*scaling
	at      map[string]string // the group of an open claim, by the claim's uid
	told    map[string]passed // by claim uid: what it has not heard yet
	bound   map[string]int64  // by group: how many its class allows
	class   map[string]string // by group: the class that chose it
	refused map[string]error  // by group: why it could not be changed when that was last tried
}

func newGroups() groups {
	return groups{m: map[string]*scaling{}, at: map[string]string{}, told: map[string]passed{}, bound: map[string]int64{}, class: map[string]string{}, refused: map[string]error{}}
}

// chosen notes that a class has chosen a group.
func (g *groups) chosen(a *autoGroup, class string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bound[a.name], g.class[a.name] = a.max, class
}

func (p *Provider) scalingOf(name string) *scaling {
	p.scaled.mu.Lock()
	defer p.scaled.mu.Unlock()
	s := p.scaled.m[name]
	if s == nil {
		s = &scaling{name: name, turn: make(chan struct{}, 1), matched: map[string]string{}, open: map[string]*opening{}}
		s.turn <- struct{}{}
		s.asks = newBatcher(p.clock, passWindow, passMost, func(ctx context.Context, asks []*opening) []passed { return p.pass(ctx, s, asks) })
		s.ends = newBatcher(p.clock, 20*time.Millisecond, passMost, func(ctx context.Context, ids []string) []error { return p.endMembers(ctx, s, ids) })
		p.scaled.m[name] = s
	}
	return s
}

// known are the names of the groups that some class has chosen, sorted.
func (g *groups) known() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for name := range g.m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// size is a group's desired capacity as it is known best: what this process left it at after it was described, or what was described.
func (s *scaling) size(g *autoGroup, described time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.After(described) {
		return s.desired
	}
	return g.desired
}

func (s *scaling) left(desired int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.desired, s.at = desired, now
}

// provisionTime is how long AWS has to give a group a machine, where the group's class does not say.
const provisionTime = 15 * time.Minute

func (c *groupClass) patience() time.Duration {
	if o := c.spec.Options; o != nil && o.MaxNodeProvisionTime != nil && o.MaxNodeProvisionTime.Duration > 0 {
		return o.MaxNodeProvisionTime.Duration
	}
	return provisionTime
}

// wants notes since when a group wants more than it has and is asked for.
func (s *scaling) wants(g *autoGroup, described time.Time, patience time.Duration) {
	asked := int64(len(s.claims()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patient, s.least = patience, g.min
	if g.problem != "" || g.desired <= max(g.min, int64(len(g.members))+asked) {
		s.excess = time.Time{}
	} else if s.excess.IsZero() {
		s.excess = described
	}
}

// vain says whether it has done so for as long as AWS has, and counts anew; and how many its class would have it keep.
func (s *scaling) vain(now time.Time) (least int64, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.excess.IsZero() || now.Sub(s.excess) < s.patient {
		return 0, false
	}
	s.excess = time.Time{}
	return s.least, true
}

// chosen are the groups of a class, and what its terms could not choose.
type chosen struct {
	*groupClass
	groups   []*autoGroup // by name, with the class's own bounds
	at       time.Time
	problems map[string]model.Condition
}

type described struct {
	groups []*autoGroup
	at     time.Time
}

// choose asks which groups a class's terms choose. An error is one of the calls that may work next time; whatever a person has to
// mend is a problem.
func (p *Provider) choose(ctx context.Context, c *groupClass) (*chosen, error) {
	out := &chosen{groupClass: c, problems: map[string]model.Condition{}}
	seen := map[string]bool{}
	for i := range c.spec.SelectorTerms {
		t := &c.spec.SelectorTerms[i]
		field := fmt.Sprintf("spec.selectorTerms[%d]", i)
		d, err := p.autos.get(ctx, t.Name+selector(t.Tags), func(ctx context.Context) (described, error) {
			at := p.clock.Now()
			in := &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: sdk.Int32(100)}
			if t.Name != "" {
				in.AutoScalingGroupNames = []string{t.Name}
			}
			for _, f := range tagFilters(anyEmpty(t.Tags)) {
				in.Filters = append(in.Filters, astypes.Filter{Name: f.Name, Values: f.Values})
			}
			list, err := p.describeGroups(ctx, in)
			return described{list, at}, err
		})
		if err != nil {
			e := failed(ctx, "resolve", c.name, err)
			if cloud.KindOf(e) != cloud.Denied {
				return nil, e
			}
			out.problem(dovetailv1alpha1.ConditionGroupsResolved, "AccessDenied", field+": "+brief(err).Error()+"; allow the call in the controller's IAM policy")
			continue
		}
		if len(d.groups) == 0 {
			what := "group " + strconv.Quote(t.Name) + " does not exist"
			if t.Name == "" {
				what = "no group bears the tags " + selector(t.Tags)
			}
			out.problem(dovetailv1alpha1.ConditionGroupsResolved, "GroupsNotFound", field+": "+what+" in region "+p.region+"; create it or choose others")
			continue
		}
		if out.at.IsZero() || d.at.Before(out.at) {
			out.at = d.at
		}
		for _, g := range d.groups {
			if seen[g.name] {
				continue
			}
			seen[g.name] = true
			bounded := *g
			if t.MinSize != nil {
				bounded.min = max(g.min, int64(*t.MinSize))
			}
			if t.MaxSize != nil {
				bounded.max = min(g.max, int64(*t.MaxSize))
			}
			s := p.scalingOf(g.name)
			s.first(g, d.at)
			s.wants(&bounded, d.at, c.patience())
			bounded.desired = s.size(g, d.at)
			p.scaled.chosen(&bounded, c.name)
			out.groups = append(out.groups, &bounded)
		}
	}
	sortBy(out.groups, func(g *autoGroup) string { return g.name })
	return out, nil
}

// problem notes what a person has to mend; of several under one condition all are told.
func (c *chosen) problem(condition, reason, message string) {
	if have, ok := c.problems[condition]; ok {
		message = have.Message + "; " + message
	}
	c.problems[condition] = problem(reason, message)
}

// anyEmpty has tags without a value mean any value.
func anyEmpty(tags map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range tags {
		if v == "" {
			v = "*"
		}
		out[k] = v
	}
	return out
}

// describeGroups asks for groups, and for their launch templates.
func (p *Provider) describeGroups(ctx context.Context, in *autoscaling.DescribeAutoScalingGroupsInput) ([]*autoGroup, error) {
	var out []*autoGroup
	for {
		page, err := p.autoscaling.DescribeAutoScalingGroups(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range page.AutoScalingGroups {
			g := readGroup(&page.AutoScalingGroups[i])
			if g.problem == "" {
				if err := p.readTemplate(ctx, g); err != nil {
					return nil, err
				}
			}
			out = append(out, g)
		}
		if in.NextToken = page.NextToken; deref(in.NextToken) == "" {
			return out, nil
		}
	}
}

// readGroup reads what AWS says of a group.
func readGroup(in *astypes.AutoScalingGroup) *autoGroup {
	g := &autoGroup{
		name: deref(in.AutoScalingGroupName), min: int64(deref(in.MinSize)), max: int64(deref(in.MaxSize)), desired: int64(deref(in.DesiredCapacity)),
		zones: slices.Clone(in.AvailabilityZones), tags: map[string]string{}, labels: model.Labels{},
	}
	slices.Sort(g.zones)
	for _, i := range in.Instances {
		if stays(i.LifecycleState) {
			g.members = append(g.members, member{deref(i.InstanceId), deref(i.ProtectedFromScaleIn)})
		}
		if strings.HasPrefix(string(i.LifecycleState), "Terminat") {
			g.leaving = append(g.leaving, deref(i.InstanceId))
		}
	}
	for _, s := range in.SuspendedProcesses {
		g.suspended = append(g.suspended, deref(s.ProcessName))
	}
	for _, t := range in.Tags {
		g.tags[deref(t.Key)] = deref(t.Value)
	}
	said := dovetailv1alpha1.ReadTags(g.tags) // how its nodes look
	maps.Copy(g.labels, said.Labels)
	for _, t := range said.Taints {
		g.taints = append(g.taints, model.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	slices.SortFunc(g.taints, func(a, b model.Taint) int { return strings.Compare(a.Key+a.Effect+a.Value, b.Key+b.Effect+b.Value) })
	switch {
	case in.MixedInstancesPolicy != nil && in.MixedInstancesPolicy.LaunchTemplate != nil:
		g.mixedPolicy(in.MixedInstancesPolicy)
	case in.LaunchTemplate != nil:
		g.template = reference(in.LaunchTemplate)
	case in.LaunchConfigurationName != nil:
		g.problem = "it is made of launch configuration " + *in.LaunchConfigurationName + ", which is not read; give it a launch template"
	default:
		g.problem = "it has no launch template"
	}
	if deref(in.Status) != "" { // it is being deleted
		g.problem = "its status is " + *in.Status
	}
	for _, p := range g.suspended {
		if p == "Launch" {
			g.problem = "its process Launch is suspended; resume it"
		}
	}
	return g
}

func reference(in *astypes.LaunchTemplateSpecification) templateRef {
	r := templateRef{deref(in.LaunchTemplateId), deref(in.LaunchTemplateName), deref(in.Version)}
	if r.version == "" {
		r.version = "$Default"
	}
	return r
}

func (g *autoGroup) mixedPolicy(m *astypes.MixedInstancesPolicy) {
	if m.LaunchTemplate.LaunchTemplateSpecification == nil {
		g.problem = "its mixed instances policy has no launch template"
		return
	}
	g.template = reference(m.LaunchTemplate.LaunchTemplateSpecification)
	for _, o := range m.LaunchTemplate.Overrides {
		switch {
		case o.InstanceRequirements != nil:
			g.attribute(o.InstanceRequirements)
		case deref(o.WeightedCapacity) != "" && *o.WeightedCapacity != "1":
			g.problem = "its mixed instances policy weighs " + deref(o.InstanceType) + " as " + *o.WeightedCapacity + " machines; take the weights away"
			return
		case deref(o.InstanceType) != "" && !slices.Contains(g.types, *o.InstanceType):
			g.types = append(g.types, *o.InstanceType)
		}
	}
	g.mixed = len(g.types) > 1
	base, above := int32(0), int32(100)
	if d := m.InstancesDistribution; d != nil {
		base = deref(d.OnDemandBaseCapacity)
		if d.OnDemandPercentageAboveBaseCapacity != nil {
			above = *d.OnDemandPercentageAboveBaseCapacity
		}
	}
	if base > 0 || above > 0 {
		g.capacityTypes = append(g.capacityTypes, model.OnDemand)
	}
	if above < 100 {
		g.capacityTypes = append(g.capacityTypes, model.Spot)
	}
}

// readTemplate reads a group's launch template: one that is not there is the group's problem.
func (p *Provider) readTemplate(ctx context.Context, g *autoGroup) error {
	type key struct{ id, version string }
	id := g.template.id
	if id == "" {
		id = g.template.name
	}
	data, err := p.groupTemplates.get(ctx, fmt.Sprint(key{id, g.template.version}), func(ctx context.Context) (*types.ResponseLaunchTemplateData, error) {
		in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{g.template.version}, ResolveAlias: sdk.Bool(true)}
		if g.template.id != "" {
			in.LaunchTemplateId = &g.template.id
		} else {
			in.LaunchTemplateName = &g.template.name
		}
		res, err := p.ec2.DescribeLaunchTemplateVersions(ctx, in)
		if err != nil {
			return nil, err
		}
		if len(res.LaunchTemplateVersions) == 0 || res.LaunchTemplateVersions[0].LaunchTemplateData == nil {
			return nil, unresolved("LaunchTemplateNotFound", "launch template %s has no version %s", g.template, g.template.version)
		}
		return res.LaunchTemplateVersions[0].LaunchTemplateData, nil
	})
	var u *unresolvedError
	switch code := codeOf(err); {
	case err == nil:
	case errors.As(err, &u):
		g.problem = u.text + "; create it, or give the group another"
		return nil
	case noTemplate(code), strings.HasPrefix(code, "InvalidLaunchTemplateId"), strings.HasPrefix(code, "InvalidLaunchTemplateVersion"):
		g.problem = fmt.Sprintf("its launch template %s, version %s: %s; create it, or give the group another", g.template, g.template.version, brief(err))
		return nil
	case denied(code):
		g.problem = brief(err).Error() + "; allow ec2:DescribeLaunchTemplateVersions in the controller's IAM policy"
		return nil
	default:
		return err
	}
	g.data = data
	if len(g.types) == 0 && len(g.attributes) == 0 && data.InstanceRequirements != nil {
		g.attribute(data.InstanceRequirements)
	}
	if len(g.attributes) > 0 {
		if err := p.chooseTypes(ctx, g); err != nil || g.problem != "" {
			return err
		}
	}
	if len(g.types) == 0 {
		switch {
		case data.InstanceType == "":
			g.problem = "launch template " + g.template.String() + " names no instance type"
			return nil
		}
		g.types = []string{string(data.InstanceType)}
	}
	if len(g.capacityTypes) == 0 {
		g.capacityTypes = []string{model.OnDemand}
		if o := data.InstanceMarketOptions; o != nil && o.MarketType == types.MarketTypeSpot {
			g.capacityTypes = []string{model.Spot}
		}
	}
	return nil
}

// describeGroup asks for one group, now; nil: there is none of the name.
func (p *Provider) describeGroup(ctx context.Context, name string) (*autoGroup, error) {
	res, err := p.autoscaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil || len(res.AutoScalingGroups) == 0 {
		return nil, err
	}
	return readGroup(&res.AutoScalingGroups[0]), nil
}
