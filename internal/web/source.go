// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package web

import (
	"context"
	"io"
	"time"

	"github.com/dovetail-sh/dovetail/internal/top"
)

// Source provides the data of the page.
type Source interface {
	// View returns the current cluster.
	View() *top.View
	// Details writes the details of an object, named KIND/NAME or pod/NAMESPACE/NAME. If the object does not exist, the error wraps
	// fs.ErrNotExist.
	Details(ctx context.Context, w io.Writer, subject string) error
	// Report writes the JSON output of a read-only command. since is the period of a report about the past. If the Source has no
	// such report, the error wraps fs.ErrNotExist.
	Report(ctx context.Context, w io.Writer, name string, since time.Duration) error
	// Plan writes the nodes that would be launched for the given manifests in addition to the existing nodes.
	Plan(ctx context.Context, w io.Writer, manifests io.Reader) error
	// Usages returns the bound pods by node and workload.
	Usages() []top.Usage
	// Pending writes report.Pending as JSON: the pending pods by reason, each with the change that helps. If no controller is
	// available, the error wraps fs.ErrNotExist.
	Pending(ctx context.Context, w io.Writer) error
	// Offer returns the supported queries.
	Offer() Offer
}

// Offer lists the queries that a Source supports, in addition to the cluster and its objects.
type Offer struct {
	By      string   `json:"by"`      // name of the process that answers, for display
	Reports []string `json:"reports"` // names for Report
	Plan    bool     `json:"plan"`    // Plan is supported
}
