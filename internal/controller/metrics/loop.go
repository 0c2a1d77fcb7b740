// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Loop is what figures that are worked out when they are asked for need of the loop. Its methods may be called from
// anywhere.
type Loop interface {
	LastView() *view.View   // nil: nothing was decided here
	IsActing() bool         // it leads, has read the cluster, and no other autoscaler is live
	UnreadSince() time.Time // since when the cluster has not been read; zero: it has been
	PodFacts() []*state.PodFacts
}
