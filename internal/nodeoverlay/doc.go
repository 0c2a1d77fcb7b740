// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package nodeoverlay applies NodeOverlays to a provider's instance types: prices of offerings, and extended
// resources of types. All decisions use the result; nothing changes in the cloud.
//
// Invariants: inputs are not modified; instance types without a matching overlay are returned as the same pointers,
// so callers can compare them; the result does not depend on the order of overlays or pools. An overlay applies to
// everything that it matches in all pools or, if it conflicts with another overlay anywhere, to nothing. Start
// reading at Apply.
package nodeoverlay
