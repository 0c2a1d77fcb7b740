// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// keepTerminated is how long an instance that has ended is still described.
const keepTerminated = time.Hour

// state is an instance's, by EC2's words.
func (t *tx) state(in *instance) *shapes.EC2InstanceState {
	s := &shapes.EC2InstanceState{Code: new(int64(16)), Name: "running"}
	switch m := t.machine(in); m.State {
	case machines.Pending:
		if t.now.Before(in.Runs) {
			s = &shapes.EC2InstanceState{Code: new(int64(0)), Name: "pending"}
		}
	case machines.ShuttingDown:
		s = &shapes.EC2InstanceState{Code: new(int64(32)), Name: "shutting-down"}
	case machines.Terminated:
		s = &shapes.EC2InstanceState{Code: new(int64(48)), Name: "terminated"}
	}
	return s
}

func (t *tx) describeInstances(in *shapes.EC2DescribeInstancesRequest) (*shapes.EC2DescribeInstancesResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	if len(in.InstanceIds) > 0 && in.MaxResults != nil {
		return nil, wire.Refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	var candidates []*instance
	if len(in.InstanceIds) > 0 {
		for _, id := range in.InstanceIds {
			i := t.instances.items[id]
			if i == nil || !t.visible(i) {
				return nil, wire.Refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
			}
			if !slices.Contains(candidates, i) {
				candidates = append(candidates, i)
			}
		}
		slices.SortFunc(candidates, func(a, b *instance) int { return strings.Compare(a.ID, b.ID) })
	} else {
		candidates = t.instances.sorted()
	}
	var all []*instance
	for _, i := range candidates {
		if !t.visible(i) {
			continue
		}
		pass, err := filtered(in.Filters, i.Tags, func(name string) ([]string, bool) { return t.instanceValues(i, name) })
		if err != nil {
			return nil, err
		}
		if pass {
			all = append(all, i)
		}
	}
	some, next := page(all, func(i *instance) string { return i.ID }, in.NextToken, in.MaxResults, 1000)
	out := &shapes.EC2DescribeInstancesResult{NextToken: next}
	for _, i := range some { // one reservation an instance, as a fleet's come
		out.Reservations = append(out.Reservations, shapes.EC2Reservation{Instances: []shapes.EC2Instance{t.described(i)}, OwnerId: t.settings.Account, ReservationId: i.Reservation})
	}
	return out, nil
}

func (t *tx) instanceValues(i *instance, name string) ([]string, bool) {
	m := t.machine(i)
	switch name {
	case "instance-state-name":
		return []string{t.state(i).Name}, true
	case "instance-id":
		return []string{i.ID}, true
	case "instance-type":
		return []string{m.InstanceType}, true
	case "availability-zone":
		return []string{m.Zone}, true
	case "image-id":
		return []string{i.Image}, true
	case "subnet-id":
		return []string{i.Subnet}, true
	case "vpc-id":
		return []string{t.world.vpc.VpcId}, true
	case "client-token":
		return []string{i.Token}, true
	case "private-dns-name":
		return []string{m.Node.Name}, true
	case "private-ip-address":
		return []string{i.IP}, true
	case "instance-lifecycle":
		if m.CapacityType == model.Spot {
			return []string{"spot"}, true
		}
		return nil, true
	case "capacity-reservation-id":
		return []string{t.reservedIn(i)}, true
	case "instance.group-id":
		return i.Groups, true
	case "network-interface.subnet-id":
		return []string{i.Subnet}, true
	case "iam-instance-profile.arn":
		if p := t.instanceProfile(i); p != nil {
			return []string{p.Arn}, true
		}
		return nil, true
	case "launch-time":
		return []string{m.Launched.UTC().Format("2006-01-02T15:04:05.000Z")}, true
	case "availability-zone-id":
		return []string{zoneID(t.catalog.Region, m.Zone)}, true
	case "owner-id", "network-interface.owner-id":
		return []string{t.settings.Account}, true
	case "reservation-id":
		return []string{i.Reservation}, true
	case "group-id", "network-interface.group-id":
		return i.Groups, true
	case "spot-instance-request-id":
		return []string{i.SpotRequest}, true
	case "ip-address":
		return []string{i.PublicIP}, true
	case "network-interface.network-interface-id":
		return []string{id("eni", i.ID)}, true
	case "network-interface.vpc-id":
		return []string{t.world.vpc.VpcId}, true
	case "network-interface.private-dns-name":
		return []string{m.Node.Name}, true
	case "network-interface.addresses.private-ip-address":
		return []string{i.IP}, true
	}
	return describedValues(t.described(i), name)
}

// describedValues are the values of a filter that are found in the answer itself.
func describedValues(d shapes.EC2Instance, name string) ([]string, bool) {
	switch name {
	case "architecture":
		return []string{d.Architecture}, true
	case "hypervisor":
		return []string{d.Hypervisor}, true
	case "root-device-name":
		return []string{d.RootDeviceName}, true
	case "root-device-type":
		return []string{d.RootDeviceType}, true
	case "virtualization-type":
		return []string{d.VirtualizationType}, true
	case "tenancy":
		return []string{d.Placement.Tenancy}, true
	case "platform-details":
		return []string{d.PlatformDetails}, true
	case "monitoring-state":
		return []string{d.Monitoring.State}, true
	case "dns-name":
		return []string{d.PublicDnsName}, true
	case "source-dest-check":
		return []string{"true"}, true
	case "launch-index":
		return []string{strconv.FormatInt(*d.AmiLaunchIndex, 10)}, true
	case "instance-state-code":
		return []string{strconv.FormatInt(*d.State.Code, 10)}, true
	case "state-reason-code", "state-reason-message", "reason":
		if d.StateReason == nil {
			return nil, true
		}
		return []string{map[string]string{"state-reason-code": d.StateReason.Code, "state-reason-message": d.StateReason.Message, "reason": d.StateTransitionReason}[name]}, true
	case "metadata-options.http-tokens":
		return []string{d.MetadataOptions.HttpTokens}, true
	case "metadata-options.http-endpoint":
		return []string{d.MetadataOptions.HttpEndpoint}, true
	case "group-name", "instance.group-name", "network-interface.group-name":
		var names []string
		for _, g := range d.SecurityGroups {
			names = append(names, g.GroupName)
		}
		return names, true
	case "iam-instance-profile.id", "iam-instance-profile.name":
		if p := d.IamInstanceProfile; p == nil {
			return nil, true
		} else if name == "iam-instance-profile.id" {
			return []string{p.Id}, true
		} else {
			return []string{p.Arn[strings.LastIndexByte(p.Arn, '/')+1:]}, true
		}
	case "block-device-mapping.device-name", "block-device-mapping.volume-id", "block-device-mapping.status", "block-device-mapping.delete-on-termination":
		var out []string
		for _, b := range d.BlockDeviceMappings {
			out = append(out, map[string]string{"device-name": b.DeviceName, "volume-id": b.Ebs.VolumeId, "status": b.Ebs.Status, "delete-on-termination": "true"}[strings.TrimPrefix(name, "block-device-mapping.")])
		}
		return out, true
	}
	return nil, false
}

func (t *tx) described(i *instance) shapes.EC2Instance {
	m := t.machine(i)
	var arch string
	if im := t.image(i.Image); im != nil {
		arch = im.Arch
	}
	groups := t.groupsOf(i)
	d := shapes.EC2Instance{
		AmiLaunchIndex: new(int64(0)), ImageId: i.Image, InstanceId: i.ID, InstanceType: m.InstanceType, LaunchTime: pointer(m.Launched.Truncate(time.Second)),
		Placement: &shapes.EC2Placement{AvailabilityZone: m.Zone, AvailabilityZoneId: zoneID(t.catalog.Region, m.Zone), Tenancy: "default"}, PrivateDnsName: m.Node.Name, PrivateIpAddress: i.IP, State: t.state(i),
		SubnetId: i.Subnet, VpcId: t.world.vpc.VpcId, Architecture: arch, ClientToken: i.Token, EbsOptimized: new(true), EnaSupport: new(true), Hypervisor: "xen",
		RootDeviceName: "/dev/xvda", RootDeviceType: "ebs", SecurityGroups: groups, SpotInstanceRequestId: i.SpotRequest, Tags: tagList(i.Tags),
		VirtualizationType: "hvm", CapacityReservationId: t.reservedIn(i), CapacityReservationSpecification: reservationSpecification(i),
		MetadataOptions: &shapes.EC2InstanceMetadataOptionsResponse{State: "applied", HttpTokens: "required", HttpEndpoint: "enabled", HttpProtocolIpv6: "disabled", HttpPutResponseHopLimit: i.HopLimit, InstanceMetadataTags: "disabled"},
		NetworkInterfaces: []shapes.EC2InstanceNetworkInterface{{
			NetworkInterfaceId: id("eni", i.ID), PrivateDnsName: m.Node.Name, PrivateIpAddress: i.IP, SubnetId: i.Subnet, VpcId: t.world.vpc.VpcId, Groups: groups,
			InterfaceType: "interface", Status: "in-use", MacAddress: macAddress(i), PrivateIpAddresses: []shapes.EC2InstancePrivateIpAddress{{Primary: new(true), PrivateDnsName: m.Node.Name, PrivateIpAddress: i.IP}}, OwnerId: t.settings.Account, SourceDestCheck: new(true),
			Attachment: &shapes.EC2InstanceNetworkInterfaceAttachment{AttachTime: pointer(m.Launched), AttachmentId: id("eni-attach", i.ID), DeleteOnTermination: new(true), DeviceIndex: new(int64(0)), NetworkCardIndex: new(int64(0)), Status: "attached"},
		}},
		Monitoring: &shapes.EC2Monitoring{State: "disabled"}, SourceDestCheck: new(true), PlatformDetails: "Linux/UNIX", UsageOperation: "RunInstances",
	}
	if i.PublicIP != "" {
		name := "ec2-" + strings.ReplaceAll(i.PublicIP, ".", "-") + ".compute-1.amazonaws.com"
		d.PublicIpAddress, d.PublicDnsName = i.PublicIP, name
		d.NetworkInterfaces[0].Association = &shapes.EC2InstanceNetworkInterfaceAssociation{IpOwnerId: "amazon", PublicDnsName: name, PublicIp: i.PublicIP}
	}
	for n := range i.Volumes {
		v := &i.Volumes[n]
		d.BlockDeviceMappings = append(d.BlockDeviceMappings, shapes.EC2InstanceBlockDeviceMapping{DeviceName: v.Device, Ebs: &shapes.EC2EbsInstanceBlockDevice{
			AttachTime: pointer(m.Launched), DeleteOnTermination: new(true), Status: "attached", VolumeId: volumeID(i, v)}})
	}
	if m.CapacityType == model.Spot {
		d.InstanceLifecycle = "spot"
	}
	d.IamInstanceProfile = t.instanceProfile(i)
	if gone(m) {
		d.PrivateIpAddress, d.PrivateDnsName, d.NetworkInterfaces, d.SubnetId, d.VpcId = "", "", nil, "", ""
		d.PublicIpAddress, d.PublicDnsName, d.BlockDeviceMappings = "", "", nil
		code, text, message := "Client.UserInitiatedShutdown", "User initiated", "User initiated shutdown"
		if i.Reason != "" {
			code, text, message = i.Reason, i.Reason, i.Reason
		}
		d.StateReason = &shapes.EC2StateReason{Code: code, Message: code + ": " + message}
		d.StateTransitionReason = text + m.Terminated.UTC().Format(" (2006-01-02 15:04:05 GMT)")
	}
	return d
}

// instanceProfile is the profile that an instance was launched with, nil without one. One that was deleted meanwhile has no id.
func (t *tx) instanceProfile(i *instance) *shapes.EC2IamInstanceProfile {
	if i.Profile == "" {
		return nil
	}
	if p := t.profile(i.Profile); p != nil {
		return &shapes.EC2IamInstanceProfile{Arn: t.arn("iam", "instance-profile"+p.Path+p.Name), Id: p.ID}
	}
	return &shapes.EC2IamInstanceProfile{Arn: t.arn("iam", "instance-profile/"+i.Profile)}
}

// reservationSpecification is how an instance may use capacity reservations. An instance that was launched into one by its
// id runs in that one only; the others have the account's default.
func reservationSpecification(i *instance) *shapes.EC2CapacityReservationSpecificationResponse {
	s := &shapes.EC2CapacityReservationSpecificationResponse{CapacityReservationPreference: i.Preference}
	if i.Preference == "" {
		s.CapacityReservationPreference = "open"
	}
	if i.Targeted != "" {
		s.CapacityReservationTarget = &shapes.EC2CapacityReservationTargetResponse{CapacityReservationId: i.Targeted}
	}
	return s
}

func (t *tx) terminateInstances(in *shapes.EC2TerminateInstancesRequest) (*shapes.EC2TerminateInstancesResult, error) {
	if len(in.InstanceIds) == 0 {
		return nil, wire.Refuse("MissingParameter", "The request must contain the parameter InstanceId")
	}
	for _, id := range in.InstanceIds { // all or none
		i := t.instances.items[id]
		// Ending an instance is not behind Describe's lag: whoever knows the id may use it.
		if i == nil || t.machine(i).State == machines.Terminated && !t.visible(i) {
			return nil, wire.Refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		}
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	out := &shapes.EC2TerminateInstancesResult{}
	for _, id := range in.InstanceIds {
		i := t.instances.items[id]
		before := t.state(i)
		t.end(i, "")
		out.TerminatingInstances = append(out.TerminatingInstances, shapes.EC2InstanceStateChange{InstanceId: id, PreviousState: before, CurrentState: t.state(i)})
	}
	return out, nil
}

// rebootInstances restarts instances that run. The simulated kubelets know of no boots: what comes of it on the node is for whoever plays one.
func (t *tx) rebootInstances(in *shapes.EC2RebootInstancesRequest) (*wire.None, error) {
	if len(in.InstanceIds) == 0 {
		return nil, wire.Refuse("MissingParameter", "The request must contain the parameter InstanceId")
	}
	for _, id := range in.InstanceIds { // all or none
		i := t.instances.items[id]
		switch {
		case i == nil || t.machine(i).State == machines.Terminated && !t.visible(i):
			return nil, wire.Refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		case gone(t.machine(i)):
			return nil, wire.Refuse("IncorrectState", "The instance '%s' is not in a state from which it can be rebooted", id)
		}
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	for _, id := range in.InstanceIds {
		is := *t.instances.items[id]
		is.Reboots++
		t.instances.put(t, id, is)
	}
	return &wire.None{}, nil
}

// end terminates an instance, if it has not ended yet; reason is empty for one whose owner asked for it.
func (t *tx) end(i *instance, reason string) {
	m := t.machine(i)
	if gone(m) {
		return
	}
	if reason != "" {
		is := *i
		is.Reason = reason
		t.instances.put(t, i.ID, is)
	}
	t.m.Terminate(m.ProviderID, t.now)
	t.stir()
}

func (t *tx) describeInstanceStatus(in *shapes.EC2DescribeInstanceStatusRequest) (*shapes.EC2DescribeInstanceStatusResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	var all []shapes.EC2InstanceStatus
	for _, i := range t.instances.sorted() {
		if len(in.InstanceIds) > 0 && !slices.Contains(in.InstanceIds, i.ID) || !t.visible(i) {
			continue
		}
		state := t.state(i)
		if state.Name != "running" && !is(in.IncludeAllInstances) {
			continue
		}
		m := t.machine(i)
		healthy := shapes.EC2InstanceStatusSummary{Status: "ok", Details: []shapes.EC2InstanceStatusDetails{{Name: "reachability", Status: "passed"}}}
		status := healthy
		if !i.Impaired.IsZero() {
			status = shapes.EC2InstanceStatusSummary{Status: "impaired", Details: []shapes.EC2InstanceStatusDetails{{Name: "reachability", Status: "failed", ImpairedSince: pointer(i.Impaired)}}}
		}
		d := shapes.EC2InstanceStatus{AvailabilityZone: m.Zone, InstanceId: i.ID, InstanceState: state, InstanceStatus: &status, SystemStatus: &healthy}
		if i.Event != "" {
			d.Events = []shapes.EC2InstanceStatusEvent{{InstanceEventId: id("instance-event", i.ID), Code: i.Event, Description: "scheduled", NotBefore: pointer(i.Goes)}}
		}
		pass, err := filtered(in.Filters, i.Tags, func(name string) ([]string, bool) {
			switch name {
			case "instance-status.status":
				return []string{status.Status}, true
			case "system-status.status":
				return []string{healthy.Status}, true
			case "event.code":
				return []string{i.Event}, true
			}
			return t.instanceValues(i, name)
		})
		if err != nil {
			return nil, err
		}
		if pass {
			all = append(all, d)
		}
	}
	some, next := page(all, func(d shapes.EC2InstanceStatus) string { return d.InstanceId }, in.NextToken, in.MaxResults, 1000)
	return &shapes.EC2DescribeInstanceStatusResult{InstanceStatuses: some, NextToken: next}, nil
}

// runInstances is only there to be asked whether it may be called.
func (t *tx) runInstances(in *shapes.EC2RunInstancesRequest) (*shapes.EC2Reservation, error) {
	if in.LaunchTemplate != nil {
		have, err := t.findTemplate(in.LaunchTemplate.LaunchTemplateId, in.LaunchTemplate.LaunchTemplateName)
		if err != nil {
			return nil, err
		}
		if _, err := have.version(in.LaunchTemplate.Version); err != nil {
			return nil, err
		}
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	return nil, wire.Refuse("UnsupportedOperation", "RunInstances is simulated with DryRun only; use CreateFleet")
}
