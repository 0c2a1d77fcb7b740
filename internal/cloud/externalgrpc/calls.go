// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/protocol"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
)

// call makes one call, limited in time.
func call[Q, R any](ctx context.Context, s *server, name string, do func(context.Context, Q, ...grpc.CallOption) (R, error), in Q) (R, error) {
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := do(limited, in)
	if err == nil {
		return out, nil
	}
	e := &nodegroups.CallError{Kind: cloud.Unknown, Err: &callError{name, s, err}}
	if after, asked := retryAfter(err); asked {
		e.Kind, e.After = cloud.Throttled, after
		return out, e
	}
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		e.Kind = cloud.Denied
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled:
		e.Uncertain = true
	}
	return out, e
}

// callError is the answer of a call that failed.
type callError struct {
	name   string
	server *server
	err    error
}

// Error implements error.
func (e *callError) Error() string {
	s := status.Convert(e.err)
	switch s.Code() {
	case codes.Unavailable:
		return fmt.Sprintf("%s: the server at %s is not available: %s; if this persists, %s", e.name, e.server.address, s.Message(), e.server.remedy())
	case codes.DeadlineExceeded:
		return fmt.Sprintf("%s: the server at %s did not answer in %s; if this persists, read the server's log, or raise grpc_timeout in --cloud-config", e.name, e.server.address, e.server.timeout)
	}
	return fmt.Sprintf("%s: the server at %s answers %s: %s", e.name, e.server.address, s.Code(), s.Message())
}

// remedy returns the remedy if the server is unavailable. gRPC's message does not always distinguish a rejected
// certificate from a closed connection.
func (s *server) remedy() string {
	if s.secure {
		return "check that the server runs, and address, key, cert and cacert in --cloud-config"
	}
	return "check that the server runs, and address in --cloud-config; a server that requires TLS needs key, cert and cacert"
}

// isUnimplemented reports whether a server does not implement a call.
func isUnimplemented(err error) bool {
	var e *callError
	return errors.As(err, &e) && status.Code(e.err) == codes.Unimplemented
}

// isRefusal reports whether a server has answered that it will not do a call, now or ever; false: asked again, it may.
func isRefusal(err error) bool {
	var e *nodegroups.CallError
	return errors.As(err, &e) && !e.Uncertain && e.Kind != cloud.Throttled
}

// retryAfter returns the delay requested by a server; false: none.
func retryAfter(err error) (time.Duration, bool) {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}

// server is a client of a server.
type server struct {
	client  protocol.CloudProviderClient
	address string // host:port
	secure  bool   // with TLS
	timeout time.Duration
	nodes   Nodes // nil: none are found
	clock   cloud.Clock
	log     *slog.Logger
}

// Nodes finds the Nodes of machines.
type Nodes interface {
	// NodesOf returns Nodes by provider ID; machines without a Node are omitted.
	NodesOf(ctx context.Context, providerIDs []string) (map[string]*corev1.Node, error)
}
