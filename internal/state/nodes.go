// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// nodeTable is the nodes by name, with the pods bound to them and the volumes attached to them, which may be seen
// before their node is.
type nodeTable struct {
	byName      map[string]*nodeEntry
	byProvider  map[string][]string              // names, by provider id
	waitingPods map[string]map[string]*model.Pod // by node name and pod key: pods bound to a node that is not there
	attachments map[string]attachment            // by name of the VolumeAttachment
	changed     map[string]bool                  // names of nodes to be built anew, since nodes were last listed
	pools       *Pools                           // they say which pods are expendable
	listed      []*model.Node
}

// nodeEntry is a node and what is known of it beyond its object.
type nodeEntry struct {
	object       *model.Node                 // as kube gave it: no Pods, no Used
	pods         map[string]*model.Pod       // by key
	volumes      map[string]model.Attachment // by name
	lastPodEvent time.Time                   // when a workload's pod that is not expendable last came or left
	built        *model.Node                 // what Snapshots show; nil: to be built anew
}

// attachment is a volume attached to a node.
type attachment struct {
	model.Attachment
	node string
}

func newNodeTable() *nodeTable {
	return &nodeTable{
		byName: map[string]*nodeEntry{}, byProvider: map[string][]string{}, waitingPods: map[string]map[string]*model.Pod{},
		attachments: map[string]attachment{}, changed: map[string]bool{},
	}
}

// find returns a node as it was read last; nil: there is none.
func (t *nodeTable) find(name string) *model.Node {
	if e := t.byName[name]; e != nil {
		return e.object
	}
	return nil
}

func (t *nodeTable) setNode(n *model.Node, now time.Time) {
	e := t.byName[n.Name]
	if e == nil {
		e = &nodeEntry{pods: map[string]*model.Pod{}}
		t.byName[n.Name] = e
		for key, p := range t.waitingPods[n.Name] {
			e.pods[key] = p
			t.notePodBound(e, p, now)
		}
		delete(t.waitingPods, n.Name)
		for _, a := range t.attachments { // nodes come seldom
			if a.node == n.Name {
				e.attachVolume(a.Attachment)
			}
		}
	}
	if old := e.object; old == nil || old.ProviderID != n.ProviderID {
		if old != nil {
			t.removeProviderID(old)
		}
		if n.ProviderID != "" {
			t.byProvider[n.ProviderID] = append(t.byProvider[n.ProviderID], n.Name)
		}
	}
	e.object = n
	t.markChanged(e)
}

// deleteNode reports whether the node was there. Its pods stay known, as pods of a node that is not there.
func (t *nodeTable) deleteNode(name string) bool {
	e := t.byName[name]
	if e == nil {
		return false
	}
	if len(e.pods) > 0 {
		t.waitingPods[name] = e.pods
	}
	delete(t.byName, name)
	t.removeProviderID(e.object)
	t.changed[name] = true
	return true
}

// removeProviderID forgets which provider id a node has.
func (t *nodeTable) removeProviderID(n *model.Node) {
	if n.ProviderID == "" {
		return
	}
	names := slices.DeleteFunc(t.byProvider[n.ProviderID], func(name string) bool { return name == n.Name })
	if t.byProvider[n.ProviderID] = names; len(names) == 0 {
		delete(t.byProvider, n.ProviderID)
	}
}

func (t *nodeTable) setAttachment(a model.Attachment, node string) {
	if old, ok := t.attachments[a.Name]; ok {
		if old.node == node && old.Attachment == a {
			return
		}
		t.deleteAttachment(a.Name)
	}
	t.attachments[a.Name] = attachment{a, node}
	if e := t.byName[node]; e != nil {
		e.attachVolume(a)
		t.markChanged(e)
	}
}

func (t *nodeTable) deleteAttachment(name string) {
	a, ok := t.attachments[name]
	if !ok {
		return
	}
	delete(t.attachments, name)
	if e := t.byName[a.node]; e != nil {
		delete(e.volumes, name)
		t.markChanged(e)
	}
}

// addPod takes in a pod that was not on its node before.
func (t *nodeTable) addPod(key string, p *model.Pod, now time.Time) {
	if e := t.byName[p.Node]; e != nil {
		e.pods[key] = p
		t.markChanged(e)
		t.notePodBound(e, p, now)
		return
	}
	waiting := t.waitingPods[p.Node]
	if waiting == nil {
		waiting = map[string]*model.Pod{}
		t.waitingPods[p.Node] = waiting
	}
	waiting[key] = p
}

// changePod takes in a change of a pod on its node. Where no reader of a Snapshot could tell, the node is not built
// anew.
func (t *nodeTable) changePod(key string, old, p *model.Pod, now time.Time) {
	if waiting := t.waitingPods[p.Node]; waiting != nil {
		waiting[key] = p
	}
	e := t.byName[p.Node]
	if e == nil {
		return
	}
	e.pods[key] = p
	if looksTheSame(old, p) {
		return
	}
	t.markChanged(e)
	if old.Deleting.IsZero() && !p.Deleting.IsZero() {
		t.notePodLeft(e, p, now)
	}
}

// replacePod puts a pod in the place of what was known of it, and leaves the node as it was built.
func (t *nodeTable) replacePod(key string, p *model.Pod) {
	if e := t.byName[p.Node]; e != nil && e.pods[key] != nil {
		e.pods[key] = p
	}
}

