// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package catalogue holds what EC2 sells in a region: instance types, the zones that offer them, on-demand and spot
// prices, and how much memory nodes of a type turned out to have.
//
// It knows no node class: whether a type may be bought is for others to say. A Catalogue is never changed, only
// replaced by one with a higher version, so a reader may keep it. Without the price list the built-in prices are
// used, and without spot prices a model of them; both are logged, and offerings made of them say so.
//
// Begin at Store.Load; readTypeInfo says what is taken from EC2's description of a type.
package catalogue
