// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsclients

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// resources are the names of resources, by dimension.
type resources struct {
	mu    sync.Mutex
	names []string
}

func (r *resources) Dim(name string) model.Dim {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.names, name); i >= 0 {
		return model.Dim(i)
	}
	r.names = append(r.names, name)
	return model.Dim(len(r.names) - 1)
}

func (r *resources) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.names)
}

// TestGroupsOfMoto has a group of moto's launch three machines for three claims, and end them.
func TestGroupsOfMoto(t *testing.T) {
	s := &side{Clients: connect(t, moto(t))}
	for _, r := range requests[:slices.IndexFunc(requests, func(r request) bool { return r.name == "CreateLaunchTemplate again" })] {
		if _, err := r.do(t.Context(), s); err != nil && r.name == "CreateLaunchTemplate" {
			t.Fatal(err)
		}
	}
	tag := func(key, value string) astypes.Tag {
		return astypes.Tag{Key: &key, Value: &value, PropagateAtLaunch: sdk.Bool(false), ResourceId: sdk.String("web"), ResourceType: sdk.String("auto-scaling-group")}
	}
	if _, err := s.AutoScaling.CreateAutoScalingGroup(t.Context(), &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: sdk.String("web"), MinSize: sdk.Int32(0), MaxSize: sdk.Int32(5), VPCZoneIdentifier: &s.subnet,
		MixedInstancesPolicy: &astypes.MixedInstancesPolicy{LaunchTemplate: &astypes.LaunchTemplate{
			LaunchTemplateSpecification: &astypes.LaunchTemplateSpecification{LaunchTemplateId: &s.template, Version: sdk.String("$Latest")}, Overrides: []astypes.LaunchTemplateOverrides{{InstanceType: sdk.String("m5.large")}}}},
		Tags: []astypes.Tag{tag("k8s.io/cluster-autoscaler/enabled", "true")},
	}); err != nil {
		t.Fatal(err)
	}
	c := awsapi.DefaultConfig()
	c.ClusterName, c.IsolatedVPC, c.NoReservedCapacity, c.DisableDryRun = "sandbox", true, true, true // moto has no price list and no reservations
	p, err := aws.New(s.Clients, c, &resources{names: model.FixedNames()}, cloud.Wall{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	class := cloud.NodeClass{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass, Name: "workers", UID: "uid", Generation: 1, Spec: []byte(`{"selectorTerms":[{"tags":{"k8s.io/cluster-autoscaler/enabled":""}}]}`)}
	types, err := p.Offerings(t.Context(), nil, class)
	if err != nil || len(types) != 1 || types[0].Name != "m5.large" {
		t.Fatalf("have offerings %v, %v", types, err)
	}
	created := time.Now()
	ids := make([]string, 3)
	testwait.Until(t, "three claims have a machine each", func() error {
		var requests []cloud.LaunchRequest
		for i := range ids {
			uid := fmt.Sprintf("uid-%d", i)
			requests = append(requests, cloud.LaunchRequest{ClaimName: "claim-" + uid, ClaimUID: uid, ClaimCreated: created, Pool: "workers", Class: class})
		}
		for i, res := range p.Launch(t.Context(), requests) {
			if kind := cloud.KindOf(res.Err); kind != cloud.None && kind != cloud.Throttled {
				t.Fatalf("claim %d: %v", i, res.Err)
			}
			ids[i] = res.ProviderID
		}
		if slices.Contains(ids, "") {
			return fmt.Errorf("have %q", ids)
		}
		return nil
	})
	if distinct := slices.Compact(slices.Sorted(slices.Values(ids))); len(distinct) != len(ids) {
		t.Errorf("two claims have one machine: %v", ids)
	}
	members := func() (n int, desired int32) {
		out, err := s.AutoScaling.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"web"}})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.AutoScalingGroups[0].Instances), *out.AutoScalingGroups[0].DesiredCapacity
	}
	if n, desired := members(); n != 3 || desired != 3 {
		t.Errorf("the group has %d members and wants %d", n, desired)
	}
	for i, err := range p.Terminate(t.Context(), ids) {
		if err != nil {
			t.Errorf("end %s: %v", ids[i], err)
		}
	}
	if n, desired := members(); n != 0 || desired != 0 {
		t.Errorf("in the end the group has %d members and wants %d", n, desired)
	}
}
