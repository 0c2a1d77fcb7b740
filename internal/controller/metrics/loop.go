// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Loop provides the loop's state for metrics that are computed on each scrape. It is safe for concurrent use.
type Loop interface {
	LastView() *view.View   // nil: no decision was made in this process
	IsActing() bool         // it leads, has read the cluster, and no other autoscaler is live
	UnreadSince() time.Time // since when the cluster has not been read; zero: it has been read
	PodFacts() []*state.PodFacts
}
