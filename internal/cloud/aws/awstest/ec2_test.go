// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// TestFleetBecomesNodes: an instance that a fleet starts is described, becomes a Node as its user data says, and is gone when ended.
func TestFleetBecomesNodes(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	lt := a.template("karpenter.k8s.aws/1", nodeadmData)
	out, err := a.ec2.CreateFleet(ctx, a.fleetOf(lt, "token", "c1", 2, types.DefaultTargetCapacityTypeSpot, "m5.large", "c5.large"))
	if err != nil {
		t.Fatal(err)
	}
	if len(ids(out)) != 2 || len(out.Errors) != 0 {
		t.Fatalf("have %d instances and errors %v, want 2 and none", len(ids(out)), out.Errors)
	}
	got := out.Instances[0]
	if got.Lifecycle != types.InstanceLifecycleSpot || got.LaunchTemplateAndOverrides.Overrides.InstanceType != got.InstanceType || got.LaunchTemplateAndOverrides.Overrides.SubnetId == nil {
		t.Errorf("the answer doesn't say what was launched: %+v", got)
	}
	a.cluster.until(t, func(n map[string]machines.NodeSpec) bool { return len(n) == 2 })
	described := check[*ec2.DescribeInstancesOutput](t)(a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{
		Filters: []types.Filter{{Name: aws.String("tag:claim"), Values: []string{"c1"}}, {Name: aws.String("instance-state-name"), Values: []string{"pending", "running"}}},
	}))
	if len(described.Reservations) != 2 {
		t.Fatalf("have %d instances described, want 2", len(described.Reservations))
	}
	i := described.Reservations[0].Instances[0]
	node, ok := a.cluster.nodes[*i.PrivateDnsName]
	if !ok {
		t.Fatalf("no node is named %s as its instance", *i.PrivateDnsName)
	}
	if want := "aws:///" + *i.Placement.AvailabilityZone + "/" + *i.InstanceId; node.ProviderID != want {
		t.Errorf("have provider id %s, want %s", node.ProviderID, want)
	}
	for key, want := range map[string]string{
		"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": "spot", "node.kubernetes.io/instance-type": string(i.InstanceType),
		"topology.kubernetes.io/zone": *i.Placement.AvailabilityZone, "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": *i.PrivateDnsName,
	} {
		if node.Labels[key] != want {
			t.Errorf("label %s: have %q, want %q", key, node.Labels[key], want)
		}
	}
	if len(node.Taints) != 1 || node.Taints[0] != (machines.Taint{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}) {
		t.Errorf("have taints %v", node.Taints)
	}
	if node.Capacity["pods"] != "42" || node.Capacity["ephemeral-storage"] != "50Gi" {
		t.Errorf("have %s pods and %s of storage, want the user data's 42 and the volume's 50Gi", node.Capacity["pods"], node.Capacity["ephemeral-storage"])
	}
	if i.InstanceLifecycle != types.InstanceLifecycleTypeSpot || i.SpotInstanceRequestId == nil || *i.MetadataOptions.HttpPutResponseHopLimit != 1 || *i.IamInstanceProfile.Arn == "" {
		t.Errorf("not as launched: %+v", i)
	}

	end := check[*ec2.TerminateInstancesOutput](t)(a.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids(out)}))
	if s := end.TerminatingInstances[0]; s.CurrentState.Name != types.InstanceStateNameShuttingDown {
		t.Errorf("have state %s, want shutting-down", s.CurrentState.Name)
	}
	a.cluster.until(t, func(n map[string]machines.NodeSpec) bool { return len(n) == 0 })
	_, err = a.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{"i-0123456789abcdef0"}})
	if code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("ending an unknown instance: have %v", err)
	}
}

