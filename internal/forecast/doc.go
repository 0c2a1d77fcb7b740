// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package forecast records the demand of a workload, and forecasts how far it may rise while a node boots.
//
// A History takes one observation per minute (Observe), is bounded in memory, and is encoded in at most 4 KiB
// (Encode, Decode). Forecast returns the rise of demand within a lead time as a distribution, from several named
// methods, selected by the error that each had when it forecast past minutes without knowing them, and from spikes
// that recur at a time of day. ServiceLevel converts the costs of waiting and of idle capacity to the quantile to
// hold.
//
// The package uses no clock, randomness or goroutine; equal observations give an equal History, byte for byte.
// Minutes without an observation are unknown: nothing is learned from them, and no forecast counts as wrong because
// of them. Demand is in replicas, at most MaxReplicas.
//
// Minutes are counted since 1970 in UTC. The caller may name the time zone of recurring spikes. Ordinary rises at a
// time of day are learned in UTC, and adapt within days to a clock change. Start reading at History.Observe, then at
// History.Forecast.
package forecast
