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

// written is a kind of write to an object of the API server. Writes of one kind are refused and let through together: another one that is let through says nothing
// about this one. An empty kind: nothing is written, or what comes of it is told elsewhere.
type written struct{ verb, kind, namespace, name, uid string }

// writtenBy returns what an action writes. A NodeClaim that can't be created is told by record.Recorder.Unmade.
func writtenBy(action plan.Action) written {
	switch a := action.(type) {
	case plan.UpdateClaim:
		return written{updateOf(partsOfClaim(a)), "NodeClaim", "", a.Claim, a.UID}
	case plan.DeleteClaim:
		return written{"delete", "NodeClaim", "", a.Claim, a.UID}
	case plan.UpdateNode:
		return written{updateOf(partsOfNode(a)), "Node", "", a.Node, a.UID}
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
		return written{updateOf([]part{{"annotations", a.Hash != ""}, {"status", true}}), "NodePool", "", a.Pool, a.UID}
	case plan.UpdateNodeClass:
		return written{updateOf([]part{{"finalizers", a.AddFinalizer || a.RemoveFinalizer}, {"status", len(a.Conditions)+len(a.Status) > 0}}), a.Kind, "", a.Name, a.UID}
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

// part is a part of an object that admission or a right may protect, and whether an action writes it.
type part struct {
	name    string
	written bool
}

func partsOfClaim(a plan.UpdateClaim) []part {
	return []part{{"slots", a.SetSlots}, {"annotations", len(a.Annotations) > 0}, {"labels", len(a.Labels) > 0}, {"owner", a.OwnerPool != ""},
		{"finalizers", a.AddFinalizer || a.RemoveFinalizer},
		{"status", len(a.Conditions) > 0 || a.NodeName != "" || a.ProviderID != "" || a.ImageID != "" || !a.LastPodEvent.IsZero() || a.Capacity != nil || a.Allocatable != nil}}
}

func partsOfNode(a plan.UpdateNode) []part {
	return []part{{"annotations", len(a.Annotations) > 0}, {"labels", len(a.Labels) > 0}, {"owner", a.OwnerClaim != ""}, {"finalizers", a.AddFinalizer || a.RemoveFinalizer},
		{"taints", len(a.AddTaints)+len(a.RemoveTaints) > 0}, {"cordon", a.DaemonsOnly || a.Uncordon}}
}

// updateOf is the verb of an update of these parts.
func updateOf(parts []part) string {
	var names []string
	for _, p := range parts {
		if p.written {
			names = append(names, p.name)
		}
	}
	switch last := len(names) - 1; last {
	case -1:
		return "update"
	case 0:
		return "update the " + names[0] + " of"
	default:
		return "update the " + strings.Join(names[:last], ", ") + " and " + names[last] + " of"
	}
}

// denials remember which writes the API server refuses.
type denials struct {
	events interface {
		WriteReported(kind, namespace, name, uid string, w plan.WriteReport)
	}

	mu      sync.Mutex
	at      map[written]time.Time // when it last refused a write for good
	sweepAt int                   // so many are kept before those are looked for that may be forgotten

	crowds crowds
}

// isRefused reports whether an admission policy or webhook has refused a write, or a right is missing.
func isRefused(err error) bool {
	var eviction *plan.EvictionDenied
	return errors.Is(err, plan.ErrInvalid) || errors.As(err, &eviction)
}

// note tells the people who watch an object that the API server refuses what is written to it, which is repeated ever more rarely, and so many other objects that are not
// told; and that it does not refuse that any more.
func (d *denials) note(w written, err error, others int) {
	if w.kind == "" {
		return
	}
	now, refused := time.Now(), isRefused(err)
	d.mu.Lock()
	_, was := d.at[w]
	switch {
	case refused:
		if d.at == nil {
			d.at = map[written]time.Time{}
		}
		if d.at[w] = now; len(d.at) > max(mostDenied, d.sweepAt) {
			maps.DeleteFunc(d.at, func(_ written, at time.Time) bool { return now.Sub(at) > 2*refusedPause })
			d.sweepAt = 2 * len(d.at)
		}
	case was && (err == nil || errors.Is(err, plan.ErrGone)):
		delete(d.at, w)
	}
	d.mu.Unlock()
	what := w.verb + " this " + w.kind
	switch {
	case refused:
		d.events.WriteReported(w.kind, w.namespace, w.name, w.uid, plan.WriteReport{Write: what, Others: others, Refusal: w.refusal(err)})
	case was && err == nil:
		d.events.WriteReported(w.kind, w.namespace, w.name, w.uid, plan.WriteReport{Write: what})
	}
}

// toldCluster is a Cluster whose refused writes are told. Each write of the loop, of its parts and of what runs beside it goes through it, but for what other packages
// write and tell by Controller.WritesTold. That a NodeClaim can't be created is told by record.Recorder.Unmade.
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
	t.denials.note(writtenBy(a), err, 0)
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

// refusal returns why a write is refused, in the words of who refuses it.
func (w written) refusal(err error) string {
	said := err.Error()
	if w.namespace != "" {
		said = afterName(said, model.PodKey(w.namespace, w.name))
	}
	said = afterName(said, w.name)
	for _, prefix := range []string{plan.ErrInvalid.Error() + ": ", plan.ErrBlocked.Error() + ": "} {
		said = strings.TrimPrefix(said, prefix)
	}
	return said
}
