// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package offering computes what can be launched: instance types with the properties of their nodes (TypeBuilder),
// their zones, capacity types and prices (Set), and the subset that a launch request allows (Set.Options).
//
// It does not call AWS. fleet and asg determine the offerings of their node classes. A Set is immutable. While its
// inputs are equal, the same Set is returned (Cache), so callers can compare pointers.
package offering
