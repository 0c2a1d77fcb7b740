// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"maps"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Limits of CreateFleet.
const (
	maxConfigs   = 50
	maxOverrides = 300
	maxFleet     = 1000 // instances of an instant fleet
)

// Error codes for a single capacity pool.
const (
	insufficientCapacity  = "InsufficientInstanceCapacity"
	insufficientAddresses = "InsufficientFreeAddressesInSubnet"
	unfulfillable         = "UnfulfillableCapacity"
)

// pool is one override: a type in a subnet, with the template that it is launched from.
type pool struct {
	template  *template
	version   int
	data      shapes.EC2RequestLaunchTemplateData // with the override's image
	override  shapes.EC2FleetLaunchTemplateOverrides
	named     shapes.EC2FleetLaunchTemplateSpecification // as the request has it
	it        *catalog.Type
	subnet    *shapes.EC2Subnet
	maxMicro  int64 // 0: no limit
	weight    float64
	priority  float64
	order     int // in the request
	launched  []string
	exhausted bool
}

// createFleet launches the instances of an instant fleet, as far as there is capacity, and returns an error for each pool without any.
func (t *tx) createFleet(in *shapes.EC2CreateFleetRequest) (*shapes.EC2CreateFleetResult, error) {
	if in.Type != "instant" {
		return nil, wire.Refuse("UnsupportedOperation", "fleets of type %q are not simulated; use instant", in.Type)
	}
	asked := *in
	asked.DryRun = nil
	fingerprint := digest(asked)
	if in.ClientToken != "" {
		if len(in.ClientToken) > 64 {
			return nil, wire.Refuse("InvalidParameterValue", "ClientToken: at most 64 characters")
		}
		if have := t.fleets.items[in.ClientToken]; have != nil {
			if have.Digest != fingerprint {
				return nil, wire.Refuse("IdempotentParameterMismatch", "The client token %s was used with other parameters", in.ClientToken)
			}
			return new(have.Answer), nil
		}
	}
	pools, err := t.pools(in)
	if err != nil {
		return nil, err
	}
	want, err := targets(in.TargetCapacitySpecification)
	if err != nil {
		return nil, err
	}
	tags, err := specified(in.TagSpecifications, "instance")
	if err != nil {
		return nil, err
	}
	for _, s := range in.TagSpecifications {
		switch s.ResourceType {
		case "instance", "fleet", "volume", "network-interface", "spot-instances-request":
		default:
			return nil, wire.Refuse("InvalidTagSpecification", "'%s' is not a valid taggable resource type for this operation.", s.ResourceType)
		}
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	out := &shapes.EC2CreateFleetResult{FleetId: t.freshID("fleet")}
	reservation := t.freshID("r")
	for _, capacityType := range []string{model.OnDemand, model.Spot} {
		if want[capacityType] > 0 {
			t.fill(in, out, reservation, pools, capacityType, want[capacityType], tags)
		}
	}
	if in.ClientToken != "" {
		t.fleets.put(t, in.ClientToken, fleet{Digest: fingerprint, Created: t.now, Answer: *out})
	}
	return out, nil
}

// targets are how many units of each capacity type are wanted.
func targets(s *shapes.EC2TargetCapacitySpecificationRequest) (map[string]int64, error) {
	if s == nil || s.TotalTargetCapacity == nil {
		return nil, wire.Refuse("MissingParameter", "The request must contain the parameter TargetCapacitySpecification.TotalTargetCapacity")
	}
	if s.TargetCapacityUnitType != "" && s.TargetCapacityUnitType != "units" {
		return nil, wire.Refuse("UnsupportedOperation", "target capacity in %s is not simulated; use units", s.TargetCapacityUnitType)
	}
	total := *s.TotalTargetCapacity
	if total < 1 || total > maxFleet {
		return nil, wire.Refuse("InvalidParameterValue", "TotalTargetCapacity %d: need 1 to %d", total, maxFleet)
	}
	want := map[string]int64{}
	if s.OnDemandTargetCapacity != nil {
		want[model.OnDemand] = *s.OnDemandTargetCapacity
	}
	if s.SpotTargetCapacity != nil {
		want[model.Spot] = *s.SpotTargetCapacity
	}
	rest := total - want[model.OnDemand] - want[model.Spot]
	switch s.DefaultTargetCapacityType {
	case "spot":
		want[model.Spot] += rest
	case "on-demand", "", "capacity-block": // in a block is what names it as its reservation
		want[model.OnDemand] += rest
	default:
		return nil, wire.Refuse("UnsupportedOperation", "DefaultTargetCapacityType %q is not simulated; use spot, on-demand or capacity-block", s.DefaultTargetCapacityType)
	}
	if rest < 0 || want[model.Spot] < 0 || want[model.OnDemand] < 0 {
		return nil, wire.Refuse("InvalidTargetCapacitySpecification", "The capacities of the parts don't fit into TotalTargetCapacity %d", total)
	}
	return want, nil
}

// pools resolves templates and overrides.
func (t *tx) pools(in *shapes.EC2CreateFleetRequest) ([]*pool, error) {
	if n := len(in.LaunchTemplateConfigs); n < 1 || n > maxConfigs {
		return nil, wire.Refuse("InvalidFleetConfig", "A fleet has 1 to %d launch template configurations; this one has %d", maxConfigs, n)
	}
	var out []*pool
	for _, c := range in.LaunchTemplateConfigs {
		s := c.LaunchTemplateSpecification
		if s == nil || s.Version == "" {
			return nil, wire.Refuse("InvalidFleetConfig", "A launch template configuration needs a template and its version")
		}
		have, err := t.findTemplate(s.LaunchTemplateId, s.LaunchTemplateName)
		if err != nil {
			return nil, err
		}
		version, err := have.version(s.Version)
		if err != nil {
			return nil, err
		}
		overrides := c.Overrides
		if len(overrides) == 0 {
			overrides = []shapes.EC2FleetLaunchTemplateOverridesRequest{{}}
		}
		for _, o := range overrides {
			p := &pool{
				template: have, version: version, data: have.Versions[version-1].Data, override: convert[shapes.EC2FleetLaunchTemplateOverrides](o),
				named: shapes.EC2FleetLaunchTemplateSpecification{LaunchTemplateId: have.ID, Version: strconv.Itoa(version)}, weight: 1, order: len(out),
			}
			if err := t.resolve(p, o); err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	if len(out) > maxOverrides {
		return nil, wire.Refuse("InvalidFleetConfig", "A fleet has at most %d overrides; this one has %d", maxOverrides, len(out))
	}
	return out, nil
}

// resolve finds what an override and its template name.
func (t *tx) resolve(p *pool, o shapes.EC2FleetLaunchTemplateOverridesRequest) error {
	name := o.InstanceType
	if name == "" {
		name = p.data.InstanceType
	}
	if p.it = t.catalog.Find(name); p.it == nil {
		return wire.Refuse("InvalidFleetConfig", "The instance type %q is not known", name)
	}
	if o.ImageId != "" {
		p.data.ImageId = o.ImageId
	}
	if o.WeightedCapacity != nil {
		if p.weight = *o.WeightedCapacity; p.weight <= 0 {
			return wire.Refuse("InvalidFleetConfig", "WeightedCapacity %v: need more than 0", p.weight)
		}
	}
	if o.Priority != nil {
		p.priority = *o.Priority
	} else {
		p.priority = 1e9
	}
	if o.MaxPrice != "" {
		f, err := strconv.ParseFloat(o.MaxPrice, 64)
		if err != nil || f <= 0 {
			return wire.Refuse("InvalidParameterValue", "MaxPrice %q: need dollars per hour", o.MaxPrice)
		}
		p.maxMicro = int64(f * 1e6)
	}
	subnet := o.SubnetId
	if subnet == "" && len(p.data.NetworkInterfaces) > 0 {
		subnet = p.data.NetworkInterfaces[0].SubnetId
	}
	if subnet == "" { // AWS takes the zone's default subnet, which this VPC has not
		for i := range t.world.subnets {
			if z := t.world.subnets[i].AvailabilityZone; z == o.AvailabilityZone || o.AvailabilityZone == "" && o.SubnetId == "" && i == 0 {
				subnet = t.world.subnets[i].SubnetId
				break
			}
		}
	}
	if p.subnet = t.subnet(subnet); p.subnet == nil {
		return wire.Refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", subnet)
	}
	if z := o.AvailabilityZone; z != "" && z != p.subnet.AvailabilityZone {
		return wire.Refuse("InvalidFleetConfig", "Subnet %s is in %s, not in %s", p.subnet.SubnetId, p.subnet.AvailabilityZone, z)
	}
	return nil
}

// fill launches instances of one capacity type for so many capacity units.
func (t *tx) fill(in *shapes.EC2CreateFleetRequest, out *shapes.EC2CreateFleetResult, reservation string, pools []*pool, capacityType string, want int64, tags []shapes.EC2Tag) {
	strategy, lifecycle := "lowest-price", "on-demand"
	var atLeast int64
	var oneType, oneZone bool
	if capacityType == model.Spot {
		lifecycle = "spot"
		if s := in.SpotOptions; s != nil {
			set(&strategy, s.AllocationStrategy)
			oneType, oneZone = is(s.SingleInstanceType), is(s.SingleAvailabilityZone)
			if s.MinTargetCapacity != nil {
				atLeast = *s.MinTargetCapacity
			}
		}
	} else if s := in.OnDemandOptions; s != nil {
		set(&strategy, s.AllocationStrategy)
		oneType, oneZone = is(s.SingleInstanceType), is(s.SingleAvailabilityZone)
		if s.MinTargetCapacity != nil {
			atLeast = *s.MinTargetCapacity
		}
	}
	for _, p := range pools {
		p.launched, p.exhausted = nil, false
	}
	t.rank(pools, strategy, capacityType)
	fail := func(p *pool, code, message string) {
		if p.exhausted {
			return
		}
		p.exhausted = true
		o := p.override
		o.InstanceType, o.SubnetId, o.AvailabilityZone = p.it.Name, p.subnet.SubnetId, p.subnet.AvailabilityZone
		out.Errors = append(out.Errors, shapes.EC2CreateFleetError{
			LaunchTemplateAndOverrides: &shapes.EC2LaunchTemplateAndOverridesResponse{LaunchTemplateSpecification: new(p.named), Overrides: &o},
			Lifecycle:                  lifecycle, ErrorCode: code, ErrorMessage: message,
		})
	}
	if atLeast > 0 && t.holds(pools, capacityType) < atLeast {
		fail(pools[0], unfulfillable, fmt.Sprintf("Unable to fulfill the minimum target capacity %d due to no available capacity.", atLeast))
		return
	}
	for done := 0.0; done < float64(want); {
		var took *pool
		for _, p := range pools {
			if p.exhausted || oneType && took == nil && other(pools, p, func(q *pool) string { return q.it.Name }) ||
				oneZone && took == nil && other(pools, p, func(q *pool) string { return q.subnet.AvailabilityZone }) {
				continue
			}
			launched, code, message := t.launch(launchSpec{
				pool: p, capacityType: capacityType, reservation: reservation, fleet: out.FleetId, token: in.ClientToken, tags: tags,
			})
			if code != "" {
				fail(p, code, message)
				continue
			}
			took = p
			p.launched = append(p.launched, launched)
			break
		}
		if took == nil {
			break
		}
		done += took.weight
		if strategy == "diversified" {
			sort.SliceStable(pools, func(i, j int) bool { return len(pools[i].launched) < len(pools[j].launched) })
		}
	}
	for _, p := range pools {
		if len(p.launched) > 0 {
			o := p.override
			o.InstanceType, o.SubnetId, o.AvailabilityZone = p.it.Name, p.subnet.SubnetId, p.subnet.AvailabilityZone
			out.Instances = append(out.Instances, shapes.EC2CreateFleetInstance{
				LaunchTemplateAndOverrides: &shapes.EC2LaunchTemplateAndOverridesResponse{LaunchTemplateSpecification: new(p.named), Overrides: &o},
				Lifecycle:                  lifecycle, InstanceIds: p.launched, InstanceType: p.it.Name,
			})
		}
	}
}

// other reports whether something was launched that differs from p in what key gives.
func other(pools []*pool, p *pool, key func(*pool) string) bool {
	for _, q := range pools {
		if len(q.launched) > 0 && key(q) != key(p) {
			return true
		}
	}
	return false
}

// holds is how many instances could be had, as far as it is known without trying.
func (t *tx) holds(pools []*pool, capacityType string) int64 {
	for _, p := range pools {
		if code, _ := t.lacks(p, capacityType, false); code == "" {
			return maxFleet
		}
	}
	return 0
}

// rank puts pools in the order in which a strategy takes them; ties by price, then as the request has them.
func (t *tx) rank(pools []*pool, strategy, capacityType string) {
	cost := func(p *pool) float64 {
		o := t.offering(p.it.Name, p.subnet.AvailabilityZone, capacityType)
		if o == nil {
			return 1e18
		}
		price := float64(t.priceOf(p.it.Name, o)) / p.weight
		switch strategy {
		case "price-capacity-optimized", "priceCapacityOptimized":
			// Of a pool with little capacity AWS says nothing but that it avoids it: it is worth up to a quarter more here.
			return price * (1 + float64(t.shallow(p))/4000)
		case "capacity-optimized", "capacityOptimized":
			return float64(t.shallow(p))*1e12 + price
		case "capacity-optimized-prioritized", "capacityOptimizedPrioritized", "prioritized":
			return p.priority*1e12 + price
		}
		return price
	}
	for i, p := range pools {
		p.order = i
	}
	sort.SliceStable(pools, func(i, j int) bool {
		a, b := cost(pools[i]), cost(pools[j])
		if a != b {
			return a < b
		}
		return pools[i].order < pools[j].order
	})
}

// shallow is how little spot capacity a pool has, from 0 to 999: a hash, the same for ever.
func (c *Cloud) shallow(p *pool) uint64 {
	return draw(1000, "depth", strconv.FormatInt(c.settings.Seed, 10), p.it.Name, p.subnet.AvailabilityZone)
}

// launchSpec is one instance to be.
type launchSpec struct {
	pool         *pool
	capacityType string
	reservation  string
	fleet, token string
	group        string
	tags         []shapes.EC2Tag
	protected    bool
}

// lacks says what keeps a pool from giving an instance. With take it counts as a launch that a fault has hit.
func (t *tx) lacks(p *pool, capacityType string, take bool) (code, message string) {
	zone := p.subnet.AvailabilityZone
	o := t.offering(p.it.Name, zone, capacityType)
	if o == nil {
		return "Unsupported", fmt.Sprintf("Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", p.it.Name, zone)
	}
	if p.maxMicro > 0 && t.priceOf(p.it.Name, o) > p.maxMicro {
		return "SpotMaxPriceTooLow", fmt.Sprintf("Your Spot request price of %s is lower than the minimum required Spot request fulfillment price of %s.", usd(p.maxMicro), usd(t.priceOf(p.it.Name, o)))
	}
	if f := t.fault(LaunchError, "", p.it.Name, zone, capacityType); f != nil {
		if take {
			f.left--
		}
		return f.Code, f.Kind + ": " + f.Code
	}
	k := cloud.OfferingKey{InstanceType: p.it.Name, Zone: zone, CapacityType: capacityType}
	if !o.Available || t.scarce(k) || take && t.m.OutOfCapacity(k, t.now) {
		return insufficientCapacity, fmt.Sprintf("We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). Our system will be working on provisioning additional capacity.", p.it.Name, zone)
	}
	return "", ""
}

// launch starts one instance; a code says why it did not.
func (t *tx) launch(s launchSpec) (instanceID, code, message string) {
	p, zone := s.pool, s.pool.subnet.AvailabilityZone
	if code, message := t.lacks(p, s.capacityType, true); code != "" {
		return "", code, message
	}
	im := t.image(p.data.ImageId)
	if name, ok := strings.CutPrefix(p.data.ImageId, "resolve:ssm:"); ok {
		im = t.parameter(name)
	}
	if im == nil {
		return "", "InvalidAMIID.NotFound", fmt.Sprintf("The image id '[%s]' does not exist", p.data.ImageId)
	}
	if arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[p.it.Labels[model.LabelArch]]; arch != im.Arch {
		return "", "InvalidParameterValue", fmt.Sprintf("The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI.", arch, im.Arch)
	}
	groups := p.data.SecurityGroupIds
	if len(p.data.NetworkInterfaces) > 0 {
		groups = p.data.NetworkInterfaces[0].Groups
	}
	for _, g := range groups {
		if t.securityGroup(g) == nil {
			return "", "InvalidGroup.NotFound", fmt.Sprintf("The security group '%s' does not exist", g)
		}
	}
	prof := ""
	if ref := p.data.IamInstanceProfile; ref != nil {
		prof = ref.Name
		if prof == "" {
			prof = ref.Arn[strings.LastIndexByte(ref.Arn, '/')+1:]
		}
		if t.profile(prof) == nil {
			return "", "InvalidParameterValue", fmt.Sprintf("Value (%s) for parameter shapes.IAMInstanceProfile.name is invalid. Invalid IAM Instance Profile name", prof)
		}
	}
	held := ""
	if s.capacityType == model.OnDemand {
		if held, code, message = t.reservationFor(p); code != "" {
			return "", code, message
		}
	}
	id := t.freshID("i")
	ip, ok := t.address(p.subnet, id)
	if !ok {
		return "", insufficientAddresses, fmt.Sprintf("There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", p.subnet.SubnetId)
	}
	tags := map[string]string{"aws:ec2launchtemplate:id": p.template.ID, "aws:ec2launchtemplate:version": strconv.Itoa(p.version)}
	if s.fleet != "" {
		tags["aws:ec2:fleet-id"] = s.fleet
	}
	// What the caller names goes before what the template says.
	for _, spec := range p.data.TagSpecifications {
		if spec.ResourceType == "instance" {
			maps.Copy(tags, tagMap(spec.Tags))
		}
	}
	maps.Copy(tags, tagMap(s.tags))
	in := instance{
		ID: id, Reservation: s.reservation, Fleet: s.fleet, Token: s.token, Template: p.template.ID, Version: p.version, Image: im.ID, Subnet: p.subnet.SubnetId,
		IP: ip, Groups: groups, Profile: prof, Reserved: held, Tags: tags, Group: s.group, Protected: s.protected,
	}
	in.Preference, in.Targeted = reservationWish(&p.data)
	in.Volumes = volumesOf(im, &p.data)
	public := p.subnet.MapPublicIpOnLaunch
	if list := p.data.NetworkInterfaces; len(list) > 0 && list[0].AssociatePublicIpAddress != nil {
		public = list[0].AssociatePublicIpAddress
	}
	if is(public) {
		in.PublicIP = publicIP(id)
	}
	in.HopLimit = new(int64(2)) // what the images ask for, which know version 2 of the metadata service
	if p.data.MetadataOptions != nil && p.data.MetadataOptions.HttpPutResponseHopLimit != nil {
		in.HopLimit = p.data.MetadataOptions.HttpPutResponseHopLimit
	}
	if s.capacityType == model.Spot {
		in.SpotRequest = t.freshID("sir")
	}
	o := t.offering(p.it.Name, zone, s.capacityType)
	node, never := t.node(&in, p.it, zone, &p.data)
	boot := t.m.Boot(id) + t.slow(id, p.it.Name, zone, s.capacityType)
	in.NeverJoins, in.Runs = never, t.now.Add(min(boot/3, 10*time.Second))
	if never != "" {
		t.log.Warn("instance will never join", "instance", id, "type", p.it.Name, "why", never)
	}
	t.m.Add(machines.Instance{
		ID: id, ProviderID: node.ProviderID, InstanceType: p.it.Name, Zone: zone, CapacityType: s.capacityType, PriceMicro: t.priceOf(p.it.Name, o), Modelled: o.Modelled,
		ImageID: im.ID, Registers: t.now.Add(boot), Node: node, NeverRegisters: never != "",
		ClaimName: tags[ClaimTag], ClaimUID: tags[ClaimUIDTag], Pool: tags[PoolTag],
	}, t.now)
	t.instances.put(t, id, in)
	t.told.put(t, id, toldState{ID: id})
	return id, "", ""
}

// Tags from which the journal of the machines gets claim and pool.
const (
	ClaimTag    = "karpenter.sh/nodeclaim"
	ClaimUIDTag = "dovetail.sh/nodeclaim-uid"
	PoolTag     = "karpenter.sh/nodepool"
)

// reservationWish is what a launch template says of capacity reservations: how instances may use them, and the id of the one that
// they must run in.
func reservationWish(d *shapes.EC2RequestLaunchTemplateData) (preference, target string) {
	s := d.CapacityReservationSpecification
	switch {
	case s == nil:
		return "open", ""
	case s.CapacityReservationTarget != nil && s.CapacityReservationTarget.CapacityReservationId != "":
		return "capacity-reservations-only", s.CapacityReservationTarget.CapacityReservationId
	case s.CapacityReservationPreference == "":
		return "open", ""
	}
	return s.CapacityReservationPreference, ""
}

// reservationFor finds the capacity reservation that an on-demand instance of a pool runs in, if any.
func (t *tx) reservationFor(p *pool) (id, code, message string) {
	preference, target := reservationWish(&p.data)
	fits := func(r *reservation) bool {
		return r.InstanceType == p.it.Name && r.Zone == p.subnet.AvailabilityZone && t.unused(r) > 0
	}
	if target != "" {
		r := t.reserved.items[target]
		if r == nil || !fits(r) {
			return "", "ReservationCapacityExceeded", fmt.Sprintf("The requested reservation %s does not have sufficient compatible and available capacity for this request.", target)
		}
		return r.ID, "", ""
	}
	if preference == "none" {
		return "", "", ""
	}
	for _, r := range t.reserved.sorted() {
		if r.Criteria == "open" && fits(r) {
			return r.ID, "", ""
		}
	}
	if preference == "capacity-reservations-only" {
		return "", "ReservationCapacityExceeded", "There is no open reservation with capacity for this request."
	}
	return "", "", ""
}
