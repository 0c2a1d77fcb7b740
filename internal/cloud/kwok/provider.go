// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kwok

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// adoptedNodes are instances that Karpenter's KWOK provider made. A nil one has none.
type adoptedNodes struct {
	nodes Nodes

	mu    sync.Mutex
	ended map[string]bool // by provider id: its end was asked for, and its Node waits for finalizers
}

// catalogue is a read-only copy of the cloud's offerings.
type catalogue struct {
	name  string
	tag   string
	at    time.Time
	types []*model.InstanceType
	keys  map[string]bool // labels that some type or offering has, zone and capacity type included
}

// classHash is the same for specs that say the same.
func classHash(class cloud.NodeClass) string {
	text := []byte("{}")
	var spec map[string]any
	if json.Unmarshal(class.Spec, &spec) == nil && len(spec) > 0 {
		if b, err := json.Marshal(spec); err == nil {
			text = b
		}
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Group and kind of the supported node class.
const (
	Group = "karpenter.kwok.sh"
	Kind  = "KWOKNodeClass"
)

// Refresh is the cache TTL of the catalog.
const Refresh = 10 * time.Second

// Resources is the table of resource names shared by all resource vectors.
type Resources interface {
	Dim(name string) model.Dim
	Names() []string
}

// Provider launches machines in one simulated cloud.
type Provider struct {
	base      string
	client    *http.Client
	resources Resources
	clock     cloud.Clock
	catalogue chan catalogue // holds the only copy; its receiver may refresh it
	adopted   *adoptedNodes  // nil: nodes of Karpenter's provider are not looked for
}

// New returns a provider that uses the machines server at baseURL, for example http://127.0.0.1:7070. It connects on
// first use.
func New(baseURL string, client *http.Client, resources Resources, clock cloud.Clock) *Provider {
	p := &Provider{base: strings.TrimSuffix(baseURL, "/"), client: client, resources: resources, clock: clock, catalogue: make(chan catalogue, 1)}
	p.catalogue <- catalogue{}
	return p
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
