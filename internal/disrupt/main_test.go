// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"flag"
	"os"
	"testing"
)

// TestMain has the soak look longer, and everybody else at the same series each time.
func TestMain(m *testing.M) {
	flag.Parse()
	name, value := "rapid.seed", "1"
	if os.Getenv("DOVETAIL_SOAK") != "" {
		name, value = "rapid.checks", "100000"
	}
	if f := flag.Lookup(name); f.Value.String() == f.DefValue {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
