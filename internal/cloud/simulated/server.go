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
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// nodesAtOnce is how many Nodes are made or deleted at once.
const nodesAtOnce = 64

// Open replays the journal. Machines of an earlier run continue when Serve starts.
func Open(cfg Config, maker NodeMaker) (*Server, error) {
	if cfg.Catalog == nil || maker == nil || cfg.Journal == "" {
		return nil, errors.New("open machines: need a catalog, a node maker and a journal")
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
	s.restarting = make(chan string, 1024+len(s.model.instances))
	for _, in := range s.model.List(false, time.Time{}) {
		s.drive(in.ID)
		if !in.Goes.IsZero() && in.State != machines.ShuttingDown {
			s.hand(s.doomed, in.ID)
		}
		if in.Reboots > 0 && in.State == machines.Running {
			s.hand(s.restarting, in.ID)
		}
	}
	return s, nil
}

// ErrStopped is the error of Change after the context of Serve has ended.
var ErrStopped = errors.New("the server has stopped")

// Serve serves requests on a listener and drives the machines, until the context ends (nil) or the journal cannot be
// written. It closes the listener and the journal.
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
		case id := <-s.restarting:
			drivers.Go(func() { s.restart(ctx, id) })
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
