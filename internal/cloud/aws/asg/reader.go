// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// readWindow is how long a call about a group waits for others about other groups, to be one call with them.
const readWindow = 5 * time.Millisecond

// groupAnswer is AWS's description of one group; group is nil if none has its name.
type groupAnswer struct {
	group *group
	err   error
}

// membersAnswer is EC2's description of the instances of one group.
type membersAnswer struct {
	instances []instances.Instance
	err       error
}

// newReader returns a reader without cached data.
func newReader(a *awsapi.Account, index *instances.Index, registry *Registry) *reader {
	r := &reader{
		aws:           a,
		registry:      registry,
		descriptions:  awsapi.NewCache[description](a.Clock, a.Config.GroupRefresh),
		templates:     awsapi.NewCache[*types.ResponseLaunchTemplateData](a.Clock, time.Minute),
		managed:       awsapi.NewCache[*managedGroup](a.Clock, 30*time.Second),
		refreshes:     awsapi.NewCache[string](a.Clock, 30*time.Second),
		memberships:   awsapi.NewCache[map[string]bool](a.Clock, adoptAfter),
		architectures: awsapi.NewCache[types.ArchitectureType](a.Clock, time.Hour),
		types:         awsapi.NewCache[[]string](a.Clock, time.Hour),
	}
	r.groups = awsapi.NewBatcher(a.Clock, readWindow, groupsPerCall, r.describeNamed)
	r.members = awsapi.NewBatcher(a.Clock, readWindow, groupsPerCall, func(ctx context.Context, names []string) []membersAnswer {
		list, err := index.ListMembers(ctx, names)
		out := make([]membersAnswer, len(names))
		for i, name := range names {
			out[i].err = err
			for _, m := range list {
				if m.AutoScalingGroup == name {
					out[i].instances = append(out[i].instances, m)
				}
			}
		}
		return out
	})
	return r
}

// describeGroups reads groups, their EKS managed node groups, and their launch templates.
func (r *reader) describeGroups(ctx context.Context, in *autoscaling.DescribeAutoScalingGroupsInput) ([]*group, error) {
	var out []*group
	for {
		page, err := r.aws.AutoScaling.DescribeAutoScalingGroups(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range page.AutoScalingGroups {
			g := readGroup(&page.AutoScalingGroups[i])
			if err := r.resolveManaged(ctx, g); err != nil {
				return nil, err
			}
			if g.problem == "" {
				if err := r.resolveTemplate(ctx, g); err != nil {
					return nil, err
				}
			}
			out = append(out, g)
		}
		if in.NextToken = page.NextToken; awsapi.Deref(in.NextToken) == "" {
			return out, nil
		}
	}
}

// describeGroup reads one group without its launch template and without a cache; nil: no group has the name. Concurrent
// calls share one request.
func (r *reader) describeGroup(ctx context.Context, name string) (*group, error) {
	out, ok := r.groups.Ask(ctx, []string{name})
	if !ok {
		return nil, ctx.Err()
	}
	return out[0].group, out[0].err
}

// describeNamed reads the groups with these names in one call, with pagination.
func (r *reader) describeNamed(ctx context.Context, names []string) []groupAnswer {
	found := map[string]*astypes.AutoScalingGroup{}
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(r.aws.AutoScaling, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: names, MaxRecords: sdk.Int32(groupsPerCall)})
	var err error
	for err == nil && pages.HasMorePages() {
		var page *autoscaling.DescribeAutoScalingGroupsOutput
		if page, err = pages.NextPage(ctx); err == nil {
			for i := range page.AutoScalingGroups {
				found[awsapi.Deref(page.AutoScalingGroups[i].AutoScalingGroupName)] = &page.AutoScalingGroups[i]
			}
		}
	}
	out := make([]groupAnswer, len(names))
	for i, name := range names {
		if g := found[name]; g != nil {
			out[i].group = readGroup(g)
		} else {
			out[i].err = err
		}
	}
	return out
}

// memberIDs returns the ids of the instances that count towards the desired capacity of a group. Those of its warm pool, on standby, and on their way out of it
// are not among them, though EC2 describes them as the group's. What is returned was read adoptAfter ago at most.
func (r *reader) memberIDs(ctx context.Context, name string) (map[string]bool, error) {
	return r.memberships.Get(ctx, name, func(ctx context.Context) (map[string]bool, error) {
		g, err := r.describeGroup(ctx, name)
		if err != nil || g == nil {
			return nil, err
		}
		out := map[string]bool{}
		for _, m := range g.members {
			out[m.id] = true
		}
		return out, nil
	})
}

// describeMembers reads the instances of a group from EC2, without a cache. Concurrent calls share one request.
func (r *reader) describeMembers(ctx context.Context, group string) ([]instances.Instance, error) {
	out, ok := r.members.Ask(ctx, []string{group})
	if !ok {
		return nil, ctx.Err()
	}
	return out[0].instances, out[0].err
}

