// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package state turns a stream of changes into immutable Snapshots of the cluster.
//
// A State has one owner, which alone calls its methods; it is not safe for concurrent use and needs not be. Cost follows what
// changed: a pod that moves makes one new Node value, and a Snapshot copies only the lists that changed since the last one. It
// interns pod classes, so that equal classes are one pointer, and the names of resources.
//
// It also remembers what is in flight (contract 4): an action that was begun hides its own repetition from decide until its
// answer has come back through the watch, or, where it failed, until it may be tried again.
//
// It never calls anything and reads no clock. Start reading at State, then Snapshot.
package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Change is one change of the world, as kube and the providers hand them over.
type Change func(*State)

// State is the cluster as last seen.
type State struct {
	resources *ResourceTable
	classes   map[string]*model.Class

	pods        map[string]*model.Pod            // by namespace/name
	nodes       map[string]*nodeEntry            // by name
	nodesOf     map[string][]string              // their names, by provider id
	attached    map[string]attachment            // by name of the VolumeAttachment
	orphans     map[string]map[string]*model.Pod // pods bound to a node not seen yet, by node name
	claims      map[string]*model.Claim
	byProvider  map[string]string // provider id to claim name
	pools       map[string]*model.NodePool
	daemons     map[string]*model.Daemon
	pdbs        map[string]*model.PDB
	deployments map[string]*model.Deployment // nil: nobody looks
	namespaces  map[string]model.Labels
	nodeClasses map[string]*NodeClass
	instances   []*model.Instance
	instAt      time.Time
	ended       map[string]ended // by provider id: machines that the cloud has said are on their way out

	drift    map[string]string              // by claim uid, as last asked; never changed
	failures map[string]model.LaunchFailure // by claim uid
	assumed  map[string]string              // by pod uid: the claim whose toleration is being written, shown though not read back yet
	refused  map[string]bool                // by pod uid: the API server refused its toleration
	binding  map[string]string              // by pod uid: the node that it is being bound to, shown until the watch shows it there
	unbound  map[string]bool                // by pod uid: the API server refused to have it bound by us
	slots    map[string]assumedSlots        // by claim name: slots being written, shown though not read back yet
	notes    map[string]annotation          // by claim uid: an annotation to be written, shown though not read back yet

	versions map[string]uint64  // resource version last seen, by object
	flights  map[string]*flight // by action key

	made                                                  map[string]*made // by uid of the ReplicaSet
	short                                                 map[string]bool  // uids of those that have fewer pods than they are to have
	quotas                                                map[string]bool  // namespace/name
	makingDirty                                           bool
	missing                                               int            // pods that ReplicaSets are still to make
	limits                                                map[string]int // ResourceQuotas by namespace
	pending                                               map[string]*model.Pod
	verdicts                                              map[*model.Class]int // pending pods that kube-scheduler has refused
	nodesDirty, claimsDirty                               map[string]bool      // names
	poolsDirty, daemonsDirty, pdbsDirty, deploymentsDirty bool
	pendingDirty, namespacesDirty, flightsDirty           bool
	last                                                  model.Snapshot

	now time.Time
	gen Generation
}

// Generation counts the changes of a kind since the start, so that a reader can tell whether anything it depends on is new.
type Generation struct {
	Demand     uint64 // pods that wait for a node came, or kube-scheduler refused the first of a class
	Unforeseen uint64 // of these, all but pods that their ReplicaSet was known to be making when others like them had been refused
	Supply     uint64 // nodes, claims, pools, offerings, DaemonSets changed
	Release    uint64 // pods left or ended, so that room may have become free
}

// Generation returns the counters.
func (s *State) Generation() Generation { return s.gen }

// Tick sets the instant that the following changes are taken to happen at.
func (s *State) Tick(now time.Time) { s.now = now }

type nodeEntry struct {
	object  *model.Node                 // as kube gave it: no Pods, no Used
	volumes map[string]model.Attachment // by name
	event   time.Time                   // when a workload's pod last came or left
	pods    map[string]*model.Pod
	built   *model.Node // what Snapshots show; nil: to be made anew
}

// flight is an action begun.
type flight struct {
	object   string // what it changes, as in versions
	version  uint64 // the version to wait for, once answered
	answered bool
	until    time.Time // forgotten then, whatever happened
	failures int
}

// New makes an empty State.
func New() *State {
	return &State{
		resources: NewResourceTable(), classes: map[string]*model.Class{},
		pods: map[string]*model.Pod{}, nodes: map[string]*nodeEntry{}, orphans: map[string]map[string]*model.Pod{}, attached: map[string]attachment{},
		claims: map[string]*model.Claim{}, byProvider: map[string]string{}, pools: map[string]*model.NodePool{},
		daemons: map[string]*model.Daemon{}, pdbs: map[string]*model.PDB{}, namespaces: map[string]model.Labels{},
		ended: map[string]ended{}, failures: map[string]model.LaunchFailure{}, slots: map[string]assumedSlots{}, notes: map[string]annotation{}, assumed: map[string]string{}, refused: map[string]bool{}, binding: map[string]string{}, unbound: map[string]bool{},
		versions: map[string]uint64{}, flights: map[string]*flight{}, made: map[string]*made{}, short: map[string]bool{}, quotas: map[string]bool{}, limits: map[string]int{}, pending: map[string]*model.Pod{}, verdicts: map[*model.Class]int{},
		nodesDirty: map[string]bool{}, claimsDirty: map[string]bool{}, nodesOf: map[string][]string{}, poolsDirty: true, daemonsDirty: true, pdbsDirty: true,
		pendingDirty: true, namespacesDirty: true, flightsDirty: true,
	}
}

