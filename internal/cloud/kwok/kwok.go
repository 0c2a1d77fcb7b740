// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kwok

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// repairAfter is how long a node may be not Ready before it counts as broken, as in Karpenter's KWOK provider.
const repairAfter = 10 * time.Minute

// Traits implements cloud.Provider.
func (p *Provider) Traits() cloud.Traits {
	return cloud.Traits{Name: "kwok", Classes: []cloud.ClassKind{{Group: Group, Kind: Kind}}, ListDelay: machines.MaxListLag, NodeLabels: []string{
		kwokv1alpha1.LabelInstanceSize, kwokv1alpha1.LabelInstanceFamily, kwokv1alpha1.LabelInstanceCPU, kwokv1alpha1.LabelInstanceMemory}}
}

// RepairPolicies implements cloud.Repairer.
func (p *Provider) RepairPolicies(bool) []cloud.RepairPolicy {
	return []cloud.RepairPolicy{
		{Condition: "Ready", Status: "False", After: repairAfter},
		{Condition: "Ready", Status: "Unknown", After: repairAfter},
		{Condition: "KWOKUnhealthy", Status: "True", After: 30 * time.Second, Drain: 45 * time.Second},
		{Condition: "KWOKRebootRequired", Status: "True", After: 30 * time.Second, Drain: time.Minute, Reboot: true},
	}
}

// ClassStatus implements cloud.ClassStatuser: a class is ready if its spec is valid.
func (p *Provider) ClassStatus(_ context.Context, class cloud.NodeClass) (cloud.ClassStatus, error) {
	ready := model.Condition{Status: "True", Reason: "Ready"}
	if _, err := registrationDelay(class); err != nil {
		ready = model.Condition{Status: "False", Reason: "InvalidSpec", Message: err.Error()}
	}
	return cloud.ClassStatus{Conditions: map[string]model.Condition{"Ready": ready}}, nil
}

// Offerings implements cloud.Provider. All pools and classes share one slice.
func (p *Provider) Offerings(ctx context.Context, _ *model.NodePool, class cloud.NodeClass) ([]*model.InstanceType, error) {
	if _, err := classError("offerings", class); err != nil {
		return nil, err
	}
	c, err := p.current(ctx)
	return c.types, err
}

// Launch implements cloud.Provider, with one request for the whole batch.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	for i, r := range requests {
		results[i].ClaimUID = r.ClaimUID
	}
	c, err := p.current(ctx)
	if err != nil {
		for i, r := range requests {
			results[i].Err = cause("launch", r.ClaimName, err)
		}
		return results
	}
	var batch machines.LaunchBatch
	var at []int // in requests, of each in the batch
	for i, r := range requests {
		out, err := c.resolve(r)
		if err != nil {
			results[i].Err = err
			continue
		}
		batch.Requests = append(batch.Requests, out)
		at = append(at, i)
	}
	if len(at) == 0 {
		return results
	}
	var answer machines.LaunchAnswer
	err = p.call(ctx, http.MethodPost, "/v1/launch", batch, &answer)
	if err == nil && len(answer.Results) != len(at) {
		err = &cloud.Error{Kind: cloud.Unknown, Err: fmt.Errorf("%d results for %d requests", len(answer.Results), len(at))}
	}
	for n, i := range at {
		if err != nil {
			results[i].Err = cause("launch", requests[i].ClaimName, err)
			continue
		}
		results[i] = p.result(c, requests[i], answer.Results[n])
	}
	return results
}

func (p *Provider) result(c catalogue, r cloud.LaunchRequest, in machines.LaunchResult) cloud.LaunchResult {
	out := cloud.LaunchResult{ClaimUID: r.ClaimUID, Unavailable: in.Unavailable, Annotations: model.Labels{annotationHash: classHash(r.Class)}}
	switch m := in.Instance; {
	case in.Error != nil:
		out.Err = itemError("launch", r.ClaimName, *in.Error)
	case m == nil:
		out.Err = &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: r.ClaimName, Err: errors.New("the answer has no machine")}
	default:
		out.ProviderID, out.InstanceType, out.Zone, out.CapacityType = m.ProviderID, m.InstanceType, m.Zone, m.CapacityType
		out.PriceMicro, out.Modelled, out.ImageID = m.PriceMicro, m.Modelled, m.ImageID
		out.Labels = c.labels(m)
		var err error
		if out.Capacity, err = p.vector(m.Node.Capacity); err == nil {
			out.Allocatable, err = p.vector(m.Node.Allocatable)
		}
		if err != nil {
			out.Err = &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: r.ClaimName, Err: err}
		}
	}
	return out
}

// List implements cloud.Provider.
func (p *Provider) List(ctx context.Context) ([]model.Instance, error) {
	var list machines.InstanceList
	if err := p.call(ctx, http.MethodGet, "/v1/instances", nil, &list); err != nil {
		return nil, cause("list", "", err)
	}
	out := make([]model.Instance, 0, len(list.Instances))
	for _, in := range list.Instances {
		if in.ClaimUID == "" {
			continue // a base node: not ours
		}
		out = append(out, model.Instance{
			ProviderID: in.ProviderID, ClaimUID: in.ClaimUID, ClaimName: in.ClaimName, Launched: in.Launched,
			Gone: in.State == machines.ShuttingDown || in.State == machines.Terminated,
		})
	}
	adopted, err := p.adopted.list(ctx)
	if err != nil {
		return nil, err
	}
	out = append(out, adopted...)
	sortInstances(out)
	return out, nil
}

// Terminate implements cloud.Provider, with one request for the whole batch.
func (p *Provider) Terminate(ctx context.Context, providerIDs []string) []error {
	errs := make([]error, len(providerIDs))
	var launched []string
	var at []int // in providerIDs, of each in launched
	for i, id := range providerIDs {
		if p.adopted.has(id) {
			errs[i] = p.adopted.terminate(ctx, id)
			continue
		}
		launched, at = append(launched, id), append(at, i)
	}
	for n, err := range p.terminateLaunched(ctx, launched) {
		errs[at[n]] = err
	}
	return errs
}

// terminateLaunched ends machines of the simulated cloud.
func (p *Provider) terminateLaunched(ctx context.Context, providerIDs []string) []error {
	errs := make([]error, len(providerIDs))
	if len(providerIDs) == 0 {
		return errs
	}
	var answer machines.TerminateAnswer
	err := p.call(ctx, http.MethodPost, "/v1/terminate", machines.TerminateBatch{ProviderIDs: providerIDs}, &answer)
	if err == nil && len(answer.Results) != len(providerIDs) {
		err = &cloud.Error{Kind: cloud.Unknown, Err: fmt.Errorf("%d results for %d ids", len(answer.Results), len(providerIDs))}
	}
	for i, id := range providerIDs {
		switch {
		case err != nil:
			errs[i] = cause("terminate", id, err)
		case answer.Results[i].Error != nil:
			errs[i] = itemError("terminate", id, *answer.Results[i].Error)
		}
	}
	return errs
}

// Reboot implements cloud.Rebooter. A second call is a second restart.
func (p *Provider) Reboot(ctx context.Context, providerID string) error {
	var in machines.Instance
	if err := p.call(ctx, http.MethodPost, "/v1/reboot", machines.RebootRequest{ProviderID: providerID}, &in); err != nil {
		return cause("reboot", providerID, err)
	}
	return nil
}
