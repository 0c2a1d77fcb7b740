// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind classifies an error by what the caller should do about it (contract 6).
type Kind string

// The kinds.
const (
	None                 Kind = ""                     // there is no error
	NotFound             Kind = "NotFound"             // the object does not exist, or no longer: it is done
	InsufficientCapacity Kind = "InsufficientCapacity" // set the offerings aside and decide again
	Throttled            Kind = "Throttled"            // repeat after Error.After
	NotReady             Kind = "NotReady"             // wait for the object named to become ready
	Denied               Kind = "Denied"               // tell a person: it will not work until somebody changes something
	Unknown              Kind = "Unknown"              // repeat with back-off; the effect may have happened
)

// Error is a provider's error.
type Error struct {
	Kind      Kind
	Op        string        // what was asked for: launch, list, terminate, offerings
	Object    string        // on what: a claim, a provider id, a node class
	Offerings []OfferingKey // InsufficientCapacity: those that had none; sorted
	After     time.Duration // Throttled: how long to wait before repeating
	Err       error         // what was wrong, may be nil
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Object != "" {
		b.WriteString(" " + e.Object)
	}
	switch e.Kind {
	case NotFound:
		b.WriteString(": not found")
	case InsufficientCapacity:
		b.WriteString(": insufficient capacity")
		for i, o := range e.Offerings {
			switch {
			case i == 0:
				b.WriteString(" of " + o.String())
			case i < 3:
				b.WriteString(", " + o.String())
			case i == 3:
				fmt.Fprintf(&b, " and %d more", len(e.Offerings)-3)
			}
		}
	case Throttled:
		fmt.Fprintf(&b, ": throttled, retry after %s", e.After)
	case NotReady:
		b.WriteString(": not ready")
	case Denied:
		b.WriteString(": denied")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf classifies any error: None for nil, Unknown for one that no provider classified.
func KindOf(err error) Kind {
	if err == nil {
		return None
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Unknown
}

// OfferingsOf are the offerings that an InsufficientCapacity error names.
func OfferingsOf(err error) []OfferingKey {
	var e *Error
	if errors.As(err, &e) {
		return e.Offerings
	}
	return nil
}

// AfterOf is the delay that a Throttled error asks for, zero for any other.
func AfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) && e.Kind == Throttled {
		return e.After
	}
	return 0
}
