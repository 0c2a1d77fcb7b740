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

// Server has node groups. Its calls may be made at the same time, for different groups and for the same one; those that change a
// group are made one after the other for each group. An error is a CallError.
type Server interface {
	// Refresh is called before groups or machines are read.
	Refresh(ctx context.Context) error
	// Groups returns all groups, in any order.
	Groups(ctx context.Context) ([]Group, error)
	// Target returns how many machines a group is to have.
	Target(ctx context.Context, group string) (int64, error)
	// Describe returns what the nodes of a group are. What a person has to mend is the description's problem.
	Describe(ctx context.Context, group string) (Description, error)
	// Members returns the machines of a group, in any order.
	Members(ctx context.Context, group string) ([]Member, error)
	// Raise makes a group have more machines: by so many, which makes it to so many if nothing else has changed it.
	Raise(ctx context.Context, group string, by, to int64) error
	// Lower makes a group have fewer machines, by so many that have not come.
	Lower(ctx context.Context, group string, by int64) error
	// End ends machines and makes their group smaller by as many. Called again for a machine that is on its way out, it changes nothing.
	End(ctx context.Context, group string, ids []string) error
}

// AllMembers is a Server that reads the machines of all its groups at once.
type AllMembers interface {
	// AllMembers returns the machines of all groups, by group, in any order. A group that is not there is missing.
	AllMembers(ctx context.Context) (map[string][]Member, error)
}

// Group is a node group.
type Group struct {
	Name     string
	Min, Max int64
	Target   *int64            // how many machines it is to have; nil: Server.Target tells
	Tags     map[string]string // that a selector term may name; nil: groups of this server have none
	Replaces string            // the server replaces machines of the group now, and in which way; empty: it does not
	Problem  string            // why nothing can be launched in it; empty: it can
}

// Description is what the nodes of a group are.
type Description struct {
	Node       *corev1.Node // as it is when it has just come; nil: Problem says why it is not known
	PriceMicro int64        // in micro-dollars per hour; 0: not known
	Options    *Options     // nil: the server says nothing
	// CSILimits is how many volumes can be attached, by CSI driver, and Devices how many devices of type gpu a DRA driver will publish, by driver; nil: not known.
	CSILimits, Devices map[string]int64
	Problem            string // why nothing can be launched in the group; empty: it can
}

// Member is a machine of a group.
type Member struct {
	ID            string    // the provider id of its node, or a placeholder for it
	Created       time.Time // zero: not known
	Running       bool      // it runs, or has run: it may be a claim's, and pods may be on it
	Deleting      bool
	Stuck         bool   // it was to end, and does not: End has to be called again
	Code, Message string // its error; empty: none. If it never ran, it has failed
}

// CallError is an error of a call to a server.
type CallError struct {
	Kind      cloud.Kind    // Throttled, Denied, or Unknown
	After     time.Duration // of Throttled
	Uncertain bool          // the call may have had its effect, or have it yet: no answer came
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

// kindOf returns what a caller is to do about an error of a call.
func kindOf(err error) cloud.Kind {
	var e *CallError
	if errors.As(err, &e) {
		return e.Kind
	}
	return cloud.KindOf(err)
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
	var e *CallError
	if errors.As(err, &e) {
		out.Kind, out.After = e.Kind, e.After
	}
	return out
}
