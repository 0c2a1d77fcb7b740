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

// Cluster is the loop's interface to Kubernetes. Each call carries out one action, returns the version of the object that shows its
// effect (0 if there is none), and classifies errors as plan.Err*.
type Cluster interface {
	CreateClaim(context.Context, plan.CreateClaim) (uint64, error)
	DeleteClaim(context.Context, plan.DeleteClaim) (uint64, error)
	UpdateClaim(context.Context, plan.UpdateClaim) (uint64, error)
	UpdateNode(context.Context, plan.UpdateNode) (uint64, error)
	DeleteNode(context.Context, plan.DeleteNode) (uint64, error)
	// Bind returns ErrConflict if the pod is already bound or may not be bound now.
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
	// Claimed reports whether an orphaned instance that is about to be terminated has a NodeClaim in the API server after all.
	Claimed(context.Context, plan.Terminate) (bool, error)
	// Event records an event on an object. kind is the kind of an object that Dovetail writes; warn marks a warning.
	Event(kind, namespace, name, uid string, warn bool, reason, message string)
	// WriteReported records the event of a WriteReport on an object.
	WriteReported(kind, namespace, name, uid string, w plan.WriteReport)
}

// Keeper stores what decide has learned across restarts.
type Keeper interface {
	Load(ctx context.Context) (string, error) // empty: nothing stored
	Store(ctx context.Context, text string) error
}

// Config configures the timing and concurrency of the loop.
type Config struct {
	Idle       time.Duration // idle batch window: decide after this time without new demand; longer while decisions follow each other within Max
	Max        time.Duration // maximum batch window: decide at the latest this long after the first demand
	Coalesce   time.Duration // changes within this time are processed together
	ListEvery  time.Duration // interval at which the cloud's machines are listed
	OfferEvery time.Duration // interval at which the cloud's offerings are listed
	DriftEvery time.Duration // interval at which the cloud is asked for drifted machines
	RetryAfter time.Duration // interval at which pods that could not be placed are tried again without changes
	CallLimit  time.Duration // timeout of an action's call, which is then repeated
	Parallel   int           // maximum number of concurrent actions per kind
	Calls      int           // maximum number of concurrent API server calls of all kinds, except slow ones
	Bindings   int           // maximum number of concurrent bindings per namespace: low enough that API Priority and Fairness queues none of them
}

// DefaultConfig returns the default configuration of the controller.
func DefaultConfig() Config {
	return Config{
		Idle: 30 * time.Millisecond, Max: time.Second, Coalesce: 3 * time.Millisecond, ListEvery: 10 * time.Second,
		OfferEvery: time.Minute, DriftEvery: 5 * time.Minute, RetryAfter: 30 * time.Second, CallLimit: 60 * time.Second, Parallel: 64, Calls: 48, Bindings: 32,
	}
}

// Validate returns an error if the configuration is invalid.
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
