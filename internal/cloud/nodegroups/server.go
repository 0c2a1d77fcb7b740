// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Server manages node groups. Calls may be concurrent, for different groups and for the same one; changes of one group
// are sequential. Errors are of type CallError.
type Server interface {
	// Refresh is called before groups or machines are read.
	Refresh(ctx context.Context) error
	// Groups returns all groups, in any order.
	Groups(ctx context.Context) ([]Group, error)
	// Target returns the target size of a group.
	Target(ctx context.Context, group string) (int64, error)
	// Describe returns the properties of a group's nodes. Problems that a user must correct are in the description.
	Describe(ctx context.Context, group string) (Description, error)
	// Members returns the machines of a group, in any order.
	Members(ctx context.Context, group string) ([]Member, error)
	// Raise raises the size of a group by by, which gives the size to if nothing else has changed it.
	Raise(ctx context.Context, group string, by, to int64) error
	// Lower lowers the size of a group by machines that do not exist yet.
	Lower(ctx context.Context, group string, by int64) error
	// End terminates machines and lowers the size of their group accordingly. It has no effect on a machine that is
	// already being terminated.
	End(ctx context.Context, group string, ids []string) error
}

// AllMembers is a Server that reads the machines of all groups at once.
type AllMembers interface {
	// AllMembers returns the machines of all groups, by group, in any order. Groups that do not exist are missing.
	AllMembers(ctx context.Context) (map[string][]Member, error)
}

// Group is a node group.
type Group struct {
	Name     string
	Min, Max int64
	Target   *int64            // target size; nil: use Server.Target
	Tags     map[string]string // tags for selector terms; nil: groups of this server have none
	Replaces string            // how the server is replacing machines of the group now; empty: it is not
	Problem  string            // why nothing can be launched in it; empty: launches are possible
}

// Description are the properties of a group's nodes.
type Description struct {
	Node       *corev1.Node // a new node; nil: unknown, see Problem
	PriceMicro int64        // in micro-dollars per hour; 0: unknown
	Options    *Options     // nil: the server has none
	// CSILimits are the attach limits by CSI driver, and Devices the numbers of devices of type gpu that a DRA driver
	// will publish, by driver; nil: unknown.
	CSILimits, Devices map[string]int64
	Problem            string // why nothing can be launched in the group; empty: launches are possible
}

// Member is a machine of a group.
type Member struct {
	ID            string    // the provider ID of its node, or a placeholder
	Created       time.Time // zero: unknown
	Running       bool      // it is or was running: it may belong to a claim, and may have pods
	Deleting      bool
	Stuck         bool   // its termination does not progress: End must be called again
	Code, Message string // its error; empty: none. If it never ran, its launch has failed
}

// CallError is the error of a call to a Server.
type CallError struct {
	Kind      cloud.Kind    // Throttled, Denied, or Unknown
	After     time.Duration // delay before a retry, for Throttled
	Uncertain bool          // no response: the call may have had its effect, or still have it
	Err       error
}

// Error implements error.
func (e *CallError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// isUncertain reports whether a call that failed may have had its effect, or have it yet.
func isUncertain(err error) bool {
	var e *CallError
	return errors.As(err, &e) && e.Uncertain
}

// kindOf returns the kind of an error of a call, which determines the caller's reaction.
func kindOf(err error) cloud.Kind {
	var e *CallError
	if errors.As(err, &e) {
		return e.Kind
	}
	return cloud.KindOf(err)
}

// classify sets the kind of an error. The end of the caller's context has precedence over the error that it caused.
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
	var e *CallError
	if errors.As(err, &e) {
		out.Kind, out.After = e.Kind, e.After
	}
	return out
}
