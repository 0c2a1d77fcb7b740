// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	run := func() {
		ctx, stop := Signals(context.Background())
		defer stop()
		os.Exit(Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	testscript.Main(m, map[string]func(){
		"dovetail": run, pluginBinary: run, completionBinary: run,
	})
}

// TestScripts runs testdata/script/*.txtar: a behaviour of the command line each, named by its verb first. Beside the usual commands
// there are
//
//	status N ARGS…    run dovetail, which must exit with status N
//	settled FILE      write what was last printed to FILE, without how long it took and how near to the least possible the solver
//	                  has proven it: those are the solver's tests' to say
func TestScripts(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: flag.Lookup("update").Value.String() == "true", // casetest's
		RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("ROOT", root)
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "settled": settled},
	})
}

func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N ARGS…")
	}
	err := ts.Exec("dovetail", args[1:]...)
	have := "0"
	if err != nil {
		have = err.Error()
		if m := regexp.MustCompile(`exit status (\d+)`).FindStringSubmatch(have); m != nil {
			have = m[1]
		}
	}
	if have != args[0] {
		ts.Fatalf("exit status %s, want %s", have, args[0])
	}
}

var (
	proof = regexp.MustCompile(`("seconds|"lowerBoundPerHour|"gap|"tier|"provenBy)": [^,\n]+`)
	left  = regexp.MustCompile(`"unpriced": \[[^\]]*\]`)
	lines = regexp.MustCompile(`(?m)^  (Minimum|Time) .*$`)
)

func settled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: settled FILE")
	}
	out := proof.ReplaceAllString(ts.ReadFile("stdout"), `$1": 0`)
	out = left.ReplaceAllString(out, `"unpriced": []`)
	out = lines.ReplaceAllString(out, "  $1 …")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(out), 0o644))
}
