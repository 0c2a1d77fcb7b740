// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// Access defines whether a client may write.
type Access int

const (
	ReadWrite Access = iota
	// ReadOnly rejects every request that could change an object before it is sent: see ErrReadOnly. Everything built from
	// such a client, such as an Actor, is read-only too.
	ReadOnly
)

// ErrReadOnly is why a client with Access ReadOnly sends no request.
var ErrReadOnly = errors.New("this client only reads")

// questions are the paths to which a POST asks something and changes nothing.
var questions = []string{
	"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
	"/apis/authorization.k8s.io/v1/subjectaccessreviews",
	"/apis/authentication.k8s.io/v1/tokenreviews",
}

// readOnly is the connection of a client that only reads. All requests of a client pass through it.
type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r readOnly) RoundTrip(q *http.Request) (*http.Response, error) {
	switch q.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return r.next.RoundTrip(q)
	case http.MethodPost:
		if slices.Contains(questions, q.URL.Path) {
			return r.next.RoundTrip(q)
		}
	}
	if q.Body != nil {
		_ = q.Body.Close() // as a RoundTripper must; nothing was read from it
	}
	return nil, fmt.Errorf("%s %s: %w", q.Method, q.URL.Path, ErrReadOnly)
}
