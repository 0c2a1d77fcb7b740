// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package catalog holds instance types and prices as data: the built-in EC2 catalog, and the reader of both catalog file
// formats (ours, and that of Karpenter's KWOK provider).
//
// It never asks a cloud and knows nothing of availability at run time; machines does. A Catalog names resources by name, so it
// means the same in every process; InstanceTypes turns it into the model's vectors with the caller's own table of names.
//
// Invariants: types are sorted by name and unique, offerings by zone and capacity type and unique; amounts are in the model's
// units; a price is at least one micro-dollar; allocatable never exceeds capacity. Whatever breaks one of these is an error that
// names file, line, object, field and value.
//
// The built-in catalog's on-demand prices are list prices of the date it says. Spot prices of EC2 are not published as a
// list: unless a file gives them they are modelled, see ModelledSpot, and every such offering says so.
//
// Start reading at Catalog, then Parse.
package catalog
