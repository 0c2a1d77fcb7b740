// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"
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
	for _, s := range services() {
		d := Service{Name: s.name, Version: s.version, Namespace: s.namespace, Target: s.target}
		d.Protocol = map[protocol]string{ec2Query: "ec2", awsQuery: "query", awsJSON10: "json", awsJSON11: "json", restJSON: "rest-json"}[s.protocol]
		for _, name := range sortedKeys(s.operations) {
			o := s.operations[name]
			d.Operations = append(d.Operations, Operation{name, o.method, o.path, o.in, o.out})
		}
		out = append(out, d)
	}
	return out
}

// read is a call that changes nothing; change is one whose effect is on disk before it is answered.
func read[I, O any](do func(*tx, *I) (*O, error)) *operation   { return call(do, false) }
func change[I, O any](do func(*tx, *I) (*O, error)) *operation { return call(do, true) }

func call[I, O any](do func(*tx, *I) (*O, error), changes bool) *operation {
	return &operation{
		in: reflect.TypeFor[I](), out: reflect.TypeFor[O](), changes: changes,
		run: func(_ context.Context, c *Cloud, in any) (out any, err error) {
			broken := c.transact(changes, func(t *tx) {
				var o *O
				if o, err = do(t, in.(*I)); err == nil {
					out = o
				}
			})
			if broken != nil {
				return nil, &apiError{Code: "InternalError", Message: broken.Error(), Status: http.StatusInternalServerError}
			}
			return out, err
		},
	}
}

// at gives a call of a REST service its place.
func (o *operation) at(method, path string) *operation {
	o.method, o.path = method, path
	return o
}

// Handler answers every service's calls, and what control.go has below /_aws/.
func (c *Cloud) Handler() http.Handler {
	byName := map[string]*service{}
	for _, s := range services() {
		byName[s.name] = s
	}
	mux := http.NewServeMux()
	c.control(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s := byName[serviceOf(r)]
		if s == nil {
			http.Error(w, fmt.Sprintf("%s %s: signed for service %q, which is not simulated", r.Method, r.URL.Path, serviceOf(r)), http.StatusNotImplemented)
			return
		}
		c.answer(w, r, s.spoken(r))
	})
	return mux
}

// answer serves one call, with the faults that hit it.
func (c *Cloud) answer(w http.ResponseWriter, r *http.Request, s *service) {
	n := c.requests.Add(1)
	h := hash("request", fmt.Sprint(n))
	requestID := fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
	fail := func(err error) {
		var e *apiError
		if !errors.As(err, &e) {
			e = &apiError{Code: "InternalError", Message: err.Error(), Status: http.StatusInternalServerError}
		}
		s.refuse(w, requestID, e)
	}
	action, op, in, err := s.read(r)
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
	out, err := op.run(r.Context(), c, in)
	c.count(s, action, err)
	if f.lost {
		c.log.Debug("reply lost", "service", s.name, "action", action)
		panic(http.ErrAbortHandler) // closes the connection
	}
	if err != nil {
		c.log.Debug("refused", "service", s.name, "action", action, "error", err)
		fail(err)
		return
	}
	if err := s.write(w, action, requestID, out); err != nil {
		fail(err)
	}
}

// Calls are the calls of one action.
type Calls struct {
	Count  int            `json:"count"`
	Errors map[string]int `json:"errors,omitempty"` // by code
}

func (c *Cloud) count(s *service, action string, err error) {
	name := s.name + ":" + action
	_ = c.transact(false, func(*tx) { // a journal that can't be written has stopped the server
		k := c.calls[name]
		if k == nil {
			k = &Calls{}
			c.calls[name] = k
		}
		k.Count++
		var e *apiError
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
		return &apiError{Code: "DryRunOperation", Message: "Request would have succeeded, but DryRun flag is set.", Status: http.StatusPreconditionFailed}
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
func filtered(filters []ec2Filter, tags map[string]string, values func(name string) ([]string, bool)) (bool, error) {
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
				return false, refuse("InvalidParameterValue", "The filter '%s' is invalid", f.Name)
			}
		}
		if len(f.Values) == 0 {
			return false, refuse("InvalidParameterValue", "The filter '%s' needs a value", f.Name)
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

func tagMap(tags []ec2Tag) map[string]string {
	m := make(map[string]string, len(tags))
	for _, t := range tags {
		m[t.Key] = t.Value
	}
	return m
}

func tagList(tags map[string]string) []ec2Tag {
	out := make([]ec2Tag, 0, len(tags))
	for _, k := range sortedKeys(tags) {
		out = append(out, ec2Tag{k, tags[k]})
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