// ResourceTable interns the names of resources. Unlike State it may be used by several goroutines: whoever translates objects
// needs it.
type ResourceTable struct {
	mu    sync.Mutex
	index map[string]model.Dim
	names []string
}

// NewResourceTable makes a table with the fixed dimensions.
func NewResourceTable() *ResourceTable {
	t := &ResourceTable{index: map[string]model.Dim{}, names: model.FixedNames()}
	for i, n := range t.names {
		t.index[n] = model.Dim(i)
	}
	return t
}

// Dim returns the dimension of a resource, adding it when it is new.
func (t *ResourceTable) Dim(name string) model.Dim {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, ok := t.index[name]
	if !ok {
		d = model.Dim(len(t.names))
		t.index[name] = d
		t.names = append(t.names, name)
	}
	return d
}

// Names returns the names by dimension. The result must not be changed; it does not grow.
func (t *ResourceTable) Names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clip(t.names)
}

// Resources is the table that all vectors of this State use.
func (s *State) Resources() *ResourceTable { return s.resources }

func (s *State) intern(c *model.Class) *model.Class {
	if have, ok := s.classes[c.Key]; ok {
		return have
	}
	if len(s.classes) > 1000+2*(len(s.pods)+len(s.daemons)) {
		s.sweep()
	}
	s.classes[c.Key] = c
	return c
}

// sweep forgets the classes that no pod is of any more: every StatefulSet's pod and every roll-out has one of its own.
func (s *State) sweep() {
	clear(s.classes)
	for _, p := range s.pods {
		s.classes[p.Class.Key] = p.Class
	}
	for _, d := range s.daemons {
		s.classes[d.Class.Key] = d.Class
	}
}

// SetPod adds or changes a pod. Its Class is interned. A pod that is terminal or being deleted and not bound is no demand.
func (s *State) SetPod(p *model.Pod) {
	key := p.Key()
	q := *p
	q.Class, q.Unreservable, q.Unbindable = s.intern(p.Class), s.refused[p.UID], s.unbound[p.UID]
	if q.Binding = s.binding[q.UID]; q.Node != "" && q.Binding != "" {
		q.Binding = ""
		delete(s.binding, q.UID)
	}
	if claim, ok := s.assumed[q.UID]; ok {
		if slices.Contains(q.Reservations, claim) {
			delete(s.assumed, q.UID)
		} else {
			q.Reservations = append(slices.Clip(q.Reservations), claim)
		}
	}
	if old, ok := s.pods[key]; ok && old.UID == q.UID {
		q.Seen = old.Seen
	}
	s.recount(s.pods[key], &q)
	if old, ok := s.pods[key]; ok {
		if old.UID == q.UID && old.Node != "" && old.Node == q.Node && !old.Terminal && !q.Terminal {
			s.pods[key] = &q
			s.restand(key, old, &q)
			s.settlePod(&q)
			return
		}
		if old.UID == q.UID && old.Node == "" && q.Node == "" && old.Class == q.Class && s.pending[key] == old && q.Deleting.IsZero() && !q.Terminal &&
			old.Nominated == q.Nominated && old.Gated == q.Gated {
			if old.Unschedulable.IsZero() && !q.Unschedulable.IsZero() && s.verdicts[q.Class] == 0 {
				s.gen.Demand++ // the first of its class: all alike are demand now
				s.gen.Unforeseen++
			}
			s.unpend(key)
			s.pend(key, &q)
			s.pods[key] = &q
			s.settlePod(&q)
			return
		}
		s.unplace(key, old)
	}
	s.pods[key] = &q
	s.place(key, &q)
	s.settlePod(&q)
}

// DeletePod forgets a pod by namespace/name.
func (s *State) DeletePod(key string) {
	if old, ok := s.pods[key]; ok {
		s.recount(old, nil)
		s.unplace(key, old)
		delete(s.pods, key)
		delete(s.assumed, old.UID)
		delete(s.refused, old.UID)
		delete(s.binding, old.UID)
		delete(s.unbound, old.UID)
		s.forget("bind/" + old.UID)
		s.forget("evict/" + old.UID)
		s.forget("deletepod/" + old.UID)
		for _, c := range old.Reservations {
			s.forget("tolerate/" + old.UID + "/" + c)
		}
	}
}

