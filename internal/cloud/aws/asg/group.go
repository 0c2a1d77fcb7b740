// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// group is an Auto Scaling group, with the properties of its nodes from its launch template and tags.
type group struct {
	name                 string
	min, max, desired    int64
	members              []member
	leaving              []string                            // ids of those that are on their way out of it
	instanceTypes        []string                            // all that it may launch, in its own order
	instanceRequirements []types.InstanceRequirementsRequest // that its types must meet; empty: types are listed
	capacityTypes        []string                            // sorted
	zones                []string                            // sorted
	tags                 map[string]string
	suspended            []string
	labels               model.Labels     // that its tags, or EKS, say its nodes have
	taints               []model.Taint    // and taints
	resources            map[string]int64 // that its tags say its nodes have, in the model's units
	optionProblems       []string         // tags about how it is scaled that can't be read
	nodeProblems         []string         // tags about its nodes that can't be read, and without which it can be used
	taintProblem         string           // tags about the taints of its nodes that can't be read: pods would be planned onto nodes that keep them out
	template             templateRef
	templateData         *types.ResponseLaunchTemplateData            // of its launch template; nil: not known
	ownTemplates         map[string]templateRef                       // by instance type: of an override of the mixed instances policy
	ownTemplateData      map[string]*types.ResponseLaunchTemplateData // of those, where they are known
	managed              *managedGroup                                // the EKS managed node group that it is of; nil: none, or not known
	denied               error                                        // why EKS may not be asked for that; nil: it may
	described            time.Time                                    // when it was, where a class has chosen it
	problem              string                                       // why nothing can be had from it; empty: it can
}

// templateRef is the launch template of a group. It has an id, a name or both; the version may be $Latest or
// $Default.
type templateRef struct{ id, name, version string }

// String returns the name of the launch template, or its ID if it has no name.
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

// countsTowardsDesired reports whether an instance in this state counts towards its group's desired capacity.
func countsTowardsDesired(state astypes.LifecycleState) bool {
	s := string(state)
	return s == "InService" || strings.HasPrefix(s, "Pending")
}

