// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package casetest

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Drawn runs a package's tests with the given number of checks per property. The values that rapid draws are the same in each run;
// in a soak test they are new, with soak checks. Flags -rapid.seed and -rapid.checks take precedence.
func Drawn(m *testing.M, checks, soak int) {
	flag.Parse()
	set := map[string]string{"rapid.seed": "1", "rapid.checks": strconv.Itoa(checks)}
	if os.Getenv("DOVETAIL_SOAK") != "" {
		set = map[string]string{"rapid.checks": strconv.Itoa(soak)}
	}
	for name, value := range set {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}