func (s *State) place(key string, p *model.Pod) {
	switch {
	case p.Node != "":
		if p.Terminal {
			return
		}
		if e := s.nodes[p.Node]; e != nil {
			e.pods[key] = p
			s.touch(e)
			s.came(e, p)
			return
		}
		m := s.orphans[p.Node]
		if m == nil {
			m = map[string]*model.Pod{}
			s.orphans[p.Node] = m
		}
		m[key] = p
	case !p.Terminal && p.Deleting.IsZero():
		s.gen.Demand++
		if !s.foreseen(p) {
			s.gen.Unforeseen++
		}
		s.pend(key, p)
		s.foresee(p.Owner.UID)
	}
}

func (s *State) pend(key string, p *model.Pod) {
	s.pending[key], s.pendingDirty = p, true
	if !p.Unschedulable.IsZero() {
		if s.verdicts[p.Class]++; s.verdicts[p.Class] == 1 {
			s.foresee(p.Owner.UID)
		}
	}
}

func (s *State) unpend(key string) {
	p := s.pending[key]
	if p == nil {
		return
	}
	delete(s.pending, key)
	s.pendingDirty = true
	if !p.Unschedulable.IsZero() {
		if s.verdicts[p.Class]--; s.verdicts[p.Class] == 0 {
			delete(s.verdicts, p.Class)
		}
	}
}

// restand changes a pod where it stands.
func (s *State) restand(key string, old, p *model.Pod) {
	if m := s.orphans[p.Node]; m != nil {
		m[key] = p
	}
	e := s.nodes[p.Node]
	if e == nil {
		return
	}
	e.pods[key] = p
	same := old.Unschedulable.Equal(p.Unschedulable) && old.Deleting.Equal(p.Deleting) && old.GracePeriod == p.GracePeriod && old.Class == p.Class &&
		old.Ready == p.Ready && old.DoNotDisrupt == p.DoNotDisrupt && old.SafeToEvict == p.SafeToEvict && old.DeletionCost == p.DeletionCost && old.RestartCost == p.RestartCost &&
		old.ReadySince.Equal(p.ReadySince) && old.Bound.Equal(p.Bound) && old.Owner == p.Owner && old.Deployment == p.Deployment &&
		old.RestartedAt == p.RestartedAt && old.Surge == p.Surge && old.ReservedFor == p.ReservedFor &&
		slices.Equal(old.Reservations, p.Reservations)
	if same {
		return // nothing that a Snapshot's reader could tell apart
	}
	s.touch(e)
	if old.Deleting.IsZero() && !p.Deleting.IsZero() {
		s.left(e, p)
	}
}

// came notes that a workload's pod was bound to a node: when it was, not when that was heard of, or a controller that starts anew
// would take every node for busy.
func (s *State) came(e *nodeEntry, p *model.Pod) {
	at := p.Bound
	if at.IsZero() {
		at = s.now
	}
	if !p.Class.Daemon && !p.Mirror && at.After(e.event) {
		e.event = at
	}
}

// left notes that a workload's pod left a node.
func (s *State) left(e *nodeEntry, p *model.Pod) {
	if !p.Class.Daemon && !p.Mirror {
		e.event = s.now
	}
}

func (s *State) unplace(key string, p *model.Pod) {
	if p.Node != "" {
		if e := s.nodes[p.Node]; e != nil {
			if _, ok := e.pods[key]; ok {
				delete(e.pods, key)
				s.touch(e)
				s.left(e, p)
				s.gen.Release++
			}
		}
		if m := s.orphans[p.Node]; m != nil {
			delete(m, key)
			if len(m) == 0 {
				delete(s.orphans, p.Node)
			}
		}
	}
	s.unpend(key)
}

func (s *State) settlePod(p *model.Pod) {
	for _, c := range p.Reservations {
		if s.assumed[p.UID] != c {
			s.forget("tolerate/" + p.UID + "/" + c)
		}
	}
	if p.Node != "" {
		s.forget("bind/" + p.UID)
	}
	if !p.Deleting.IsZero() {
		s.forget("evict/" + p.UID)
	}
}

// SetNode adds or changes a node; Pods, Used and Claim are this State's to fill in.
func (s *State) SetNode(n *model.Node, version uint64) {
	s.saw("node/"+n.Name, version)
	e := s.nodes[n.Name]
	if e == nil {
		e = &nodeEntry{pods: map[string]*model.Pod{}}
		s.nodes[n.Name] = e
		for k, p := range s.orphans[n.Name] {
			e.pods[k] = p
			s.came(e, p)
		}
		delete(s.orphans, n.Name)
		for _, a := range s.attached { // nodes come seldom
			if a.node == n.Name {
				e.attach(a.Attachment)
			}
		}
	}
	if was := e.object; was == nil || was.ProviderID != n.ProviderID {
		if was != nil {
			s.unlist(was)
		}
		if n.ProviderID != "" {
			s.nodesOf[n.ProviderID] = append(s.nodesOf[n.ProviderID], n.Name)
		}
	}
	e.object = n
	s.touch(e)
	s.gen.Supply++
}

// DeleteNode forgets a node by name; its pods stay known as pods of a node not seen.
func (s *State) DeleteNode(name string) {
	e := s.nodes[name]
	if e == nil {
		return
	}
	if len(e.pods) > 0 {
		s.orphans[name] = e.pods
	}
	s.forgetOf("node/" + name)
	delete(s.nodes, name)
	s.unlist(e.object)
	s.nodesDirty[name] = true
	s.gen.Supply++
}

