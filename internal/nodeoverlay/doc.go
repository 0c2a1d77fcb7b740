// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package nodeoverlay lays NodeOverlays over the instance types that a provider offers: another price for an offering,
// extended resources for a type. What comes out is what every decision takes types to cost and to have; nothing changes
// at the cloud.
//
// What holds: nothing that was handed in is changed; what no overlay touches is handed back as the same value, so that a
// caller may compare addresses; the result does not depend on the order of overlays or pools. An overlay is applied to
// all that it matches in all pools, or, where it conflicts with another anywhere, to nothing.
//
// Start reading at Apply.
package nodeoverlay
