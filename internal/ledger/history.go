// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ledger

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// What a History keeps at most.
const (
	HistoryAge      = 7 * 24 * time.Hour // how far back
	HistorySegments = 8                  // stored one by one
	SegmentEntries  = 2000               // of a segment
	SegmentBytes    = 256 << 10          // of a segment as it is stored: 2 MiB in all

	mostPodNames    = 30          // of an entry
	mostText        = 300         // bytes of an outcome, or of one field of a reason
	mostReasons     = 4           // of an entry
	alikeWithin     = time.Minute // refusals for the same reasons are one entry
	mostDecodedSize = 32 << 20    // of a segment that is read
)

// History is what was done and refused for a week: the entries that tell what became of nodes and pods, shortened. It is
// kept in segments, each stored as a whole by somebody else (Unstored, Stored, Restore); a full segment is never changed
// again, and the oldest makes way for the newest. A History is safe for concurrent use.
type History struct {
	mu       sync.Mutex
	segments []*segment // by age, the oldest first
}

type segment struct {
	slot    int // where it is stored; negative: nowhere yet
	entries []Entry
	changed int // counts changes
	stored  int // of which so many are stored
	full    bool
}

// Kept reports whether a History keeps an entry: an action, a refusal or a failure, but not a decision to keep a node, or a
// part of another entry.
func Kept(e *Entry) bool {
	switch e.Kind {
	case Keep, Bind, "would create":
		return false
	case "launch":
		return strings.HasPrefix(e.Outcome, "failed")
	case "terminate": // it follows from the end of the NodeClaim, but for an instance that has none
		return strings.HasPrefix(e.Outcome, "failed") || len(e.Why) > 0 && e.Why[0].Code == plan.Orphan
	}
	return true
}

// Add records an entry if it is Kept.
func (h *History) Add(e Entry) {
	if !Kept(&e) {
		return
	}
	shorten(&e)
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.open()
	if e.Kind == Refuse && joinRefusal(s, &e) {
		return
	}
	s.entries = append(s.entries, e)
	s.changed++
}

// open is the segment that entries are added to.
func (h *History) open() *segment {
	if n := len(h.segments); n > 0 {
		if s := h.segments[n-1]; !s.full && len(s.entries) < SegmentEntries {
			return s
		}
		h.segments[n-1].full = true
	}
	s := &segment{slot: -1}
	h.segments = append(h.segments, s)
	if len(h.segments) > HistorySegments {
		s.slot = h.segments[0].slot
		h.segments = h.segments[1:]
	}
	return s
}

// sayAlike reports whether reasons say the same of two pods, whatever amounts of a resource they ask for and there are.
func sayAlike(a, b []plan.Reason) bool {
	return slices.EqualFunc(a, b, func(a, b plan.Reason) bool { return a.Code == b.Code && a.Pool == b.Pool }) &&
		slices.EqualFunc(a, b, func(a, b plan.Reason) bool {
			x, y := a.Fields(), b.Fields()
			return x.Subject == y.Subject && x.Key == y.Key && (x.Want == y.Want || isAmount(x.Want) && isAmount(y.Want) && a.Code != plan.Requirement)
		})
}

