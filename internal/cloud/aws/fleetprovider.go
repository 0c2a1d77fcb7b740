// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// fleetProvider buys machines with CreateFleet, for node classes of kind EC2NodeClass.
type fleetProvider struct {
	aws         *account
	classes     *classResolver
	catalogue   *catalogueStore
	types       *typeBuilder
	instances   *instanceIndex
	templates   *templateStore
	offerings   *offeringCache // by class name
	launches    *launchRegistry[fleetLaunch]
	permissions *cache[model.Condition]
	quotas      quotaTracker
}

func newFleetProvider(a *account, store *catalogueStore, types *typeBuilder, instances *instanceIndex) *fleetProvider {
	return &fleetProvider{
		aws: a, classes: newClassResolver(a), catalogue: store, types: types, instances: instances, templates: newTemplateStore(a),
		offerings: newOfferingCache(), launches: newLaunchRegistry[fleetLaunch](a.clock),
		permissions: newCache[model.Condition](a.clock, 30*time.Minute), quotas: quotaTracker{exhausted: map[quotaKey]exhaustedQuota{}},
	}
}

// Offerings implements cloud.Provider. Pools with the same class share one slice.
func (p *fleetProvider) Offerings(ctx context.Context, _ *model.NodePool, nc cloud.NodeClass) ([]*model.InstanceType, error) {
	const op = "offerings"
	c, err := readNodeClass(op, nc)
	if err != nil {
		return nil, err
	}
	r, err := p.classes.resolve(ctx, c)
	if err != nil {
		return nil, classifyError(ctx, op, c.name, err)
	}
	if err := r.readyError(op); err != nil {
		return nil, err
	}
	o, err := p.offeringsOf(ctx, r)
	if err != nil {
		return nil, classifyError(ctx, op, c.name, err)
	}
	return o.types, nil
}

// ClassStatus implements cloud.ClassStatuser.
func (p *fleetProvider) ClassStatus(ctx context.Context, nc cloud.NodeClass) (cloud.ClassStatus, error) {
	const op = "class status"
	c, err := readNodeClass(op, nc)
	if cloud.KindOf(err) == cloud.NotReady {
		bad := falseCondition(awsv1.ReasonDependenciesNotReady, errors.Unwrap(err).Error())
		return cloud.ClassStatus{Conditions: map[string]model.Condition{awsv1.ConditionValidationSucceeded: bad, awsv1.ConditionReady: bad}}, nil
	}
	if err != nil {
		return cloud.ClassStatus{}, err
	}
	r, err := p.classes.resolve(ctx, c)
	if err != nil {
		return cloud.ClassStatus{}, classifyError(ctx, op, c.name, err)
	}
	if len(r.problems) == 0 && !p.aws.config.DisableDryRun {
		verdict, err := p.checkPermissions(ctx, r)
		if err != nil {
			return cloud.ClassStatus{}, classifyError(ctx, op, c.name, err)
		}
		if verdict.Status != "" {
			r.problems[awsv1.ConditionValidationSucceeded] = verdict
		}
	}
	return r.status()
}

// EndsClasses implements cloud.ClassEnder: an EC2NodeClass has an instance profile, if it has a role, and launch templates.
func (p *fleetProvider) EndsClasses(group, kind string) bool {
	return group == awsv1.Group && kind == awsv1.KindEC2NodeClass
}

// EndClass implements cloud.ClassEnder.
func (p *fleetProvider) EndClass(ctx context.Context, nc cloud.NodeClass) error {
	const op = "end"
	if !p.EndsClasses(nc.Group, nc.Kind) {
		return nil
	}
	if !p.classes.endClass(nc.UID) {
		return &cloud.Error{Kind: cloud.Throttled, Op: op, Object: nc.Name, After: time.Second, Err: errors.New("its instance profile is being made")}
	}
	c := &nodeClass{name: nc.Name, uid: nc.UID}
	_ = json.Unmarshal(nc.Spec, &c.spec) // one that can't be read ends, too
	err := p.classes.deleteProfile(ctx, c)
	if e := p.templates.deleteOfClass(ctx, c); err == nil {
		err = e // else told the next time
	}
	return classifyError(ctx, op, c.name, err)
}

// DeleteUnusedTemplates deletes the cluster's launch templates that have not been used for a day.
func (p *fleetProvider) DeleteUnusedTemplates(ctx context.Context) error {
	return p.templates.deleteUnused(ctx)
}
