// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kwok

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// The node class it serves.
const (
	Group = "karpenter.kwok.sh"
	Kind  = "KWOKNodeClass"
)

// Refresh is how old the copy of the catalogue may be.
const Refresh = 10 * time.Second

// repairAfter is how long a node may be not Ready before it counts as broken, as in Karpenter's KWOK provider.
const repairAfter = 10 * time.Minute

// Resources is the table of resource names that all vectors use.
type Resources interface {
	Dim(name string) model.Dim
	Names() []string
}

// Provider buys from one simulated cloud.
type Provider struct {
	base      string
	client    *http.Client
	resources Resources
	clock     cloud.Clock
	catalogue chan catalogue // holds the one copy; whoever has it out may refresh it
	adopted   *adoptedNodes  // nil: nodes of Karpenter's provider are not looked for
}

// New makes a provider that buys from the machines server at baseURL, for example http://127.0.0.1:7070. It connects when it is
// first used.
func New(baseURL string, client *http.Client, resources Resources, clock cloud.Clock) *Provider {
	p := &Provider{base: strings.TrimSuffix(baseURL, "/"), client: client, resources: resources, clock: clock, catalogue: make(chan catalogue, 1)}
	p.catalogue <- catalogue{}
	return p
}

// Traits implements cloud.Provider.
func (p *Provider) Traits() cloud.Traits {
	return cloud.Traits{Name: "kwok", Classes: []cloud.ClassKind{{Group: Group, Kind: Kind}}, ListDelay: machines.MaxListLag, NodeLabels: []string{
		kwokv1alpha1.LabelInstanceSize, kwokv1alpha1.LabelInstanceFamily, kwokv1alpha1.LabelInstanceCPU, kwokv1alpha1.LabelInstanceMemory}}
}

// RepairPolicies implements cloud.Repairer.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy {
	return []cloud.RepairPolicy{{Condition: "Ready", Status: "False", After: repairAfter}, {Condition: "Ready", Status: "Unknown", After: repairAfter}}
}

// ClassStatus implements cloud.ClassStatuser: a class is ready when its spec can be read.
func (p *Provider) ClassStatus(_ context.Context, class cloud.NodeClass) (cloud.ClassStatus, error) {
	ready := model.Condition{Status: "True", Reason: "Ready"}
	if _, err := registrationDelay(class); err != nil {
		ready = model.Condition{Status: "False", Reason: "InvalidSpec", Message: err.Error()}
	}
	return cloud.ClassStatus{Conditions: map[string]model.Condition{"Ready": ready}}, nil
}

// registrationDelay reads the one field of a KWOKNodeClass.
func registrationDelay(class cloud.NodeClass) (time.Duration, error) {
	if len(class.Spec) == 0 {
		return 0, nil
	}
	var spec struct {
		Delay string `json:"nodeRegistrationDelay"`
	}
	if err := json.Unmarshal(class.Spec, &spec); err != nil {
		return 0, fmt.Errorf("KWOKNodeClass %s: spec: %w", class.Name, err)
	}
	if spec.Delay == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(spec.Delay)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("KWOKNodeClass %s: spec.nodeRegistrationDelay: %q: need a duration such as 30s", class.Name, spec.Delay)
	}
	return d, nil
}

// classError refuses a class that is not this provider's or can't be read.
func classError(op string, class cloud.NodeClass) (time.Duration, error) {
	if class.Group != Group || class.Kind != Kind {
		return 0, &cloud.Error{Kind: cloud.Denied, Op: op, Object: class.Name, Err: fmt.Errorf("node class is a %s of %s, need a %s of %s", class.Kind, class.Group, Kind, Group)}
	}
	d, err := registrationDelay(class)
	if err != nil {
		return 0, &cloud.Error{Kind: cloud.NotReady, Op: op, Object: class.Name, Err: err}
	}
	return d, nil
}

// Offerings implements cloud.Provider. All pools and classes share one slice.
func (p *Provider) Offerings(ctx context.Context, _ *model.NodePool, class cloud.NodeClass) ([]*model.InstanceType, error) {
	if _, err := classError("offerings", class); err != nil {
		return nil, err
	}
	c, err := p.current(ctx)
	return c.types, err
}

// Launch implements cloud.Provider: one call for the whole batch.
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

// Terminate implements cloud.Provider: one call for the whole batch.
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

// call makes one call. Its errors are a *cloud.Error without operation and object.
func (p *Provider) call(ctx context.Context, method, path string, in, out any) error {
	_, err := p.roundTrip(ctx, method, path, "", in, out)
	return err
}

// roundTrip is call with an entity tag: it answers the tag of the answer, and leaves out alone when that is the tag given.
func (p *Provider) roundTrip(ctx context.Context, method, path, tag string, in, out any) (string, error) {
	unknown := func(err error) (string, error) { return "", &cloud.Error{Kind: cloud.Unknown, Err: err} }
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return unknown(fmt.Errorf("encode request: %w", err))
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, body)
	if err != nil {
		return unknown(err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	res, err := p.client.Do(req)
	if err != nil {
		return unknown(err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
		if err := json.NewDecoder(res.Body).Decode(out); err != nil {
			return unknown(fmt.Errorf("read answer: %w", err))
		}
	case http.StatusNotModified:
	default:
		var answer machines.ErrorAnswer
		text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
		if json.Unmarshal(text, &answer) != nil || answer.Error.Kind == cloud.None {
			return unknown(fmt.Errorf("%s: %s", res.Status, bytes.TrimSpace(text)))
		}
		return "", itemError("", "", answer.Error)
	}
	_, _ = io.Copy(io.Discard, res.Body) // to its end, so that the connection can be used again
	return res.Header.Get("ETag"), nil
}

func itemError(op, object string, e machines.Error) error {
	out := &cloud.Error{Kind: e.Kind, Op: op, Object: object, Offerings: e.Offerings, After: time.Duration(e.After)}
	if e.Kind != cloud.InsufficientCapacity && e.Kind != cloud.Throttled { // those say it all
		out.Err = errors.New(e.Message)
	}
	return out
}

// cause names operation and object in an error of call.
func cause(op, object string, err error) error {
	var e *cloud.Error
	if !errors.As(err, &e) {
		return &cloud.Error{Kind: cloud.Unknown, Op: op, Object: object, Err: err}
	}
	named := *e
	named.Op, named.Object = op, object
	return &named
}
