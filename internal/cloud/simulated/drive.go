// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"context"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// drive has a machine driven. The caller holds mu, or is Open.
func (s *Server) drive(id string) {
	ending := make(chan struct{})
	if s.model.instances[id].State == machines.ShuttingDown {
		close(ending)
	} else {
		s.ending[id] = ending
	}
	s.hand(s.wake, id)
}

// hand has Serve see to a machine.
func (s *Server) hand(to chan string, id string) {
	select {
	case to <- id:
	default:
		go func() { // more at once than there is room for
			select {
			case to <- id:
			case <-s.stopped:
			}
		}()
	}
}

// live runs the lifecycle of one machine: wait, create the Node, wait for termination, delete the Node. Steps recorded
// in the journal are not repeated; others may have been done, and are repeated, which is harmless.
func (s *Server) live(ctx context.Context, id string) {
	s.mu.Lock()
	in := s.model.Instance(id)
	ending := s.ending[id]
	s.mu.Unlock()
	if ending == nil { // terminated between Open or launch and now
		ending = make(chan struct{})
		close(ending)
	}
	log := s.log.With("machine", id, "node", in.Node.Name, "claim", in.ClaimName)

	if in.State == machines.Pending && !in.NeverRegisters && !isClosed(ending) {
		if !s.waitUntil(ctx, in.Registers, ending) {
			return
		}
		if !isClosed(ending) {
			create := func(ctx context.Context) error { return s.maker.CreateNode(ctx, in.Boot()) }
			made := s.until(ctx, ending, func(err error) { log.Warn("node not created, trying again", "error", err) }, create)
			if ctx.Err() != nil {
				return
			}
			if made {
				// Not synced: a record that is lost means that the Node is made again, which is success.
				if s.change(false, func(m *Model, now time.Time) { m.NodeCreated(id, now) }) != nil {
					return
				}
				log.Info("node created", "type", in.InstanceType, "zone", in.Zone, "capacityType", in.CapacityType)
			}
		}
	}
	select {
	case <-ending:
	case <-ctx.Done():
		return
	}
	remove := func(ctx context.Context) error { return s.maker.DeleteNode(ctx, in.Node.Name, in.ProviderID) }
	if !s.until(ctx, nil, func(err error) { log.Warn("node not deleted, trying again", "error", err) }, remove) {
		return
	}
	if s.change(false, func(m *Model, now time.Time) { m.NodeDeleted(id, now) }) == nil {
		log.Info("instance terminated")
	}
}

// restart restarts a rebooted machine: after the boot time, its Node gets another boot ID. The Node stays Ready
// meanwhile, as in Karpenter's KWOK provider.
func (s *Server) restart(ctx context.Context, id string) {
	s.mu.Lock()
	boot := s.model.Boot(id)
	s.mu.Unlock()
	if s.clock.Wait(ctx, boot) != nil {
		return
	}
	s.mu.Lock()
	in := s.model.Instance(id)
	ending := s.ending[id]
	s.mu.Unlock()
	if in == nil || ending == nil {
		return // terminated meanwhile
	}
	reboot := func(ctx context.Context) error { return s.maker.RebootNode(ctx, in.Boot()) }
	if s.until(ctx, ending, func(err error) { s.log.Warn("node not rebooted, trying again", "node", in.Node.Name, "error", err) }, reboot) {
		s.log.Info("instance rebooted", "machine", id, "node", in.Node.Name, "claim", in.ClaimName)
	}
}

// waitUntil returns false if the context has ended. It returns early if the machine's termination is requested.
func (s *Server) waitUntil(ctx context.Context, at time.Time, ending <-chan struct{}) bool {
	wait, stop := context.WithCancel(ctx)
	defer stop()
	unhook := make(chan struct{})
	go func() {
		defer close(unhook)
		select {
		case <-ending:
			stop()
		case <-wait.Done():
		}
	}()
	_ = s.clock.Wait(wait, at.Sub(s.clock.Now()))
	stop()
	<-unhook
	return ctx.Err() == nil
}

// until retries a call with back-off until it succeeds. It returns false when the context ends or, after a failed call,
// when the machine's termination is requested.
func (s *Server) until(ctx context.Context, ending <-chan struct{}, failed func(error), call func(context.Context) error) bool {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		err := call(ctx)
		<-s.slots
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		failed(err)
		if s.clock.Wait(ctx, pause) != nil || isClosed(ending) {
			return false
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Change lets a guest change the machines; with durable, it waits until the records are stored, so that the guest may
// respond. After Serve has ended, it does nothing and returns ErrStopped, or the error of writing the journal.
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
		case machines.RecordRebooted:
			s.hand(s.restarting, r.ID)
		case machines.RecordTerminating:
			if c := s.ending[r.ID]; c != nil {
				close(c)
				delete(s.ending, r.ID)
			}
		}
	}
	return nil
}
