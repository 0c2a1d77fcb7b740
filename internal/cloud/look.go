// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import "context"

type lookOnly struct{}

// LookOnly returns a context for calls that must not change anything, not even in preparation of a launch.
func LookOnly(ctx context.Context) context.Context { return context.WithValue(ctx, lookOnly{}, true) }

// LooksOnly reports whether a context was returned by LookOnly.
func LooksOnly(ctx context.Context) bool { return ctx.Value(lookOnly{}) != nil }
