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
	None                 Kind = ""                     // no error
	NotFound             Kind = "NotFound"             // the object does not exist (any more): nothing to do
	InsufficientCapacity Kind = "InsufficientCapacity" // mark the offerings unavailable, and decide again
	Throttled            Kind = "Throttled"            // retry after Error.After
	NotReady             Kind = "NotReady"             // wait until the named object is ready
	Denied               Kind = "Denied"               // report it: it fails until someone changes something
	Unknown              Kind = "Unknown"              // retry with back-off; the call may have had its effect
)

// Error is a provider's error.
type Error struct {
	Kind      Kind
	Op        string        // the operation: launch, list, terminate, offerings
	Object    string        // the object: a NodeClaim, a provider ID, a node class
	Offerings []OfferingKey // InsufficientCapacity: the offerings without capacity; sorted
	After     time.Duration // Throttled: delay before a retry
	Err       error         // the cause; may be nil
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of an error: None for nil, Unknown if no provider classified it.
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

// OfferingsOf returns the offerings of an InsufficientCapacity error, nil for other errors.
func OfferingsOf(err error) []OfferingKey {
	var e *Error
	if errors.As(err, &e) {
		return e.Offerings
	}
	return nil
}

// AfterOf returns the delay of a Throttled error, zero for other errors.
func AfterOf(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) && e.Kind == Throttled {
		return e.After
	}
	return 0
}
