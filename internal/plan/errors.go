// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"errors"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// BudgetBlocks is the ErrBlocked of an eviction that a PodDisruptionBudget refuses.
type BudgetBlocks struct {
	Budget string // namespace/name
	Said   string // by the API server
}

func (e *BudgetBlocks) Error() string { return ErrBlocked.Error() + ": " + e.Said }
func (e *BudgetBlocks) Unwrap() error { return ErrBlocked }

// EvictionDenied is the ErrBlocked of an eviction that admission or a missing right refuses.
type EvictionDenied struct{ Err error }

func (e *EvictionDenied) Error() string   { return ErrBlocked.Error() + ": " + e.Err.Error() }
func (e *EvictionDenied) Unwrap() []error { return []error{ErrBlocked, e.Err} }

// Reasons of the events that tell of writes that the API server refuses, and of those that it has let through since.
const (
	EventWriteDenied   = "WriteDenied"
	EventWriteAccepted = "WriteAccepted"
)

// WriteReport is what an event WriteDenied or WriteAccepted reports. Its fields are annotations of the event.
type WriteReport struct {
	Write   string // such as "update the status of this Node"
	Others  int    // number of other objects for which it is refused too
	Refusal string // by whom, and why; empty: the API server accepted the write
}

// Annotations of an event with a WriteReport.
const (
	annotationWrite   = "dovetail.sh/write"
	annotationOthers  = "dovetail.sh/write-others"
	annotationRefusal = "dovetail.sh/write-refusal"
)

// Reason returns the reason of the event.
func (w WriteReport) Reason() string {
	if w.Refusal == "" {
		return EventWriteAccepted
	}
	return EventWriteDenied
}

// Text returns the message of the event.
func (w WriteReport) Text() string {
	if w.Refusal == "" {
		return "The API server let Dovetail " + w.Write
	}
	what := w.Write
	if w.Others > 0 {
		what += " and " + model.Count(w.Others, "other")
	}
	return "The API server does not let Dovetail " + what + ": " + w.Refusal
}

// Annotations returns the annotations of the event.
func (w WriteReport) Annotations() map[string]string {
	return map[string]string{annotationWrite: w.Write, annotationOthers: strconv.Itoa(w.Others), annotationRefusal: w.Refusal}
}

// ReadWriteReport returns the report in the annotations of an event, and false if they contain none.
func ReadWriteReport(annotations map[string]string) (WriteReport, bool) {
	others, err := strconv.Atoi(annotations[annotationOthers])
	w := WriteReport{annotations[annotationWrite], others, annotations[annotationRefusal]}
	return w, err == nil && w.Write != ""
}

// WriteAnswer is what came of a write to an object; Err is nil if it was accepted.
type WriteAnswer struct {
	Namespace, Name, UID string
	Err                  error
}

// What whoever carries out an action may answer, so that the loop knows what to do next. Any other error means: try again later.
var (
	// ErrBlocked: the API server refuses for now, a PodDisruptionBudget or an admission webhook being in the way. Try again; the error's text
	// says which.
	ErrBlocked = errors.New("blocked")
	// ErrGone: the object is not there any more, or is another one of that name. The effect can't be had and isn't needed.
	ErrGone = errors.New("gone")
	// ErrConflict: the object changed since the Snapshot. Decide again.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: the API server does not accept this, and hardly ever will. Tell; repeat it ever more rarely.
	ErrInvalid = errors.New("invalid")
)
