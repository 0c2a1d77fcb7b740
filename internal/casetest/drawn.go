// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package casetest

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Drawn runs a package's tests. What rapid draws for them is the same each time; in a soak it is new, and so many checks of each. What
// -rapid.seed and -rapid.checks say goes before that.
func Drawn(m *testing.M, soak int) {
	flag.Parse()
	name, value := "rapid.seed", "1"
	if os.Getenv("DOVETAIL_SOAK") != "" {
		name, value = "rapid.checks", strconv.Itoa(soak)
	}
	if f := flag.Lookup(name); f.Value.String() == f.DefValue {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
