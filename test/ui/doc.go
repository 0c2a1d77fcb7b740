// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package ui is a test: a real Chromium opens the page of `dovetail ui` about a sandbox, reads each view as a person would and
// finds nothing wrong in the browser's console; then the page that the controller itself serves, over TLS, with a token. Where
// there is no Chromium the test is skipped and says so. The folder bench measures the page, and the commands beside it, at scale.
package ui
