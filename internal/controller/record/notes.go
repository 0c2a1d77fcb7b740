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

// noteAgain is how long a note that has not changed is not told again.
const noteAgain = 15 * time.Minute

// tellNotes tells the people who watch an object what a step has to say about it: once, again when it changes, and again after a while.
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

// IsNews reports whether a text was not recorded for a key recently, and marks it as recorded.
func (rec *Recorder) IsNews(now time.Time, key, text string) bool {
	if last, ok := rec.notes[key]; ok && last.text == text && now.Sub(last.at) < noteAgain {
		return false
	}
	if len(rec.notes) >= max(rec.noteSweepAt, fewNotes) { // looked through once for each as many as there are
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

// fewNotes are kept though it may be long since they were told.
const fewNotes = 50_000

// tellEvery is how often everything is looked at for what blocks its disruption.
const tellEvery = 10 * time.Second

// MayTellBlockers reports whether blockers of disruption are due to be recorded.
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

// recordUpdate tells what a write into a claim means for those who watch it.
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
