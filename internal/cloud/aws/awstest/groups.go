// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Group is an Auto Scaling group in the control API.
type Group struct {
	Name                    string            `json:"name"`
	Min                     int               `json:"min"`
	Max                     int               `json:"max"`
	Desired                 int               `json:"desired"`
	LaunchTemplate          string            `json:"launchTemplate"`              // name; empty: one is created for the first of InstanceTypes
	Version                 string            `json:"version,omitempty"`           // default $Default
	InstanceTypes           []string          `json:"instanceTypes,omitempty"`     // if set: a mixed instances policy with these overrides
	OverrideTemplates       map[string]string `json:"overrideTemplates,omitempty"` // launch template names of the overrides of a mixed group, by instance type
	Attributes              *Attributes       `json:"attributes,omitempty"`        // a mixed instances policy with this override; InstanceTypes then only determines the image
	OnDemandBase            int               `json:"onDemandBase,omitempty"`
	OnDemandAbovePercent    int               `json:"onDemandAbovePercent"` // for a mixed group: percentage above the base
	SpotAllocationStrategy  string            `json:"spotAllocationStrategy,omitempty"`
	Spot                    bool              `json:"spot,omitempty"`  // for a group of one type without a launch template
	Zones                   []string          `json:"zones,omitempty"` // default: all
	Tags                    []GroupTag        `json:"tags,omitempty"`
	Suspended               []string          `json:"suspendedProcesses,omitempty"` // e.g. AZRebalance or Launch
	NewInstancesProtected   bool              `json:"newInstancesProtectedFromScaleIn,omitempty"`
	DesiredLeftAsItIs       bool              `json:"desiredLeftAsItIs,omitempty"` // keep the desired capacity of an existing group
	InstanceRefreshStatuses []string          `json:"instanceRefreshes,omitempty"` // e.g. InProgress

	Managed *ManagedGroup `json:"managed,omitempty"` // settings of an EKS managed node group; nil: not managed
}

// GroupTag is a tag of a group.
type GroupTag struct {
	Key               string `json:"key"`
	Value             string `json:"value"`
	PropagateAtLaunch bool   `json:"propagateAtLaunch,omitempty"`
}

// GroupList are the current groups, by name.
type GroupList struct {
	Groups []GroupSeen `json:"groups"`
}

// GroupSeen is a group and its members.
type GroupSeen struct {
	Group
	Members []string `json:"members"` // instances that are not being terminated, by ID
}

// GroupName names a group.
type GroupName struct {
	Name string `json:"name"`
}

// retryLaunch is how long a group waits after it could not launch.
const retryLaunch = 30 * time.Second

// Allocation strategies of a mixed group.
var groupStrategies = []string{"", "lowest-price", "capacity-optimized", "capacity-optimized-prioritized", "price-capacity-optimized"}

// defineGroup makes or changes a group.
func (t *tx) defineGroup(in Group) (Group, error) {
	if err := t.managedDefaults(&in); err != nil {
		return in, err
	}
	if in.LaunchTemplate == "" && in.Name != "" && len(in.InstanceTypes) > 0 {
		name, err := t.groupTemplate(in)
		if err != nil {
			return in, err
		}
		if in.LaunchTemplate = name; len(in.InstanceTypes) == 1 || in.Attributes != nil {
			in.InstanceTypes = nil
		}
	}
	lt := t.templateNamed(in.LaunchTemplate)
	if in.Name == "" || in.Min < 0 || in.Max < in.Min {
		return in, fmt.Errorf("group %q: min %d, max %d: need a name and 0 ≤ min ≤ max", in.Name, in.Min, in.Max)
	}
	if lt == nil {
		return in, fmt.Errorf("group %s: launchTemplate %q not found", in.Name, in.LaunchTemplate)
	}
	version, err := lt.version(in.Version)
	if err != nil {
		return in, err
	}
	if !slices.Contains(groupStrategies, in.SpotAllocationStrategy) {
		return in, fmt.Errorf("group %s: spotAllocationStrategy %q: use one of %v", in.Name, in.SpotAllocationStrategy, groupStrategies[1:])
	}
	types := in.InstanceTypes
	if len(types) == 0 {
		types = []string{lt.Versions[version-1].Data.InstanceType}
	}
	for _, name := range types {
		if t.catalog.Find(name) == nil {
			return in, fmt.Errorf("group %s: instance type %q: not in catalog %s; the launch template or instanceTypes has to name one", in.Name, name, t.catalog.Name)
		}
	}
	if len(in.Zones) == 0 {
		in.Zones = t.catalog.Zones()
	}
	for _, z := range in.Zones {
		if !slices.Contains(t.catalog.Zones(), z) {
			return in, fmt.Errorf("group %s: zone %q: not in region %s", in.Name, z, t.catalog.Region)
		}
	}
	created := t.now
	if have := t.groups.items[in.Name]; have != nil {
		created = have.Created
		if in.DesiredLeftAsItIs {
			in.Desired = min(max(have.Desired, in.Min), in.Max) // new bounds move it, as in UpdateAutoScalingGroup
		}
	}
	in.DesiredLeftAsItIs = false
	if in.Desired < in.Min || in.Desired > in.Max {
		return in, fmt.Errorf("group %s: desired %d: need min %d to max %d", in.Name, in.Desired, in.Min, in.Max)
	}
	t.groups.put(t, in.Name, group{in, created})
	t.stir()
	return in, nil
}