// TestClientToken: the same token with the same parameters is the same answer, for ever; with others it is an error.
func TestClientToken(t *testing.T) {
	a := newAccount(t)
	lt := a.template("nodes", nodeadmData)
	in := a.fleetOf(lt, "token", "c1", 1, types.DefaultTargetCapacityTypeOnDemand, "m5.large")
	first := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), in))
	a.restart()
	again := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), in))
	if !slices.Equal(ids(first), ids(again)) || *first.FleetId != *again.FleetId {
		t.Errorf("have %v, then %v", ids(first), ids(again))
	}
	in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(2)
	if _, err := a.ec2.CreateFleet(t.Context(), in); code(err) != "IdempotentParameterMismatch" {
		t.Errorf("other parameters: have %v", err)
	}
	if b := a.books(); len(b.Launches["c1"]) != 1 || len(b.Alive) != 1 || len(b.Twice)+len(b.Untagged) != 0 {
		t.Errorf("the books have %+v", b)
	}
}

// TestCapacity: pools without capacity are named, the others give what is wanted; none left is an answer without instances.
func TestCapacity(t *testing.T) {
	a := newAccount(t)
	lt := a.template("nodes", nodeadmData)
	a.fault(Fault{Kind: machines.OutOfCapacity, InstanceType: "t3.large"}, Fault{Kind: machines.OutOfCapacity, InstanceType: "m5.large", Zone: "us-east-1a"})
	out := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), a.fleetOf(lt, "1", "c1", 3, types.DefaultTargetCapacityTypeOnDemand, "t3.large", "m5.large")))
	if len(ids(out)) != 3 || len(out.Errors) != 4 {
		t.Fatalf("have %d instances and %d errors, want 3 and 4", len(ids(out)), len(out.Errors))
	}
	for _, e := range out.Errors {
		if *e.ErrorCode != "InsufficientInstanceCapacity" || *e.LaunchTemplateAndOverrides.Overrides.AvailabilityZone == "" || e.Lifecycle != types.InstanceLifecycleOnDemand {
			t.Errorf("have %s in %+v", *e.ErrorCode, e.LaunchTemplateAndOverrides.Overrides)
		}
	}
	if out := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), a.fleetOf(lt, "2", "c2", 1, types.DefaultTargetCapacityTypeOnDemand, "t3.large"))); len(ids(out)) != 0 || len(out.Errors) != 3 {
		t.Errorf("have %d instances and %d errors, want none and 3", len(ids(out)), len(out.Errors))
	}
	if err := a.control("DELETE", "faults", nil, nil); err != nil {
		t.Fatal(err)
	}
	if out := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), a.fleetOf(lt, "3", "c3", 1, types.DefaultTargetCapacityTypeOnDemand, "t3.large", "m5.large"))); out.Instances[0].InstanceType != "t3.large" {
		t.Errorf("have %s, want the cheaper t3.large", out.Instances[0].InstanceType)
	}
}

// TestScarce: a percentage of offerings without capacity is the same for the same seed.
func TestScarce(t *testing.T) {
	var first []string
	for range 2 {
		a := newAccount(t)
		lt := a.template("nodes", nodeadmData)
		a.fault(Fault{Kind: Scarce, Percent: 30})
		var lacking []string
		for i, it := range []string{"m5.large", "m5.xlarge", "c5.large", "c5.xlarge", "r5.large", "m6i.large", "c6i.large", "r6i.large"} {
			out := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), a.fleetOf(lt, strconv.Itoa(i), "c", 1, types.DefaultTargetCapacityTypeSpot, it)))
			for _, e := range out.Errors {
				o := e.LaunchTemplateAndOverrides.Overrides
				lacking = append(lacking, string(o.InstanceType)+"/"+*o.AvailabilityZone)
			}
		}
		if len(lacking) == 0 {
			t.Fatal("no offering lacked capacity, so there was nothing to check")
		}
		if first != nil && !slices.Equal(first, lacking) {
			t.Errorf("have %v, then %v", first, lacking)
		}
		first = lacking
	}
}

