// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc

// Dial returns a connection to the server.
var Dial = (*Config).dial
