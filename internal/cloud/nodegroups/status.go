// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// ClassStatus implements cloud.ClassStatuser: the groups of a class with their sizes, and why groups cannot be used.
func (p *Provider) ClassStatus(ctx context.Context, class cloud.NodeClass) (cloud.ClassStatus, error) {
	s, err := p.selectGroups(ctx, class)
	if err = classify(ctx, "class status", class.Name, err); cloud.KindOf(err) == cloud.NotReady {
		bad := isFalse("InvalidSpec", errors.Unwrap(err).Error())
		return cloud.ClassStatus{Conditions: map[string]model.Condition{dovetailv1alpha1.ConditionGroupsResolved: bad, dovetailv1alpha1.ConditionReady: bad}}, nil
	}
	if err != nil {
		return cloud.ClassStatus{}, err
	}
	status := dovetailv1alpha1.NodeGroupClassStatus{Rules: s.spec.Options.Rules()}
	var unusable, full, disturbed []string
	usable := 0
	for _, g := range s.groups {
		one := dovetailv1alpha1.NodeGroupStatus{Name: g.label, Min: int32(g.Min), Max: int32(g.Max), Desired: int32(g.target), Problem: g.problem(), Refresh: g.Replaces}
		if g.Replaces != "" {
			disturbed = append(disturbed, "group "+g.Name+": "+g.Replaces+": its machines are being replaced; Dovetail removes none of its nodes until the rollout completes")
		}
		if g.template != nil {
			one.Options = g.template.options.status()
		}
		if g.template != nil && g.template.typeName != "" {
			one.InstanceTypes = []string{g.template.typeName}
			if g.template.zone != noZone {
				one.Zones = []string{g.template.zone}
			}
		}
		status.Groups = append(status.Groups, one)
		switch {
		case g.problem() != "":
			unusable = append(unusable, "group "+g.Name+": "+g.problem())
		case g.target >= g.Max:
			usable++
			full = append(full, fmt.Sprintf("group %s: desired size %d is the maximum %d (of the group or its node class); raise it to launch more", g.Name, g.target, g.Max))
		default:
			usable++
		}
	}
	out := cloud.ClassStatus{Conditions: map[string]model.Condition{}}
	set := func(kind, reason string, problems []string) {
		out.Conditions[kind] = model.Condition{Status: "True", Reason: kind}
		if len(problems) > 0 {
			out.Conditions[kind] = isFalse(reason, strings.Join(problems, "; "))
		}
	}
	set(dovetailv1alpha1.ConditionGroupsResolved, "GroupsNotFound", s.absent)
	set(dovetailv1alpha1.ConditionLaunchable, "GroupNotLaunchable", unusable)
	set(dovetailv1alpha1.ConditionRoom, "GroupAtMaximum", full)
	set(dovetailv1alpha1.ConditionUndisturbed, "MachinesReplaced", disturbed)
	out.Conditions[dovetailv1alpha1.ConditionReady] = model.Condition{Status: "True", Reason: dovetailv1alpha1.ConditionReady}
	if usable == 0 {
		problems := append(s.absent, unusable...)
		if len(problems) == 0 {
			problems = []string{"the server has no node groups"}
		}
		out.Conditions[dovetailv1alpha1.ConditionReady] = isFalse("NoGroup", strings.Join(problems, "; "))
	}
	out.Status, err = json.Marshal(status)
	return out, err
}

func isFalse(reason, message string) model.Condition {
	return model.Condition{Status: "False", Reason: reason, Message: message}
}