// TestCallFaults: throttling, refusals and lost replies reach the SDK as they would from AWS.
func TestCallFaults(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	lt := a.template("nodes", nodeadmData)
	zones := func() error {
		_, err := a.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
		return err
	}
	a.fault(Fault{Kind: Throttle, Action: "DescribeAvailabilityZones", Count: 1}, Fault{Kind: Deny, Action: "DescribeSubnets", Count: 1}, Fault{Kind: Deny, Action: "GetParameter", Count: 1})
	if err := zones(); code(err) != "RequestLimitExceeded" {
		t.Errorf("throttled: have %v", err)
	}
	if err := zones(); err != nil {
		t.Error(err)
	}
	if _, err := a.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{}); code(err) != "UnauthorizedOperation" {
		t.Errorf("denied: have %v", err)
	}
	if _, err := a.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("x")}); code(err) != "AccessDeniedException" {
		t.Errorf("denied: have %v", err)
	}
	a.fault(Fault{Kind: Bucket, Action: "DescribeAvailabilityZones", Burst: 2, PerSecond: 1})
	for i, want := range []string{"<nil>", "<nil>", "RequestLimitExceeded"} {
		if err := zones(); code(err) != want {
			t.Errorf("call %d of a bucket of two: have %v", i+1, err)
		}
	}
	a.clock.forward(time.Second)
	if err := zones(); err != nil {
		t.Errorf("after a second: %v", err)
	}
	a.fault(Fault{Kind: LostReply, Action: "CreateFleet", Count: 1})
	in := a.fleetOf(lt, "token", "c1", 1, types.DefaultTargetCapacityTypeSpot, "m5.large")
	if out, err := a.ec2.CreateFleet(ctx, in); err == nil {
		t.Errorf("the reply was to be lost, and is %+v", out)
	}
	again := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(ctx, in))
	if b := a.books(); !slices.Equal(b.Launches["c1"], ids(again)) || len(ids(again)) != 1 || b.Calls["ec2:CreateFleet"].Count != 2 {
		t.Errorf("the books have %v and %v; the second answer %v", b.Launches, b.Calls["ec2:CreateFleet"], ids(again))
	}
}

// TestDescribeLag: what was launched a moment ago is not described yet, and can't be tagged.
func TestDescribeLag(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	lt := a.template("nodes", nodeadmData)
	a.fault(Fault{Kind: DescribeLag, Delay: machines.Duration(10 * time.Second)})
	out := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(ctx, a.fleetOf(lt, "t", "c1", 1, types.DefaultTargetCapacityTypeSpot, "m5.large")))
	by := &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag-key"), Values: []string{"claim"}}}}
	if d := check[*ec2.DescribeInstancesOutput](t)(a.ec2.DescribeInstances(ctx, by)); len(d.Reservations) != 0 {
		t.Error("described at once")
	}
	tag := &ec2.CreateTagsInput{Resources: ids(out), Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("n")}}}
	if _, err := a.ec2.CreateTags(ctx, tag); code(err) != "InvalidInstanceID.NotFound" {
		t.Errorf("tagged at once: %v", err)
	}
	a.clock.forward(10 * time.Second)
	if _, err := a.ec2.CreateTags(ctx, tag); err != nil {
		t.Error(err)
	}
	d := check[*ec2.DescribeInstancesOutput](t)(a.ec2.DescribeInstances(ctx, by))
	if len(d.Reservations) != 1 || !slices.ContainsFunc(d.Reservations[0].Instances[0].Tags, func(t types.Tag) bool { return *t.Key == "Name" && *t.Value == "n" }) {
		t.Errorf("have %+v", d.Reservations)
	}
}