// attachment is a volume attached to a node, which may not have been seen yet.
type attachment struct {
	model.Attachment
	node string
}

// SetAttachment adds or changes a volume attached to a node.
func (s *State) SetAttachment(a model.Attachment, node string) {
	if old, ok := s.attached[a.Name]; ok {
		if old.node == node && old.Attachment == a {
			return
		}
		s.DeleteAttachment(a.Name)
	}
	s.attached[a.Name] = attachment{a, node}
	if e := s.nodes[node]; e != nil {
		e.attach(a)
		s.touch(e)
	}
}

// DeleteAttachment forgets a volume attached to a node, by the name of its VolumeAttachment.
func (s *State) DeleteAttachment(name string) {
	a, ok := s.attached[name]
	if !ok {
		return
	}
	delete(s.attached, name)
	if e := s.nodes[a.node]; e != nil {
		delete(e.volumes, name)
		s.touch(e)
	}
}

func (e *nodeEntry) attach(a model.Attachment) {
	if e.volumes == nil {
		e.volumes = map[string]model.Attachment{}
	}
	e.volumes[a.Name], e.built = a, nil
}

// SetClaim adds or changes a NodeClaim.
func (s *State) SetClaim(c *model.Claim, version uint64) {
	s.saw("claim/"+c.Name, version)
	s.forget("create/" + c.Name)
	if !c.Deleting.IsZero() {
		s.forget("delete/" + c.UID)
	}
	if old := s.claims[c.Name]; old != nil && old.ProviderID != c.ProviderID {
		delete(s.byProvider, old.ProviderID)
		s.relink(old.ProviderID)
	}
	if assumed, ok := s.slots[c.Name]; ok {
		if s.flights["slots/"+c.UID] == nil && !assumed.unsure || assumed.unsure && sameSlots(assumed.shown, c.Slots) {
			delete(s.slots, c.Name)
		} else {
			assumed.read = c.Slots
			s.slots[c.Name] = assumed
			d := *c
			d.Slots, d.SlotsUnsure = assumed.shown, assumed.unsure
			c = &d
		}
	}
	if n, ok := s.notes[c.UID]; ok {
		if c.Annotations[n.key] == n.value {
			delete(s.notes, c.UID)
		} else {
			c = n.shown(c)
		}
	}
	s.claims[c.Name], s.claimsDirty[c.Name] = c, true
	s.gen.Supply++
	if c.Is("Launched") {
		delete(s.failures, c.UID)
	}
	if c.ProviderID != "" && s.byProvider[c.ProviderID] != c.Name {
		s.byProvider[c.ProviderID] = c.Name
		s.relink(c.ProviderID)
	}
}

// DeleteClaim forgets a NodeClaim by name.
func (s *State) DeleteClaim(name string) {
	c := s.claims[name]
	if c == nil {
		return
	}
	delete(s.claims, name)
	delete(s.slots, name)
	delete(s.notes, c.UID)
	delete(s.failures, c.UID)
	s.claimsDirty[name] = true
	s.gen.Supply++
	s.forgetOf("claim/" + name)
	s.forget("delete/" + c.UID)
	s.forget("launch/" + c.UID)
	if s.byProvider[c.ProviderID] == name {
		delete(s.byProvider, c.ProviderID)
		s.relink(c.ProviderID)
	}
}

// Provisional shows a claim whose creation is under way, until the API server shows it or Settle ends the flight.
func (s *State) Provisional(c *model.Claim) {
	if s.claims[c.Name] == nil {
		s.claims[c.Name], s.claimsDirty[c.Name] = c, true
	}
}

// Unlaunched counts the claims for a node group whose launch has not begun, those included that are being made.
func (s *State) Unlaunched(group string) int {
	n := 0
	for _, c := range s.claims {
		q := c.Requirements.Get(model.LabelNodeGroup)
		if q == nil || q.Complement || len(q.Values) != 1 || q.Values[0] != group || c.ProviderID != "" || !c.Deleting.IsZero() || c.Annotations[model.AnnotationAdopt] != "" {
			continue
		}
		if c.Provisional || s.flights["launch/"+c.UID] == nil {
			n++
		}
	}
	return n
}

// Unprovisional drops a claim that was shown ahead of its creation, the creation having failed.
func (s *State) Unprovisional(name string) {
	if c := s.claims[name]; c != nil && c.Provisional {
		delete(s.claims, name)
		s.claimsDirty[name] = true
		s.gen.Supply++
	}
}

// annotation is one of a claim.
type annotation struct{ key, value string }

func (n annotation) shown(c *model.Claim) *model.Claim {
	d := *c
	if d.Annotations = maps.Clone(c.Annotations); d.Annotations == nil {
		d.Annotations = model.Labels{}
	}
	d.Annotations[n.key] = n.value
	return &d
}

// Annotate shows a claim with an annotation from now on, though it is yet to be written: what was heard is known at once. One a claim.
func (s *State) Annotate(name, key, value string) {
	if c := s.claims[name]; c != nil {
		n := annotation{key, value}
		s.notes[c.UID] = n
		s.claims[name], s.claimsDirty[name] = n.shown(c), true
		s.gen.Supply++
	}
}

