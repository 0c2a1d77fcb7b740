// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/quota"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// New returns a Provider. It makes no requests. quotas are the quotas of the account.
func New(a *awsapi.Account, store *catalogue.Store, types *offering.TypeBuilder, instances *instances.Index, quotas *quota.Tracker) *Provider {
	return &Provider{
		aws: a, classes: nodeclass.NewResolver(a, store), catalogue: store, types: types, instances: instances, templates: newTemplateStore(a),
		offerings: offering.NewCache(), launches: launch.NewRegistry[claimLaunch](a.Clock),
		permissions: awsapi.NewCache[model.Condition](a.Clock, 30*time.Minute), quotas: quotas,
	}
}

// Offerings implements cloud.Provider. Pools with the same class and the same requirements for tenancy and partition
// share one slice.
func (p *Provider) Offerings(ctx context.Context, pool *model.NodePool, nc cloud.NodeClass) ([]*model.InstanceType, error) {
	const op = "offerings"
	c, err := nodeclass.Read(op, nc)
	if err != nil {
		return nil, err
	}
	r, err := p.classes.Resolve(ctx, c)
	if err != nil {
		return nil, awsapi.ClassifyError(ctx, op, c.Name, err)
	}
	if err := r.ReadyError(op); err != nil {
		return nil, err
	}
	var rules model.Requirements
	if pool != nil {
		rules = pool.Requirements
	}
	o, err := p.offeringsOf(ctx, r, rules)
	if err != nil {
		return nil, awsapi.ClassifyError(ctx, op, c.Name, err)
	}
	return o.Types, nil
}

// ClassStatus implements cloud.ClassStatuser.
func (p *Provider) ClassStatus(ctx context.Context, nc cloud.NodeClass) (cloud.ClassStatus, error) {
	const op = "class status"
	c, err := nodeclass.Read(op, nc)
	if cloud.KindOf(err) == cloud.NotReady {
		bad := nodeclass.FalseCondition(awsv1.ReasonDependenciesNotReady, errors.Unwrap(err).Error())
		return cloud.ClassStatus{Conditions: map[string]model.Condition{awsv1.ConditionValidationSucceeded: bad, awsv1.ConditionReady: bad}}, nil
	}
	if err != nil {
		return cloud.ClassStatus{}, err
	}
	r, err := p.classes.Resolve(ctx, c)
	if err != nil {
		return cloud.ClassStatus{}, awsapi.ClassifyError(ctx, op, c.Name, err)
	}
	if len(r.Problems) == 0 && !p.aws.Config.DisableDryRun {
		verdict, err := p.checkPermissions(ctx, r)
		if err != nil {
			return cloud.ClassStatus{}, awsapi.ClassifyError(ctx, op, c.Name, err)
		}
		if verdict.Status != "" {
			r.Problems[awsv1.ConditionValidationSucceeded] = verdict
		}
	}
	return r.Status()
}

// EndsClasses implements cloud.ClassEnder. It returns true for EC2NodeClass, because the provider creates launch
// templates and possibly an instance profile for the class.
func (p *Provider) EndsClasses(group, kind string) bool {
	return group == awsv1.Group && kind == awsv1.KindEC2NodeClass
}

// EndClass implements cloud.ClassEnder: it deletes the instance profile and the launch templates created for a class.
func (p *Provider) EndClass(ctx context.Context, nc cloud.NodeClass) error {
	const op = "end"
	if !p.EndsClasses(nc.Group, nc.Kind) {
		return nil
	}
	if !p.classes.EndClass(nc.UID) {
		return &cloud.Error{Kind: cloud.Throttled, Op: op, Object: nc.Name, After: time.Second, Err: errors.New("its instance profile is being created")}
	}
	c := &nodeclass.Class{Name: nc.Name, UID: nc.UID}
	_ = json.Unmarshal(nc.Spec, &c.Spec) // one that can't be read ends, too
	err := p.classes.DeleteProfile(ctx, c)
	if e := p.templates.deleteOfClass(ctx, c); err == nil {
		err = e // else told the next time
	}
	return awsapi.ClassifyError(ctx, op, c.Name, err)
}

// DeleteUnusedTemplates deletes the cluster's launch templates that have not been used for a day.
func (p *Provider) DeleteUnusedTemplates(ctx context.Context) error {
	return p.templates.deleteUnused(ctx)
}