// groupTemplate makes a launch template for a group that comes without one: AL2023, joining the cluster, with the labels and taints that
// the group's tags, or its managed node group, say its nodes have. A group of one type that buys no on-demand machine gets spot ones.
func (t *tx) groupTemplate(in Group) (string, error) {
	name := "group-" + in.Name
	it := t.catalog.Find(in.InstanceTypes[0])
	if it == nil {
		return "", fmt.Errorf("group %s: instance type %q: not in catalog %s", in.Name, in.InstanceTypes[0], t.catalog.Name)
	}
	arch := "x86_64"
	if it.Labels[model.LabelArch] == "arm64" {
		arch = "arm64"
	}
	image := t.parameter("/aws/service/eks/optimized-ami/" + t.settings.KubernetesVersion + "/amazon-linux-2023/" + arch + "/standard/recommended/image_id")
	if image == nil {
		return "", fmt.Errorf("group %s: there is no image of AL2023 for Kubernetes %s", in.Name, t.settings.KubernetesVersion)
	}
	labels, taints := in.Managed.kubeletFlags()
	for _, tag := range in.Tags {
		if k, ok := strings.CutPrefix(tag.Key, "k8s.io/cluster-autoscaler/node-template/label/"); ok {
			labels = append(labels, k+"="+tag.Value)
		}
		if k, ok := strings.CutPrefix(tag.Key, "k8s.io/cluster-autoscaler/node-template/taint/"); ok {
			taints = append(taints, k+"="+tag.Value)
		}
	}
	endpoint := t.settings.Endpoint
	if endpoint == "" {
		endpoint = "https://127.0.0.1:6443"
	}
	data := "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: {name: " + t.settings.Cluster + ", apiServerEndpoint: " + endpoint +
		", certificateAuthority: Y2E=, cidr: 10.96.0.0/12}\n"
	var flags []string
	if len(labels) > 0 {
		flags = append(flags, strconv.Quote("--node-labels="+strings.Join(labels, ",")))
	}
	if len(taints) > 0 {
		flags = append(flags, strconv.Quote("--register-with-taints="+strings.Join(taints, ",")))
	}
	if len(flags) > 0 {
		data += "  kubelet: {flags: [" + strings.Join(flags, ", ") + "]}\n"
	}
	spec := &shapes.EC2RequestLaunchTemplateData{ImageId: image.ID, InstanceType: it.Name, UserData: base64.StdEncoding.EncodeToString([]byte(data))}
	if len(in.InstanceTypes) == 1 && in.Spot {
		spec.InstanceMarketOptions = &shapes.EC2LaunchTemplateInstanceMarketOptionsRequest{MarketType: "spot"}
	}
	if have := t.templateNamed(name); have != nil {
		is := *have
		is.Versions = append(slices.Clone(have.Versions), templateVersion{Created: t.now, Data: *spec})
		t.templates.put(t, have.ID, is)
		return name, nil
	}
	_, err := t.createLaunchTemplate(&shapes.EC2CreateLaunchTemplateRequest{LaunchTemplateName: name, LaunchTemplateData: spec})
	return name, err
}

func (t *tx) listGroups() GroupList {
	out := GroupList{Groups: []GroupSeen{}}
	for _, g := range t.groups.sorted() {
		seen := GroupSeen{Group: g.Group, Members: []string{}}
		for _, i := range t.members(g.Name) {
			seen.Members = append(seen.Members, i.ID)
		}
		out.Groups = append(out.Groups, seen)
	}
	return out
}

