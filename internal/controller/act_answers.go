// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/record"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// actionAnswers takes the answers to calls in Kubernetes: what State is to show from then on, and what people are told.
// Only the loop uses it.
type actionAnswers struct {
	*edges
	recorder *record.Recorder
}

// answerUpdateClaim takes the answer to a write into a claim: it settles which slots the claim is shown with.
func (aa *actionAnswers) answerUpdateClaim(a plan.UpdateClaim) func(*state.State, error) {
	before := aa.state.FindClaim(a.Claim)
	return func(s *state.State, err error) {
		if r, ok := a.Conditions[lifecycle.Rebooting]; ok && err == nil && before != nil {
			aa.tellReboot(before, r, a.Why)
		}
		switch {
		case !a.SetSlots:
		case err == nil:
			s.Overlay.ConfirmSlots(a.Claim)
		case hasDoneNothing(err):
			s.Overlay.DropSlots(a.Claim)
		default:
			s.Overlay.DoubtSlots(a.Claim)
		}
		if err != nil {
			aa.recorder.Failure("update", "nodeclaim/"+a.Claim, a.Why, err)
		}
	}
}

// tellReboot tells what a claim's condition Rebooting, just written, says of its node. before is the claim as it was.
func (aa *actionAnswers) tellReboot(before *model.Claim, now model.Condition, why plan.Reason) {
	switch {
	case now.Reason == lifecycle.RebootRequested && !lifecycle.IsRebooting(before):
		aa.metrics.CountBegunReboot(before, why)
		aa.log.Info("rebooting a broken node", "nodeclaim", before.Name, "node", before.NodeName, "message", now.Message)
	case now.Reason == lifecycle.RebootSucceeded && lifecycle.IsRebooting(before):
		aa.metrics.CountReboot(before, true, time.Now())
		aa.cluster.Event("NodeClaim", "", before.Name, before.UID, false, "RebootObserved", now.Message)
	case now.Reason == lifecycle.RebootFailed && lifecycle.IsRebooting(before):
		aa.metrics.CountReboot(before, false, time.Now())
		aa.cluster.Event("NodeClaim", "", before.Name, before.UID, true, "RebootFailed", now.Message)
		aa.log.Warn("reboot of a broken node failed", "nodeclaim", before.Name, "node", before.NodeName, "message", now.Message)
	}
}

// answerBind takes the answer to a binding. A pod that is bound is shown so by the watch; one that is not is pending
// again, and not bound by us any more where the API server does not accept it.
func (aa *actionAnswers) answerBind(a plan.Bind) func(*state.State, error) {
	pod := model.PodKey(a.Namespace, a.Pod)
	return func(s *state.State, err error) {
		aa.metrics.CountBinding(err)
		if err == nil {
			return // it is bound, and the watch will show where
		}
		why := a.Why
		if errors.Is(err, plan.ErrInvalid) { // kube-scheduler may still be let to
			s.Overlay.RefuseBinding(pod, a.UID)
			why = plan.Reason{Code: plan.BindingRefused, Pool: a.Why.Pool, Subject: plan.ObjectOf("pod", pod), Detail: plan.OfSaid{Said: plan.Words(err.Error())}}
		}
		if hasDoneNothing(err) {
			s.Overlay.DropBinding(pod, a.UID)
		}
		aa.recorder.Failure("bind", "pod/"+pod, why, err)
	}
}

// answerTolerate takes the answer to a toleration. A pod that may not be given one keeps no slot; one that may have got it without an
// answer keeps its slot, and the toleration is written again.
func (aa *actionAnswers) answerTolerate(a plan.Tolerate) func(*state.State, error) {
	pod := model.PodKey(a.Namespace, a.Pod)
	return func(s *state.State, err error) {
		if err != nil {
			why := a.Why
			if hasDoneNothing(err) {
				s.Overlay.DropToleration(pod, a.UID, a.Claim)
			}
			if errors.Is(err, plan.ErrInvalid) { // its room is kept for nobody then, and waits for nobody
				s.Overlay.RefuseToleration(pod, a.UID)
				why = plan.Reason{Code: plan.PatchRefused, Pool: a.Why.Pool, Subject: plan.Object(a.Why.Subject)}
			}
			aa.recorder.Failure("tolerate", "pod/"+pod, why, err)
		}
	}
}

// answerEvict takes the answer to an eviction.
func (aa *actionAnswers) answerEvict(a plan.Evict) func(*state.State, error) {
	return func(_ *state.State, err error) {
		switch {
		case err == nil:
			aa.cluster.Event("Pod", a.Namespace, a.Pod, a.UID, false, "Evicted", "Evicted from node "+a.Node+", which is being drained")
			aa.recorder.Evicted(aa.state.FindClaimByNode(a.Node), aa.drainCause(a.Node), a)
		case errors.Is(err, plan.ErrBlocked):
			aa.cluster.Event("Node", "", a.Node, "", true, "FailedDraining", err.Error())
			aa.recorder.BlockedDrain(time.Now(), a, err)
		}
		aa.metrics.CountEviction(aa.state.FindClaimByNode(a.Node), aa.drainCause(a.Node), err)
	}
}

// answerRestart takes the answer to a rollout that was asked of a Deployment.
func (aa *actionAnswers) answerRestart(a plan.Restart) func(*state.State, error) {
	return func(_ *state.State, err error) {
		if err != nil {
			aa.recorder.Failure("restart", "pod/"+model.PodKey(a.Namespace, a.Pod), a.Why, err)
			return
		}
		aa.cluster.Event("Pod", a.Namespace, a.Pod, "", false, "Restarted", "Deployment "+a.Deployment+" is creating a replacement pod; node "+a.Node+" is drained when the replacement is Ready")
	}
}

// drainCause is why a node is drained.
func (aa *actionAnswers) drainCause(node string) plan.Code {
	switch cl := aa.state.FindClaimByNode(node); {
	case cl == nil:
	case cl.Deleting.IsZero() && lifecycle.IsRebooting(cl):
		return plan.Unhealthy
	case cl.Is(lifecycle.Disrupted):
		return plan.Code(cl.Conditions[lifecycle.Disrupted].Reason)
	}
	return plan.Deleted
}