// Annotated says whether a claim is shown with an annotation that was not read back yet.
func (s *State) Annotated(uid string) bool {
	_, ok := s.notes[uid]
	return ok
}

// assumedSlots are those shown for a claim, and those that it was last read with.
type assumedSlots struct {
	shown, read []model.Slot
	unsure      bool // it is not known what was written: no answer came of some call, and none that came later has written these
	refused     bool // the call after that was refused
}

// AssumeSlots shows a claim with slots that are being written.
func (s *State) AssumeSlots(name string, slots []model.Slot) {
	if c := s.claims[name]; c != nil {
		have, ok := s.slots[name]
		if !ok {
			have.read = c.Slots
		}
		have.shown = slots
		s.slots[name] = have
		s.showSlots(c, slots, have.unsure)
	}
}

// WroteSlots records that the slots shown for a claim are written.
func (s *State) WroteSlots(name string) {
	have, ok := s.slots[name]
	if c := s.claims[name]; ok && c != nil && have.unsure {
		have.unsure, have.refused = false, false
		s.slots[name] = have
		s.showSlots(c, have.shown, false)
	}
}

// DoubtSlots goes on showing a claim with slots that may not have been written, or may have been though no answer came, and says so. Taken for
// not written, pods would be given others, and there would be too many when the watch shows these.
func (s *State) DoubtSlots(name string) {
	have, ok := s.slots[name]
	c := s.claims[name]
	switch {
	case !ok || c == nil:
	case !have.unsure && sameSlots(have.shown, have.read): // the watch has shown them meanwhile
		delete(s.slots, name)
	default:
		have.unsure, have.refused = true, false
		s.slots[name] = have
		s.showSlots(c, have.shown, true)
	}
}

// DropSlots shows a claim with the slots that it was last read with, what was assumed having been refused. Where no answer came of an earlier
// call, which may have written them, it takes a second refusal: it comes a second later at least, and the watch has shown by then what is written.
func (s *State) DropSlots(name string) {
	have, ok := s.slots[name]
	if ok && have.unsure && !have.refused {
		have.refused = true
		s.slots[name] = have
		return
	}
	if ok {
		delete(s.slots, name)
		if c := s.claims[name]; c != nil {
			s.showSlots(c, have.read, false)
		}
	}
}

func (s *State) showSlots(c *model.Claim, slots []model.Slot, unsure bool) {
	d := *c
	d.Slots, d.SlotsUnsure = slots, unsure
	s.claims[c.Name], s.claimsDirty[c.Name] = &d, true
}

func sameSlots(a, b []model.Slot) bool {
	return slices.EqualFunc(a, b, func(x, y model.Slot) bool { return x.Class == y.Class && x.Owner == y.Owner && x.Count == y.Count })
}

// AssumeReservation shows a pod with a toleration that is being written, or no longer where that failed.
func (s *State) AssumeReservation(key, uid, claim string, holds bool) {
	p := s.pods[key]
	if p == nil || p.UID != uid {
		return
	}
	q := *p
	if holds {
		s.assumed[uid] = claim
		if !slices.Contains(q.Reservations, claim) {
			q.Reservations = append(slices.Clip(q.Reservations), claim)
		}
	} else {
		if s.assumed[uid] != claim {
			return // the watch has shown it meanwhile: it was written, though no answer came
		}
		delete(s.assumed, uid)
		q.Reservations = slices.DeleteFunc(slices.Clone(q.Reservations), func(c string) bool { return c == claim })
	}
	s.pods[key] = &q
	if s.pending[key] != nil {
		s.pending[key], s.pendingDirty = &q, true
	}
	if e := s.nodes[q.Node]; e != nil && e.pods[key] != nil {
		e.pods[key] = &q
	}
}

// AssumeBinding shows a pod as being bound to a node, from before the call until the watch shows it there; with an empty node, as not being
// bound any more, the call having failed for certain.
func (s *State) AssumeBinding(key, uid, node string) {
	p := s.pods[key]
	if p == nil || p.UID != uid || p.Node != "" {
		return
	}
	if node == "" {
		delete(s.binding, uid)
	} else {
		s.binding[uid] = node
	}
	q := *p
	q.Binding = node
	s.pods[key] = &q
	if s.pending[key] != nil {
		s.pending[key], s.pendingDirty = &q, true
	}
}

// RefuseBinding shows a pod as one that the API server will not have bound by us, until it is gone.
func (s *State) RefuseBinding(key, uid string) {
	if p := s.pods[key]; p != nil && p.UID == uid {
		s.unbound[uid] = true
		s.SetPod(p)
	}
}

// RefuseReservation shows a pod as one whose toleration the API server has refused, until it is gone.
func (s *State) RefuseReservation(key, uid string) {
	if p := s.pods[key]; p != nil && p.UID == uid {
		s.refused[uid] = true
		s.SetPod(p)
	}
}

