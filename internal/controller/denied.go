// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// mostDenied is how many refused writes are remembered before those are forgotten that have not been repeated since.
const mostDenied = 1000

// written is what an action does to which object of the API server; an empty kind: it writes none, or what comes of it is told elsewhere.
type written struct{ verb, kind, namespace, name, uid string }

// writtenBy returns what an action writes. A NodeClaim that can't be created is told by record.Recorder.Unmade.
func writtenBy(action plan.Action) written {
	switch a := action.(type) {
	case plan.UpdateClaim:
		return written{"update", "NodeClaim", "", a.Claim, a.UID}
	case plan.DeleteClaim:
		return written{"delete", "NodeClaim", "", a.Claim, a.UID}
	case plan.UpdateNode:
		return written{"update", "Node", "", a.Node, a.UID}
	case plan.DeleteNode:
		return written{"delete", "Node", "", a.Node, a.UID}
	case plan.Bind:
		return written{"bind", "Pod", a.Namespace, a.Pod, a.UID}
	case plan.Tolerate:
		return written{"add a toleration to", "Pod", a.Namespace, a.Pod, a.UID}
	case plan.Evict:
		return written{"evict", "Pod", a.Namespace, a.Pod, a.UID}
	case plan.DeletePod:
		return written{"delete", "Pod", a.Namespace, a.Pod, a.UID}
	case plan.Restart:
		return written{"restart", "Deployment", a.Namespace, a.Deployment, a.UID}
	case plan.UpdatePool:
		return written{"update the status of", "NodePool", "", a.Pool, a.UID}
	case plan.UpdateNodeClass:
		return written{"update", a.Kind, "", a.Name, a.UID}
	case plan.UpdateNodeOverlay:
		return written{"update the status of", "NodeOverlay", "", a.Overlay, a.UID}
	case plan.UpdateBuffer:
		return written{"update the status of", "CapacityBuffer", a.Namespace, a.Buffer, a.UID}
	case plan.UpdateRequest:
		return written{"update the status of", "ProvisioningRequest", a.Namespace, a.Request, a.UID}
	case plan.UpdateQuota:
		return written{"update the status of", "CapacityQuota", "", a.Quota, a.UID}
	}
	return written{}
}

// denials remember which writes the API server refuses, by action or, for what no action writes, by object and verb.
type denials struct {
	events interface {
		Event(kind, namespace, name, uid string, warn bool, reason, message string)
	}

	mu      sync.Mutex
	at      map[model.ActionKey]time.Time // when it last refused a write for good
	sweepAt int                           // so many are kept before those are looked for that may be forgotten
}

// note tells the people who watch an object that the API server refuses what is written to it, which is repeated ever more rarely, and that
// it does not refuse that any more. An admission policy or webhook refuses it, or a right is missing.
func (d *denials) note(key model.ActionKey, w written, err error) {
	if w.kind == "" {
		return
	}
	now := time.Now()
	var eviction *plan.EvictionDenied
	refused := errors.Is(err, plan.ErrInvalid) || errors.As(err, &eviction)
	d.mu.Lock()
	_, was := d.at[key]
	switch {
	case refused:
		if d.at == nil {
			d.at = map[model.ActionKey]time.Time{}
		}
		if d.at[key] = now; len(d.at) > max(mostDenied, d.sweepAt) {
			maps.DeleteFunc(d.at, func(_ model.ActionKey, at time.Time) bool { return now.Sub(at) > 2*refusedPause })
			d.sweepAt = 2 * len(d.at)
		}
	case was && (err == nil || errors.Is(err, plan.ErrGone)):
		delete(d.at, key)
	}
	d.mu.Unlock()
	switch {
	case refused:
		d.events.Event(w.kind, w.namespace, w.name, w.uid, true, plan.EventWriteDenied, w.describe(err))
	case was && err == nil:
		d.events.Event(w.kind, w.namespace, w.name, w.uid, false, plan.EventWriteAccepted, plan.WriteAcceptedText(w.verb, w.kind))
	}
}

// toldCluster is a Cluster whose refused writes are told. Each write of the loop, of its parts and of what runs beside it goes through it.
type toldCluster struct {
	Cluster
	denials denials
}

func newToldCluster(c Cluster) *toldCluster {
	return &toldCluster{Cluster: c, denials: denials{events: c}}
}

