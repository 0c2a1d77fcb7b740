// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

import (
	"strconv"
	"time"
)

// Epoch is a time encoded in JSON as seconds since the Unix epoch.
type Epoch time.Time

// MarshalJSON writes seconds.
func (e Epoch) MarshalJSON() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(time.Time(e).UnixMilli())/1000, 'f', -1, 64)), nil
}