// readGroup reads AWS's description of a group. Its launch template is only named then, see reader.resolveTemplate.
func readGroup(in *astypes.AutoScalingGroup) *group {
	g := &group{
		name: awsapi.Deref(in.AutoScalingGroupName), min: int64(awsapi.Deref(in.MinSize)), max: int64(awsapi.Deref(in.MaxSize)), desired: int64(awsapi.Deref(in.DesiredCapacity)),
		zones: slices.Clone(in.AvailabilityZones), tags: map[string]string{}, labels: model.Labels{},
	}
	slices.Sort(g.zones)
	for _, i := range in.Instances {
		if countsTowardsDesired(i.LifecycleState) {
			g.members = append(g.members, member{awsapi.Deref(i.InstanceId), awsapi.Deref(i.ProtectedFromScaleIn)})
		}
		if strings.HasPrefix(string(i.LifecycleState), "Terminat") {
			g.leaving = append(g.leaving, awsapi.Deref(i.InstanceId))
		}
	}
	for _, s := range in.SuspendedProcesses {
		g.suspended = append(g.suspended, awsapi.Deref(s.ProcessName))
	}
	for _, t := range in.Tags {
		g.tags[awsapi.Deref(t.Key)] = awsapi.Deref(t.Value)
	}
	said := dovetailv1alpha1.ReadTags(g.tags) // how its nodes look
	maps.Copy(g.labels, said.Labels)
	for _, t := range said.Taints {
		g.taints = append(g.taints, model.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	slices.SortFunc(g.taints, func(a, b model.Taint) int { return strings.Compare(a.Key+a.Effect+a.Value, b.Key+b.Effect+b.Value) })
	g.resources = wholeAmounts(said.Resources)
	var taints []string
	for _, p := range said.Problems {
		switch {
		case strings.HasPrefix(p.Key, dovetailv1alpha1.TagNodeTemplateTaint):
			taints = append(taints, p.String())
		case p.OfNodes:
			g.nodeProblems = append(g.nodeProblems, p.String())
		default:
			g.optionProblems = append(g.optionProblems, p.String())
		}
	}
	g.taintProblem = strings.Join(taints, "; ")
	g.problem = g.taintProblem
	switch {
	case in.MixedInstancesPolicy != nil && in.MixedInstancesPolicy.LaunchTemplate != nil:
		g.readMixedPolicy(in.MixedInstancesPolicy)
	case in.LaunchTemplate != nil:
		g.template = templateRefOf(in.LaunchTemplate)
	case in.LaunchConfigurationName != nil:
		g.problem = "it uses launch configuration " + *in.LaunchConfigurationName + ", which is not supported; use a launch template"
	default:
		g.problem = "it has no launch template"
	}
	if u := awsapi.Deref(in.DesiredCapacityType); u != "" && u != "units" {
		g.problem = "its desired capacity is counted as " + u + ", not in instances; set its DesiredCapacityType to units"
	}
	if awsapi.Deref(in.Status) != "" { // it is being deleted
		g.problem = "its status is " + *in.Status
	}
	for _, p := range g.suspended {
		if p == "Launch" {
			g.problem = "its process Launch is suspended; resume it"
		}
	}
	if w := in.WarmPoolConfiguration; w != nil && w.InstanceReusePolicy != nil && awsapi.Deref(w.InstanceReusePolicy.ReuseOnScaleIn) {
		// An instance that comes back bears the tags of the NodeClaim that it was ended for.
		g.problem = "its warm pool takes instances back on scale-in, which is not supported; set ReuseOnScaleIn of the warm pool to false"
	}
	return g
}

// wholeAmounts are amounts of resources in the model's units. A fraction of a unit is no node's to give.
func wholeAmounts(list corev1.ResourceList) map[string]int64 {
	out := map[string]int64{}
	for name, q := range list {
		v, rounded := q.Value(), resource.NewQuantity(q.Value(), resource.DecimalSI)
		if model.DimOf(string(name)) == model.CPU {
			v, rounded = q.MilliValue(), resource.NewMilliQuantity(q.MilliValue(), resource.DecimalSI)
		}
		if rounded.Cmp(q) > 0 { // Quantity rounds up
			v--
		}
		out[string(name)] = v
	}
	return out
}

// templateRefOf reads which launch template a group has.
func templateRefOf(in *astypes.LaunchTemplateSpecification) templateRef {
	r := templateRef{awsapi.Deref(in.LaunchTemplateId), awsapi.Deref(in.LaunchTemplateName), awsapi.Deref(in.Version)}
	if r.version == "" {
		r.version = "$Default"
	}
	return r
}

// readMixedPolicy reads which types and capacity types a mixed instances policy allows. What can't be used is the
// group's problem.
func (g *group) readMixedPolicy(m *astypes.MixedInstancesPolicy) {
	if m.LaunchTemplate.LaunchTemplateSpecification == nil {
		g.problem = "its mixed instances policy has no launch template"
		return
	}
	g.template = templateRefOf(m.LaunchTemplate.LaunchTemplateSpecification)
	for _, o := range m.LaunchTemplate.Overrides {
		switch {
		case o.InstanceRequirements != nil:
			g.addRequirements(o.InstanceRequirements)
		case awsapi.Deref(o.WeightedCapacity) != "" && *o.WeightedCapacity != "1":
			g.problem = "its mixed instances policy gives " + awsapi.Deref(o.InstanceType) + " weight " + *o.WeightedCapacity + "; remove the weights"
			return
		case o.LaunchTemplateSpecification != nil && awsapi.Deref(o.InstanceType) != "":
			if g.ownTemplates == nil {
				g.ownTemplates = map[string]templateRef{}
			}
			g.ownTemplates[*o.InstanceType] = templateRefOf(o.LaunchTemplateSpecification)
			g.instanceTypes = append(g.instanceTypes, *o.InstanceType)
		case awsapi.Deref(o.InstanceType) != "" && !slices.Contains(g.instanceTypes, *o.InstanceType):
			g.instanceTypes = append(g.instanceTypes, *o.InstanceType)
		}
	}
	base, above := int32(0), int32(100)
	if d := m.InstancesDistribution; d != nil {
		base = awsapi.Deref(d.OnDemandBaseCapacity)
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

// groupState is the state of a group in this process, in addition to AWS's: the operations in progress. Only the holder of the
// turn may read the group for a change, and change it.
type groupState struct {
	name string
	turn cloud.Lock

	reconciles   *awsapi.Batcher[*openClaim, claimOutcome]
	terminations *awsapi.Batcher[string, error]

	// Only the holder of the turn uses the fields below.
	matched map[string]string // claim uid by instance: tagged by this process, whatever Describe says
	surplus int64             // by how much its desired capacity is to be lowered, for claims that were given up
	asked   time.Time         // since when the group was to have members for those claims, the earliest
	unseen  map[string]unseen // by instance: members that EC2 does not describe

	mu             sync.Mutex
	late           map[string]time.Time  // members that came for claims that were given up before, by instance: when that was seen
	initialMembers map[string]bool       // members that were there when the group was first looked at
	firstViewedAt  time.Time             // when that was
	open           map[string]*openClaim // by claim uid: claims that a member is to come for
	batch          *batch                // claims of a plan that have come so far; nil: none
	desired        int64                 // as this process last left it, or saw it
	desiredAt      time.Time             // when; zero: never
	excessSince    time.Time             // since when it wants more than it has and is asked for; zero: it does not
	provisionTime  time.Duration         // how long AWS has to give it that
	minSize        int64                 // how many it is to have at least, by its class
	polledAt       time.Time             // when the group was last read for its open claims
	pollAt         time.Time             // when it is to be read again for them
	fillTo         int64                 // up to how many it is filled though nobody asks for them; 0: it is not
}

// unseen is since when EC2 has been seen not to describe a member.
type unseen struct {
	since time.Time
	lost  bool // for too long: it counts for nothing that waits for a member
}

// openClaim is a claim for which a group was asked, or is to be asked, for a machine.
type openClaim struct {
	uid, name, pool string
	created         time.Time
	fits            func(*instances.Instance) bool // whether a machine is one that the claim allows
	countedAt       time.Time                      // when the group's desired capacity first counted it; zero: not yet
	class           string
	cancelled       bool // it is given up
}

// managedGroup is an EKS managed node group as EKS describes it.
type managedGroup struct {
	name, status string
	max          int64 // of its own scaling configuration: while it is updated its Auto Scaling group's is higher
	labels       model.Labels
	taints       []model.Taint
	issues       []string // what EKS says is wrong with it
}

// batch is claims for a group that wait for each other, so that they share one change of its desired capacity.
type batch struct {
	since, last time.Time
	released    chan struct{} // closed when they go on
}
