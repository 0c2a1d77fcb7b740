// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package launch is what the two ways of launching have in common: the memory of each claim's launch (Registry), by
// which a repeated request buys nothing more, and the answer for a machine that was bought (NewResult, Confirm).
//
// It calls nothing that buys. What it remembers may be lost at any time: a machine bears its claim's uid as a tag
// from its first moment, or from when it was handed to the claim, and is found by that.
package launch
