// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// selectedGroups are the groups that a class's terms choose, and what keeps terms from choosing some, by condition.
type selectedGroups struct {
	*nodeClass
	groups   []*group // by name, with the class's own bounds
	at       time.Time
	problems map[string]model.Condition
}

// selectGroups finds the groups that a class's terms choose, by name, each with the bounds that the class sets. An
// error is one of a call that may work the next time; whatever a person has to mend is a problem of the result.
func (p *Provider) selectGroups(ctx context.Context, c *nodeClass) (*selectedGroups, error) {
	out := &selectedGroups{nodeClass: c, problems: map[string]model.Condition{}}
	termOf, chosen := map[string]int{}, map[string]bool{} // by group
	for i := range c.spec.SelectorTerms {
		d, err := p.describeTerm(ctx, out, i)
		if err != nil {
			return nil, err
		}
		if len(d.groups) == 0 {
			continue
		}
		if out.at.IsZero() || d.at.Before(out.at) {
			out.at = d.at
		}
		for _, g := range d.groups {
			if chosen[g.name] {
				continue
			}
			chosen[g.name], termOf[g.name] = true, i
			bounded := *g
			bounded.min, bounded.max = boundsOf(&c.spec.SelectorTerms[i], g)
			bounded.described = d.at
			out.groups = append(out.groups, &bounded)
		}
	}
	keptBy := p.registry.noteChoices(c, chosen, p.aws.Clock.Now())
	for _, g := range out.groups {
		s := p.scaler.stateOf(g.name)
		s.noteInitialMembers(g, g.described)
		if other := keptBy[g.name]; other != "" {
			g.problem = fmt.Sprintf("spec.selectorTerms[%d] selects it, but the older NodeGroupClass %s does too and keeps it; remove it from one of them", termOf[g.name], other)
		} else {
			s.noteExcess(g, g.described, c.provisionTime(), c.fillsToMinSize())
			p.registry.noteSelected(g, c.name)
		}
		g.desired = s.desiredCapacity(g, g.described)
	}
	awsapi.SortByKey(out.groups, func(g *group) string { return g.name })
	return out, nil
}

// boundsOf are the minimum and the maximum of a group that a selector term chooses.
func boundsOf(t *dovetailv1alpha1.NodeGroupSelectorTerm, g *group) (least, most int64) {
	least, most = g.min, g.max
	if t.MinSize != nil {
		least = max(least, int64(*t.MinSize))
	}
	if t.MaxSize != nil {
		most = min(most, int64(*t.MaxSize))
	}
	return least, most
}

// describeTerm reads the groups that a selector term of a class selects, by the index of the term. If there is none, out
// gets a problem that a user must correct.
func (p *Provider) describeTerm(ctx context.Context, out *selectedGroups, index int) (description, error) {
	t := &out.spec.SelectorTerms[index]
	field := fmt.Sprintf("spec.selectorTerms[%d]", index)
	d, err := p.reader.descriptions.Get(ctx, t.Name+awsapi.SelectorKey(t.Tags), func(ctx context.Context) (description, error) {
		at := p.aws.Clock.Now()
		in := &autoscaling.DescribeAutoScalingGroupsInput{MaxRecords: sdk.Int32(100)}
		if t.Name != "" {
			in.AutoScalingGroupNames = []string{t.Name}
		}
		for _, f := range awsapi.TagFilters(awsapi.AnyValueWhereEmpty(t.Tags)) {
			in.Filters = append(in.Filters, astypes.Filter{Name: f.Name, Values: f.Values})
		}
		list, err := p.reader.describeGroups(ctx, in)
		return description{list, at}, err
	})
	if err != nil {
		e := awsapi.ClassifyError(ctx, "resolve", out.name, err)
		if cloud.KindOf(e) != cloud.Denied {
			return description{}, e
		}
		out.addProblem(dovetailv1alpha1.ConditionGroupsResolved, "AccessDenied", field+": "+awsapi.ReadableError(err).Error()+"; allow the call in the controller's IAM policy")
		return description{}, nil
	}
	if len(d.groups) == 0 {
		what := "group " + strconv.Quote(t.Name) + " does not exist"
		if t.Name == "" {
			what = "no group has the tags " + awsapi.SelectorKey(t.Tags)
		}
		out.addProblem(dovetailv1alpha1.ConditionGroupsResolved, "GroupsNotFound", field+": "+what+" in region "+p.aws.Region+"; create it or choose others")
	}
	return d, nil
}

// addProblem adds a problem that a user must correct. All problems of a condition are reported.
func (c *selectedGroups) addProblem(condition, reason, message string) {
	if have, ok := c.problems[condition]; ok {
		message = have.Message + "; " + message
	}
	c.problems[condition] = nodeclass.FalseCondition(reason, message)
}

// sortedConditions are conditions in the order of their types.
func sortedConditions(m map[string]model.Condition) []model.Condition {
	var out []model.Condition
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}
