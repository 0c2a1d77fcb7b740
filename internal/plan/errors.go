// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"errors"
	"strings"
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

const (
	deniedPrefix   = "The API server does not let Dovetail "
	acceptedPrefix = "The API server let Dovetail "
)

// WriteDeniedText is what event WriteDenied says of a verb and a kind, up to what refuses the write.
func WriteDeniedText(verb, kind string) string { return deniedPrefix + verb + " this " + kind }

// WriteAcceptedText is what event WriteAccepted says.
func WriteAcceptedText(verb, kind string) string { return acceptedPrefix + verb + " this " + kind }

// WriteOf returns which write of its object an event WriteDenied or WriteAccepted is about; empty: another text.
func WriteOf(text string) string {
	for _, prefix := range []string{deniedPrefix, acceptedPrefix} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			write, _, _ := strings.Cut(rest, ": ")
			return write
		}
	}
	return ""
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
