// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package web

import (
	"context"
	"io"
	"time"

	"github.com/dovetail-sh/dovetail/internal/top"
)

// Source is what the page shows.
type Source interface {
	// View returns the cluster as it is now.
	View() *top.View
	// Details writes what is known of an object, named KIND/NAME or pod/NAMESPACE/NAME. An error wraps fs.ErrNotExist when
	// there is no such object.
	Details(ctx context.Context, w io.Writer, subject string) error
	// Report writes the JSON output of a command that changes nothing. since is the time that a report of the past covers. An error
	// wraps fs.ErrNotExist if it serves no such report.
	Report(ctx context.Context, w io.Writer, name string, since time.Duration) error
	// Plan writes what would be launched for manifests beside what the cluster has.
	Plan(ctx context.Context, w io.Writer, manifests io.Reader) error
	// Usages returns the bound pods by node and workload.
	Usages() []top.Usage
	// Pending writes report.Pending as JSON: the pending pods by reason, each with the change that helps. An error wraps
	// fs.ErrNotExist if no controller can be asked.
	Pending(ctx context.Context, w io.Writer) error
	// Offer says what can be asked.
	Offer() Offer
}

// Offer is what a Source can be asked beside the cluster and its objects.
type Offer struct {
	By      string   `json:"by"`      // who answers, for people
	Reports []string `json:"reports"` // names for Report
	Plan    bool     `json:"plan"`    // Plan answers
}