// removePod reports whether the pod was on a node that is there.
func (t *nodeTable) removePod(key string, p *model.Pod, now time.Time) bool {
	left := false
	if e := t.byName[p.Node]; e != nil {
		if _, left = e.pods[key]; left {
			delete(e.pods, key)
			t.markChanged(e)
			t.notePodLeft(e, p, now)
		}
	}
	if waiting := t.waitingPods[p.Node]; waiting != nil {
		delete(waiting, key)
		if len(waiting) == 0 {
			delete(t.waitingPods, p.Node)
		}
	}
	return left
}

// looksTheSame reports whether two states of a pod that stays on its node are the same in all that a decision looks at.
func looksTheSame(a, b *model.Pod) bool {
	return a.Unschedulable.Equal(b.Unschedulable) && a.Refusal == b.Refusal && a.Deleting.Equal(b.Deleting) && a.GracePeriod == b.GracePeriod && a.Class == b.Class &&
		a.Ready == b.Ready && a.Starting == b.Starting && a.DoNotDisrupt == b.DoNotDisrupt && a.DoNotEvict == b.DoNotEvict && a.SafeToEvict == b.SafeToEvict && a.ByVPA == b.ByVPA && a.LocalVolume == b.LocalVolume && a.DaemonEviction == b.DaemonEviction && a.ScaleUpDelay == b.ScaleUpDelay &&
		a.DisruptionCost == b.DisruptionCost && a.DeletionCost == b.DeletionCost && a.OwnDeletionCost == b.OwnDeletionCost &&
		a.RestartCost == b.RestartCost && a.Gang == b.Gang && a.Consumes == b.Consumes && a.Failed == b.Failed && slices.Equal(a.Finalizers, b.Finalizers) && a.ReadySince.Equal(b.ReadySince) && a.Bound.Equal(b.Bound) && a.Owner == b.Owner &&
		a.Deployment == b.Deployment && a.RestartedAt == b.RestartedAt && a.Surge == b.Surge && a.ReservedFor == b.ReservedFor &&
		slices.Equal(a.Reservations, b.Reservations)
}

// markChanged has a node built anew.
func (t *nodeTable) markChanged(e *nodeEntry) {
	e.built = nil
	t.changed[e.object.Name] = true
}

// markChangedByProviderID has the nodes of a provider id built anew, as another claim owns them now.
func (t *nodeTable) markChangedByProviderID(providerID string) {
	for _, name := range t.byProvider[providerID] {
		t.markChanged(t.byName[name])
	}
}

// listNodes returns the nodes by name, each with its claim: claimOf gives its name by provider id, empty where there is
// none. The list must not be changed.
func (t *nodeTable) listNodes(claimOf func(providerID string) string) []*model.Node {
	if len(t.changed) > 0 {
		t.listed = patched(t.listed, t.changed, func(n *model.Node) string { return n.Name }, func(name string) *model.Node {
			e := t.byName[name]
			if e == nil {
				return nil
			}
			if e.built == nil {
				e.built = e.buildNode(claimOf)
			}
			return e.built
		})
		clear(t.changed)
	}
	return t.listed
}

// buildNode makes the node that Snapshots show.
func (e *nodeEntry) buildNode(claimOf func(providerID string) string) *model.Node {
	n := *e.object
	n.Claim = ""
	if n.ProviderID != "" {
		n.Claim = claimOf(n.ProviderID)
	}
	n.Pods = sorted(e.pods, comparePods)
	n.LastPodEvent = e.lastPodEvent
	n.Attached = nil
	if len(e.volumes) > 0 {
		n.Attached = sorted(e.volumes, func(a, b model.Attachment) int { return strings.Compare(a.Name, b.Name) })
	}
	n.Used, n.NoAnti = nil, true
	for _, p := range n.Pods {
		n.Used = n.Used.AddInto(p.Class.Requests, 1)
		n.NoAnti = n.NoAnti && len(p.Class.AntiAffinity) == 0
	}
	return &n
}

// attachVolume puts a volume on the node.
func (e *nodeEntry) attachVolume(a model.Attachment) {
	if e.volumes == nil {
		e.volumes = map[string]model.Attachment{}
	}
	e.volumes[a.Name], e.built = a, nil
}

// notePodBound notes when a workload's pod was bound to the node: when it was, not when that was heard of, or a
// controller that starts anew would take every node for busy.
func (t *nodeTable) notePodBound(e *nodeEntry, p *model.Pod, now time.Time) {
	at := p.Bound
	if at.IsZero() {
		at = now
	}
	if at.After(e.lastPodEvent) && t.isPodEvent(p) {
		e.lastPodEvent = at
	}
}

// notePodLeft notes that a workload's pod left the node now.
func (t *nodeTable) notePodLeft(e *nodeEntry, p *model.Pod, now time.Time) {
	if t.isPodEvent(p) {
		e.lastPodEvent = now
	}
}

// isPodEvent reports whether it counts for the node that a pod comes or leaves: it is a workload's, and not expendable.
func (t *nodeTable) isPodEvent(p *model.Pod) bool {
	return p.IsWorkload() && !model.CutoffOf(t.pools.ListPools()).IsExpendable(p)
}

// comparePods orders pods by namespace and name.
func comparePods(a, b *model.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
