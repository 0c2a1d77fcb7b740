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

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

// Service is the API model of a service, for test/awsmodels.
type Service struct {
	Name       string // name in signatures
	Protocol   string // as in the model: ec2, query, json or rest-json
	Version    string // ec2, query
	Namespace  string // ec2, query
	Target     string // json: prefix of X-Amz-Target
	Operations []Operation
}

// Operation is the path, input and output of a call.
type Operation struct {
	Name         string
	Method, Path string // rest-json
	In, Out      reflect.Type
}

// Services returns all supported services and calls.
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

// Handler returns the handler of all services and of the control API below /_aws/.
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

// Calls counts the calls of one action.
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