// resolveTemplate reads the launch template of a group, and from it the instance types and capacity types that the group
// does not set. Problems that a user must correct are problems of the group; an error is an error of a call that may
// succeed later.
func (r *reader) resolveTemplate(ctx context.Context, g *group) error {
	data, problem, err := r.readTemplate(ctx, g.template)
	if g.problem = problem; err != nil || problem != "" {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(g.ownTemplates)) {
		own, problem, err := r.readTemplate(ctx, g.ownTemplates[name])
		if err != nil {
			return err
		}
		if problem != "" {
			g.problem = "the override for " + name + " in its mixed instances policy: " + problem
			return nil
		}
		if g.ownTemplateData == nil {
			g.ownTemplateData = map[string]*types.ResponseLaunchTemplateData{}
		}
		g.ownTemplateData[name] = own
	}
	g.templateData = data
	if len(g.instanceTypes) == 0 && len(g.instanceRequirements) == 0 && data.InstanceRequirements != nil {
		g.addRequirements(data.InstanceRequirements)
	}
	if len(g.instanceRequirements) > 0 {
		if err := r.resolveTypes(ctx, g); err != nil || g.problem != "" {
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

// readTemplate reads a launch template. problem is what a user must correct; then there is no template.
func (r *reader) readTemplate(ctx context.Context, ref templateRef) (data *types.ResponseLaunchTemplateData, problem string, err error) {
	type key struct{ id, version string }
	data, err = r.templates.Get(ctx, fmt.Sprint(key{cmp.Or(ref.id, ref.name), ref.version}), func(ctx context.Context) (*types.ResponseLaunchTemplateData, error) {
		in := &ec2.DescribeLaunchTemplateVersionsInput{Versions: []string{ref.version}, ResolveAlias: sdk.Bool(true)}
		if ref.id != "" {
			in.LaunchTemplateId = &ref.id
		} else {
			in.LaunchTemplateName = &ref.name
		}
		res, err := r.aws.EC2.DescribeLaunchTemplateVersions(ctx, in)
		if err != nil {
			return nil, err
		}
		if len(res.LaunchTemplateVersions) == 0 || res.LaunchTemplateVersions[0].LaunchTemplateData == nil {
			return nil, awsapi.NewUnresolvedError("LaunchTemplateNotFound", "launch template %s has no version %s", ref, ref.version)
		}
		return res.LaunchTemplateVersions[0].LaunchTemplateData, nil
	})
	var u *awsapi.UnresolvedError
	switch code := awsapi.ErrorCode(err); {
	case err == nil:
		return data, "", nil
	case errors.As(err, &u):
		return nil, u.Text + "; create it, or use another one in the group", nil
	case awsapi.IsTemplateNotFound(code), strings.HasPrefix(code, "InvalidLaunchTemplateId"), strings.HasPrefix(code, "InvalidLaunchTemplateVersion"):
		return nil, fmt.Sprintf("its launch template %s, version %s: %s; create it, or use another one in the group", ref, ref.version, awsapi.ReadableError(err)), nil
	case awsapi.IsDenied(code):
		return nil, awsapi.ReadableError(err).Error() + "; allow ec2:DescribeLaunchTemplateVersions in the controller's IAM policy", nil
	}
	return nil, "", err
}

// instanceRefreshStatus is the status of the instance refresh that is under way in a group; empty: there is none, or
// the call is not allowed. asked is when AWS was asked.
func (r *reader) instanceRefreshStatus(ctx context.Context, name string) (status string, asked time.Time, err error) {
	return r.refreshes.GetDated(ctx, name, func(ctx context.Context) (string, error) {
		res, err := r.aws.AutoScaling.DescribeInstanceRefreshes(ctx, &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: &name, MaxRecords: sdk.Int32(10)})
		if err != nil {
			if awsapi.IsDenied(awsapi.ErrorCode(err)) {
				r.aws.Log.Warn("can't tell whether an instance refresh of the group is running", "group", name, "error", awsapi.ReadableError(err))
				r.registry.noteCall(name, "autoscaling:DescribeInstanceRefreshes", err)
				return "", nil
			}
			return "", err
		}
		r.registry.noteCall(name, "autoscaling:DescribeInstanceRefreshes", nil)
		for _, r := range res.InstanceRefreshes {
			switch r.Status {
			case astypes.InstanceRefreshStatusPending, astypes.InstanceRefreshStatusInProgress, astypes.InstanceRefreshStatusCancelling,
				astypes.InstanceRefreshStatusRollbackInProgress, astypes.InstanceRefreshStatusBaking:
				return string(r.Status), nil
			}
		}
		return "", nil
	})
}
