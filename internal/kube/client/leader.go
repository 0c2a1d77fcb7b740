// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Lease configures leader election.
type Lease struct {
	Namespace, Name string
	Identity        string        // identity of this replica; empty: derived from the host name
	Duration        time.Duration // lease duration: how long standby replicas wait before taking over an unrenewed lease
	Renew           time.Duration // renew deadline: how long the leader retries renewing before it stops
	Retry           time.Duration // retry period: delay between attempts to acquire or renew the lease
}

// DefaultLease returns the lease that the chart's Role permits, with Kubernetes' default durations.
func DefaultLease() Lease {
	return Lease{Namespace: "dovetail-system", Name: "dovetail-leader", Duration: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second}
}

// Validate returns an error that names an inconsistent duration.
func (l Lease) Validate() error {
	switch {
	case l.Retry <= 0:
		return fmt.Errorf("lease: retry period %s must be above 0", l.Retry)
	case float64(l.Renew) <= leaderelection.JitterFactor*float64(l.Retry):
		return fmt.Errorf("lease: renew deadline %s must be above %.1f times the retry period %s", l.Renew, leaderelection.JitterFactor, l.Retry)
	case l.Duration <= l.Renew:
		return fmt.Errorf("lease: duration %s must be above the renew deadline %s", l.Duration, l.Renew)
	}
	return nil
}

// Lead waits for the lease and runs lead while it holds it. The context given to lead ends when the lease is lost or ctx ends;
// when ctx ends the lease is given up only after lead has returned, so that no two lead at once. Lead returns an error when the
// lease was lost, nil when ctx ended or lead returned.
func Lead(ctx context.Context, c *Client, l Lease, lead func(context.Context)) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if l.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		l.Identity = host + "_" + rand.Text()
	}
	config := rest.CopyConfig(c.config)
	config.Timeout = max(time.Second, l.Renew/2) // a call that hangs must leave time for another
	client, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("lead: connect to API server %s: %w", c.Address, err)
	}
	electing, stop := context.WithCancel(context.WithValue(c.Logging(context.WithoutCancel(ctx)), elects{}, true))
	defer stop()
	var leading, finished atomic.Bool
	done := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		if !leading.Load() {
			stop()
		}
	})()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lock{&resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
		}, electing, func(err error) { c.Wrote(Written{Kind: "Lease", Namespace: l.Namespace, Name: l.Name, Err: err}) }},
		LeaseDuration: l.Duration, RenewDeadline: l.Renew, RetryPeriod: l.Retry, ReleaseOnCancel: true, Name: l.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				defer close(done)
				leading.Store(true)
				held, cancel := context.WithCancel(held)
				defer cancel()
				defer context.AfterFunc(ctx, cancel)()
				lead(held)
				finished.Store(held.Err() == nil || ctx.Err() != nil)
				stop()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("lead: %w", err)
	}
	elector.Run(electing)
	if leading.Load() {
		<-done
	}
	if ctx.Err() != nil || finished.Load() {
		return nil
	}
	return errors.New("lease " + l.Namespace + "/" + l.Name + " was not renewed within " + l.Renew.String())
}

// lock is a lease that is given up only by who still holds it. client-go gives up also what could not be renewed in time, over the connection that
// hangs, and until that has failed whoever leads is not told: longer than the lease lasts.
type lock struct {
	resourcelock.Interface
	electing context.Context
	wrote    func(error)
}

// elects marks the contexts of all calls but those that give the lease up.
type elects struct{}

func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if ctx.Value(elects{}) == nil && l.electing.Err() == nil {
		return nil, nil, errors.New("the lease was not renewed in time, so another replica may hold it: it is left to expire")
	}
	r, raw, err := l.Interface.Get(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		l.wrote(err)
	}
	return r, raw, err
}

// Create tells what becomes of it.
func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Create(ctx, r)
	l.wrote(err)
	return err
}

// Update tells what becomes of it.
func (l *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, r)
	l.wrote(err)
	return err
}