// TestLaunchTemplates: made once a name, found and deleted by name, kept over a restart.
func TestLaunchTemplates(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	lt := a.template("karpenter.k8s.aws/7", nodeadmData)
	if _, err := a.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &lt, LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String("ami-1")}}); code(err) != "InvalidLaunchTemplateName.AlreadyExistsException" {
		t.Errorf("a second one: have %v", err)
	}
	a.restart()
	v := check[*ec2.DescribeLaunchTemplateVersionsOutput](t)(a.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: &lt, Versions: []string{"$Latest"}})).LaunchTemplateVersions[0]
	if *v.LaunchTemplateData.BlockDeviceMappings[0].Ebs.VolumeSize != 50 || *v.LaunchTemplateData.UserData == "" {
		t.Errorf("have %+v", v.LaunchTemplateData)
	}
	if _, err := a.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &lt}); err != nil {
		t.Fatal(err)
	}
	for _, call := range []func() error{
		func() error {
			_, err := a.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{lt}})
			return err
		},
		func() error {
			_, err := a.ec2.CreateFleet(ctx, a.fleetOf(lt, "x", "c", 1, types.DefaultTargetCapacityTypeSpot, "m5.large"))
			return err
		},
	} {
		if err := call(); code(err) != "InvalidLaunchTemplateName.NotFoundException" {
			t.Errorf("have %v", err)
		}
	}
	all := check[*ec2.DescribeLaunchTemplatesOutput](t)(a.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{Filters: []types.Filter{{Name: aws.String("launch-template-name"), Values: []string{"karpenter.k8s.aws/*"}}}}))
	if len(all.LaunchTemplates) != 0 {
		t.Errorf("have %d left", len(all.LaunchTemplates))
	}
}

// TestDryRun: whether a call may be made is told without making it.
func TestDryRun(t *testing.T) {
	a := newAccount(t)
	lt := a.template("nodes", nodeadmData)
	in := a.fleetOf(lt, "", "c", 1, types.DefaultTargetCapacityTypeSpot, "m5.large")
	in.DryRun = aws.Bool(true)
	if _, err := a.ec2.CreateFleet(t.Context(), in); code(err) != "DryRunOperation" {
		t.Errorf("have %v", err)
	}
	if _, err := a.ec2.RunInstances(t.Context(), &ec2.RunInstancesInput{DryRun: aws.Bool(true), MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}); code(err) != "DryRunOperation" {
		t.Errorf("have %v", err)
	}
	a.fault(Fault{Kind: Deny, Action: "CreateFleet"})
	if _, err := a.ec2.CreateFleet(t.Context(), in); code(err) != "UnauthorizedOperation" {
		t.Errorf("have %v", err)
	}
	if b := a.books(); len(b.Alive) != 0 {
		t.Errorf("%d instances were launched", len(b.Alive))
	}
}

