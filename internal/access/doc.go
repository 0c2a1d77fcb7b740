// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package access decides who may look at what a controller serves.
//
// A Gate lets a request through whose bearer token the API server knows and allows the path (TokenReview and
// SubjectAccessReview, by a Reviewer). A browser, which sends no header of its own accord, signs in once and keeps the token
// in a cookie. Reviews and answers are remembered for seconds, in bounded number.
//
// It never stores a token: only its hash is remembered. Start reading at Gate.
package access