// members are a group's instances that are not on their way out, by id.
func (t *tx) members(name string) []*instance {
	return slices.DeleteFunc(t.alive(), func(i *instance) bool { return i.Group != name })
}

func (g *group) suspended(process string) bool { return slices.Contains(g.Suspended, process) }

// tend brings a group to its desired capacity, GroupDelay after the two were found to differ, and says when there is more to do.
func (t *tx) tend(g *group) (next time.Time) {
	have := t.members(g.Name)
	if len(have) == g.Desired {
		delete(t.differs, g.Name)
		return time.Time{}
	}
	since, ok := t.differs[g.Name]
	if !ok {
		since = t.now.Add(t.settings.GroupDelay)
		t.differs[g.Name] = since
	}
	if t.now.Before(since) {
		return since
	}
	if f := t.fault(SlowGroup, "", "", "", ""); f != nil {
		return t.now.Add(time.Duration(f.Delay))
	}
	if len(have) < g.Desired {
		if g.suspended("Launch") {
			return time.Time{}
		}
		for len(have) < g.Desired {
			cause := fmt.Sprintf("At %s an instance was started in response to a difference between desired and actual capacity, increasing the capacity from %d to %d.", t.now.UTC().Format(time.RFC3339), len(have), g.Desired)
			id, wrong := t.launchMember(g, have, "", cause)
			if wrong != "" {
				t.differs[g.Name] = t.now.Add(retryLaunch)
				return t.differs[g.Name]
			}
			have = append(have, t.instances.items[id])
		}
		delete(t.differs, g.Name)
		return time.Time{}
	}
	if g.suspended("Terminate") {
		return time.Time{}
	}
	for len(have) > g.Desired {
		victim := t.victim(have)
		if victim == nil {
			t.act(g.Name, "Scaling in", "instances are protected", "Failed", "Could not scale to desired capacity because all remaining instances are protected from scale in.")
			t.differs[g.Name] = t.now.Add(retryLaunch)
			return t.differs[g.Name]
		}
		t.end(victim, "Client.UserInitiatedShutdown")
		t.act(g.Name, "Terminating EC2 instance: "+victim.ID, "an instance was taken out of service in response to a difference between desired and actual capacity", "Successful", "")
		have = slices.DeleteFunc(have, func(i *instance) bool { return i == victim || i.ID == victim.ID })
	}
	delete(t.differs, g.Name)
	return time.Time{}
}

// victim is whom a group ends by itself: in the zone with most members, the oldest that is not protected; nil when all are.
func (t *tx) victim(have []*instance) *instance {
	zones := map[string]int{}
	for _, i := range have {
		zones[t.machine(i).Zone]++
	}
	var best *instance
	for _, i := range have {
		if i.Protected {
			continue
		}
		if best == nil {
			best = i
			continue
		}
		a, b := t.machine(i), t.machine(best)
		if n, m := zones[a.Zone], zones[b.Zone]; n > m || n == m && (a.Launched.Before(b.Launched) || a.Launched.Equal(b.Launched) && i.ID < best.ID) {
			best = i
		}
	}
	return best
}

