// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Tags of the Auto Scaling group of an EKS managed node group, and labels that EKS adds to its nodes.
const (
	tagEKSCluster        = "eks:cluster-name"
	tagEKSNodegroup      = "eks:nodegroup-name"
	labelEKSNodegroup    = "eks.amazonaws.com/nodegroup"
	labelEKSCapacityType = "eks.amazonaws.com/capacityType"
)

// isUpdating reports whether EKS is replacing the group's nodes, or changing how they look.
func (m *managedGroup) isUpdating() bool {
	return m != nil && m.status == string(ekstypes.NodegroupStatusUpdating)
}

// managedNames are the names of the cluster and of the managed node group that a group's tags tell; false: it is none.
func managedNames(tags map[string]string) (cluster, name string, is bool) {
	cluster, name = tags[tagEKSCluster], tags[tagEKSNodegroup]
	return cluster, name, cluster != "" && name != ""
}

// managedGroup asks EKS for the managed node group that a group belongs to, and says when EKS was asked; nil: it belongs to
// none.
func (r *reader) managedGroup(ctx context.Context, tags map[string]string) (*managedGroup, time.Time, error) {
	cluster, name, is := managedNames(tags)
	if !is {
		return nil, r.aws.Clock.Now(), nil
	}
	return r.managed.GetDated(ctx, cluster+"/"+name, func(ctx context.Context) (*managedGroup, error) {
		res, err := r.aws.EKS.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
		return readManaged(name, res, err)
	})
}

// readManaged reads EKS's answer about a managed node group of this name; nil: there is none.
func readManaged(name string, res *eks.DescribeNodegroupOutput, err error) (*managedGroup, error) {
	if awsapi.ErrorCode(err) == "ResourceNotFoundException" {
		return nil, nil // its tags have outlived it
	}
	if err != nil {
		return nil, err
	}
	in := res.Nodegroup
	m := &managedGroup{name: name, status: string(in.Status), labels: model.Labels{labelEKSNodegroup: name}}
	maps.Copy(m.labels, in.Labels)
	if in.CapacityType == ekstypes.CapacityTypesSpot || in.CapacityType == ekstypes.CapacityTypesOnDemand {
		m.labels[labelEKSCapacityType] = string(in.CapacityType)
	}
	if in.ScalingConfig != nil {
		m.max = int64(awsapi.Deref(in.ScalingConfig.MaxSize))
	}
	effects := map[ekstypes.TaintEffect]string{
		ekstypes.TaintEffectNoSchedule: model.NoSchedule, ekstypes.TaintEffectNoExecute: model.NoExecute, ekstypes.TaintEffectPreferNoSchedule: model.PreferNoSchedule,
	}
	for _, t := range in.Taints {
		if effect := effects[t.Effect]; effect != "" {
			m.taints = append(m.taints, model.Taint{Key: awsapi.Deref(t.Key), Value: awsapi.Deref(t.Value), Effect: effect})
		}
	}
	if in.Health != nil {
		for _, i := range in.Health.Issues {
			m.issues = append(m.issues, string(i.Code)+": "+awsapi.Deref(i.Message))
		}
	}
	return m, nil
}

// resolveManaged adds the data of an EKS managed node group to its group: labels, taints, and the maximum size during an
// update. If EKS calls are not permitted, the group has only the data of its tags, and denied is the reason. An error is
// an error of a call that may succeed later.
func (r *reader) resolveManaged(ctx context.Context, g *group) error {
	m, _, err := r.managedGroup(ctx, g.tags)
	if awsapi.IsDenied(awsapi.ErrorCode(err)) {
		g.denied = awsapi.ReadableError(err)
		return nil
	}
	if err != nil || m == nil {
		return err
	}
	g.managed = m
	if g.taintProblem != "" { // EKS knows its taints
		if g.nodeProblems = append(g.nodeProblems, g.taintProblem); g.problem == g.taintProblem {
			g.problem = ""
		}
	}
	maps.Copy(g.labels, m.labels)
	for _, t := range m.taints {
		if !slices.Contains(g.taints, t) {
			g.taints = append(g.taints, t)
		}
	}
	slices.SortFunc(g.taints, func(a, b model.Taint) int { return strings.Compare(a.Key+a.Effect+a.Value, b.Key+b.Effect+b.Value) })
	switch {
	case m.isUpdating() && m.max > 0:
		g.max = min(g.max, m.max) // what is above is for the nodes that EKS starts before others go
	case m.status == string(ekstypes.NodegroupStatusDeleting):
		g.problem = "EKS is deleting its managed node group " + m.name + "; remove it from spec.selectorTerms"
	}
	return nil
}

// replacementStatus returns the status of an update of the managed node group or of an instance refresh that replaces
// the members of a group with these tags. Empty: none, or the call is not permitted. It returns the last known status,
// regardless of its age.
func (r *reader) replacementStatus(ctx context.Context, group string, tags map[string]string) (string, error) {
	status, _, err := r.datedReplacementStatus(ctx, group, tags)
	return status, err
}

// currentReplacementStatus is like replacementStatus, but returns an error if an empty status is older than adoptAfter.
func (r *reader) currentReplacementStatus(ctx context.Context, group string, tags map[string]string) (string, error) {
	status, asked, err := r.datedReplacementStatus(ctx, group, tags)
	if err == nil && status == "" && r.aws.Clock.Now().Sub(asked) > adoptAfter {
		return "", fmt.Errorf("no response since %s", asked.UTC().Format(time.RFC3339))
	}
	return status, err
}

// datedReplacementStatus is like replacementStatus, and also returns the time of the read.
func (r *reader) datedReplacementStatus(ctx context.Context, group string, tags map[string]string) (status string, asked time.Time, err error) {
	m, asked, err := r.managedGroup(ctx, tags)
	if awsapi.IsDenied(awsapi.ErrorCode(err)) {
		m, asked, err = nil, r.aws.Clock.Now(), nil
	}
	if err != nil {
		return "", time.Time{}, err
	}
	if m.isUpdating() {
		return m.status, asked, nil
	}
	status, refreshAsked, err := r.instanceRefreshStatus(ctx, group)
	if refreshAsked.Before(asked) {
		asked = refreshAsked
	}
	return status, asked, err
}

// addManagedTags adds the labels and taints of an EKS managed node group to the tags of its Auto Scaling group, as tags
// of Cluster Autoscaler. Existing tags are kept.
func addManagedTags(ctx context.Context, c *awsapi.Clients, tags map[string]string) error {
	cluster, name, is := managedNames(tags)
	if !is {
		return nil
	}
	res, err := c.EKS.DescribeNodegroup(ctx, &eks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
	m, err := readManaged(name, res, err)
	if err != nil {
		remedy := ""
		if awsapi.IsDenied(awsapi.ErrorCode(err)) {
			remedy = "; allow eks:DescribeNodegroup in the controller's IAM policy"
		}
		return fmt.Errorf("describe EKS managed node group %s of cluster %s: %w%s", name, cluster, awsapi.ReadableError(err), remedy)
	}
	if m == nil {
		return nil
	}
	add := func(key, value string) {
		if _, there := tags[key]; !there {
			tags[key] = value
		}
	}
	for k, v := range m.labels {
		add(dovetailv1alpha1.TagNodeTemplateLabel+k, v)
	}
	for _, t := range m.taints {
		add(dovetailv1alpha1.TagNodeTemplateTaint+t.Key, t.Value+":"+t.Effect)
	}
	return nil
}
