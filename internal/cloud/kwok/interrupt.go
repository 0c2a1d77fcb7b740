// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kwok

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// askEvery is the polling interval for notices of the simulated cloud.
const askEvery = 250 * time.Millisecond

// Interruptions implements cloud.Interrupter.
func (p *Provider) Interruptions(ctx context.Context, handle func(context.Context, cloud.Interruption) error) error {
	for {
		var list machines.InterruptionList
		if err := p.call(ctx, http.MethodGet, "/v1/interruptions", nil, &list); err != nil {
			return cause("interruptions", "", err)
		}
		done := make([]bool, len(list.Interruptions))
		var all sync.WaitGroup
		for i, n := range list.Interruptions {
			all.Go(func() {
				done[i] = handle(ctx, cloud.Interruption{ProviderID: n.ProviderID, Kind: cloud.SpotInterruption, At: n.At, Sent: n.Sent}) == nil
			})
		}
		all.Wait()
		var noticed machines.NoticedBatch
		for i, n := range list.Interruptions {
			if done[i] {
				noticed.ProviderIDs = append(noticed.ProviderIDs, n.ProviderID)
			}
		}
		if len(noticed.ProviderIDs) > 0 {
			if err := p.call(ctx, http.MethodPost, "/v1/interruptions", noticed, &list); err != nil {
				return cause("interruptions", "", err)
			}
		}
		if err := p.clock.Wait(ctx, askEvery); err != nil {
			return err
		}
	}
}

// annotationHash on a NodeClaim is the hash of the node class's spec at the launch of its machine.
const annotationHash = Group + "/kwoknodeclass-hash"

// driftedClass is the reference's word for a machine of a node class that has changed.
const driftedClass = "NodeClassDrift"

// Drifted implements cloud.Drifter: a machine has drifted if the spec of its node class has changed since its launch.
func (p *Provider) Drifted(_ context.Context, queries []cloud.DriftQuery) ([]string, error) {
	out := make([]string, len(queries))
	for i, q := range queries {
		if was := q.Claim.Annotations[annotationHash]; was != "" && was != classHash(q.Class) {
			out[i] = driftedClass
		}
	}
	return out, nil
}