// launchMember starts one instance of a group, in the zone with fewest members that has capacity, or in the one given; wrong says
// why it could not.
func (t *tx) launchMember(g *group, have []*instance, zone, cause string) (id, wrong string) {
	description := "Launching a new EC2 instance"
	lt := t.templateNamed(g.LaunchTemplate)
	if lt == nil {
		wrong = "You must use a valid fully-formed launch template. The specified launch template, with template name " + g.LaunchTemplate + ", does not exist."
		t.act(g.Name, description, cause, "Failed", wrong)
		return "", wrong
	}
	version, err := lt.version(g.Version)
	if err != nil {
		t.act(g.Name, description, cause, "Failed", err.Error())
		return "", err.Error()
	}
	inZone := map[string]int{}
	onDemand := 0
	for _, i := range have {
		inZone[t.machine(i).Zone]++
		if t.machine(i).CapacityType == model.OnDemand {
			onDemand++
		}
	}
	zones := slices.Clone(g.Zones)
	sort.SliceStable(zones, func(i, j int) bool { return inZone[zones[i]] < inZone[zones[j]] })
	if zone != "" {
		zones = []string{zone}
	}
	data := lt.Versions[version-1].Data
	capacityType, strategy := model.OnDemand, "lowest-price"
	types := []string{data.InstanceType}
	if list := t.groupTypes(g, &data); len(list) > 0 {
		types = list
		strategy = "prioritized"
		above := max(len(have)+1-g.OnDemandBase, 0)
		if wantOnDemand := min(g.OnDemandBase, len(have)+1) + (above*g.OnDemandAbovePercent+99)/100; onDemand >= wantOnDemand {
			capacityType, strategy = model.Spot, "lowest-price"
			set(&strategy, g.SpotAllocationStrategy)
		}
	} else if o := data.InstanceMarketOptions; o != nil && o.MarketType == "spot" {
		capacityType = model.Spot
	}
	var tags []shapes.EC2Tag
	for _, tag := range g.Tags {
		if tag.PropagateAtLaunch {
			tags = append(tags, shapes.EC2Tag{Key: tag.Key, Value: tag.Value})
		}
	}
	tags = append(tags, shapes.EC2Tag{Key: "aws:autoscaling:groupName", Value: g.Name})
	for _, z := range zones {
		var pools []*pool
		for n, name := range types {
			p := &pool{template: lt, version: version, data: data, it: t.catalog.Find(name), weight: 1, priority: float64(n)}
			if own := t.templateNamed(g.OverrideTemplates[name]); own != nil {
				p.template, p.version, p.data = own, len(own.Versions), own.Versions[len(own.Versions)-1].Data
			}
			for i := range t.world.subnets {
				if t.world.subnets[i].AvailabilityZone == z {
					p.subnet = &t.world.subnets[i]
				}
			}
			pools = append(pools, p)
		}
		t.rank(pools, strategy, capacityType)
		for _, p := range pools {
			launched, code, message := t.launch(launchSpec{pool: p, capacityType: capacityType, reservation: t.freshID("r"), group: g.Name, tags: tags, protected: g.NewInstancesProtected})
			if code == "" {
				t.act(g.Name, description+": "+launched, cause, "Successful", "")
				return launched, ""
			}
			wrong = message
		}
	}
	t.act(g.Name, description, cause, "Failed", wrong+" Launching EC2 instance failed.")
	return "", wrong
}

// groupTypes are the types that a mixed group may launch, in its own order; none: it is not mixed.
func (t *tx) groupTypes(g *group, data *shapes.EC2RequestLaunchTemplateData) []string {
	if g.Attributes == nil {
		return g.InstanceTypes
	}
	arch := ""
	if im := t.image(data.ImageId); im != nil {
		arch = im.Arch
	}
	return t.typesWith([]string{arch}, g.Attributes.request())
}

// act records an activity. Ids sort as things happened.
func (t *tx) act(groupName, description, cause, status, message string) *activity {
	n := strconv.FormatInt(1_000_000_000_000+t.m.Seq(), 10)
	h := hash("activity", n)
	a := activity{
		ID: fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16]), Group: groupName, Description: description, Cause: cause,
		Status: status, Message: message, Start: t.now, End: t.now,
	}
	t.activities.put(t, n, a)
	return t.activities.items[n]
}

// rebalance does once what AZRebalance does: it starts an instance in the emptiest zone, then ends one in the fullest.
func (t *tx) rebalance(in GroupName) (Interrupted, error) {
	var out Interrupted
	g := t.groups.items[in.Name]
	if g == nil || g.suspended("AZRebalance") {
		return out, fmt.Errorf("rebalance: group %q: not there, or AZRebalance is suspended", in.Name)
	}
	have := t.members(g.Name)
	victim := t.victim(have)
	if victim == nil {
		return out, errors.New("rebalance: the group has no member that is not protected")
	}
	const cause = "invoked as part of Availability Zone rebalancing"
	zones := slices.DeleteFunc(slices.Clone(g.Zones), func(z string) bool { return z == t.machine(victim).Zone })
	if len(zones) == 0 {
		return out, errors.New("rebalance: the group has one zone only")
	}
	launched, wrong := t.launchMember(g, have, zones[0], cause)
	if wrong != "" {
		return out, errors.New("rebalance: " + wrong)
	}
	t.end(victim, "Client.UserInitiatedShutdown")
	t.act(g.Name, "Terminating EC2 instance: "+victim.ID, cause, "Successful", "")
	out.Instances = []string{launched, victim.ID}
	return out, nil
}

func invalid(format string, args ...any) error {
	return wire.Refuse("ValidationError", format, args...)
}

