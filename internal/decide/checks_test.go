// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"flag"
	"os"
	"testing"
)

// TestMain has properties checked on 50 drawn cases each, on 100 in the soak, and on as many as -rapid.checks says.
func TestMain(m *testing.M) {
	flag.Parse()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue && os.Getenv("DOVETAIL_SOAK") == "" {
		if err := checks.Value.Set("50"); err != nil {
			panic(err) // the flag is a number
		}
	}
	os.Exit(m.Run())
}
