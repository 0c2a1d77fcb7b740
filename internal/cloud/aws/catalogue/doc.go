// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package catalogue holds the EC2 offerings of a region: instance types, their zones, on-demand and spot prices, and
// the measured memory of nodes by type. It does not know node classes.
//
// A Catalogue is immutable: an update replaces it with one of a higher version. If the price list is unavailable,
// built-in prices are used; if spot prices are unavailable, estimates. Both are logged, and the offerings are marked.
// Start reading at Store.Load, then readTypeInfo, which translates EC2's description of an instance type.
package catalogue
