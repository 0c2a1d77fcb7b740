// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docs/reference/commands.md is the help of every command. After a change: go test ./internal/cli -run TestReference -update
func TestReference(t *testing.T) {
	t.Setenv("DOVETAIL_SERVER", "") // the default of --server
	const page = "../../docs/reference/commands.md"
	var b bytes.Buffer
	b.WriteString("# Command reference\n\nGenerated from the commands' help by `make gen`. [COMMANDS.md](../COMMANDS.md) has examples with output.\n")
	writeReference(&b, rootCommand(nil))
	if flag.Lookup("update").Value.String() == "true" { // casetest's
		if err := os.MkdirAll("../../docs/reference", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Error("docs/reference/commands.md differs from the commands' help. Run: make gen")
	}
}

// writeReference writes the help of c and of the commands below it, in the order of the help.
func writeReference(b *bytes.Buffer, c *cobra.Command) {
	if c.Hidden || c.Name() == "completion" || c.Name() == "help" {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n%s.\n\n```\n%s\n```\n\n%s\n", c.CommandPath(), c.Short, c.UseLine(), literal(c.Long))
	if c.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", unindent(c.Example))
	}
	if flags := c.NonInheritedFlags(); flags.HasAvailableFlags() {
		b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				name = "`-" + f.Shorthand + "`, " + name
			}
			value := f.DefValue
			if value != "" && value != "[]" {
				value = "`" + value + "`"
			} else {
				value = ""
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", name, value, strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(f.Usage))
		})
	}
	for _, sub := range c.Commands() {
		writeReference(b, sub)
	}
}

// literal returns a help text as Markdown: as it is, since its lists are indented.
func literal(text string) string {
	if text == "" {
		return ""
	}
	return "```text\n" + text + "\n```"
}

// unindent returns lines without the two spaces that examples begin with.
func unindent(text string) string {
	return strings.ReplaceAll("\n"+text, "\n  ", "\n")[1:]
}
