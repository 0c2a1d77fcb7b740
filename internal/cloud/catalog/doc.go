// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package catalog contains instance types and prices as data: the built-in EC2 catalog, and a parser for both catalog
// formats (Dovetail's, and that of Karpenter's KWOK provider).
//
// It makes no requests, and does not know which offerings are available at runtime. A Catalog identifies resources by
// name, so it is independent of the process; InstanceTypes converts it to vectors of package model with the caller's
// table of names.
//
// Invariants: instance types are sorted by name and unique; offerings are sorted by zone and capacity type and
// unique; amounts are in the units of package model; a price is at least one micro-dollar; allocatable never exceeds
// capacity. A violation is an error with file, line, object, field and value.
//
// The on-demand prices of the built-in catalog are list prices of the date that it contains. It has no EC2 spot
// prices: unless a file sets them, they are modelled (ModelledSpot), and these offerings are marked.
//
// Start reading at Catalog, then Parse.
package catalog
