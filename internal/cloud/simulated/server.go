// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// Config is what a Server is made of.
type Config struct {
	Journal  string           // file, made if it is not there
	Catalog  *catalog.Catalog // what there is to buy
	Settings Settings
	Guest    Guest        // nil: none
	Clock    cloud.Clock  // nil: the wall clock
	Log      *slog.Logger // nil: none
}

// Server is a Model with a socket, a journal and a clock.
type Server struct {
	clock cloud.Clock
	log   *slog.Logger
	maker NodeMaker
	slots chan struct{} // bounds Nodes being made or deleted at once

	offerings    []byte // the answer of /v1/offerings
	offeringsTag string

	mu        sync.Mutex // holds for the model, and orders the journal as the model
	model     *Model
	journal   *journal
	compactAt int64                    // the size from which the journal may be written anew
	compacted int64                    // its size when it last was
	durable   int64                    // how much of the journal must be on disk before anything is answered
	broken    error                    // the journal could not be written: nothing more is answered
	ending    map[string]chan struct{} // by machine that is driven; closed when its termination is asked for
	wake      chan string              // machines to be driven
	doomed    chan string              // machines to be taken away
	stopped   chan struct{}            // closed with broken
}

// nodesAtOnce is how many Nodes are made or deleted at once.
const nodesAtOnce = 64

// Open replays the journal. Machines of an earlier life go on from where they were when Serve begins.
func Open(cfg Config, maker NodeMaker) (*Server, error) {
	if cfg.Catalog == nil || maker == nil || cfg.Journal == "" {
		return nil, errors.New("open machines: need a catalogue, a node maker and a journal")
	}
	if err := cfg.Settings.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		clock: cfg.Clock, log: cfg.Log, maker: maker, slots: make(chan struct{}, nodesAtOnce),
		model: NewModel(cfg.Catalog, cfg.Settings), ending: map[string]chan struct{}{}, stopped: make(chan struct{}),
	}
	if s.clock == nil {
		s.clock = cloud.Wall{}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.model.guest = cfg.Guest
	j, cut, err := openJournal(cfg.Journal, s.model.Apply)
	if err != nil {
		return nil, err
	}
	if cut != nil {
		s.log.Warn("the journal ended in the middle of a line; the line was dropped", "journal", cfg.Journal, "line", cut.Line, "bytes", cut.Bytes)
	}
	s.journal, s.durable, s.compactAt = j, j.size, compactAt
	if err := s.compact(); err != nil {
		j.close()
		return nil, err
	}
	if err := s.renderOfferings(cfg.Catalog); err != nil {
		j.close()
		return nil, err
	}
	// Roomy enough for every machine of the journal, so that beginning to drive them never blocks.
	s.wake = make(chan string, 1024+len(s.model.instances))
	s.doomed = make(chan string, 1024+len(s.model.instances))
	for _, in := range s.model.List(false, time.Time{}) {
		s.drive(in.ID)
		if !in.Goes.IsZero() && in.State != machines.ShuttingDown {
			s.hand(s.doomed, in.ID)
		}
	}
	return s, nil
}

// ErrStopped is what Change answers once the context of Serve has ended.
var ErrStopped = errors.New("the server has stopped")

// Serve answers on a listener and drives the machines, until the context ends (nil) or the journal can't be written. It closes
// the listener and the journal.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	web := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(l) }()
	var drivers sync.WaitGroup
	var err error
	for done := false; !done; {
		select {
		case id := <-s.wake:
			drivers.Go(func() { s.live(ctx, id) })
		case id := <-s.doomed:
			drivers.Go(func() { s.reclaim(ctx, id) })
		case err = <-served:
			served <- nil
			err = fmt.Errorf("serve machines: %w", err)
			done = true
		case <-s.stopped:
			err = s.broken
			done = true
		case <-ctx.Done():
			done = true
		}
	}
	cancel()
	web.Close()
	<-served
	drivers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = ErrStopped
		close(s.stopped)
	}
	return errors.Join(err, s.journal.close())
}

// Change lets a guest do something with the machines; what it has been told it may answer. After Serve has ended nothing is
// done: the error is ErrStopped, or what the journal could not be written for.
func (s *Server) Change(durable bool, do func(m *Model, now time.Time)) error {
	return s.change(durable, do)
}

// change lets the model do something, and returns when all that was ever to be durable is: an answer must not tell what a crash
// could undo. With durable, so are the records of this change. Everything that changes or tells goes through here.
func (s *Server) change(durable bool, do func(m *Model, now time.Time)) error {
	s.mu.Lock()
	if s.broken != nil {
		defer s.mu.Unlock()
		return s.broken
	}
	do(s.model, s.clock.Now())
	records := s.model.Take()
	err := s.journal.append(records)
	if err == nil && len(records) > 0 {
		err = s.compact()
	}
	if err != nil { // at once: nothing may be appended behind it
		s.broken = err
		close(s.stopped)
	}
	if durable {
		s.durable = s.journal.size
	}
	upTo := s.durable
	s.mu.Unlock()
	if err == nil {
		err = s.journal.syncTo(upTo)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.broken == nil {
		s.broken = err
		close(s.stopped)
	}
	if err != nil || s.broken != nil {
		return s.broken
	}
	for _, r := range records {
		switch r.Kind {
		case machines.RecordLaunched:
			s.drive(r.ID)
		case machines.RecordInterrupted:
			s.hand(s.doomed, r.ID)
		case machines.RecordTerminating:
			if c := s.ending[r.ID]; c != nil {
				close(c)
				delete(s.ending, r.ID)
			}
		}
	}
	return nil
}
