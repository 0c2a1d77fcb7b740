// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestGroupOverrideTemplate: a launch template of its own in an override of a mixed instances policy says what nodes of
// that type have, here a smaller root volume, and an instance comes as it says. One that is deleted is named.
func TestGroupOverrideTemplate(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large", "m5.xlarge"), clock)
	a.define(awstest.Group{Name: "base", Max: 1, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}})
	calls := a.clients().EC2
	base, err := calls.DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: sdk.String("group-base"), Versions: []string{"$Default"}})
	if err != nil {
		t.Fatal(err)
	}
	data := base.LaunchTemplateVersions[0].LaunchTemplateData
	if _, err := calls.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("small-disk"), LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: data.ImageId, InstanceType: types.InstanceTypeM5Xlarge, UserData: data.UserData,
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: sdk.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(8)}}},
	}}); err != nil {
		t.Fatal(err)
	}
	a.define(awstest.Group{Name: "mixed", Max: 3, LaunchTemplate: "group-base", InstanceTypes: []string{"m5.xlarge", "m5.large"}, Zones: []string{"us-east-1a"}, Tags: enabled,
		OnDemandAbovePercent: 100, OverrideTemplates: map[string]string{"m5.xlarge": "small-disk"}})
	p := a.provider()
	disk := func() int64 {
		t.Helper()
		offered, err := p.Offerings(t.Context(), nil, groupClass(tagged))
		if err != nil || len(offered) != 2 {
			t.Fatal(offered, err)
		}
		return offered[0].Capacity.At(model.EphemeralStorage)
	}
	if n := disk(); n != 8<<30 {
		t.Errorf("planned with a root volume of %d bytes, want the 8 GiB of the override's own template", n)
	}
	if res := get(t, p, clock, "a"); res.Err != nil || res.InstanceType != "m5.xlarge" {
		t.Errorf("came %+v", res)
	}
	a.deleteTemplate("small-disk")
	again := a.provider()
	conditions, _ := groupStatus(t, again, groupClass(tagged))
	const want = "group mixed: the override for m5.xlarge in its mixed instances policy: its launch template small-disk"
	if bad := conditions[dovetailv1alpha1.ConditionLaunchable]; bad.Status != "False" || !strings.Contains(bad.Message, want) || !strings.Contains(bad.Message, "create it") {
		t.Errorf("%+v does not say %q", bad, want)
	}
	if _, err := again.Offerings(t.Context(), nil, groupClass(tagged)); cloud.KindOf(err) != cloud.NotReady {
		t.Errorf("offered: %v", err)
	}
}
