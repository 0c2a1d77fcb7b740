// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/dovetail-sh/dovetail/internal/report"
)

// gateFigures are the figures of a column that --fail-if can name. All are numbers; durations are in seconds.
func gateFigures(c *report.ReplayColumn) map[string]float64 {
	return map[string]float64{
		"dollars": c.Dollars, "listDollars": c.ListDollars, "evictions": float64(c.Evictions), "nodesLaunched": float64(c.NodesLaunched), "nodeHours": c.NodeHours,
		"waiting.total": c.Waiting.PodMinutes * 60, "waiting.p50": c.Waiting.P50Seconds, "waiting.p99": c.Waiting.P99Seconds, "waiting.neverBound": float64(c.Waiting.NeverBound),
		"utilization.cpu": c.Utilization.CPU, "utilization.memory": c.Utilization.Memory,
	}
}

// replayGate is a condition on the figures of a replay.
type replayGate struct {
	text    string
	program cel.Program
	names   []string // that it reads
}

// newReplayGate compiles the value of --fail-if.
func newReplayGate(text string) (*replayGate, error) {
	figures := gateFigures(&report.ReplayColumn{})
	var options []cel.EnvOption
	var known []string
	for _, prefix := range []string{"", currentColumn + ".", recordedColumn + "."} {
		for _, name := range slices.Sorted(maps.Keys(figures)) {
			known = append(known, prefix+name)
		}
	}
	known = append(known, currentColumn, recordedColumn)
	for _, name := range known {
		options = append(options, cel.Variable(name, cel.DoubleType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, err
	}
	wrong := func(why string) error {
		return exit{2, fmt.Errorf("--fail-if %q: %s; need a boolean CEL expression with numbers such as 1.05, durations such as 120s, and %s; "+
			"the prefixes current. and recorded. select another column, and current and recorded alone are its dollars", text, why, strings.Join(slices.Sorted(maps.Keys(figures)), ", "))}
	}
	ast, issues := env.Compile(numbersOf(text))
	if issues.Err() != nil {
		return nil, wrong(issues.Errors()[0].Message)
	}
	if ast.OutputType() != cel.BoolType {
		return nil, wrong("is a " + ast.OutputType().String())
	}
	g := &replayGate{text: text}
	if g.program, err = env.Program(ast); err != nil {
		return nil, wrong(err.Error())
	}
	for _, r := range ast.NativeRep().ReferenceMap() {
		if r.Name != "" && slices.Contains(known, r.Name) && !slices.Contains(g.names, r.Name) {
			g.names = append(g.names, r.Name)
		}
	}
	slices.Sort(g.names)
	return g, nil
}

// reads reports whether the condition is about a column.
func (g *replayGate) reads(column string) bool {
	return g != nil && slices.ContainsFunc(g.names, func(n string) bool { return n == column || strings.HasPrefix(n, column+".") })
}

// check returns an error if the condition holds for a column that was replayed.
func (g *replayGate) check(r *report.Replay) error {
	values := map[string]any{}
	for _, c := range r.Columns {
		if c.Name != currentColumn && c.Name != recordedColumn {
			continue
		}
		for name, x := range gateFigures(&c) {
			values[c.Name+"."+name] = x
		}
		values[c.Name] = c.Dollars
	}
	judged := r.Columns[1:]
	if len(judged) > 1 && judged[0].Name == currentColumn {
		judged = judged[1:] // it is what others are compared with
	}
	for _, c := range judged {
		for name, x := range gateFigures(&c) {
			values[name] = x
		}
		result, _, err := g.program.Eval(values)
		if err != nil {
			return fmt.Errorf("--fail-if %q: %w", g.text, err)
		}
		if result.Value() != true {
			continue
		}
		var found []string
		for _, n := range g.names {
			found = append(found, n+" = "+strconv.FormatFloat(values[n].(float64), 'f', -1, 64))
		}
		return fmt.Errorf("%s fails --fail-if %q: %s", c.Name, g.text, strings.Join(found, ", "))
	}
	return nil
}

var gateTokens = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[A-Za-z_][\w.]*|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:ms|s|m|h)?`)

// numbersOf writes each number of an expression as a double, and each duration as its seconds, so that they can be multiplied and compared.
func numbersOf(expression string) string {
	return gateTokens.ReplaceAllStringFunc(expression, func(token string) string {
		if token[0] < '0' || token[0] > '9' {
			return token
		}
		if d, err := time.ParseDuration(token); err == nil && token != "0" {
			return decimal(d.Seconds())
		}
		x, err := strconv.ParseFloat(token, 64)
		if err != nil {
			return token // CEL says what is wrong with it
		}
		return decimal(x)
	})
}

func decimal(x float64) string {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
