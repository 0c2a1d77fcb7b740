// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package casetest

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Drawn runs the tests of a package with a fixed rapid seed and the given number of checks per property. In a soak test
// (DOVETAIL_SOAK is set), the seed is random and the number of checks is soak. The flags -rapid.seed and -rapid.checks
// take precedence. Drawn does not return.
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
