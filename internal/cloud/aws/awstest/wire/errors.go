// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package wire

import (
	"fmt"
)

// Error is an error response with an error code of the service.
type Error struct {
	Code    string
	Message string
	Status  int // 0: 400
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Refuse returns an Error of status 400.
func Refuse(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// None is an empty response.
type None struct{}
