// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package access authenticates and authorizes HTTP requests to the controller.
//
// A Gate accepts a request if the API server authenticates its bearer token and allows the path (TokenReview and
// SubjectAccessReview, through a Reviewer). A browser, which cannot set the header, signs in once; a cookie then
// holds the token. Reviews are cached for seconds, and the number of cached reviews is limited.
//
// The package never stores a token, only its hash. Start reading at Gate.
package access
