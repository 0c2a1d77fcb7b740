// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Resources is the table of resource names shared by all resource vectors.
type Resources interface{ Dim(name string) model.Dim }

// Settings configures a Provider.
type Settings struct {
	Name      string        // name of the provider
	Server    Server        // server that manages the node groups
	Timeout   time.Duration // timeout of a call to the server
	HasTags   bool          // groups have tags, which selector terms can match
	Other     *OtherClass   // additional kind of node class; nil: none
	Adopts    bool          // create claims for machines launched without one; requires a server that implements AllMembers
	Records   Records
	Resources Resources
	Clock     cloud.Clock
	Log       *slog.Logger
}

// OtherClass is a kind of node class with its own way to select groups.
type OtherClass struct {
	cloud.ClassKind

	// Selector returns a function that reports whether a spec selects a group. Errors name the field.
	Selector func(spec []byte) (func(*Group) bool, error)

	// None is the message for a spec that selects no group: the field, and what to change.
	None string
}

// Provider launches nodes through one server.
type Provider struct {
	name      string
	hasTags   bool
	other     *OtherClass
	adopts    bool
	server    Server
	timeout   time.Duration
	records   Records
	record    recordCache
	writer    recordWriter
	resources Resources
	clock     cloud.Clock
	began     time.Time // when the process began
	log       *slog.Logger

	reader  groupReader
	mu      sync.Mutex
	queues  map[string]*queue              // by group
	refused map[string][]cloud.OfferingKey // by claim uid: offerings that it was refused
	why     map[string]error               // by claim uid: the last refusal
	absent  map[string]time.Time           // by provider id: since when a machine is not listed
	missing map[string]time.Time           // by group: the first of the lists in a row that did not have it
	offered map[string]*offered            // by class and taints of the pool

	selected map[classKey]selection // by class
}

// New returns a provider. It makes no requests.
func New(s Settings) *Provider {
	return &Provider{name: s.Name, hasTags: s.HasTags, other: s.Other, adopts: s.Adopts, server: s.Server, timeout: s.Timeout, records: s.Records, resources: s.Resources, clock: s.Clock, began: s.Clock.Now(), log: s.Log,
		record: recordCache{turn: cloud.NewLock()}, reader: groupReader{facts: map[string]*groupFacts{}}, queues: map[string]*queue{}, refused: map[string][]cloud.OfferingKey{}, why: map[string]error{}, absent: map[string]time.Time{}, missing: map[string]time.Time{}, offered: map[string]*offered{}, selected: map[classKey]selection{}}
}

// Traits implements cloud.Provider.
func (p *Provider) Traits() cloud.Traits {
	t := cloud.Traits{Name: p.name, Classes: []cloud.ClassKind{{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass}}, ListDelay: listDelay}
	if p.other != nil {
		t.Classes = append(t.Classes, p.other.ClassKind)
	}
	return t
}

// RepairPolicies implements cloud.Repairer: conditions reported by every kubelet. The unready time in the options of a
// node class or of a group replaces that of the first policy.
func (p *Provider) RepairPolicies(bool) []cloud.RepairPolicy {
	const after, drain = 30 * time.Minute, 10 * time.Minute
	return []cloud.RepairPolicy{{Condition: "Ready", Status: "False", After: after, Drain: drain}, {Condition: "Ready", Status: "Unknown", After: after, Drain: drain}}
}

// listDelay is how long a server may not list a machine that it was seen to have.
const listDelay = 10 * time.Second

func ctxError(ctx context.Context, object string) error {
	if ctx.Err() == nil {
		return nil
	}
	return &cloud.Error{Kind: cloud.Unknown, Op: "offerings", Object: object, Err: ctx.Err()}
}

// Records stores one text across restarts.
type Records interface {
	// Load returns the text; empty if there is none.
	Load(ctx context.Context) (string, error)
	// Swap writes the text if the stored text is old, and reports whether it was.
	Swap(ctx context.Context, old, text string) (bool, error)
}

// NoRecords has an empty text and discards writes, for a provider that launches nothing.
type NoRecords struct{}

// Load implements Records.
func (NoRecords) Load(context.Context) (string, error) { return "", nil }

// Swap implements Records.
func (NoRecords) Swap(context.Context, string, string) (bool, error) {
	return false, errors.New("nothing is launched without records")
}

// recordCache is the record as it was last read or written here.
type recordCache struct {
	turn cloud.Lock
	text string
	at   time.Time // zero: it has to be read
}

// recordWriter collects requested changes of the record.
type recordWriter struct {
	mu      sync.Mutex
	pending []*recordChange
	running bool
}

type recordChange struct {
	change func(*record)
	done   chan error
}

// queue is a group in this process.
type queue struct {
	name string
	turn cloud.Lock // of whoever looks at the group to change it

	mu       sync.Mutex
	pending  []*ask
	refusals map[string]refusal // by claim uid: what it has not been told yet
	running  bool
	settled  time.Time // when the group was last brought together with its claims
	raised   time.Time // when its size was last raised
}

// groupFacts are the last responses to calls about a group.
type groupFacts struct {
	busy       bool // calls are under way
	target     int64
	template   *template // nil: not known yet
	templateAt time.Time
	err        error // of the last calls
}

// groupReader keeps what was last read of groups.
type groupReader struct {
	mu       sync.Mutex
	snapshot *snapshot              // the last one
	stale    bool                   // a group was changed since
	version  int64                  // counts changes of groups
	running  *reading               // nil: none is under way
	facts    map[string]*groupFacts // by group
}

// reading is one reading of all groups.
type reading struct {
	version  int64 // of the reader, when it began
	done     chan struct{}
	snapshot *snapshot
	err      error
}

// offered are instance types that were built of groups.
type offered struct {
	from  string
	types []*model.InstanceType
}

// snapshot is all groups, by name.
type snapshot struct {
	at     time.Time
	groups []*groupInfo
}

// ask is a claim that requests a machine from a group.
type ask struct {
	uid, name string
	created   time.Time
	isNew     bool  // it did not wait for the group before
	most      int64 // how many machines the group may have, by the claim's class
	done      chan outcome
}

// outcome is the result of settling a group for one claim. The zero value means that a machine is expected.
type outcome struct {
	id      string // its machine
	full    bool   // the group has as many as it may
	refused bool   // the server has none
	err     error
}

// refusal is an outcome that the next call of a claim returns, unless it has expired.
type refusal struct {
	outcome
	at time.Time
}

// selection are the groups selected by a class.
type selection struct {
	groups map[string]adoptable // by name
	at     time.Time            // when the class was last seen to select them
}

// adoptable is a group whose machines may get claims that were made for them: it had them before a class selected it, or the server replaced others by
// them, in a rollout or as they were broken. There may be pods on them, so they are not given back unasked.
type adoptable struct {
	class     classKey
	labels    model.Labels
	replacing bool
	unknown   bool // what its machines are can't be read now: none is adopted, and none is given back unasked
}

// groupInfo is a node group as the server describes it.
type groupInfo struct {
	Group
	label    string // value of the label by which its nodes, claims and offerings name it
	target   int64
	template *template // nil: not known
	silent   string    // why its target is not known now, so that nothing is launched in it; empty: it is known
}

// problem returns why nothing can be launched in a group; empty: it can.
func (g *groupInfo) problem() string {
	switch {
	case g.Problem != "":
		return g.Problem
	case g.template != nil && g.template.problem != "":
		return g.template.problem
	}
	return g.silent
}
