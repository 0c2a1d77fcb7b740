// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// call makes one call, limited in time.
func call[Q, R any](ctx context.Context, p *Provider, name string, do func(context.Context, Q) (R, error), in Q) (R, error) {
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	out, err := do(limited, in)
	if err != nil {
		return out, &callError{name, err}
	}
	return out, nil
}

// callError is an error of a call.
type callError struct {
	name string
	err  error
}

func (e *callError) Error() string {
	s := status.Convert(e.err)
	return fmt.Sprintf("%s: the server answers %s: %s", e.name, s.Code(), s.Message())
}

func (e *callError) Unwrap() error { return e.err }

// codeOf returns the gRPC code of an error; OK for one that no call gave.
func codeOf(err error) codes.Code {
	var e *callError
	if !errors.As(err, &e) {
		return codes.OK
	}
	return status.Code(e.err)
}

// retryAfter returns the delay that a server asks for; false: it asks for none.
func retryAfter(err error) (time.Duration, bool) {
	var e *callError
	if !errors.As(err, &e) {
		return 0, false
	}
	for _, d := range status.Convert(e.err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

// isUncertain reports whether a call that failed may have had its effect, or have it yet: no answer came.
func isUncertain(err error) bool {
	switch codeOf(err) {
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled:
		return true
	}
	return false
}

// classify gives an error its kind. The caller's context comes first: what it ended failed for no other reason.
func classify(ctx context.Context, op, object string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return &cloud.Error{Kind: cloud.Unknown, Op: op, Object: object, Err: ctx.Err()}
	}
	var have *cloud.Error
	if errors.As(err, &have) {
		out := *have
		out.Op, out.Object = op, object
		return &out
	}
	out := &cloud.Error{Kind: cloud.Unknown, Op: op, Object: object, Err: err}
	if after, ok := retryAfter(err); ok {
		out.Kind, out.After = cloud.Throttled, after
		return out
	}
	switch codeOf(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		out.Kind = cloud.Denied
	}
	return out
}
