// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// A growing journal would take longer to replay at each start, and a model that forgets nothing would fill the memory.
// So only the last terminated machines are kept completely, and of all others the ID. If most of a journal is about
// terminated machines, it is rewritten: one record with the complete state, then new records as before. IDs are derived
// from the claim's UID, so a claim is still launched at most once.

// keepEnded is how many machines that have ended are kept whole.
const keepEnded = 1000

// ended has a machine that has ended take less room, and in the end none but for its id.
func (m *Model) ended(in *machines.Instance) {
	m.gone = append(m.gone, in.ID)
	for len(m.gone) > keepEnded && m.guest == nil { // a guest may still ask for any
		old := m.instances[m.gone[0]]
		m.gone = m.gone[1:]
		delete(m.instances, old.ID)
		if old.ClaimUID != "" {
			delete(m.byClaim, old.ClaimUID)
			m.tombs[old.ID] = struct{}{}
		}
	}
}

// Compact returns the record that replaces all records until now; nil: not possible, because only the guest knows the
// contents of its notes.
func (m *Model) Compact(now time.Time) *machines.Record {
	if m.guest != nil {
		return nil
	}
	c := &machines.Compacted{Instances: m.all(), Ended: slices.Sorted(maps.Keys(m.tombs))}
	return &machines.Record{Seq: m.seq, At: now, Kind: machines.RecordCompacted, Compacted: c}
}

func (m *Model) all() []machines.Instance {
	out := make([]machines.Instance, 0, len(m.instances))
	for _, id := range slices.Sorted(maps.Keys(m.instances)) {
		out = append(out, *m.instances[id])
	}
	return out
}

// restore takes over how things stood.
func (m *Model) restore(r machines.Record) error {
	if m.seq != 0 || r.Compacted == nil || m.guest != nil {
		return fmt.Errorf("record %d: %s must be the first of its journal, whole, and nobody's but the machines'", r.Seq, r.Kind)
	}
	for _, id := range r.Compacted.Ended {
		m.tombs[id] = struct{}{}
	}
	var over []*machines.Instance
	for i := range r.Compacted.Instances {
		in := &r.Compacted.Instances[i]
		m.instances[in.ID] = in
		if in.ClaimUID != "" {
			m.byClaim[in.ClaimUID] = in
		}
		if in.State == machines.Terminated {
			over = append(over, in)
		} else {
			m.byNode[in.Node.Name] = in
		}
	}
	slices.SortFunc(over, func(a, b *machines.Instance) int {
		if d := a.Terminated.Compare(b.Terminated); d != 0 {
			return d
		}
		return strings.Compare(a.ID, b.ID)
	})
	for _, in := range over {
		m.gone = append(m.gone, in.ID)
	}
	m.seq = r.Seq
	return nil
}

// compactAt is the minimum journal size for a rewrite, which happens when it has doubled since the last one.
const compactAt = 16 << 20

// compact rewrites the journal if most of it is obsolete. The caller holds mu, or is Open.
func (s *Server) compact() error {
	if s.journal.size < max(s.compactAt, 2*s.compacted) {
		return nil
	}
	r := s.model.Compact(s.clock.Now())
	if r == nil {
		s.compacted = s.journal.size // and not asked again at once
		return nil
	}
	before := s.journal.size
	if err := s.journal.rewrite(*r); err != nil {
		return err
	}
	s.compacted, s.durable = s.journal.size, s.journal.size
	s.log.Info("journal compacted", "journal", s.journal.named, "bytesBefore", before, "bytesAfter", s.journal.size)
	return nil
}

// rewrite puts a journal of one record in this one's place. Whoever is killed meanwhile leaves one of the two, whole.
func (j *journal) rewrite(r machines.Record) error {
	path := j.named
	fail := func(err error) error { return fmt.Errorf("write journal %s anew: %w", path, err) }
	text, err := json.Marshal(r)
	if err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fail(err)
	}
	done := false
	defer func() {
		if !done {
			f.Close()
		}
	}()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fail(err)
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		return fail(err)
	}
	if err := f.Sync(); err != nil {
		return fail(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fail(err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fail(err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fail(err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fail(err)
	}
	j.syncing.Lock()
	defer j.syncing.Unlock()
	// The old file is left open for whoever is reading it; it ends with its last reader.
	j.f, j.named, j.size, j.synced, done = f, path, size, size, true
	return nil
}
