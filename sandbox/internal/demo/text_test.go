// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demo

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the expected outputs in testdata")

// A case is a comment, what the watches tell and what is asked, a line "----",
// and what is printed. Cases are parted by a line "====". One thing a line:
//
//	wanted N                          replicas of the step
//	price TYPE ZONE CAPACITYTYPE MICRO [modelled]
//	SECONDS pod NAME [gone] [on=NODE] [stuck] [running] [ending] [theirs] [cpu=MILLI] [mem=MI]
//	SECONDS node NAME [gone] [ready] [type=T] [zone=Z] [ct=C] [pool=P] [group=G] [cpu=MILLI] [mem=MI]
//	SECONDS claim NAME [gone] [launched] [up] [ending] [type=T] [zone=Z] [ct=C] [group=G]
//	SECONDS why CLAIM WORD            the controller's event that it deletes the claim
//	lines SECONDS | lines rest        the timeline's lines that are due
//	table | total MICRO               MICRO: a step ago
//	running | cheaper MICRO | empty    what is missing for the step's end
//	origins                           where the instances came from
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for i, text := range strings.Split(string(raw), "====\n") {
			input, want, ok := strings.Cut(text, "----\n")
			if !ok && !*update {
				t.Fatalf("%s: case %d has no ----", file, i+1)
			}
			input = strings.TrimRight(input, "\n") + "\n"
			got := play(t, input)
			out = append(out, input+"----\n"+got)
			if !*update && got != want {
				t.Errorf("%s, case %d:\n%s\ngot\n%s\nwant\n%s", file, i+1, input, got, want)
			}
		}
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(out, "====\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// words are the rest of a line: flags and settings.
type words struct {
	t    *testing.T
	list []string
}

func (w words) has(flag string) bool { return slices.Contains(w.list, flag) }

func (w words) value(key string) string {
	for _, word := range w.list {
		if value, ok := strings.CutPrefix(word, key+"="); ok {
			return value
		}
	}
	return ""
}

func (w words) number(text string) int64 {
	w.t.Helper()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w words) seconds(text string) time.Duration {
	w.t.Helper()
	s, err := strconv.ParseFloat(text, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return time.Duration(s * float64(time.Second))
}

func play(t *testing.T, input string) string {
	t.Helper()
	var out strings.Builder
	c, line := newCluster(map[offering]price{}), &timeline{}
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.epoch = epoch
	say := func(lines ...string) {
		for _, l := range lines {
			fmt.Fprintln(&out, l)
		}
	}
	missing := func(text string) {
		if text == "" {
			text = "(nothing is missing)"
		}
		say(text)
	}
	for text := range strings.Lines(input) {
		f := strings.Fields(text)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		w := words{t, f}
		switch f[0] {
		case "wanted":
			c.wanted = int(w.number(f[1]))
		case "price":
			c.prices[offering{f[1], f[2], f[3]}] = price{w.number(f[4]), w.has("modelled")}
		case "lines":
			if f[1] == "rest" {
				say(line.rest()...)
			} else {
				say(line.take(w.seconds(f[1]))...)
			}
		case "table":
			say(c.table())
		case "total":
			say(c.total(w.number(f[1])))
		case "running":
			missing(c.untilRunning())
		case "cheaper":
			missing(c.untilCheaper(w.number(f[1])))
		case "origins":
			say(c.origins())
		case "empty":
			missing(c.untilEmpty())
		default:
			ch := change{at: epoch.Add(w.seconds(f[0])), gone: w.has("gone")}
			switch f[1] {
			case "pod":
				ch.pod = &pod{
					name: f[2], node: w.value("on"), ours: !w.has("theirs"), stuck: w.has("stuck"), running: w.has("running"), ending: w.has("ending"),
					requests: requests{cpu: w.number(w.value("cpu")), memory: w.number(w.value("mem")) << 20},
				}
			case "node":
				ch.node = &node{
					name: f[2], pool: w.value("pool"), machine: w.value("type"), zone: w.value("zone"), capacityType: w.value("ct"), ready: w.has("ready"),
					group: w.value("group"),
					cpu:   w.number(w.value("cpu")), memory: w.number(w.value("mem")) << 20,
				}
			case "claim":
				ch.claim = &claim{
					name: f[2], machine: w.value("type"), zone: w.value("zone"), capacityType: w.value("ct"), group: w.value("group"),
					launched: w.has("launched"), initialized: w.has("up"), ending: w.has("ending"),
				}
			case "why":
				ch.ended = reason{f[2], f[3]}
			default:
				t.Fatalf("unknown line %q", text)
			}
			for _, m := range c.take(ch) {
				line.add(m)
			}
		}
	}
	return out.String()
}

// TestDeploymentIsTheExample: what the show scales is what a person can apply.
func TestDeploymentIsTheExample(t *testing.T) {
	example, err := os.ReadFile("../../../examples/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := manifest("deployment", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Replace(uncommented(string(example)), "replicas: 5", "replicas: 1", 1); got != uncommented(shown) {
		t.Errorf("examples/deployment.yaml is\n%s\nand the show's, but for the replicas,\n%s", got, uncommented(shown))
	}
}

func TestManifestNamesWhatItLacks(t *testing.T) {
	if _, err := manifest("nodepool", map[string]string{"AFTER": "30s"}); err == nil || !strings.Contains(err.Error(), "needs NODE_CLASS") {
		t.Errorf("the error is %v, want that NODE_CLASS is needed", err)
	}
}