func (t *tx) groupNamed(name string) (*group, error) {
	if g := t.groups.items[name]; g != nil {
		return g, nil
	}
	return nil, invalid("AutoScalingGroup name not found - AutoScalingGroup %s not found", name)
}

// groupFilters are those of the query protocol, in EC2's form.
func groupFilters(in []shapes.ASGFilter) []shapes.EC2Filter {
	out := make([]shapes.EC2Filter, len(in))
	for i, f := range in {
		out[i] = shapes.EC2Filter(f)
	}
	return out
}

func (t *tx) describeGroups(in *shapes.ASGAutoScalingGroupNamesType) (*shapes.ASGAutoScalingGroupsType, error) {
	var all []*group
	for _, g := range t.groups.sorted() {
		if len(in.AutoScalingGroupNames) > 0 && !slices.Contains(in.AutoScalingGroupNames, g.Name) {
			continue // an unknown name is no error
		}
		tags := map[string]string{}
		var values []string
		for _, tag := range g.Tags {
			tags[tag.Key] = tag.Value
			values = append(values, tag.Value)
		}
		pass, err := filtered(groupFilters(in.Filters), tags, func(name string) ([]string, bool) { return values, name == "tag-value" })
		if err != nil {
			return nil, invalid("%s", err)
		}
		if pass {
			all = append(all, g)
		}
	}
	limit := 50
	if in.MaxRecords != nil {
		limit = 100
	}
	some, next := page(all, func(g *group) string { return g.Name }, in.NextToken, in.MaxRecords, limit)
	out := &shapes.ASGAutoScalingGroupsType{NextToken: next}
	for _, g := range some {
		out.AutoScalingGroups = append(out.AutoScalingGroups, t.describedGroup(g))
	}
	return out, nil
}

func (t *tx) describedGroup(g *group) shapes.ASGAutoScalingGroup {
	lt := &shapes.ASGLaunchTemplateSpecification{LaunchTemplateName: g.LaunchTemplate, Version: g.Version}
	if lt.Version == "" {
		lt.Version = "$Default"
	}
	if have := t.templateNamed(g.LaunchTemplate); have != nil {
		lt.LaunchTemplateId = have.ID
	}
	d := shapes.ASGAutoScalingGroup{
		AutoScalingGroupName: g.Name, AutoScalingGroupARN: t.arn("autoscaling", "autoScalingGroup:"+id("asg", g.Name)+":autoScalingGroupName/"+g.Name),
		MinSize: new(int64(g.Min)), MaxSize: new(int64(g.Max)), DesiredCapacity: new(int64(g.Desired)), DefaultCooldown: new(int64(300)), AvailabilityZones: g.Zones,
		HealthCheckType: "EC2", HealthCheckGracePeriod: new(int64(300)), CreatedTime: pointer(g.Created), TerminationPolicies: []string{"Default"},
		NewInstancesProtectedFromScaleIn: new(g.NewInstancesProtected), CapacityRebalance: new(false),
	}
	if len(g.InstanceTypes) == 0 && g.Attributes == nil {
		d.LaunchTemplate = lt
	} else {
		var overrides []shapes.ASGLaunchTemplateOverrides
		if g.Attributes != nil {
			overrides = append(overrides, shapes.ASGLaunchTemplateOverrides{InstanceRequirements: g.Attributes.described()})
		}
		for _, name := range g.InstanceTypes {
			o := shapes.ASGLaunchTemplateOverrides{InstanceType: name}
			if own := g.OverrideTemplates[name]; own != "" {
				o.LaunchTemplateSpecification = &shapes.ASGLaunchTemplateSpecification{LaunchTemplateName: own, Version: "$Default"}
				if have := t.templateNamed(own); have != nil {
					o.LaunchTemplateSpecification.LaunchTemplateId = have.ID
				}
			}
			overrides = append(overrides, o)
		}
		strategy := "lowest-price"
		set(&strategy, g.SpotAllocationStrategy)
		d.MixedInstancesPolicy = &shapes.ASGMixedInstancesPolicy{
			LaunchTemplate: &shapes.ASGLaunchTemplate{LaunchTemplateSpecification: lt, Overrides: overrides},
			InstancesDistribution: &shapes.ASGInstancesDistribution{
				OnDemandAllocationStrategy: "prioritized", OnDemandBaseCapacity: new(int64(g.OnDemandBase)),
				OnDemandPercentageAboveBaseCapacity: new(int64(g.OnDemandAbovePercent)), SpotAllocationStrategy: strategy,
			},
		}
	}
	var subnets []string
	for _, s := range t.world.subnets {
		if slices.Contains(g.Zones, s.AvailabilityZone) {
			subnets = append(subnets, s.SubnetId)
		}
	}
	d.VPCZoneIdentifier = strings.Join(subnets, ",")
	for _, p := range g.Suspended {
		d.SuspendedProcesses = append(d.SuspendedProcesses, shapes.ASGSuspendedProcess{ProcessName: p, SuspensionReason: "User suspended"})
	}
	for _, tag := range g.Tags {
		d.Tags = append(d.Tags, describedTag(g.Name, tag))
	}
	// Instances that are on their way out are still there, as Terminating.
	for _, i := range t.instances.sorted() {
		if i.Group == g.Name && t.machine(i).State != machines.Terminated {
			d.Instances = append(d.Instances, t.describedMember(g, i))
		}
	}
	return d
}

