// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Cluster is the power over Kubernetes that the loop needs. Each call carries out one action, returns the version of the object
// that shows its effect (0 if there is none), and classifies its errors by plan.Err*.
type Cluster interface {
	CreateClaim(context.Context, plan.CreateClaim) (uint64, error)
	DeleteClaim(context.Context, plan.DeleteClaim) (uint64, error)
	UpdateClaim(context.Context, plan.UpdateClaim) (uint64, error)
	UpdateNode(context.Context, plan.UpdateNode) (uint64, error)
	DeleteNode(context.Context, plan.DeleteNode) (uint64, error)
	// Bind answers ErrConflict where the pod is bound already, or may not be bound now.
	Bind(context.Context, plan.Bind) (uint64, error)
	Tolerate(context.Context, plan.Tolerate) (uint64, error)
	Evict(context.Context, plan.Evict) (uint64, error)
	Restart(context.Context, plan.Restart) (uint64, error)
	DeletePod(context.Context, plan.DeletePod) (uint64, error)
	UpdatePool(context.Context, plan.UpdatePool) (uint64, error)
	UpdateNodeClass(context.Context, plan.UpdateNodeClass) (uint64, error)
	UpdateNodeOverlay(context.Context, plan.UpdateNodeOverlay) (uint64, error)
	UpdateBuffer(context.Context, plan.UpdateBuffer) (uint64, error)
	UpdateRequest(context.Context, plan.UpdateRequest) (uint64, error)
	UpdateQuota(context.Context, plan.UpdateQuota) (uint64, error)
	// Claimed reports whether an orphan that is about to be ended has a NodeClaim after all, as the API server knows it now.
	Claimed(context.Context, plan.Terminate) (bool, error)
	// Event tells the people who watch an object. kind is that of an object that Dovetail writes; warn marks what needs attention.
	Event(kind, namespace, name, uid string, warn bool, reason, message string)
	// WriteReported writes the event of a WriteReport to an object.
	WriteReported(kind, namespace, name, uid string, w plan.WriteReport)
}

// Keeper is where what decide has learned outlives the process.
type Keeper interface {
	Load(ctx context.Context) (string, error) // empty: nothing has been kept
	Store(ctx context.Context, text string) error
}

// Config are the loop's times and widths.
type Config struct {
	Idle       time.Duration // demand is decided on when none came for this long; longer while decisions follow each other within Max
	Max        time.Duration // and at the latest this long after the first
	Coalesce   time.Duration // changes that come within this time are looked at together
	ListEvery  time.Duration // how often the cloud is asked for its machines
	OfferEvery time.Duration // how often the cloud is asked for its offerings
	DriftEvery time.Duration // how often the cloud is asked which machines have drifted
	RetryAfter time.Duration // pods that could not be placed are looked at again this often though nothing changed
	CallLimit  time.Duration // an action's call is given up after this long, and repeated
	Parallel   int           // actions under way at once, a kind
	Calls      int           // calls to the API server under way at once, of all kinds together, but for those that take long
	Bindings   int           // pods being bound at once, a namespace: few enough that an API server's priority and fairness queues none of them
}

// DefaultConfig is what the controller runs with.
func DefaultConfig() Config {
	return Config{
		Idle: 30 * time.Millisecond, Max: time.Second, Coalesce: 3 * time.Millisecond, ListEvery: 10 * time.Second,
		OfferEvery: time.Minute, DriftEvery: 5 * time.Minute, RetryAfter: 30 * time.Second, CallLimit: 60 * time.Second, Parallel: 64, Calls: 48, Bindings: 32,
	}
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.Idle <= 0 || c.Max < c.Idle:
		return fmt.Errorf("batch window: idle %s must be positive and at most max %s", c.Idle, c.Max)
	case c.Parallel < 1:
		return fmt.Errorf("parallel actions: %d, must be at least 1", c.Parallel)
	case c.Calls < 1:
		return fmt.Errorf("parallel calls: %d, must be at least 1", c.Calls)
	case c.Bindings < 1:
		return fmt.Errorf("parallel bindings: %d, must be at least 1", c.Bindings)
	case c.ListEvery <= 0 || c.OfferEvery <= 0 || c.DriftEvery <= 0 || c.RetryAfter <= 0 || c.CallLimit <= 0:
		return errors.New("intervals must be positive")
	}
	return nil
}
