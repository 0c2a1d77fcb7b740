// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Begin records that an action is about to be carried out. The action is in flight until its effect is observed, and until the
// deadline at the latest. If the next decision would otherwise repeat it, the Snapshot shows its changes as made.
func (s *State) Begin(action plan.Action, now, until time.Time) {
	s.InFlight.BeginAction(action.Key(), objectOf(action), until)
	s.InFlight.compareWithRecent(action, now)
	switch a := action.(type) {
	case plan.CreateClaim:
		s.Overlay.AddProvisionalClaim(a.Provisional(now))
	case plan.UpdateClaim:
		if a.SetSlots {
			s.Overlay.AssumeSlots(a.Claim, a.Slots)
		}
	case plan.Bind:
		s.Overlay.AssumeBinding(model.PodKey(a.Namespace, a.Pod), a.UID, a.Node)
	case plan.Tolerate:
		s.Overlay.AssumeToleration(model.PodKey(a.Namespace, a.Pod), a.UID, a.Claim)
	}
}

// objectOf returns the object whose resource version shows the effect of an action; empty: none does.
func objectOf(action plan.Action) Object {
	switch a := action.(type) {
	case plan.LaunchClaim:
		return ClaimObject(a.Claim)
	case plan.UpdateClaim:
		return ClaimObject(a.Claim)
	case plan.Reboot:
		return ClaimObject(a.Claim)
	case plan.UpdateNode:
		return NodeObject(a.Node)
	case plan.DeleteNode:
		return NodeObject(a.Node)
	case plan.UpdateNodeOverlay:
		return NodeOverlayObject(a.Overlay)
	case plan.UpdateBuffer:
		return BufferObject(a.Namespace + "/" + a.Buffer)
	case plan.UpdateRequest:
		return RequestObject(a.Namespace + "/" + a.Request)
	case plan.UpdateQuota:
		return LimitObject("capacityquota/" + a.Quota)
	case plan.UpdateNodeClass:
		return NodeClassObject(a.Group, a.Kind, a.Name)
	}
	return ""
}
