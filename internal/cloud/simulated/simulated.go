// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// Settings configure the behavior of machines.
type Settings struct {
	Boot time.Duration // from launch to Node, in addition to the registration delay of the request; varied by ±10 %
	Seed int64         // seed of the variation
}

// Guest is the interface of another cloud to the same machines, which stores its own state in the same journal.
type Guest interface {
	// Apply replays a note of the guest. It is the only place where the guest's state changes.
	Apply(at time.Time, data json.RawMessage) error

	// Moved is called when a machine was launched or changed state. It must not block and must not call the Model.
	Moved(id string)
}

// Model is the cloud. Every call takes the time, and leaves records of its effects for Take. It is deterministic, and
// not safe for concurrent use.
type Model struct {
	catalog  *catalog.Catalog
	settings Settings

	instances map[string]*machines.Instance // by id
	byClaim   map[string]*machines.Instance // by claim UID, also those terminated last
	gone      []string                      // ids of those terminated that are kept, in the order of their end
	tombs     map[string]struct{}           // ids of machines of claims that ended before those
	byNode    map[string]*machines.Instance // by node name, those not terminated
	guest     Guest                         // nil: none
	faults    []*activeFault
	seq       int64
	records   []machines.Record // not taken yet
}

// Config configures a Server.
type Config struct {
	Journal  string           // file; created if missing
	Catalog  *catalog.Catalog // instance types and offerings
	Settings Settings
	Guest    Guest        // nil: none
	Clock    cloud.Clock  // nil: the wall clock
	Log      *slog.Logger // nil: none
}

// Server is a Model with a listener, a journal and a clock.
type Server struct {
	clock cloud.Clock
	log   *slog.Logger
	maker NodeMaker
	slots chan struct{} // bounds Nodes being made or deleted at once

	offerings    []byte // the answer of /v1/offerings
	offeringsTag string

	mu         sync.Mutex // holds for the model, and orders the journal as the model
	model      *Model
	journal    *journal
	compactAt  int64                    // the size from which the journal may be written anew
	compacted  int64                    // its size when it last was
	durable    int64                    // how much of the journal must be on disk before anything is answered
	broken     error                    // the journal could not be written: nothing more is answered
	ending     map[string]chan struct{} // by machine that is driven; closed when its termination is asked for
	wake       chan string              // machines to be driven
	doomed     chan string              // machines to be taken away
	restarting chan string              // machines to be restarted
	stopped    chan struct{}            // closed with broken
}

// activeFault is a fault being had.
type activeFault struct {
	machines.Fault
	until time.Time // zero: not limited
	left  int       // with Count
}

func (m *Model) recordUntil(at time.Time, kind string, in *machines.Instance, until time.Time) {
	r := machines.Record{Seq: m.seq + 1, At: at, Kind: kind, ID: in.ID, ClaimUID: in.ClaimUID, Until: until}
	if kind == machines.RecordLaunched {
		whole := *in
		r.Instance = &whole
	}
	if err := m.Apply(r); err != nil {
		panic(err) // it was made here, of what is here
	}
	m.records = append(m.records, r)
}

func offeringOf(in *machines.Instance) cloud.OfferingKey {
	return cloud.OfferingKey{InstanceType: in.InstanceType, Zone: in.Zone, CapacityType: in.CapacityType}
}
