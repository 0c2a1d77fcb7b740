// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"testing"

	"github.com/dovetail-sh/dovetail/internal/casetest"
)

func TestMain(m *testing.M) { casetest.Drawn(m, 100, 2000) }