// SetDrift replaces what the provider says about machines that are not what their node classes ask for, by claim uid; an empty reason: it
// was asked, and it is.
func (s *State) SetDrift(reasons map[string]string) {
	s.drift = reasons
	s.gen.Supply++
}

// ClaimOf finds the claim of a machine. Where there is none yet, owned says that the cloud lists the machine for a claim that is there.
func (s *State) ClaimOf(providerID string) (c *model.Claim, owned bool) {
	if c := s.claims[s.byProvider[providerID]]; c != nil && providerID != "" {
		return c, true
	}
	for _, i := range s.instances {
		if i.ProviderID == providerID && !i.Gone {
			c := s.claims[i.ClaimName]
			return nil, c != nil && c.UID == i.ClaimUID
		}
	}
	return nil, false
}

// ClaimOfNode finds the claim of a node by the node's name, nil where it has none.
func (s *State) ClaimOfNode(name string) *model.Claim {
	e := s.nodes[name]
	if e == nil || e.object.ProviderID == "" {
		return nil
	}
	return s.claims[s.byProvider[e.object.ProviderID]]
}

// LaunchFailed keeps why a claim's launch failed.
func (s *State) LaunchFailed(uid string, f model.LaunchFailure) { s.failures[uid] = f }

// ended is when the cloud said so, and of which claim the machine was.
type ended struct {
	claimUID string
	at       time.Time
}

// MarkGone records that the cloud has said a machine is on its way out. It stays so for as long as there is its claim: a list that was asked
// for before knows no better, and one that does not have the machine any more says the same.
func (s *State) MarkGone(providerID, claimUID string) {
	s.ended[providerID] = ended{claimUID, s.now}
	s.SetInstances(s.instances, s.instAt)
}

// relink has the nodes of a provider id built anew.
func (s *State) relink(providerID string) {
	if providerID == "" {
		return
	}
	for _, name := range s.nodesOf[providerID] {
		s.touch(s.nodes[name])
	}
}

// SetPool adds or changes a NodePool. Where types is nil the types known before are kept.
func (s *State) SetPool(p *model.NodePool) {
	q := *p
	if old := s.pools[p.Name]; old != nil && q.Types == nil && old.UID == p.UID {
		q.Types = old.Types
	}
	if old := s.pools[p.Name]; old != nil && old.UID == p.UID && q.ClassGeneration == 0 {
		q.ClassGeneration = old.ClassGeneration
	}
	if c := s.nodeClasses[classKey(q.ClassGroup, q.ClassKind, q.ClassName)]; c != nil {
		q.Scaling = c.Scaling
	}
	s.pools[p.Name], s.poolsDirty = &q, true
	s.gen.Supply++
}

// SetPoolTypes gives a pool what its provider offers it.
func (s *State) SetPoolTypes(name string, types []*model.InstanceType) {
	if old := s.pools[name]; old != nil {
		q := *old
		q.Types = types
		s.pools[name], s.poolsDirty = &q, true
		s.gen.Supply++
	}
}

// SetPoolClass says of which generation a pool's node class is.
func (s *State) SetPoolClass(name string, generation int64) {
	if old := s.pools[name]; old != nil && old.ClassGeneration != generation {
		q := *old
		q.ClassGeneration = generation
		s.pools[name], s.poolsDirty = &q, true
	}
}

// SetPoolReady says whether a pool may be used, and why not.
func (s *State) SetPoolReady(name string, ready bool, why model.Condition) {
	if old := s.pools[name]; old != nil && (old.Ready != ready || old.NotReady != why) {
		q := *old
		q.Ready, q.NotReady = ready, why
		s.pools[name], s.poolsDirty = &q, true
		s.gen.Supply++
	}
}

// Pool returns a pool by name, nil if there is none.
func (s *State) Pool(name string) *model.NodePool { return s.pools[name] }

// Pools returns the pools by weight descending, then name.
func (s *State) Pools() []*model.NodePool {
	return sorted(s.pools, func(a, b *model.NodePool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Name, b.Name))
	})
}

// DeletePool forgets a NodePool by name.
func (s *State) DeletePool(name string) {
	delete(s.pools, name)
	s.poolsDirty = true
	s.gen.Supply++
}

// SetDaemon adds or changes a DaemonSet.
func (s *State) SetDaemon(d *model.Daemon) {
	q := *d
	q.Class = s.intern(d.Class)
	s.daemons[d.Namespace+"/"+d.Name], s.daemonsDirty = &q, true
	s.gen.Supply++
}

// DeleteDaemon forgets a DaemonSet by namespace/name.
func (s *State) DeleteDaemon(key string) {
	delete(s.daemons, key)
	s.daemonsDirty = true
}

// SetDeployments says that Deployments are looked at from now on.
func (s *State) SetDeployments() {
	if s.deployments == nil {
		s.deployments, s.deploymentsDirty = map[string]*model.Deployment{}, true
	}
}

// SetDeployment adds or replaces a Deployment.
func (s *State) SetDeployment(d *model.Deployment) {
	s.SetDeployments()
	s.deployments[d.Key()], s.deploymentsDirty = d, true
}

// DeleteDeployment forgets a Deployment, by namespace/name.
func (s *State) DeleteDeployment(key string) {
	delete(s.deployments, key)
	s.deploymentsDirty = true
}