func describedTag(name string, tag GroupTag) shapes.ASGTagDescription {
	return shapes.ASGTagDescription{ResourceId: name, ResourceType: groupResource, Key: tag.Key, Value: tag.Value, PropagateAtLaunch: new(tag.PropagateAtLaunch)}
}

func (t *tx) describedMember(g *group, i *instance) shapes.ASGInstance {
	m := t.machine(i)
	return shapes.ASGInstance{
		InstanceId: i.ID, InstanceType: m.InstanceType, AvailabilityZone: m.Zone, LifecycleState: t.lifecycleState(i), HealthStatus: "Healthy",
		LaunchTemplate:       &shapes.ASGLaunchTemplateSpecification{LaunchTemplateId: i.Template, LaunchTemplateName: g.LaunchTemplate, Version: strconv.Itoa(i.Version)},
		ProtectedFromScaleIn: new(i.Protected),
	}
}

func (t *tx) lifecycleState(i *instance) string {
	switch t.state(i).Name {
	case "pending":
		return "Pending"
	case "running":
		return "InService"
	}
	return "Terminating"
}

func (t *tx) describeGroupInstances(in *shapes.ASGDescribeAutoScalingInstancesType) (*shapes.ASGAutoScalingInstancesType, error) {
	var all []shapes.ASGAutoScalingInstanceDetails
	for _, i := range t.alive() {
		if i.Group == "" || len(in.InstanceIds) > 0 && !slices.Contains(in.InstanceIds, i.ID) {
			continue
		}
		m := t.machine(i)
		all = append(all, shapes.ASGAutoScalingInstanceDetails{
			InstanceId: i.ID, InstanceType: m.InstanceType, AutoScalingGroupName: i.Group, AvailabilityZone: m.Zone, LifecycleState: t.lifecycleState(i),
			HealthStatus: "HEALTHY", LaunchTemplate: &shapes.ASGLaunchTemplateSpecification{LaunchTemplateId: i.Template, Version: strconv.Itoa(i.Version)}, ProtectedFromScaleIn: new(i.Protected),
		})
	}
	some, next := page(all, func(i shapes.ASGAutoScalingInstanceDetails) string { return i.InstanceId }, in.NextToken, in.MaxRecords, 50)
	return &shapes.ASGAutoScalingInstancesType{AutoScalingInstances: some, NextToken: next}, nil
}

// resize changes a group's bounds and desired capacity.
func (t *tx) resize(g *group, lowest, highest, desired int) error {
	if lowest < 0 || highest < lowest {
		return invalid("Max bound, %d, must be greater than or equal to min bound, %d", highest, lowest)
	}
	if desired < lowest {
		return invalid("New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", desired, lowest)
	}
	if desired > highest {
		return invalid("New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", desired, highest)
	}
	is := *g
	is.Min, is.Max, is.Desired = lowest, highest, desired
	t.groups.put(t, g.Name, is)
	t.stir()
	return nil
}

