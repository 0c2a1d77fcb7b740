// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// noteAgain is how long an unchanged note is not repeated.
const noteAgain = 15 * time.Minute

// tellNotes records an event for each note of a step. An unchanged note is repeated after noteAgain.
func (rec *Recorder) tellNotes(now time.Time, notes []plan.Note) {
	for _, n := range notes {
		key := n.Kind + "/" + n.Namespace + "/" + n.Name + " " + n.Event
		text := report.Sentence(n.Why)
		_, ok := rec.notes[key]
		if !rec.IsNews(now, key, text) {
			continue
		}
		rec.events.Event(n.Kind, n.Namespace, n.Name, n.UID, n.Warn, n.Event, text)
		if !ok && n.Warn {
			rec.ledger.Add(ledger.Entry{At: now, Kind: "note", Subject: noteSubject(n), Why: []plan.Reason{n.Why}, Outcome: n.Event})
		}
	}
}

// IsNews reports whether text differs from the text last recorded for key, or was recorded at least 15 minutes ago. If
// so, it records text.
func (rec *Recorder) IsNews(now time.Time, key, text string) bool {
	if last, ok := rec.notes[key]; ok && last.text == text && now.Sub(last.at) < noteAgain {
		return false
	}
	if len(rec.notes) >= max(rec.noteSweepAt, fewNotes) { // amortized: each sweep is followed by as many additions as notes were left
		for k, t := range rec.notes {
			if now.Sub(t.at) >= noteAgain {
				delete(rec.notes, k)
			}
		}
		rec.noteSweepAt = 2 * len(rec.notes)
	}
	rec.notes[key] = toldNote{now, text}
	return true
}

// fewNotes is the number of notes below which old notes are not removed.
const fewNotes = 50_000

// tellEvery is the interval at which blockers of disruption are recorded.
const tellEvery = 10 * time.Second

// MayTellBlockers reports whether blockers of disruption are due to be recorded. If so, it restarts the interval.
func (rec *Recorder) MayTellBlockers(now time.Time) bool {
	if now.Sub(rec.blockersTold) < tellEvery {
		return false
	}
	rec.blockersTold = now
	return true
}

func noteSubject(n plan.Note) string {
	kinds := map[string]string{"Node": "node/", "NodeClaim": "nodeclaim/", "NodePool": "nodepool/", "Pod": "pod/" + n.Namespace + "/"}
	return kinds[n.Kind] + n.Name
}

// recordUpdate records events for conditions and annotations of a NodeClaim that matter to its users.
func (rec *Recorder) recordUpdate(a plan.UpdateClaim) {
	cl := rec.objects.FindClaim(a.Claim)
	if cl == nil {
		return
	}
	both := func(reason, text string) {
		rec.events.Event("NodeClaim", "", cl.Name, cl.UID, true, reason, text)
		if cl.NodeName != "" {
			rec.events.Event("Node", "", cl.NodeName, "", true, reason, text)
		}
	}
	if at := a.Annotations[lifecycle.TerminationTime]; at != "" && at != plan.Unset {
		both("TerminationGracePeriodExpiring", "all pods will be deleted by "+at)
	}
	if w := a.Conditions[lifecycle.Detached]; w.Reason == "AwaitingVolumeDetachment" {
		both("AwaitingVolumeDetachment", w.Message)
	}
	if w := a.Conditions[lifecycle.Consistent]; w.Status == "False" {
		both("FailedConsistencyCheck", w.Message)
	}
}
