// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package web serves the page of `dovetail ui` and of the controller: the overview that `dovetail top` shows, over time and as a picture of how
// full each node is, why an object is as it is, and the reports of other commands.
//
// It reads no cluster: a Source hands it views, answers and reports, and it changes nothing. The page uses its own assets
// alone, under a Content-Security-Policy that allows no others. LoopbackHandler answers only requests for a loopback address,
// so that no page of another site can read the cluster through a browser; Handler leaves it to its caller who may look.
// Sources of the page are in page/; dist/ is built from them by `make gen` and embedded.
//
// Start reading at Handler.
package web

//go:generate bash build.sh
