// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package kwok is the provider for the simulated cloud (package machines), for node classes of kind KWOKNodeClass.
//
// It never creates Nodes, which the simulated cloud does, and holds no state except a copy of the catalog. It
// resolves the requirements of a launch to instance types, zones and capacity types. Start reading at
// Provider.Launch, then resolve.
package kwok