// SetPDB adds or changes a PodDisruptionBudget.
func (s *State) SetPDB(p *model.PDB) {
	s.pdbs[p.Namespace+"/"+p.Name], s.pdbsDirty = p, true
}

// DeletePDB forgets a PodDisruptionBudget by namespace/name.
func (s *State) DeletePDB(key string) {
	delete(s.pdbs, key)
	s.pdbsDirty = true
}

// SetNamespace adds or changes a namespace.
func (s *State) SetNamespace(name string, l model.Labels) {
	s.namespaces[name], s.namespacesDirty = l, true
}

// DeleteNamespace forgets a namespace.
func (s *State) DeleteNamespace(name string) {
	delete(s.namespaces, name)
	s.namespacesDirty = true
}

// SetInstances replaces the list of machines, as asked for at the given instant.
func (s *State) SetInstances(list []*model.Instance, at time.Time) {
	out := slices.Clone(list)
	listed := map[string]bool{}
	for i, x := range out {
		if e, ok := s.ended[x.ProviderID]; ok {
			listed[x.ProviderID] = true
			if !x.Gone && !at.After(e.at) {
				y := *x
				y.Gone, out[i] = true, &y
			}
		}
	}
	for id, e := range s.ended {
		switch _, claimed := s.byProvider[id]; {
		case !claimed && at.After(e.at):
			delete(s.ended, id)
		case !listed[id]:
			out = append(out, &model.Instance{ProviderID: id, ClaimUID: e.claimUID, Gone: true})
		}
	}
	slices.SortFunc(out, func(a, b *model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	s.instances, s.instAt = out, at
}

func (s *State) saw(object string, version uint64) {
	s.versions[object] = version
	for k, f := range s.flights {
		if f.object == object && f.answered && version >= f.version {
			delete(s.flights, k)
			s.flightsDirty = true
		}
	}
}

func (s *State) forgetOf(object string) {
	delete(s.versions, object)
	for k, f := range s.flights {
		if f.object == object {
			delete(s.flights, k)
			s.flightsDirty = true
		}
	}
}

func (s *State) forget(key string) {
	if _, ok := s.flights[key]; ok {
		delete(s.flights, key)
		s.flightsDirty = true
	}
}

// Begin records that an action is about to be done. object is "claim/NAME", "node/NAME" or empty; until is when to forget it
// though nothing was heard.
func (s *State) Begin(key, object string, until time.Time) {
	f := s.flights[key]
	if f == nil {
		f = &flight{}
		s.flights[key] = f
	}
	f.object, f.answered, f.version, f.until = object, false, 0, until
	s.flightsDirty = true
}

// Done records the answer to an action: the version of the object that shows its effect, 0 where there is nothing to wait for
// but the object's own change or disappearance, which ends the flight by itself, or until at the latest.
func (s *State) Done(key string, version uint64, until time.Time) {
	f := s.flights[key]
	if f == nil {
		return
	}
	f.answered, f.version, f.until, f.failures = true, version, until, 0
	if f.object != "" && version > 0 && s.versions[f.object] >= version {
		s.forget(key)
	}
}

// Settle ends a flight at once.
func (s *State) Settle(key string) { s.forget(key) }

// Failed records that an action failed; it is hidden until the given instant. It returns how often it failed in a row.
func (s *State) Failed(key string, retry func(failures int) time.Time) int {
	f := s.flights[key]
	if f == nil {
		f = &flight{}
		s.flights[key] = f
	}
	f.failures++
	f.answered, f.version, f.until = false, 0, retry(f.failures)
	s.flightsDirty = true
	return f.failures
}

// Expire ends the flights whose time has passed and says when the next one will; zero: none. A failed action keeps its count of
// failures for a minute, so that its pauses grow.
func (s *State) Expire(now time.Time) time.Time {
	var next time.Time
	for k, f := range s.flights {
		if !f.until.After(now) {
			if f.failures > 0 && now.Sub(f.until) < time.Minute {
				continue
			}
			delete(s.flights, k)
			s.flightsDirty = true
			if name, ok := strings.CutPrefix(k, "create/"); ok {
				s.Unprovisional(name) // it was made and was gone again before any watch showed it
			}
			continue
		}
		if next.IsZero() || f.until.Before(next) {
			next = f.until
		}
	}
	return next
}

// Flying says whether an action is hidden at the given instant.
func (s *State) Flying(key string, now time.Time) bool {
	f := s.flights[key]
	return f != nil && f.until.After(now)
}

// Pod returns a pod by namespace/name, nil if there is none.
func (s *State) Pod(key string) *model.Pod { return s.pods[key] }

// Claim returns a claim by name, nil if there is none.
func (s *State) Claim(name string) *model.Claim { return s.claims[name] }

// PodCount says how many pods are known.
func (s *State) PodCount() int { return len(s.pods) }

// PendingCount says how many pods are not bound and not terminal.
func (s *State) PendingCount() int { return len(s.pending) }

// Unseen says how many pods created since an instant wait for kube-scheduler's first look at one of their class.
func (s *State) Unseen(since time.Time) int {
	n := 0
	for _, p := range s.pending {
		if p.Unschedulable.IsZero() && s.verdicts[p.Class] == 0 && !p.Gated && p.Created.After(since) {
			n++
		}
	}
	return n
}

// Snapshot returns the cluster as it is now. Lists that did not change since the last Snapshot are shared with it.
func (s *State) Snapshot(now time.Time) *model.Snapshot {
	out := s.last
	out.ResourceNames = s.resources.Names()
	if len(s.nodesDirty) > 0 {
		out.Nodes = patched(out.Nodes, s.nodesDirty, func(n *model.Node) string { return n.Name }, s.node)
		clear(s.nodesDirty)
	}
	if len(s.claimsDirty) > 0 {
		out.Claims = patched(out.Claims, s.claimsDirty, func(c *model.Claim) string { return c.Name }, s.Claim)
		clear(s.claimsDirty)
	}
	if s.poolsDirty {
		out.Pools = sorted(s.pools, func(a, b *model.NodePool) int {
			return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Name, b.Name))
		})
	}
	if s.daemonsDirty {
		out.Daemons = sorted(s.daemons, func(a, b *model.Daemon) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
	}
	if s.deploymentsDirty {
		out.Deployments = sorted(s.deployments, func(a, b *model.Deployment) int { return strings.Compare(a.Key(), b.Key()) })
	}
	if s.pdbsDirty {
		out.PDBs = sorted(s.pdbs, func(a, b *model.PDB) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
	}
	if s.pendingDirty {
		out.Pending = sorted(s.pending, comparePods)
	}
	if s.makingDirty {
		out.Making = s.making()
	}
	if s.namespacesDirty {
		out.Namespaces = maps.Clone(s.namespaces)
	}
	out.InFlight = map[string]time.Time{}
	for k, f := range s.flights {
		if f.until.After(now) {
			out.InFlight[k] = f.until
		}
	}
	out.Failures = maps.Clone(s.failures)
	out.Instances, out.InstancesAt = s.instances, s.instAt
	out.Drift = s.drift
	s.poolsDirty, s.daemonsDirty, s.pdbsDirty = false, false, false
	s.deploymentsDirty, s.makingDirty = false, false
	s.pendingDirty, s.namespacesDirty, s.flightsDirty = false, false, false
	s.last = out
	return &out
}

// touch has a node built anew.
func (s *State) touch(e *nodeEntry) {
	e.built = nil
	s.nodesDirty[e.object.Name] = true
}

// unlist forgets which provider id a node has.
func (s *State) unlist(n *model.Node) {
	if n.ProviderID == "" {
		return
	}
	names := slices.DeleteFunc(s.nodesOf[n.ProviderID], func(name string) bool { return name == n.Name })
	if s.nodesOf[n.ProviderID] = names; len(names) == 0 {
		delete(s.nodesOf, n.ProviderID)
	}
}

// node is one as Snapshots show it; nil: there is none.
func (s *State) node(name string) *model.Node {
	e := s.nodes[name]
	if e == nil {
		return nil
	}
	if e.built == nil {
		n := *e.object
		n.Claim = ""
		if n.ProviderID != "" {
			n.Claim = s.byProvider[n.ProviderID]
		}
		n.Pods = sorted(e.pods, comparePods)
		n.LastPodEvent = e.event
		n.Attached = nil
		if len(e.volumes) > 0 {
			n.Attached = sorted(e.volumes, func(a, b model.Attachment) int { return strings.Compare(a.Name, b.Name) })
		}
		n.Used, n.NoAnti = nil, true
		for _, p := range n.Pods {
			n.Used = n.Used.AddInto(p.Class.Requests, 1)
			n.NoAnti = n.NoAnti && len(p.Class.AntiAffinity) == 0
		}
		e.built = &n
	}
	return e.built
}

// patched is a list sorted by name with some of its items as they are now; what is of those no more is nil. The list itself stays as it was.
func patched[T any](list []*T, names map[string]bool, name func(*T) string, now func(string) *T) []*T {
	out := slices.Clone(list)
	gone := false
	var came []*T
	for n := range names {
		x := now(n)
		i, ok := slices.BinarySearchFunc(list, n, func(y *T, n string) int { return strings.Compare(name(y), n) })
		switch {
		case ok:
			out[i], gone = x, gone || x == nil
		case x != nil:
			came = append(came, x)
		}
	}
	if gone {
		out = slices.DeleteFunc(out, func(x *T) bool { return x == nil })
	}
	if len(came) == 0 {
		return out
	}
	slices.SortFunc(came, func(a, b *T) int { return strings.Compare(name(a), name(b)) })
	all := make([]*T, 0, len(out)+len(came))
	for _, x := range out {
		for len(came) > 0 && name(came[0]) < name(x) {
			all, came = append(all, came[0]), came[1:]
		}
		all = append(all, x)
	}
	return append(all, came...)
}

func comparePods(a, b *model.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

func sorted[T any](m map[string]T, compare func(a, b T) int) []T {
	out := make([]T, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	slices.SortFunc(out, compare)
	return out
}