// told carries out an action, and tells if it is refused.
func told[A plan.Action](ctx context.Context, t *toldCluster, a A, write func(context.Context, A) (uint64, error)) (uint64, error) {
	version, err := write(ctx, a)
	t.denials.note(a.Key(), writtenBy(a), err)
	return version, err
}

// DeleteClaim implements Cluster.
func (t *toldCluster) DeleteClaim(ctx context.Context, a plan.DeleteClaim) (uint64, error) {
	return told(ctx, t, a, t.Cluster.DeleteClaim)
}

// UpdateClaim implements Cluster.
func (t *toldCluster) UpdateClaim(ctx context.Context, a plan.UpdateClaim) (uint64, error) {
	return told(ctx, t, a, t.Cluster.UpdateClaim)
}

// UpdateNode implements Cluster.
func (t *toldCluster) UpdateNode(ctx context.Context, a plan.UpdateNode) (uint64, error) {
	return told(ctx, t, a, t.Cluster.UpdateNode)
}

// DeleteNode implements Cluster.
func (t *toldCluster) DeleteNode(ctx context.Context, a plan.DeleteNode) (uint64, error) {
	return told(ctx, t, a, t.Cluster.DeleteNode)
}

// Bind implements Cluster.
func (t *toldCluster) Bind(ctx context.Context, a plan.Bind) (uint64, error) {
	return told(ctx, t, a, t.Cluster.Bind)
}

// Tolerate implements Cluster.
func (t *toldCluster) Tolerate(ctx context.Context, a plan.Tolerate) (uint64, error) {
	return told(ctx, t, a, t.Cluster.Tolerate)
}

// Evict implements Cluster.
func (t *toldCluster) Evict(ctx context.Context, a plan.Evict) (uint64, error) {
	return told(ctx, t, a, t.Cluster.Evict)
}

// Restart implements Cluster.
func (t *toldCluster) Restart(ctx context.Context, a plan.Restart) (uint64, error) {
	return told(ctx, t, a, t.Cluster.Restart)
}

// DeletePod implements Cluster.
func (t *toldCluster) DeletePod(ctx context.Context, a plan.DeletePod) (uint64, error) {
	return told(ctx, t, a, t.Cluster.DeletePod)
}

// UpdatePool implements Cluster.
func (t *toldCluster) UpdatePool(ctx context.Context, a plan.UpdatePool) (uint64, error) {
	return told(ctx, t, a, t.Cluster.UpdatePool)
}

// UpdateNodeClass implements Cluster.
func (t *toldCluster) UpdateNodeClass(ctx context.Context, a plan.UpdateNodeClass) (uint64, error) {
	return told(ctx, t, a, t.Cluster.UpdateNodeClass)
}

// UpdateNodeOverlay implements Cluster.
func (t *toldCluster) UpdateNodeOverlay(ctx context.Context, a plan.UpdateNodeOverlay) (uint64, error) {
	return told(ctx, t, a, t.Cluster.UpdateNodeOverlay)
}

// UpdateBuffer implements Cluster.
func (t *toldCluster) UpdateBuffer(ctx context.Context, a plan.UpdateBuffer) (uint64, error) {
	return told(ctx, t, a, t.Cluster.UpdateBuffer)
}

// UpdateRequest implements Cluster.
func (t *toldCluster) UpdateRequest(ctx context.Context, a plan.UpdateRequest) (uint64, error) {
	return told(ctx, t, a, t.Cluster.UpdateRequest)
}

// UpdateQuota implements Cluster.
func (t *toldCluster) UpdateQuota(ctx context.Context, a plan.UpdateQuota) (uint64, error) {
	return told(ctx, t, a, t.Cluster.UpdateQuota)
}

// WriteTold tells of a write that is none of the loop's actions: that it is refused, and that it is let through again. It may be called from anywhere.
func (c *Controller) WriteTold(verb, kind, namespace, name, uid string, err error) {
	if t, ok := c.Cluster.(*toldCluster); ok { // in shadow mode nothing is written
		w := written{verb, kind, namespace, name, uid}
		t.denials.note(model.ActionKey(strings.Join([]string{verb, kind, namespace, name, uid}, "/")), w, err)
	}
}

// describe returns the text of the event that tells of a refusal, in the words of who refused it.
func (w written) describe(err error) string {
	said := refusalText(w.name, err)
	for _, prefix := range []string{plan.ErrInvalid.Error() + ": ", plan.ErrBlocked.Error() + ": "} {
		said = strings.TrimPrefix(said, prefix)
	}
	return plan.WriteDeniedText(w.verb, w.kind) + ": " + said
}
