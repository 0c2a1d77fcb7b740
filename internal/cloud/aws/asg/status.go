// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// ClassStatus returns the desired status of a NodeGroupClass. The class is Ready if at least one of its groups can
// launch machines.
func (p *Provider) ClassStatus(ctx context.Context, nc cloud.NodeClass) (cloud.ClassStatus, error) {
	const op = "class status"
	c, err := readNodeClass(op, nc)
	if cloud.KindOf(err) == cloud.NotReady {
		bad := nodeclass.FalseCondition("InvalidSpec", errors.Unwrap(err).Error())
		return cloud.ClassStatus{Conditions: map[string]model.Condition{dovetailv1alpha1.ConditionGroupsResolved: bad, dovetailv1alpha1.ConditionReady: bad}}, nil
	}
	if err != nil {
		return cloud.ClassStatus{}, err
	}
	ch, err := p.selectGroups(ctx, c)
	if err != nil {
		return cloud.ClassStatus{}, awsapi.ClassifyError(ctx, op, c.name, err)
	}
	cat, err := p.catalogue.Load(ctx, false)
	if err != nil {
		return cloud.ClassStatus{}, awsapi.ClassifyError(ctx, op, c.name, err)
	}
	ch.checkPriorities()
	status := dovetailv1alpha1.NodeGroupClassStatus{Rules: c.spec.Options.Rules()}
	usable := 0
	for _, a := range ch.groups {
		one, err := p.groupStatus(ctx, cat, ch, a)
		if err != nil {
			return cloud.ClassStatus{}, awsapi.ClassifyError(ctx, op, c.name, err)
		}
		status.Groups = append(status.Groups, one)
		if a.problem == "" {
			usable++
		}
	}
	out := ch.classStatus(usable)
	out.Status, err = json.Marshal(status)
	return out, err
}

// checkPriorities notes the priorities of a class that are no regular expressions.
func (c *selectedGroups) checkPriorities() {
	if o := c.spec.Options; o != nil {
		for i, x := range o.Priorities {
			for j, name := range x.Names {
				if _, err := regexp.Compile(name); err != nil {
					c.addProblem(dovetailv1alpha1.ConditionGroupsResolved, "InvalidPriority", fmt.Sprintf("spec.options.priorities[%d].names[%d]: invalid regular expression %q: %v", i, j, name, err))
				}
			}
		}
	}
}

// groupStatus returns the status entry of one group of a class. Problems of the group that a user must correct or should
// know become problems of the class.
func (p *Provider) groupStatus(ctx context.Context, cat *catalogue.Catalogue, ch *selectedGroups, a *group) (dovetailv1alpha1.NodeGroupStatus, error) {
	wrong := a.problem
	known := 0
	for _, name := range a.instanceTypes {
		if cat.FindType(name) != nil {
			known++
		} else if wrong == "" && len(a.instanceRequirements) == 0 {
			wrong = "instance type " + name + " is not supported for nodes in region " + p.aws.Region + "; remove it from the group"
		}
	}
	if wrong == "" && known == 0 {
		wrong = "none of the instance types that match its InstanceRequirements is supported for nodes in region " + p.aws.Region + "; change them"
	}
	refresh, disturbed, err := p.disturbances(ctx, a)
	if err != nil {
		return dovetailv1alpha1.NodeGroupStatus{}, err
	}
	for _, why := range disturbed {
		ch.addProblem(dovetailv1alpha1.ConditionUndisturbed, why.Reason, "group "+a.name+": "+why.Message)
	}
	out := dovetailv1alpha1.NodeGroupStatus{
		Name: a.name, Min: int32(a.min), Max: int32(a.max), Desired: int32(a.desired), InstanceTypes: slices.Sorted(slices.Values(a.instanceTypes)), Zones: a.zones, Refresh: refresh, Problem: wrong,
	}
	for _, p := range a.nodeProblems {
		ch.addProblem(dovetailv1alpha1.ConditionGroupsResolved, "InvalidTag", "group "+a.name+": "+p)
	}
	if ch.discovered {
		for _, p := range a.optionProblems {
			ch.addProblem(dovetailv1alpha1.ConditionGroupsResolved, "InvalidTag", "group "+a.name+": "+p)
		}
	}
	if wrong != "" {
		ch.addProblem(dovetailv1alpha1.ConditionLaunchable, "GroupNotLaunchable", "group "+a.name+": "+wrong)
	}
	if a.problem != "" {
		return out, nil
	}
	if a.desired >= a.max {
		ch.addProblem(dovetailv1alpha1.ConditionRoom, "GroupAtMaximum", fmt.Sprintf("group %s: desired size %d is the maximum %d (MaxSize, or maxSize of the selector term); raise it to launch more", a.name, a.desired, a.max))
	}
	if a.denied != nil {
		ch.addProblem(dovetailv1alpha1.ConditionPermitted, "AccessDenied", "group "+a.name+": labels and taints of its EKS managed node group can't be read: "+a.denied.Error()+"; allow eks:DescribeNodegroup in the controller's IAM policy")
	}
	for _, denied := range p.registry.denialsOf(a.name) {
		ch.addProblem(dovetailv1alpha1.ConditionPermitted, "AccessDenied", "group "+a.name+": "+denied)
	}
	return out, nil
}

