// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import "context"

type lookOnly struct{}

// LookOnly marks calls that may change nothing at all, not even make beforehand what a launch will need.
func LookOnly(ctx context.Context) context.Context { return context.WithValue(ctx, lookOnly{}, true) }

// LooksOnly reports whether a call is so marked.
func LooksOnly(ctx context.Context) bool { return ctx.Value(lookOnly{}) != nil }
