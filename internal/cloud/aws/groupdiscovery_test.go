// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/asg"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// TestDiscover: groups are found by name and by tags, over as many pages as there are, each once.
func TestDiscover(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	template := "workers"
	if _, err := a.clients().EC2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &template,
		LaunchTemplateData: &types.RequestLaunchTemplateData{InstanceType: types.InstanceTypeM5Large}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 130 {
		g := awstest.Group{Name: fmt.Sprintf("g-%03d", i), Max: 1, LaunchTemplate: template}
		if i%10 != 0 {
			g.Tags = []awstest.GroupTag{{Key: "k8s.io/cluster-autoscaler/enabled", Value: "true"}, {Key: "team", Value: []string{"a", "b"}[i%2]}}
		}
		a.control("PUT", "groups", g, nil)
		names = append(names, g.Name)
	}
	for _, c := range []struct {
		what  string
		names []string
		sets  []map[string]string
		want  int
	}{
		{"all by name", names, nil, 130},
		{"one name of two", []string{"g-000", "none"}, nil, 1},
		{"a tag of any value", nil, []map[string]string{{"k8s.io/cluster-autoscaler/enabled": ""}}, 117},
		{"two tags, one with a value", nil, []map[string]string{{"k8s.io/cluster-autoscaler/enabled": "", "team": "a"}}, 52},
		{"another value", nil, []map[string]string{{"team": "c"}}, 0},
		{"names and sets that overlap", []string{"g-000", "g-001"}, []map[string]string{{"team": "a"}, {"team": "b"}, {"k8s.io/cluster-autoscaler/enabled": "true"}}, 118},
	} {
		got, err := asg.Discover(t.Context(), a.clients(), c.names, c.sets)
		if err != nil || len(got) != c.want {
			t.Errorf("%s: %d groups, want %d: %v", c.what, len(got), c.want, err)
		}
		if !slices.IsSortedFunc(got, func(x, y asg.DiscoveredGroup) int { return strings.Compare(x.Name, y.Name) }) {
			t.Errorf("%s: out of order", c.what)
		}
	}
	got, err := asg.Discover(t.Context(), a.clients(), []string{"g-001"}, nil)
	if err != nil || len(got) != 1 || got[0].Tags["team"] != "b" || len(got[0].Tags) != 2 {
		t.Errorf("have %+v, %v", got, err)
	}
	a.fault(awstest.Fault{Kind: machines.Throttle, Action: "DescribeAutoScalingGroups", Count: 1})
	if got, err := asg.Discover(t.Context(), a.clients(), nil, []map[string]string{{"team": "a"}}); err == nil {
		t.Errorf("a throttled call found %d groups", len(got))
	}
}