// isAmount reports whether a text is an amount of a resource, such as 500m or 2Gi.
func isAmount(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// joinRefusal counts a refused pod in an entry that says the same of another pod, where there is one of the last minute.
func joinRefusal(s *segment, e *Entry) bool {
	for i := len(s.entries) - 1; i >= 0 && i >= len(s.entries)-64; i-- {
		o := &s.entries[i]
		if e.At.Sub(o.At) > alikeWithin {
			return false
		}
		if o.Kind != Refuse || !sayAlike(o.Why, e.Why) {
			continue
		}
		o.Last, o.Count = e.At, max(o.Count, 1)+1
		for _, r := range e.Related {
			if !slices.Contains(o.Related, r) && len(o.Related) < mostPodNames {
				o.Related = append(slices.Clip(o.Related), r)
			}
		}
		name := strings.TrimPrefix(e.Subject, "pod/")
		if e.Subject != o.Subject && !slices.Contains(o.Pods, name) {
			if len(o.Pods) < mostPodNames {
				o.Pods = append(slices.Clip(o.Pods), name)
			} else {
				o.MorePods++
			}
		}
		s.changed++
		return true
	}
	return false
}

// limits are how much of an entry is kept.
type limits struct {
	pods, reasons int
	text          int // bytes of an outcome, or of one field of a reason
}

// shorten leaves out of an entry of the History what takes room and few would miss.
func shorten(e *Entry) { limit(e, limits{mostPodNames, mostReasons, mostText}) }

// limit cuts an entry to limits: whoever makes pods chooses much of the text of reasons.
func limit(e *Entry, most limits) {
	if n := len(e.Pods); n > most.pods {
		e.Pods, e.MorePods = slices.Clone(e.Pods[:most.pods]), e.MorePods+n-most.pods
	}
	e.Related = e.Related[:min(len(e.Related), most.pods)]
	e.Why = slices.Clone(e.Why[:min(len(e.Why), most.reasons)])
	cut := func(s *string) {
		if len(*s) > most.text {
			*s = strings.ToValidUTF8((*s)[:most.text], "") + "…"
		}
	}
	cut(&e.Outcome)
	for i := range e.Why {
		e.Why[i] = e.Why[i].Shorten(most.text)
	}
}

// Entries returns the entries since a time that keep accepts, oldest first; nil accepts all.
func (h *History) Entries(since time.Time, keep func(Entry) bool) []Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []Entry{}
	for _, s := range h.segments {
		for _, e := range s.entries {
			at := e.At
			if e.Last.After(at) {
				at = e.Last
			}
			if !at.Before(since) && (keep == nil || keep(e)) {
				out = append(out, e)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return a.At.Compare(b.At) }) // those of one instant as they were added
	type id struct {
		at            int64
		kind, subject string
		why           plan.Reason // the first
	}
	seen := make(map[id]bool, len(out))
	return slices.DeleteFunc(out, func(e Entry) bool { // two leaders may have stored the same
		k := id{at: e.At.UnixNano(), kind: e.Kind, subject: e.Subject}
		if len(e.Why) > 0 {
			k.why = e.Why[0]
		}
		was := seen[k]
		seen[k] = true
		return was
	})
}

// Stored is the stored form of a segment.
type Stored struct {
	Slot    int // from 0 to HistorySegments-1
	Data    []byte
	segment *segment
	changed int
}

// Unstored drops entries older than HistoryAge, and returns the segments that have changed since they were stored.
func (h *History) Unstored(now time.Time) ([]Stored, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := now.Add(-HistoryAge)
	h.segments = slices.DeleteFunc(h.segments, func(s *segment) bool {
		return s.full && !slices.ContainsFunc(s.entries, func(e Entry) bool { return e.At.After(old) })
	})
	var out []Stored
	for _, s := range h.segments {
		if s.changed == s.stored {
			continue
		}
		data, err := s.encode()
		if err != nil {
			return out, err
		}
		if s.slot < 0 {
			s.slot = h.freeSlot()
		}
		out = append(out, Stored{s.slot, data, s, s.changed})
	}
	return out, nil
}

// encode writes a segment down. Of one that would become too large the oldest entries are left out.
func (s *segment) encode() ([]byte, error) {
	for {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if err := json.NewEncoder(z).Encode(s.entries); err != nil {
			return nil, fmt.Errorf("encode decisions: %w", err)
		}
		if err := z.Close(); err != nil {
			return nil, fmt.Errorf("encode decisions: %w", err)
		}
		if b.Len() <= SegmentBytes || len(s.entries) <= 1 {
			s.full = s.full || b.Len() > SegmentBytes*3/4
			return b.Bytes(), nil
		}
		s.entries = slices.Clone(s.entries[len(s.entries)/8+1:])
	}
}

// freeSlot is where no segment is stored, after where the newest is.
func (h *History) freeSlot() int {
	taken := map[int]bool{}
	newest := -1
	for _, s := range h.segments {
		if s.slot >= 0 {
			taken[s.slot], newest = true, s.slot
		}
	}
	for i := range HistorySegments {
		if slot := (newest + 1 + i) % HistorySegments; !taken[slot] {
			return slot
		}
	}
	return 0 // not reached: there are no more segments than slots
}

// MarkStored marks a segment as stored in the form that Unstored returned.
func (h *History) MarkStored(s Stored) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.segment.stored = max(s.segment.stored, s.changed)
}

// Restore takes over what is stored in a slot; none: nothing is. A segment that was to be stored there itself goes
// elsewhere. Data that can't be read is an error, and the slot is taken as empty.
func (h *History) Restore(slot int, data []byte, now time.Time) error {
	var entries []Entry
	var failed error
	if len(data) > 0 {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err == nil {
			err = json.NewDecoder(io.LimitReader(z, mostDecodedSize)).Decode(&entries)
		}
		if err != nil {
			entries, failed = nil, fmt.Errorf("decode decisions: %w", err)
		}
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return now.Sub(e.At) > HistoryAge })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.segments = slices.DeleteFunc(h.segments, func(s *segment) bool { return s.slot == slot && s.changed == s.stored })
	for _, s := range h.segments {
		if s.slot == slot {
			s.slot = -1
		}
	}
	if len(entries) == 0 {
		return failed
	}
	h.segments = append(h.segments, &segment{slot: slot, entries: entries, full: true})
	slices.SortStableFunc(h.segments, func(a, b *segment) int {
		return cmp.Compare(a.begin().UnixNano(), b.begin().UnixNano())
	})
	for len(h.segments) > HistorySegments {
		h.segments = h.segments[1:]
	}
	return failed
}

// Reopen allows more entries in the newest stored segment if it has space, so that not every start begins a new one. It is
// called once, after all slots are restored.
func (h *History) Reopen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.segments)
	switch {
	case n == 0:
	case h.segments[n-1].slot >= 0:
		h.segments[n-1].full = len(h.segments[n-1].entries) >= SegmentEntries/2
	case n > 1 && len(h.segments[n-2].entries)+len(h.segments[n-1].entries) < SegmentEntries/2:
		last, own := h.segments[n-2], h.segments[n-1]
		last.entries = append(slices.Clip(last.entries), own.entries...)
		last.changed++
		last.full = false
		h.segments = h.segments[:n-1]
	}
}

func (s *segment) begin() time.Time {
	if len(s.entries) == 0 {
		return time.Time{}
	}
	return s.entries[0].At
}