// classStatus returns the conditions of a class with usable groups that can launch machines.
func (c *selectedGroups) classStatus(usable int) cloud.ClassStatus {
	out := cloud.ClassStatus{Conditions: map[string]model.Condition{}}
	var unready []string
	for _, k := range []string{dovetailv1alpha1.ConditionGroupsResolved, dovetailv1alpha1.ConditionLaunchable, dovetailv1alpha1.ConditionPermitted, dovetailv1alpha1.ConditionRoom, dovetailv1alpha1.ConditionUndisturbed} {
		bad, ok := c.problems[k]
		if !ok {
			out.Conditions[k] = model.Condition{Status: "True", Reason: k}
			continue
		}
		out.Conditions[k] = bad
		if k != dovetailv1alpha1.ConditionRoom && k != dovetailv1alpha1.ConditionUndisturbed {
			unready = append(unready, k+": "+bad.Message)
		}
	}
	out.Conditions[dovetailv1alpha1.ConditionReady] = model.Condition{Status: "True", Reason: dovetailv1alpha1.ConditionReady}
	if usable == 0 {
		out.Conditions[dovetailv1alpha1.ConditionReady] = nodeclass.FalseCondition("NoGroup", strings.Join(unready, "; "))
	}
	return out
}

// disturbances are what AWS itself does, or may do, to the members of a group; refresh is the status of what replaces
// them, empty where nothing does.
func (p *Provider) disturbances(ctx context.Context, a *group) (refresh string, out []model.Condition, err error) {
	refresh, err = p.reader.replacementStatus(ctx, a.name, a.tags)
	if err != nil {
		return "", nil, err
	}
	if a.managed != nil && len(a.managed.issues) > 0 {
		out = append(out, nodeclass.FalseCondition("NodegroupDegraded", "EKS reports for managed node group "+a.managed.name+": "+strings.Join(a.managed.issues, "; ")))
	}
	switch {
	case a.managed.isUpdating():
		out = append(out, nodeclass.FalseCondition("NodegroupUpdate", "EKS is updating managed node group "+a.managed.name+" and replaces its nodes; Dovetail removes none until it completes"))
	case refresh != "":
		out = append(out, nodeclass.FalseCondition("InstanceRefresh", "an instance refresh is "+refresh+": AWS replaces its nodes; Dovetail removes none until it completes"))
	}
	if len(a.zones) > 1 && !slices.Contains(a.suspended, "AZRebalance") {
		out = append(out, nodeclass.FalseCondition("AZRebalance", "AWS may terminate nodes without draining them to balance zones; suspend process AZRebalance, or use one group per zone"))
	}
	return refresh, out, nil
}