func (t *tx) setDesired(in *shapes.ASGSetDesiredCapacityType) (*wire.None, error) {
	g, err := t.groupNamed(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if in.DesiredCapacity == nil {
		return nil, invalid("1 validation error detected: Value null at 'desiredCapacity' failed to satisfy constraint: Member must not be null")
	}
	return &wire.None{}, t.resize(g, g.Min, g.Max, int(*in.DesiredCapacity))
}

func (t *tx) updateGroup(in *shapes.ASGUpdateAutoScalingGroupType) (*wire.None, error) {
	g, err := t.groupNamed(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	lowest, highest := g.Min, g.Max
	if in.MinSize != nil {
		lowest = int(*in.MinSize)
	}
	if in.MaxSize != nil {
		highest = int(*in.MaxSize)
	}
	desired := min(max(g.Desired, lowest), highest) // new bounds move it
	if in.DesiredCapacity != nil {
		desired = int(*in.DesiredCapacity)
	}
	if in.NewInstancesProtectedFromScaleIn != nil {
		is := *g
		is.NewInstancesProtected = *in.NewInstancesProtectedFromScaleIn
		t.groups.put(t, g.Name, is)
		g = t.groups.items[g.Name]
	}
	return &wire.None{}, t.resize(g, lowest, highest, desired)
}

func (t *tx) terminateMember(in *shapes.ASGTerminateInstanceInAutoScalingGroupType) (*shapes.ASGActivityType, error) {
	i := t.instances.items[in.InstanceId]
	if i == nil || i.Group == "" || gone(t.machine(i)) {
		return nil, invalid("Instance Id not found - No managed instance found for instance ID: %s", in.InstanceId)
	}
	g, err := t.groupNamed(i.Group)
	if err != nil {
		return nil, err
	}
	if is(in.ShouldDecrementDesiredCapacity) {
		if g.Desired-1 < g.Min {
			return nil, invalid("Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.", g.Min)
		}
		if err := t.resize(g, g.Min, g.Max, g.Desired-1); err != nil {
			return nil, err
		}
	}
	t.end(i, "Client.UserInitiatedShutdown")
	a := t.act(g.Name, "Terminating EC2 instance: "+i.ID, "instance "+i.ID+" was taken out of service in response to a user request", "InProgress", "")
	return &shapes.ASGActivityType{Activity: new(describedActivity(a))}, nil
}

func (t *tx) protect(in *shapes.ASGSetInstanceProtectionQuery) (*shapes.ASGSetInstanceProtectionAnswer, error) {
	g, err := t.groupNamed(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	if len(in.InstanceIds) > 50 || in.ProtectedFromScaleIn == nil {
		return nil, invalid("SetInstanceProtection takes at most 50 instances, and whether to protect them; this call has %d", len(in.InstanceIds))
	}
	for _, id := range in.InstanceIds {
		i := t.instances.items[id]
		if i == nil || i.Group != g.Name || gone(t.machine(i)) {
			return nil, invalid("The instance %s is not part of Auto Scaling group %s.", id, g.Name)
		}
	}
	for _, id := range in.InstanceIds {
		is := *t.instances.items[id]
		is.Protected = *in.ProtectedFromScaleIn
		t.instances.put(t, id, is)
	}
	t.stir()
	return &shapes.ASGSetInstanceProtectionAnswer{}, nil
}

func describedActivity(a *activity) shapes.ASGActivity {
	d := shapes.ASGActivity{
		ActivityId: a.ID, AutoScalingGroupName: a.Group, Description: a.Description, Cause: a.Cause, StartTime: pointer(a.Start), EndTime: pointer(a.End),
		StatusCode: a.Status, StatusMessage: a.Message, Progress: new(int64(100)),
	}
	if a.Status == "InProgress" {
		d.Progress, d.EndTime = new(int64(0)), nil
	}
	return d
}

// describeActivities has the newest first.
func (t *tx) describeActivities(in *shapes.ASGDescribeScalingActivitiesType) (*shapes.ASGActivitiesType, error) {
	if in.AutoScalingGroupName != "" {
		if _, err := t.groupNamed(in.AutoScalingGroupName); err != nil {
			return nil, err
		}
	}
	all := t.activities.sorted()
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(a *activity) bool {
		return in.AutoScalingGroupName != "" && a.Group != in.AutoScalingGroupName || len(in.ActivityIds) > 0 && !slices.Contains(in.ActivityIds, a.ID)
	})
	// Ids don't sort as activities happened, so the token counts.
	start, err := strconv.Atoi("0" + in.NextToken)
	if err != nil || start > len(all) {
		return nil, wire.Refuse("InvalidNextToken", "The token '%s' is invalid.", in.NextToken)
	}
	n := 100
	if in.MaxRecords != nil {
		n = min(n, int(*in.MaxRecords))
	}
	end := min(start+n, len(all))
	out := &shapes.ASGActivitiesType{}
	for _, a := range all[start:end] {
		out.Activities = append(out.Activities, describedActivity(a))
	}
	if end < len(all) {
		out.NextToken = strconv.Itoa(end)
	}
	return out, nil
}

// describeLaunchConfigurations: the account has none; groups have launch templates.
func (t *tx) describeLaunchConfigurations(*shapes.ASGLaunchConfigurationNamesType) (*shapes.ASGLaunchConfigurationsType, error) {
	return &shapes.ASGLaunchConfigurationsType{}, nil
}

func (t *tx) describeRefreshes(in *shapes.ASGDescribeInstanceRefreshesType) (*shapes.ASGDescribeInstanceRefreshesAnswer, error) {
	g, err := t.groupNamed(in.AutoScalingGroupName)
	if err != nil {
		return nil, err
	}
	out := &shapes.ASGDescribeInstanceRefreshesAnswer{}
	for n, status := range g.InstanceRefreshStatuses {
		id := id("refresh", g.Name, strconv.Itoa(n))
		if len(in.InstanceRefreshIds) == 0 || slices.Contains(in.InstanceRefreshIds, id) {
			out.InstanceRefreshes = append(out.InstanceRefreshes, shapes.ASGInstanceRefresh{InstanceRefreshId: id, AutoScalingGroupName: g.Name, Status: status, StartTime: pointer(g.Created)})
		}
	}
	return out, nil
}

// tagGroups adds tags to groups, or replaces their values: to all or to none.
func (t *tx) tagGroups(in *shapes.ASGCreateOrUpdateTagsType) (*wire.None, error) {
	return t.retagGroups(in.Tags, func(is *Group, tag shapes.ASGTag) {
		is.Tags = append(is.Tags, GroupTag{Key: tag.Key, Value: tag.Value, PropagateAtLaunch: tag.PropagateAtLaunch != nil && *tag.PropagateAtLaunch})
	})
}

// untagGroups removes tags from groups by their keys, from all or from none. Tags that do not exist are ignored.
func (t *tx) untagGroups(in *shapes.ASGDeleteTagsType) (*wire.None, error) {
	return t.retagGroups(in.Tags, func(*Group, shapes.ASGTag) {})
}

// retagGroups removes tags of the same keys, then calls set for each.
func (t *tx) retagGroups(tags []shapes.ASGTag, set func(*Group, shapes.ASGTag)) (*wire.None, error) {
	for _, tag := range tags {
		if tag.ResourceType != groupResource {
			return nil, invalid("Tag %q: ResourceType %q is not valid, use %s", tag.Key, tag.ResourceType, groupResource)
		}
		if _, err := t.groupNamed(tag.ResourceId); err != nil {
			return nil, err
		}
		if err := checkTags([]shapes.EC2Tag{{Key: tag.Key, Value: tag.Value}}); err != nil {
			return nil, invalid("%s", err)
		}
	}
	for _, tag := range tags {
		is := *t.groups.items[tag.ResourceId]
		is.Tags = slices.DeleteFunc(slices.Clone(is.Tags), func(have GroupTag) bool { return have.Key == tag.Key })
		set(&is.Group, tag)
		t.groups.put(t, is.Name, is)
	}
	return &wire.None{}, nil
}

// groupResource is the resource type of a group's tags.
const groupResource = "auto-scaling-group"

func (t *tx) describeGroupTags(in *shapes.ASGDescribeTagsType) (*shapes.ASGTagsType, error) {
	var all []shapes.ASGTagDescription
	for _, g := range t.groups.sorted() {
		for _, tag := range g.Tags {
			pass, err := filtered(groupFilters(in.Filters), nil, func(name string) ([]string, bool) {
				switch name {
				case "auto-scaling-group":
					return []string{g.Name}, true
				case "key":
					return []string{tag.Key}, true
				case "value":
					return []string{tag.Value}, true
				case "propagate-at-launch":
					return []string{strconv.FormatBool(tag.PropagateAtLaunch)}, true
				}
				return nil, false
			})
			if err != nil {
				return nil, invalid("%s", err)
			}
			if pass {
				all = append(all, describedTag(g.Name, tag))
			}
		}
	}
	slices.SortFunc(all, func(a, b shapes.ASGTagDescription) int {
		return strings.Compare(a.ResourceId+"\x00"+a.Key, b.ResourceId+"\x00"+b.Key)
	})
	some, next := page(all, func(d shapes.ASGTagDescription) string { return d.ResourceId + "\x00" + d.Key }, in.NextToken, in.MaxRecords, 50)
	return &shapes.ASGTagsType{Tags: some, NextToken: next}, nil
}
