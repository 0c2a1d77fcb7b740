// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"maps"
	"strings"
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

// noteDenial tells the people who watch an object that the API server refuses what is written to it, which is repeated ever more rarely, and that
// it does not refuse that any more. An admission policy or webhook refuses it, or a right is missing.
func (c *Controller) noteDenial(now time.Time, a plan.Action, err error) {
	w, key := writtenBy(a), a.Key()
	if w.kind == "" {
		return
	}
	_, was := c.denied[key]
	var eviction *plan.EvictionDenied
	switch {
	case errors.Is(err, plan.ErrInvalid) || errors.As(err, &eviction):
		if c.denied[key] = now; len(c.denied) > mostDenied {
			maps.DeleteFunc(c.denied, func(_ model.ActionKey, at time.Time) bool { return now.Sub(at) > 2*refusedPause })
		}
		c.Event(w.kind, w.namespace, w.name, w.uid, true, plan.EventWriteDenied, w.describe(err))
	case was && (err == nil || errors.Is(err, plan.ErrGone)):
		delete(c.denied, key)
		if err == nil {
			c.Event(w.kind, w.namespace, w.name, w.uid, false, plan.EventWriteAccepted, "The API server let Dovetail "+w.verb+" this "+w.kind)
		}
	}
}

// describe returns the text of the event that tells of a refusal, in the words of who refused it.
func (w written) describe(err error) string {
	said := refusalText(w.name, err)
	for _, prefix := range []string{plan.ErrInvalid.Error() + ": ", plan.ErrBlocked.Error() + ": "} {
		said = strings.TrimPrefix(said, prefix)
	}
	return "The API server does not let Dovetail " + w.verb + " this " + w.kind + ": " + said
}
