// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"fmt"
	"math"
	"time"
)

// ProvisioningRequest is a ProvisioningRequest as a decision needs it: pods that are to have a place at the same time, before they are
// created. Until they are, placeholders stand for them, which are pending pods of one gang in a Snapshot.
type ProvisioningRequest struct {
	Namespace, Name, UID string
	Created              time.Time

	CheckOnly bool          // free capacity is looked for, and no node is launched: class check-capacity
	NoRetry   bool          // it fails if no capacity is found at first
	ValidFor  time.Duration // how long after Created capacity is looked for

	Sets []RequestedPods // in the order of the request; nil: what the pods look like is not known, and Accepted says why

	Accepted Condition // whether Sets are known, with the reason and message for people

	RetryAt  time.Time // no capacity is looked for before; zero: it is
	Attempts int       // how often capacity was given up because only a part of it was there

	Status map[string]Condition // as the API server has it
}

// RequestedPods are the pods of one pod set of a ProvisioningRequest.
type RequestedPods struct {
	Class *Class
	Gang  Gang // of the request, with the domain that these pods must share
	Count int

	placeholders []*Pod // Count of them
}

// Conditions of a ProvisioningRequest.
const (
	RequestAccepted    = "Accepted"
	RequestProvisioned = "Provisioned"
	RequestFailed      = "Failed"
	RequestExpired     = "BookingExpired"
	RequestRevoked     = "CapacityRevoked"
)

// BookingTime is how long the capacity of a provisioned request is held for its pods.
const BookingTime = 10 * time.Minute

// Key is namespace/name.
func (r *ProvisioningRequest) Key() string { return r.Namespace + "/" + r.Name }

// Gang returns the gang that the pods of the request are, but for the domains that they must share.
func (r *ProvisioningRequest) Gang() Gang {
	return Gang{Name: RequestGang(r.Key()), Least: r.Total()}
}

// RequestGang names the gang of the ProvisioningRequest with a key.
func RequestGang(key string) string { return "provisioningrequest/" + key }

// Total is how many pods the request is for.
func (r *ProvisioningRequest) Total() int {
	n := 0
	for i := range r.Sets {
		n = min(n+r.Sets[i].Count, math.MaxInt32)
	}
	return n
}

// IsOver reports whether nothing is looked for or held for the request any more, as its status says.
func (r *ProvisioningRequest) IsOver() bool {
	return r.Status[RequestFailed].True() || r.Status[RequestExpired].True() || r.Status[RequestRevoked].True()
}

// IsProvisioned reports whether capacity is held for the request's pods, or was, as its status says.
func (r *ProvisioningRequest) IsProvisioned() bool { return r.Status[RequestProvisioned].True() }

// Deadline returns when the request's booking expires or, while it is not provisioned, when it fails; zero: never, for it does not say when it
// was created.
func (r *ProvisioningRequest) Deadline() time.Time {
	if r.IsProvisioned() {
		return r.Status[RequestProvisioned].Since.Add(BookingTime)
	}
	if r.Created.IsZero() {
		return time.Time{}
	}
	return r.Created.Add(r.ValidFor)
}

// IsActive reports whether capacity is looked for or held for the request at an instant.
func (r *ProvisioningRequest) IsActive(now time.Time) bool {
	end := r.Deadline()
	return len(r.Sets) > 0 && !r.IsOver() && (end.IsZero() || now.Before(end)) && (r.IsProvisioned() || !now.Before(r.RetryAt))
}

// MakePlaceholders makes the pods that stand for those of the request while they do not exist.
func (r *ProvisioningRequest) MakePlaceholders() {
	for i := range r.Sets {
		s := &r.Sets[i]
		all := make([]Pod, s.Count)
		s.placeholders = make([]*Pod, s.Count)
		for j := range all {
			all[j] = Pod{Namespace: r.Namespace, Name: fmt.Sprintf("provisioningrequest/%s/%d/%d", r.Name, i, j), UID: fmt.Sprintf("%s/%d/%d", r.UID, i, j), Class: s.Class,
				Owner: Owner{Kind: "ProvisioningRequest", Name: r.Name, UID: r.UID}, Created: r.Created, Unschedulable: r.Created,
				Gang: s.Gang, Consumes: Consumed{Request: r.Key(), UID: r.UID}, Placeholder: true}
			s.placeholders[j] = &all[j]
		}
	}
}

// KeepPlaceholders takes over the placeholders of the request as it was, and reports whether they still stand for its pods.
func (r *ProvisioningRequest) KeepPlaceholders(was *ProvisioningRequest) bool {
	if was.UID != r.UID || len(was.Sets) != len(r.Sets) {
		return false
	}
	for i := range r.Sets {
		if a, b := &was.Sets[i], &r.Sets[i]; a.Class != b.Class || a.Gang != b.Gang || a.Count != b.Count {
			return false
		}
	}
	for i := range r.Sets {
		r.Sets[i].placeholders = was.Sets[i].placeholders
	}
	return true
}

// Placeholders returns the pods that stand for those of the request that do not exist. have counts the pods that do, by Class.SlotKey.
// A pod that asks for something else than any pod set stands for one of the first set that has some left.
func (r *ProvisioningRequest) Placeholders(have map[string]int) (out []*Pod) {
	left := make([]int, len(r.Sets))
	for i := range r.Sets {
		left[i] = r.Sets[i].Count
	}
	others := 0
	for key, n := range have { // sums: in no order
		rest := n
		for i := range r.Sets {
			if r.Sets[i].Class.SlotKey == key {
				took := min(rest, left[i])
				left[i], rest = left[i]-took, rest-took
			}
		}
		others += rest
	}
	for i := range r.Sets {
		took := min(others, left[i])
		left[i], others = left[i]-took, others-took
		out = append(out, r.Sets[i].placeholders[:left[i]]...)
	}
	return out
}
