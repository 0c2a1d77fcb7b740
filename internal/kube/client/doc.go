// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package client connects to an API server, and is the only package that builds a client of one.
//
//   - Connect and New take an Access. With ReadOnly the one connection that all of a client's requests pass through refuses
//     writes, so nothing that is made of the client can write.
//   - Store, a client's Seen, keeps the objects that a translation or a write looks at again. watch fills it in, and write adds
//     what its requests answered.
//   - Lead, Others, Reviews and Reach are what else a process asks of an API server: to lead, who else leads, who may look, and
//     the way to a controller that runs in the cluster.
//
// It knows no decision, no action and no plan. Start reading at Client.
package client
