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

// nodeGroupClass is a NodeGroupClass, read.
type nodeGroupClass struct {
	name, generationKey string // generationKey changes with the class's generation
	spec                dovetailv1alpha1.NodeGroupClassSpec
}

func isNodeGroupClass(c cloud.NodeClass) bool {
	return c.Group == dovetailv1alpha1.Group && c.Kind == dovetailv1alpha1.KindNodeGroupClass
}

func readNodeGroupClass(op string, c cloud.NodeClass) (*nodeGroupClass, error) {
	out := &nodeGroupClass{name: c.Name, generationKey: fmt.Sprintf("%s/%s/%d", c.Name, c.UID, c.Generation)}
	if len(c.Spec) > 0 {
		if err := json.Unmarshal(c.Spec, &out.spec); err != nil {
			return nil, notReadyError(op, c.Name, "NodeGroupClass %s: spec: %w", c.Name, err)
		}
	}
	if len(out.spec.SelectorTerms) == 0 {
		return nil, notReadyError(op, c.Name, "NodeGroupClass %s: spec.selectorTerms: empty; name a group or its tags", c.Name)
	}
	return out, nil
}

// scalingGroup is an Auto Scaling group as it was described.
type scalingGroup struct {
	name                 string
	min, max, desired    int64
	members              []member
	leaving              []string                            // ids of those that are on their way out of it
	instanceTypes        []string                            // all that it may launch, in its own order
	mixed                bool                                // which of them it launches is the group's to decide
	instanceRequirements []types.InstanceRequirementsRequest // what types must have that it may launch; empty: types are listed
	capacityTypes        []string                            // sorted
	zones                []string                            // sorted
	tags                 map[string]string
	suspended            []string
	labels               model.Labels  // that its tags say its nodes have
	taints               []model.Taint // and taints
	template             templateRef
	templateData         *types.ResponseLaunchTemplateData // of its launch template; nil: not known
	problem              string                            // why nothing can be had from it; empty: it can
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

// countsTowardsDesired says whether an instance in this state counts towards its group's desired capacity.
func countsTowardsDesired(state astypes.LifecycleState) bool {
	s := string(state)
	return s == "InService" || strings.HasPrefix(s, "Pending")
}

// groupState is what this process knows of a group beside what AWS says: what is under way in it. Whoever has the turn may read the
// group and change it.
type groupState struct {
	name string
	turn chan struct{}

	reconciles   *batcher[*openClaim, claimOutcome]
	terminations *batcher[string, error]

	// Below: whoever has the turn.
	matched map[string]string // claim uid by instance: tagged by this process, whatever Describe says
	surplus int64             // by how much its desired capacity is to be lowered, for claims that were given up

	mu             sync.Mutex
	initialMembers map[string]bool       // members that were there when the group was first looked at
	firstViewedAt  time.Time             // when that was
	open           map[string]*openClaim // by claim uid: claims that a member is to come for
	batch          *launchBatch          // claims of a plan that have come so far; nil: none
	desired        int64                 // as this process last left it, or saw it
	desiredAt      time.Time             // when; zero: never
	excessSince    time.Time             // since when it wants more than it has and is asked for; zero: it does not
	provisionTime  time.Duration         // how long AWS has to give it that
	minSize        int64                 // how many it is to have at least, by its class
}

// openClaim is a claim for which a group was asked, or is to be asked, for a machine.
type openClaim struct {
	uid, name, pool string
	created         time.Time
	fits            func(*instance) bool // whether a machine is one that the claim allows
	countedAt       time.Time            // when the group's desired capacity first counted it; zero: not yet
	class           string
	cancelled       bool // it is given up
}

// groupRegistry are the groups that this process has to do with.
type groupRegistry struct {
	mu             sync.Mutex
	states         map[string]*groupState
	groupByClaim   map[string]string       // the group of an open claim, by the claim's uid
	unreadOutcomes map[string]claimOutcome // by claim uid: what it has not heard yet
	maxSizes       map[string]int64        // by group: how many its class allows
	classes        map[string]string       // by group: the class that chose it
	denials        map[string]error        // by group: why it could not be changed when that was last tried
}

func newGroupRegistry() groupRegistry {
	return groupRegistry{states: map[string]*groupState{}, groupByClaim: map[string]string{}, unreadOutcomes: map[string]claimOutcome{}, maxSizes: map[string]int64{}, classes: map[string]string{}, denials: map[string]error{}}
}

// noteSelected notes that a class has chosen a group.
func (g *groupRegistry) noteSelected(a *scalingGroup, class string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maxSizes[a.name], g.classes[a.name] = a.max, class
}

func (p *Provider) groupStateOf(name string) *groupState {
	p.registry.mu.Lock()
	defer p.registry.mu.Unlock()
	s := p.registry.states[name]
	if s == nil {
		s = &groupState{name: name, turn: make(chan struct{}, 1), matched: map[string]string{}, open: map[string]*openClaim{}}
		s.turn <- struct{}{}
		s.reconciles = newBatcher(p.clock, reconcileWindow, maxReconcileClaims, func(ctx context.Context, asks []*openClaim) []claimOutcome { return p.reconcile(ctx, s, asks) })
		s.terminations = newBatcher(p.clock, 20*time.Millisecond, maxReconcileClaims, func(ctx context.Context, ids []string) []error { return p.terminateMembers(ctx, s, ids) })
		p.registry.states[name] = s
	}
	return s
}

// groupNames are the names of the groups that some class has chosen, sorted.
func (g *groupRegistry) groupNames() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for name := range g.states {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// desiredCapacity is a group's desired capacity as it is known best: what this process left it at after it was described, or what was described.
func (s *groupState) desiredCapacity(g *scalingGroup, described time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.desiredAt.After(described) {
		return s.desired
	}
	return g.desired
}

func (s *groupState) noteDesired(desired int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.desired, s.desiredAt = desired, now
}

// defaultProvisionTime is how long AWS has to give a group a machine, where the group's class does not say.
const defaultProvisionTime = 15 * time.Minute

func (c *nodeGroupClass) provisionTime() time.Duration {
	if o := c.spec.Options; o != nil && o.MaxNodeProvisionTime != nil && o.MaxNodeProvisionTime.Duration > 0 {
		return o.MaxNodeProvisionTime.Duration
	}
	return defaultProvisionTime
}

// noteExcess notes since when a group wants more than it has and is asked for.
func (s *groupState) noteExcess(g *scalingGroup, described time.Time, patience time.Duration) {
	asked := int64(len(s.openClaims()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.provisionTime, s.minSize = patience, g.min
	if g.problem != "" || g.desired <= max(g.min, int64(len(g.members))+asked) {
		s.excessSince = time.Time{}
	} else if s.excessSince.IsZero() {
		s.excessSince = described
	}
}

// takeOverdueExcess says whether it has done so for as long as AWS has, and counts anew; and how many its class would have it keep.
func (s *groupState) takeOverdueExcess(now time.Time) (least int64, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.excessSince.IsZero() || now.Sub(s.excessSince) < s.provisionTime {
		return 0, false
	}
	s.excessSince = time.Time{}
	return s.minSize, true
}

// selectedGroups are the groups of a class, and what its terms could not choose.
type selectedGroups struct {
	*nodeGroupClass
	groups   []*scalingGroup // by name, with the class's own bounds
	at       time.Time
	problems map[string]model.Condition
}

type groupDescription struct {
	groups []*scalingGroup
	at     time.Time
}

// selectGroups asks which groups a class's terms choose. An error is one of the calls that may work next time; whatever a person has to
// mend is a problem.
func (p *Provider) selectGroups(ctx context.Context, c *nodeGroupClass) (*selectedGroups, error) {
	out := &selectedGroups{nodeGroupClass: c, problems: map[string]model.Condition{}}
	seen := map[string]bool{}
	for i := range c.spec.SelectorTerms {
		t := &c.spec.SelectorTerms[i]
		field := fmt.Sprintf("spec.selectorTerms[%d]", i)
		d, err := p.groupDescriptions.get(ctx, t.Name+selectorKey(t.Tags), func(ctx context.Context) (groupDescription, error) {
			at := p.clock.Now()
			in := &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: sdk.Int32(100)}
			if t.Name != "" {
				in.AutoScalingGroupNames = []string{t.Name}
			}
			for _, f := range tagFilters(anyValueWhereEmpty(t.Tags)) {
				in.Filters = append(in.Filters, astypes.Filter{Name: f.Name, Values: f.Values})
			}
			list, err := p.describeGroups(ctx, in)
			return groupDescription{list, at}, err
		})
		if err != nil {
			e := classifyError(ctx, "resolve", c.name, err)
			if cloud.KindOf(e) != cloud.Denied {
				return nil, e
			}
			out.addProblem(dovetailv1alpha1.ConditionGroupsResolved, "AccessDenied", field+": "+readableError(err).Error()+"; allow the call in the controller's IAM policy")
			continue
		}
		if len(d.groups) == 0 {
			what := "group " + strconv.Quote(t.Name) + " does not exist"
			if t.Name == "" {
				what = "no group bears the tags " + selectorKey(t.Tags)
			}
			out.addProblem(dovetailv1alpha1.ConditionGroupsResolved, "GroupsNotFound", field+": "+what+" in region "+p.region+"; create it or choose others")
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
			s := p.groupStateOf(g.name)
			s.noteInitialMembers(g, d.at)
			s.noteExcess(&bounded, d.at, c.provisionTime())
			bounded.desired = s.desiredCapacity(g, d.at)
			p.registry.noteSelected(&bounded, c.name)
			out.groups = append(out.groups, &bounded)
		}
	}
	sortByKey(out.groups, func(g *scalingGroup) string { return g.name })
	return out, nil
}

// addProblem notes what a person has to mend; of several under one condition all are told.
func (c *selectedGroups) addProblem(condition, reason, message string) {
	if have, ok := c.problems[condition]; ok {
		message = have.Message + "; " + message
	}
	c.problems[condition] = falseCondition(reason, message)
}

// anyValueWhereEmpty has tags without a value mean any value.
func anyValueWhereEmpty(tags map[string]string) map[string]string {
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
func (p *Provider) describeGroups(ctx context.Context, in *autoscaling.DescribeAutoScalingGroupsInput) ([]*scalingGroup, error) {
	var out []*scalingGroup
	for {
		page, err := p.autoscaling.DescribeAutoScalingGroups(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range page.AutoScalingGroups {
			g := readGroup(&page.AutoScalingGroups[i])
			if g.problem == "" {
				if err := p.resolveGroupTemplate(ctx, g); err != nil {
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
func readGroup(in *astypes.AutoScalingGroup) *scalingGroup {
	g := &scalingGroup{
		name: deref(in.AutoScalingGroupName), min: int64(deref(in.MinSize)), max: int64(deref(in.MaxSize)), desired: int64(deref(in.DesiredCapacity)),
		zones: slices.Clone(in.AvailabilityZones), tags: map[string]string{}, labels: model.Labels{},
	}
	slices.Sort(g.zones)
	for _, i := range in.Instances {
		if countsTowardsDesired(i.LifecycleState) {
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
		g.readMixedPolicy(in.MixedInstancesPolicy)
	case in.LaunchTemplate != nil:
		g.template = templateRefOf(in.LaunchTemplate)
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

func templateRefOf(in *astypes.LaunchTemplateSpecification) templateRef {
	r := templateRef{deref(in.LaunchTemplateId), deref(in.LaunchTemplateName), deref(in.Version)}
	if r.version == "" {
		r.version = "$Default"
	}
	return r
}

func (g *scalingGroup) readMixedPolicy(m *astypes.MixedInstancesPolicy) {
	if m.LaunchTemplate.LaunchTemplateSpecification == nil {
		g.problem = "its mixed instances policy has no launch template"
		return
	}
	g.template = templateRefOf(m.LaunchTemplate.LaunchTemplateSpecification)
	for _, o := range m.LaunchTemplate.Overrides {
		switch {
		case o.InstanceRequirements != nil:
			g.addRequirements(o.InstanceRequirements)
		case deref(o.WeightedCapacity) != "" && *o.WeightedCapacity != "1":
			g.problem = "its mixed instances policy weighs " + deref(o.InstanceType) + " as " + *o.WeightedCapacity + " machines; take the weights away"
			return
		case deref(o.InstanceType) != "" && !slices.Contains(g.instanceTypes, *o.InstanceType):
			g.instanceTypes = append(g.instanceTypes, *o.InstanceType)
		}
	}
	g.mixed = len(g.instanceTypes) > 1
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

// resolveGroupTemplate reads a group's launch template: one that is not there is the group's problem.
func (p *Provider) resolveGroupTemplate(ctx context.Context, g *scalingGroup) error {
	type key struct{ id, version string }
	id := g.template.id
	if id == "" {
		id = g.template.name
	}
	data, err := p.groupTemplateCache.get(ctx, fmt.Sprint(key{id, g.template.version}), func(ctx context.Context) (*types.ResponseLaunchTemplateData, error) {
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
			return nil, newUnresolvedError("LaunchTemplateNotFound", "launch template %s has no version %s", g.template, g.template.version)
		}
		return res.LaunchTemplateVersions[0].LaunchTemplateData, nil
	})
	var u *unresolvedError
	switch code := errorCode(err); {
	case err == nil:
	case errors.As(err, &u):
		g.problem = u.text + "; create it, or give the group another"
		return nil
	case isTemplateNotFound(code), strings.HasPrefix(code, "InvalidLaunchTemplateId"), strings.HasPrefix(code, "InvalidLaunchTemplateVersion"):
		g.problem = fmt.Sprintf("its launch template %s, version %s: %s; create it, or give the group another", g.template, g.template.version, readableError(err))
		return nil
	case isDenied(code):
		g.problem = readableError(err).Error() + "; allow ec2:DescribeLaunchTemplateVersions in the controller's IAM policy"
		return nil
	default:
		return err
	}
	g.templateData = data
	if len(g.instanceTypes) == 0 && len(g.instanceRequirements) == 0 && data.InstanceRequirements != nil {
		g.addRequirements(data.InstanceRequirements)
	}
	if len(g.instanceRequirements) > 0 {
		if err := p.resolveGroupTypes(ctx, g); err != nil || g.problem != "" {
			return err
		}
	}
	if len(g.instanceTypes) == 0 {
		switch {
		case data.InstanceType == "":
			g.problem = "launch template " + g.template.String() + " names no instance type"
			return nil
		}
		g.instanceTypes = []string{string(data.InstanceType)}
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
func (p *Provider) describeGroup(ctx context.Context, name string) (*scalingGroup, error) {
	res, err := p.autoscaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil || len(res.AutoScalingGroups) == 0 {
		return nil, err
	}
	return readGroup(&res.AutoScalingGroups[0]), nil
}