// TestCatalogue: types, offerings and spot prices are the catalog's, over all pages.
func TestCatalogue(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	c, err := builtin()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]types.InstanceTypeInfo{}
	for p := ec2.NewDescribeInstanceTypesPaginator(a.ec2, &ec2.DescribeInstanceTypesInput{}); p.HasMorePages(); {
		for _, i := range check[*ec2.DescribeInstanceTypesOutput](t)(p.NextPage(ctx)).InstanceTypes {
			seen[string(i.InstanceType)] = i
		}
	}
	if len(seen) != len(c.Types) {
		t.Fatalf("have %d types, the catalog has %d", len(seen), len(c.Types))
	}
	for _, it := range c.Types {
		i := seen[it.Name]
		n, addresses := *i.NetworkInfo.NetworkCards[0].MaximumNetworkInterfaces, *i.NetworkInfo.Ipv4AddressesPerInterface
		if pods := int64(n*(addresses-1) + 2); pods != it.Capacity["pods"] {
			t.Errorf("%s: %d interfaces with %d addresses allow %d pods, the catalog says %d", it.Name, n, addresses, pods, it.Capacity["pods"])
		}
		if *i.MemoryInfo.SizeInMiB<<20 != it.Capacity["memory"] || int64(*i.VCpuInfo.DefaultVCpus)*1000 != it.Capacity["cpu"] {
			t.Errorf("%s: have %d MiB and %d CPUs", it.Name, *i.MemoryInfo.SizeInMiB, *i.VCpuInfo.DefaultVCpus)
		}
	}
	if g := seen["g5.xlarge"]; *g.GpuInfo.Gpus[0].Name != "A10G" || *g.GpuInfo.Gpus[0].Manufacturer != "NVIDIA" {
		t.Errorf("have %+v", g.GpuInfo.Gpus)
	}
	if d := seen["i4i.32xlarge"].InstanceStorageInfo; *d.Disks[0].Count != 8 || *d.Disks[0].SizeInGB != 3750 || *d.TotalSizeInGB != 30000 {
		t.Errorf("have %+v", d)
	}
	if n := seen["p4d.24xlarge"].NetworkInfo; *n.MaximumNetworkCards != 4 || len(n.NetworkCards) != 4 {
		t.Errorf("have %+v", n)
	}
	if b := seen["m6g.large"].SupportedBootModes; len(b) != 1 || b[0] != "uefi" {
		t.Errorf("have %v", b)
	}
	for _, f := range []struct {
		name, value string
		want        string // a type that passes
	}{
		{"memory-info.size-in-mib", "8192", "m5.large"}, {"vcpu-info.default-vcpus", "2", "m5.large"}, {"instance-storage-supported", "true", "i4i.large"},
		{"burstable-performance-supported", "true", "t3.large"}, {"processor-info.manufacturer", "AMD", "m6a.large"},
	} {
		out := check[*ec2.DescribeInstanceTypesOutput](t)(a.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{
			Filters: []types.Filter{{Name: &f.name, Values: []string{f.value}}, {Name: aws.String("instance-type"), Values: []string{f.want, "c6g.medium"}}},
		})).InstanceTypes
		if len(out) != 1 || string(out[0].InstanceType) != f.want {
			t.Errorf("%s=%s: have %d types", f.name, f.value, len(out))
		}
	}
	trainers := check[*ec2.GetInstanceTypesFromInstanceRequirementsOutput](t)(a.ec2.GetInstanceTypesFromInstanceRequirements(ctx, &ec2.GetInstanceTypesFromInstanceRequirementsInput{
		ArchitectureTypes: []types.ArchitectureType{"x86_64"}, VirtualizationTypes: []types.VirtualizationType{"hvm"}, InstanceRequirements: &types.InstanceRequirementsRequest{
			VCpuCount: &types.VCpuCountRangeRequest{Min: aws.Int32(8), Max: aws.Int32(8)}, MemoryMiB: &types.MemoryMiBRequest{Min: aws.Int32(32768), Max: aws.Int32(32768)},
			AllowedInstanceTypes: []string{"trn1*", "t3*"},
		}})).InstanceTypes
	if len(trainers) != 1 || *trainers[0].InstanceType != "trn1.2xlarge" {
		t.Errorf("have %v", trainers)
	}
	offered := 0
	for p := ec2.NewDescribeInstanceTypeOfferingsPaginator(a.ec2, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: types.LocationTypeAvailabilityZone}); p.HasMorePages(); {
		offered += len(check[*ec2.DescribeInstanceTypeOfferingsOutput](t)(p.NextPage(ctx)).InstanceTypeOfferings)
	}
	if offered != 3*len(c.Types) {
		t.Errorf("have %d offerings of %d types in three zones", offered, len(c.Types))
	}
	price := func() string {
		h := check[*ec2.DescribeSpotPriceHistoryOutput](t)(a.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{
			InstanceTypes: []types.InstanceType{"m5.large"}, AvailabilityZone: aws.String("us-east-1b"), ProductDescriptions: []string{"Linux/UNIX"}, StartTime: aws.Time(a.clock.Now()),
		})).SpotPriceHistory
		if len(h) != 1 {
			t.Fatalf("have %d prices", len(h))
		}
		return *h[0].SpotPrice
	}
	if err := a.control("POST", "prices", PriceMove{"m5.large", "us-east-1b", 12_345}, nil); err != nil {
		t.Fatal(err)
	}
	a.restart()
	if p := price(); p != "0.012345" {
		t.Errorf("have price %s", p)
	}
}

