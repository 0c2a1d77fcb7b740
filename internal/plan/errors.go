// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"errors"
	"strconv"
	"strings"

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

const (
	deniedPrefix   = "The API server does not let Dovetail "
	acceptedPrefix = "The API server let Dovetail "
	othersJoint    = " and "
)

// WriteDeniedText is what event WriteDenied says of a write, such as "update the status of this Node": how many other objects it is refused for too, and why.
func WriteDeniedText(write string, others int, why string) string {
	if others > 0 {
		write += othersJoint + model.Count(others, "other")
	}
	return deniedPrefix + write + ": " + why
}

// WriteAcceptedText is what event WriteAccepted says of a write.
func WriteAcceptedText(write string) string { return acceptedPrefix + write }

// ReadWriteText returns what the text of an event WriteDenied or WriteAccepted was made of; an empty write: it is another text.
func ReadWriteText(text string) (write string, others int, why string) {
	for _, prefix := range []string{deniedPrefix, acceptedPrefix} {
		rest, ok := strings.CutPrefix(text, prefix)
		if !ok {
			continue
		}
		write, why, _ = strings.Cut(rest, ": ")
		if i := strings.LastIndex(write, othersJoint); i >= 0 {
			number, _, _ := strings.Cut(write[i+len(othersJoint):], " ")
			if n, err := strconv.Atoi(number); err == nil {
				write, others = write[:i], n
			}
		}
		return write, others, why
	}
	return "", 0, ""
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
