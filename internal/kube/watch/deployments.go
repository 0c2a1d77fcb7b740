// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Deployments are watched where that has been allowed (charts/dovetail/optional/surge.yaml), and that may come later.
const askRightsEvery = 15 * time.Second

// followDeployments watches Deployments from when it may. Nobody waits for that.
func (w *watcher) followDeployments(ctx context.Context) {
	if w.once != nil {
		return // what is read once is not restarted
	}
	go func() {
		for ctx.Err() == nil {
			may, err := mayRestart(ctx, w.c)
			if err != nil && ctx.Err() == nil {
				w.c.Log.Warn("checking permission to restart Deployments failed, trying again", "server", w.c.Address, "error", err)
			}
			if may {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(askRightsEvery):
			}
		}
		w.emit(func(s *state.State) { s.WatchDeployments() })
		var wg sync.WaitGroup
		follow(ctx, w, &wg, source{w.c.Apps, "deployments", &appsv1.Deployment{}}, &sync.Mutex{},
			func(_ string, d *appsv1.Deployment) {
				m := w.t.Deployment(d)
				w.emit(func(s *state.State) { s.SetDeployment(m) })
			},
			func(k string) { w.emit(func(s *state.State) { s.DeleteDeployment(k) }) })
	}()
}

// mayRestart asks whether this identity may watch and patch Deployments.
func mayRestart(ctx context.Context, c *client.Client) (bool, error) {
	for _, verb := range []string{"watch", "patch"} {
		ok, err := c.May(ctx, &authorizationv1.ResourceAttributes{Group: "apps", Resource: "deployments", Verb: verb})
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
