// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

// Service is what a service's model has, for test/awsmodels.
type Service struct {
	Name       string // in signatures
	Protocol   string // as the model says: ec2, query, json or rest-json
	Version    string // ec2, query
	Namespace  string // ec2, query
	Target     string // json: of X-Amz-Target
	Operations []Operation
}

// Operation is one call's place, input and output.
type Operation struct {
	Name         string
	Method, Path string // rest-json
	In, Out      reflect.Type
}

// Services are all services and calls that are served.
func Services() []Service {
	var out []Service
	for _, s := range services(nil) {
		d := Service{Name: s.Name, Version: s.Version, Namespace: s.Namespace, Target: s.Target}
		d.Protocol = map[wire.Protocol]string{wire.EC2Query: "ec2", wire.AWSQuery: "query", wire.AWSJSON10: "json", wire.AWSJSON11: "json", wire.RESTJSON: "rest-json"}[s.Protocol]
		for _, name := range slices.Sorted(maps.Keys(s.Operations)) {
			o := s.Operations[name]
			d.Operations = append(d.Operations, Operation{name, o.Method, o.Path, o.In, o.Out})
		}
		out = append(out, d)
	}
	return out
}

// read is a call that changes nothing; change is one whose effect is on disk before it is answered.
func read[I, O any](c *Cloud, do func(*tx, *I) (*O, error)) *wire.Operation {
	return call(c, do, false)
}
func change[I, O any](c *Cloud, do func(*tx, *I) (*O, error)) *wire.Operation {
	return call(c, do, true)
}

func call[I, O any](c *Cloud, do func(*tx, *I) (*O, error), changes bool) *wire.Operation {
	return &wire.Operation{
		In: reflect.TypeFor[I](), Out: reflect.TypeFor[O](),
		Run: func(_ context.Context, in any) (out any, err error) {
			broken := c.transact(changes, func(t *tx) {
				var o *O
				if o, err = do(t, in.(*I)); err == nil {
					out = o
				}
			})
			if broken != nil {
				return nil, &wire.Error{Code: "InternalError", Message: broken.Error(), Status: http.StatusInternalServerError}
			}
			return out, err
		},
	}
}

// Handler answers every service's calls, and what control.go has below /_aws/.
func (c *Cloud) Handler() http.Handler {
	byName := map[string]*wire.Service{}
	for _, s := range services(c) {
		byName[s.Name] = s
	}
	mux := http.NewServeMux()
	c.control(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s := byName[wire.ServiceOf(r)]
		if s == nil {
			http.Error(w, fmt.Sprintf("%s %s: signed for service %q, which is not simulated", r.Method, r.URL.Path, wire.ServiceOf(r)), http.StatusNotImplemented)
			return
		}
		c.answer(w, r, s.Spoken(r))
	})
	return mux
}

// answer serves one call, with the faults that hit it.
func (c *Cloud) answer(w http.ResponseWriter, r *http.Request, s *wire.Service) {
	n := c.requests.Add(1)
	h := hash("request", fmt.Sprint(n))
	requestID := fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
	fail := func(err error) {
		var e *wire.Error
		if !errors.As(err, &e) {
			e = &wire.Error{Code: "InternalError", Message: err.Error(), Status: http.StatusInternalServerError}
		}
		s.Fail(w, requestID, e)
	}
	action, op, in, err := s.Read(r)
	if err != nil {
		c.count(s, action, err)
		fail(err)
		return
	}
	f, err := c.strike(s, action)
	if f.stall > 0 && c.clock.Wait(r.Context(), f.stall) != nil {
		return
	}
	if err != nil {
		c.count(s, action, err)
		fail(err)
		return
	}
	out, err := op.Run(r.Context(), in)
	c.count(s, action, err)
	if f.lost {
		c.log.Debug("reply lost", "service", s.Name, "action", action)
		panic(http.ErrAbortHandler) // closes the connection
	}
	if err != nil {
		c.log.Debug("refused", "service", s.Name, "action", action, "error", err)
		fail(err)
		return
	}
	if err := s.Write(w, action, requestID, out); err != nil {
		fail(err)
	}
}

