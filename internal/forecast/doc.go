// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package forecast remembers a workload's demand and says how far it may rise while a node boots.
//
// A History takes one observation a minute (Observe), bounded in memory, and can be written in at most 4 KiB (Encode,
// Decode). Forecast answers with the rise of demand within a lead time as a distribution: of one of a few named
// methods, chosen by the error that each had when it forecast the past minutes without knowing them, and of spikes that
// recur at a time of the clock. ServiceLevel turns two prices, of waiting and of idling, into the quantile that is
// worth holding.
//
// The package has no clock, no randomness and no goroutine; equal observations give an equal History, byte for byte.
// Minutes without an observation are unknown: nothing is learned from them and no forecast counts as wrong because of
// them. Demand is in replicas and capped at MaxReplicas. Minutes are counted since 1970 in UTC. Who asks for a forecast
// may name the zone whose clock spikes recur by; what is learned of ordinary rises at a time of day is by UTC, and
// follows a clock that is changed within days.
//
// Start reading at History.Observe, then at History.Forecast.
package forecast
