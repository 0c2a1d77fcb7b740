// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package client connects to an API server. It is the only package that builds Kubernetes clients.
//
//   - Connect and New take an Access. With ReadOnly, the connection that all requests use rejects writes, so nothing
//     derived from the client can write.
//   - Store, in Client.Seen, holds objects that translations and writes need later. watch fills it, and write adds
//     the responses to its requests.
//   - Lead, Others, Reviews and Reach provide leader election, detection of other autoscalers, access reviews, and
//     port-forwarding to a controller in the cluster.
//
// It does not know decisions, actions or plans. Start reading at Client.
package client