// TestImages: aliases lead to images; a release moves the newest one and leaves the pinned.
func TestImages(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	get := func(name string) string {
		return *check[*ssm.GetParameterOutput](t)(a.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})).Parameter.Value
	}
	names := []string{
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id",
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/nvidia/recommended/image_id",
		"/aws/service/bottlerocket/aws-k8s-1.36/x86_64/latest/image_id",
		"/aws/service/bottlerocket/aws-k8s-1.36/arm64/1.50.0/image_id",
		"/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.36-v20260615/image_id",
	}
	before := map[string]string{}
	for _, n := range names {
		before[n] = get(n)
		im := check[*ec2.DescribeImagesOutput](t)(a.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{before[n]}})).Images[0]
		if want := map[bool]types.ArchitectureValues{true: "arm64", false: "x86_64"}[strings.Contains(n, "arm64")]; im.Architecture != want {
			t.Errorf("%s: have %s", n, im.Architecture)
		}
	}
	if err := a.control("POST", "releases", Release{}, nil); err != nil {
		t.Fatal(err)
	}
	for i, n := range names {
		if moved := get(n) != before[n]; moved != (i < 3) {
			t.Errorf("%s: moved: %t", n, moved)
		}
	}
	many := check[*ssm.GetParametersOutput](t)(a.ssm.GetParameters(ctx, &ssm.GetParametersInput{Names: []string{names[0], "/no/such"}}))
	if len(many.Parameters) != 1 || !slices.Equal(many.InvalidParameters, []string{"/no/such"}) {
		t.Errorf("have %+v", many)
	}
	if _, err := a.ssm.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/no/such")}); code(err) != "ParameterNotFound" {
		t.Errorf("have %v", err)
	}
	own := check[*ec2.DescribeImagesOutput](t)(a.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: []types.Filter{{Name: aws.String("name"), Values: []string{"sandbox-*"}}}}))
	if len(own.Images) != 2 {
		t.Errorf("have %d images of the account's own", len(own.Images))
	}
	if id := check[*sts.GetCallerIdentityOutput](t)(a.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})); *id.Account != *own.Images[0].OwnerId {
		t.Errorf("have account %s", *id.Account)
	}
}

// TestUnknownParameter: what the server doesn't read it refuses.
func TestUnknownParameter(t *testing.T) {
	a := newAccount(t)
	_, err := a.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("abc"), LaunchTemplateData: &types.RequestLaunchTemplateData{KernelId: aws.String("aki-1")}})
	if code(err) != "UnknownParameter" || !strings.Contains(err.Error(), "LaunchTemplateData.KernelId") {
		t.Errorf("have %v", err)
	}
	_, err = a.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: []types.Filter{{Name: aws.String("colour"), Values: []string{"red"}}}})
	if code(err) != "InvalidParameterValue" {
		t.Errorf("have %v", err)
	}
}

// TestInstancePages: pages of described instances are whole and in order.
func TestInstancePages(t *testing.T) {
	a := newAccount(t)
	lt := a.template("nodes", nodeadmData)
	want := ids(check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(t.Context(), a.fleetOf(lt, "t", "c", 23, types.DefaultTargetCapacityTypeSpot, "m5.large"))))
	var have []string
	pages := 0
	for p := ec2.NewDescribeInstancesPaginator(a.ec2, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(10)}); p.HasMorePages(); pages++ {
		for _, r := range check[*ec2.DescribeInstancesOutput](t)(p.NextPage(t.Context())).Reservations {
			have = append(have, *r.Instances[0].InstanceId)
		}
	}
	if pages != 3 || !slices.Equal(have, want) {
		t.Errorf("have %d pages with %d instances, want 3 with %d", pages, len(have), len(want))
	}
	seen := map[string]bool{}
	for _, i := range a.books().Alive {
		seen[i.Node] = true
	}
	if len(seen) != 23 {
		t.Errorf("have %d names of nodes", len(seen))
	}
}
