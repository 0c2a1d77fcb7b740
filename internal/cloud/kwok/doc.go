// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package kwok is the provider that buys from the simulated cloud (package machines) for node classes of kind KWOKNodeClass.
//
// It never makes Nodes, which the cloud does, and keeps nothing but a copy of the catalog: what was launched is the cloud's to
// know. A request's requirements are resolved here, to the types, zones and capacity types that the cloud is asked for.
//
// Start reading at Provider.Launch, then resolve.
package kwok
