// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package web serves the page of `dovetail ui` and of the controller: the content of `dovetail top` over time and as
// a map of the nodes, explanations of objects, and the reports of other commands.
//
// It reads no cluster, and changes nothing: a Source provides views, answers and reports. The page loads only its own
// assets, enforced by a Content-Security-Policy. LoopbackHandler answers only requests for a loopback address, so
// that pages of other sites cannot read the cluster through a browser. Handler leaves access control to its caller.
// The page's sources are in page/; `make gen` builds dist/ from them, which is embedded. Start reading at Handler.
package web

//go:generate bash build.sh