// Calls are the calls of one action.
type Calls struct {
	Count  int            `json:"count"`
	Errors map[string]int `json:"errors,omitempty"` // by code
}

func (c *Cloud) count(s *wire.Service, action string, err error) {
	name := s.Name + ":" + action
	_ = c.transact(false, func(*tx) { // a journal that can't be written has stopped the server
		k := c.calls[name]
		if k == nil {
			k = &Calls{}
			c.calls[name] = k
		}
		k.Count++
		var e *wire.Error
		if errors.As(err, &e) {
			if k.Errors == nil {
				k.Errors = map[string]int{}
			}
			k.Errors[e.Code]++
		}
	})
}

// dryRun answers a call that only asks whether it may be made. Faults have refused it already if it may not.
func dryRun(asked *bool) error {
	if asked != nil && *asked {
		return &wire.Error{Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set.", Status: http.StatusPreconditionFailed}
	}
	return nil
}

// live does what happens by itself, when it is due.
func (c *Cloud) live(ctx context.Context) error {
	for {
		next, err := c.turn()
		if err != nil {
			return err
		}
		wait, cancel := context.WithCancel(ctx)
		woken := make(chan struct{})
		go func() {
			defer close(woken)
			select {
			case <-c.wake:
				cancel()
			case <-wait.Done():
			}
		}()
		if next.IsZero() {
			<-wait.Done()
		} else {
			_ = c.clock.Wait(wait, next.Sub(c.clock.Now()))
		}
		cancel()
		<-woken
		if ctx.Err() != nil {
			return nil
		}
	}
}

// stir has live look again.
func (c *Cloud) stir() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// pattern matches a value as filters do: * stands for anything, ? for one character.
func pattern(p, value string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(value) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == value[j]):
			i, j = i+1, j+1
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(p[i:], "*") == ""
}

// filtered reports whether an object passes all filters. values gives what it has under a filter's name, and false for a name that
// the call does not know.
func filtered(filters []shapes.EC2Filter, tags map[string]string, values func(name string) ([]string, bool)) (bool, error) {
	pass := true
	for _, f := range filters {
		var have []string
		key, isTag := strings.CutPrefix(f.Name, "tag:")
		switch {
		case isTag:
			if v, ok := tags[key]; ok {
				have = []string{v}
			}
		case f.Name == "tag-key":
			for k := range tags {
				have = append(have, k)
			}
		default:
			var known bool
			if have, known = values(f.Name); !known {
				return false, wire.Refuse("InvalidParameterValue", "The filter '%s' is invalid", f.Name)
			}
		}
		if len(f.Values) == 0 {
			return false, wire.Refuse("InvalidParameterValue", "The filter '%s' needs a value", f.Name)
		}
		found := false
		for _, want := range f.Values {
			for _, h := range have {
				found = found || pattern(want, h)
			}
		}
		pass = pass && found
	}
	return pass, nil
}

func tagMap(tags []shapes.EC2Tag) map[string]string {
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[t.Key] = t.Value
	}
	return m
}

func tagList(tags map[string]string) []shapes.EC2Tag {
	out := make([]shapes.EC2Tag, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, shapes.EC2Tag{Key: k, Value: tags[k]})
	}
	return out
}

// page cuts a list, sorted by key, to what comes after a token, at most max, or limit where max is nil.
func page[T any](items []T, key func(T) string, token string, asked *int64, limit int) ([]T, string) {
	n := limit
	if asked != nil && int(*asked) < n {
		n = int(*asked)
	}
	start := 0
	for token != "" && start < len(items) && key(items[start]) <= token {
		start++
	}
	items = items[start:]
	if n <= 0 || len(items) <= n {
		return items, ""
	}
	return items[:n], key(items[n-1])
}

func is(b *bool) bool { return b != nil && *b }

func pointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Truncate(time.Millisecond)) // AWS has no finer times
}
