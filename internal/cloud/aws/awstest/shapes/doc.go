// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package shapes declares the inputs and outputs of the calls that the simulated AWS serves, as the official service models name them:
// of every call, the members that are read and written. A type is named as its service and its shape, a field as its member, and tags are
// the names on the wire (package wire). test/awsmodels compares all of them with those models.
//
// It has no behaviour but how a value is written.
package shapes
