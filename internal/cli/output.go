// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/report"
)

// addOutput adds -o to a command that prints a report. prompt turns the JSON of a report into YAML.
func addOutput(g *pflag.FlagSet, output *string) {
	g.StringVarP(output, "output", "o", "text", "Output format: text, json or yaml (docs/reference/json.md)")
}

// checkOutput returns an error if a value of --output is none of the formats.
func checkOutput(output string, formats ...string) error {
	if len(formats) == 0 {
		formats = []string{"text", "json", "yaml"}
	}
	if !slices.Contains(formats, output) {
		last := len(formats) - 1
		return exit{2, fmt.Errorf("--output %q: use %s or %s", output, strings.Join(formats[:last], ", "), formats[last])}
	}
	return nil
}

// isStructured reports whether a format is for programs: the command writes JSON.
func isStructured(output string) bool { return output != "text" }

// writePage writes a page to the file of --html.
func writePage(path string, write func(io.Writer) error) error {
	var page bytes.Buffer
	if err := write(&page); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// watchEvery is the time between two readings with --watch.
const watchEvery = 2 * time.Second

// addWatch adds -w to a command. prompt repeats such a command.
func addWatch(g *pflag.FlagSet) {
	g.BoolP("watch", "w", false, "Print the answer again when it changes, until interrupted")
}

// isWatching reports whether a command has -w.
func isWatching(c *cobra.Command) bool {
	watch, err := c.Flags().GetBool("watch")
	return err == nil && watch
}

// addNamespace adds -n to a command that names objects.
func addNamespace(g *pflag.FlagSet, namespace *string) {
	g.StringVarP(namespace, "namespace", "n", "default", "Namespace of a pod, Deployment or Headroom whose name does not contain one")
}

// fitted returns an answer as it is written to out: text on a terminal has lines no longer than the terminal is wide, and the JSON of a
// report becomes YAML with -o yaml.
func fitted(c *cobra.Command, out io.Writer, answer string) (string, error) {
	output := c.Flags().Lookup("output")
	if output == nil || answer == "" {
		return answer, nil
	}
	f, is := terminal(out)
	switch format := output.Value.String(); {
	case format == "yaml" && output.DefValue == "text":
		y, err := yaml.JSONToYAML([]byte(answer))
		return string(y), err
	case format != "text" || !is:
		return answer, nil
	}
	width, _, err := term.GetSize(f.Fd())
	if err != nil || width <= 0 { // the terminal does not report its size
		return answer, nil
	}
	return report.Fit(answer, width), nil
}

// terminal returns the terminal that a stream is.
func terminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(f.Fd())
}
