// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Overlay contains changes that were requested from the API server and not observed yet. Pods and NodeClaims are shown with these
// changes from before the call until the watch shows the effect, or until the call is known to have failed. Otherwise the same
// action, or another one for the same pods, would be decided again. It also records requests for a pod that the API server refused,
// until the pod is gone.
type Overlay struct {
	tolerations map[string]string // by pod uid: the claim whose toleration is being written
	bindings    map[string]string // by pod uid: the node that it is being bound to
	intolerant  map[string]bool   // by pod uid: a toleration was refused
	unbindable  map[string]bool   // by pod uid: a binding was refused

	slots       map[string]assumedSlots    // by claim name
	annotations map[string]annotation      // by claim uid
	provisional map[model.ActionKey]string // name of a claim that is being created

	pods     *podTable
	claims   *claimTable
	inFlight *InFlight
	counts   *ChangeCounts
	readPod  func(*model.Pod) // takes a pod in as if it had just been read
}

// annotation is one of a claim that is being written.
type annotation struct{ key, value string }

// showOn returns a claim with the annotation.
func (n annotation) showOn(c *model.Claim) *model.Claim {
	d := *c
	if d.Annotations = maps.Clone(c.Annotations); d.Annotations == nil {
		d.Annotations = model.Labels{}
	}
	d.Annotations[n.key] = n.value
	return &d
}

// assumedSlots are the slots that a claim is shown with, and those that it was last read with.
type assumedSlots struct {
	shown, read []model.Slot
	unsure      bool // it is not known what was written: no answer came of some call, and none that came later has written these
	refused     bool // the call after that was refused
}

func newOverlay(pods *podTable, claims *claimTable, inFlight *InFlight, counts *ChangeCounts, readPod func(*model.Pod)) *Overlay {
	return &Overlay{
		tolerations: map[string]string{}, bindings: map[string]string{}, intolerant: map[string]bool{}, unbindable: map[string]bool{},
		slots: map[string]assumedSlots{}, annotations: map[string]annotation{}, provisional: map[model.ActionKey]string{},
		pods: pods, claims: claims, inFlight: inFlight, counts: counts, readPod: readPod,
	}
}

// findPod returns the pod of a key and uid, nil if there is none.
func (o *Overlay) findPod(key, uid string) *model.Pod {
	if p := o.pods.byKey[key]; p != nil && p.UID == uid {
		return p
	}
	return nil
}

// AssumeToleration shows a pod with a toleration for the node of a NodeClaim, which is being written.
func (o *Overlay) AssumeToleration(key, uid, claim string) {
	p := o.findPod(key, uid)
	if p == nil {
		return
	}
	o.tolerations[uid] = claim
	o.showToleration(p, claim)
}

// DropToleration removes an assumed toleration from a pod, after the call is known to have failed. It keeps a toleration that the
// watch has shown in the meantime.
func (o *Overlay) DropToleration(key, uid, claim string) {
	p := o.findPod(key, uid)
	if p == nil || o.tolerations[uid] != claim {
		return
	}
	delete(o.tolerations, uid)
	o.showToleration(p, "")
}

func (o *Overlay) showToleration(p *model.Pod, claim string) {
	q := *p
	q.Tolerating = claim
	o.pods.replacePod(&q)
}

// RefuseToleration marks a pod whose toleration the API server refused, until the pod is gone.
func (o *Overlay) RefuseToleration(key, uid string) {
	if p := o.findPod(key, uid); p != nil {
		o.intolerant[uid] = true
		o.readPod(p)
	}
}

// AssumeBinding shows a pod as being bound to a node.
func (o *Overlay) AssumeBinding(key, uid, node string) {
	if p := o.findPod(key, uid); p != nil && p.Node == "" {
		o.bindings[uid] = node
		o.showBinding(p, node)
	}
}

// DropBinding removes an assumed binding, after the call is known to have failed.
func (o *Overlay) DropBinding(key, uid string) {
	if p := o.findPod(key, uid); p != nil && p.Node == "" {
		delete(o.bindings, uid)
		o.showBinding(p, "")
	}
}

func (o *Overlay) showBinding(p *model.Pod, node string) {
	q := *p
	q.Binding = node
	o.pods.replacePod(&q)
}

// RefuseBinding marks a pod whose binding by Dovetail the API server refused, until the pod is gone.
func (o *Overlay) RefuseBinding(key, uid string) {
	if p := o.findPod(key, uid); p != nil {
		o.unbindable[uid] = true
		o.readPod(p)
	}
}

// coverPod lays the overlay over a pod that was read, and forgets of it what the pod shows by itself.
func (o *Overlay) coverPod(p *model.Pod) {
	p.Unreservable, p.Unbindable = o.intolerant[p.UID], o.unbindable[p.UID]
	if p.Binding = o.bindings[p.UID]; p.Node != "" && p.Binding != "" {
		p.Binding = ""
		delete(o.bindings, p.UID)
	}
	if p.Tolerating = o.tolerations[p.UID]; slices.Contains(p.Reservations, p.Tolerating) {
		p.Tolerating = ""
		delete(o.tolerations, p.UID)
	}
}

// endSeenActions ends the actions on a pod whose effect it shows by itself.
func (o *Overlay) endSeenActions(p *model.Pod) {
	for _, claim := range p.Reservations {
		o.inFlight.EndAction(tolerateKey(p.UID, claim))
	}
	if p.Node != "" {
		o.inFlight.EndAction(bindKey(p.UID))
	}
	if !p.Deleting.IsZero() {
		o.inFlight.EndAction(evictKey(p.UID))
	}
}

// forgetPod forgets a pod that is gone, and ends the actions on it.
func (o *Overlay) forgetPod(p *model.Pod) {
	if claim, ok := o.tolerations[p.UID]; ok {
		delete(o.tolerations, p.UID)
		o.inFlight.EndAction(tolerateKey(p.UID, claim))
	}
	delete(o.bindings, p.UID)
	delete(o.intolerant, p.UID)
	delete(o.unbindable, p.UID)
	o.inFlight.EndAction(bindKey(p.UID))
	o.inFlight.EndAction(evictKey(p.UID))
	o.inFlight.EndAction(deletePodKey(p.UID))
	for _, claim := range p.Reservations {
		o.inFlight.EndAction(tolerateKey(p.UID, claim))
	}
}
