// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "update the rendered files in testdata")

// drawn returns synthetic results.
func drawn() *Results {
	run := func(system string, ms, cost float64, evictions int, busy float64) Run {
		r := Run{System: system, Version: "v1", Kubernetes: "v1.37.2", Busy: busy,
			Start: Start{PodMs: 20, ClaimMs: ms / 4, NodeMs: ms / 2, ReadyMs: ms * 0.7, BoundMs: ms * 0.8, RunningMs: ms},
			Burst: Burst{Pods: 1000, Seconds: ms / 50, Nodes: 60, USD: 100 * cost, Bound: 100, OverBound: cost},
			ScaleDown: ScaleDown{Pods: 300, Seconds: ms / 10, Nodes: 20, USD: 30 * cost, Bound: 30, OverBound: cost,
				Evictions: evictions, Unbound: 0.5}}
		if system == clusterAutoscaler {
			r.Start.ClaimMs, r.ScaleDown.Unrested = 0, true
		}
		return r
	}
	return &Results{
		Settings: Settings{Pods: 1000, Below: 32, ConsolidateAfter: 30 * time.Second, Still: time.Minute},
		Machine:  "2 × a processor, linux",
		Runs: []Run{run(dovetail, 200, 1.001, 100, 3), run(dovetail, 220, 1.002, 110, 30), run(dovetail, 210, 1.003, 90, 5),
			run(karpenter, 1700, 1.08, 50, 4), run(clusterAutoscaler, 9000, 1.3, 20, 4)},
		Headroom: []Horizon{{BootMinutes: 1, Standing: []Point{{"nothing", 21.2, 2.1}, {"standing 10 %", 9, 11.5}, {"standing 200 %", 0.1, 200}},
			Forecast: []Point{{"forecast 1:9", 9, 7.5}, {"forecast 1:19", 5, 12.9}}}},
	}
}

// drawnOnAWS returns synthetic results on the simulated AWS.
func drawnOnAWS() *Results {
	run := func(system string, s float64) Run {
		one := func(boot float64) AWSRun {
			return AWSRun{Start: Start{PodMs: 20, ClaimMs: 100 * s, InstanceMs: 200 * s, NodeMs: boot + 300*s, ReadyMs: boot + 310*s, BoundMs: boot + 320*s, RunningMs: boot + 330*s},
				Burst: AWSBurst{Seconds: boot/1000 + s, Nodes: int(s), USD: 5 * s, Calls: int(10 * s)}}
		}
		r := Run{System: system, Version: "v1", Kubernetes: "v1.37.2", Busy: 3, Booting: one(35000), Ready: one(0)}
		r.Booting.ScaleDown = AWSScaleDown{Pods: 90, Seconds: 20 * s, Nodes: 1 + int(s), USD: 2 * s, Evictions: int(3 * s), Unrested: system == clusterAutoscalerGroups}
		if system != clusterAutoscalerGroups {
			r.Booting.Interruption = AWSInterruption{Instances: 2, Pods: 30, Seconds: 40 + s, Down: s}
		}
		if onGroups(system) {
			r.Booting.Start.DesiredMs, r.Ready.Start.DesiredMs = 150*s, 140*s
		}
		return r
	}
	return &Results{Settings: Settings{Pods: 300, ConsolidateAfter: 30 * time.Second, Still: 45 * time.Second, Longest: 150 * time.Second, Boot: 35 * time.Second}, Machine: "2 × a processor, linux",
		Runs: []Run{run(dovetailFleet, 1), run(dovetailFleet, 1.2), run(dovetailFleet, 1.1), run(dovetailGroups, 4), run(karpenterFleet, 10), run(clusterAutoscalerGroups, 20)}}
}

// TestMarkdown compares the tables with those in testdata.
func TestMarkdown(t *testing.T) {
	for name, r := range map[string]*Results{"compare.md": drawn(), "compare-aws.md": drawnOnAWS()} {
		file, got := filepath.Join("testdata", name), markdown(r)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the table is\n%s\nwant\n%s\nRead it and run this test with -update.", got, want)
		}
	}
}

// A picture is well-formed, stands alone, and says in words what it shows.
func TestPicture(t *testing.T) {
	for name, text := range map[string]string{"bars": picture(drawn()), "bars on AWS": picture(drawnOnAWS()), "curve": curve(drawn().Headroom[0])[len("<h2>"):]} {
		text = text[strings.Index(text, "<svg"):]
		d := xml.NewDecoder(strings.NewReader(text))
		elements := 0
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
			if e, ok := token.(xml.StartElement); ok {
				elements++
				for _, a := range e.Attr {
					if a.Name.Local == "href" || a.Name.Local == "src" {
						t.Errorf("%s: <%s %s=%s> fetches something", name, e.Name.Local, a.Name.Local, a.Value)
					}
				}
			}
		}
		if elements < 10 {
			t.Errorf("%s: %d elements", name, elements)
		}
	}
	for _, want := range []string{"One pod that needs a node: until it runs: Dovetail 210 ms (200 to 220 ms), Karpenter 1700 ms, Cluster Autoscaler 9000 ms.",
		"Down to 300 pods: pods evicted: Dovetail 100 (90 to 110), Karpenter 50, Cluster Autoscaler 20.", "prefers-color-scheme: dark"} {
		if !strings.Contains(picture(drawn()), want) {
			t.Errorf("the picture does not say %q:\n%s", want, picture(drawn()))
		}
	}
}

// A system that has no figure has no bar.
func TestPictureWithoutFigure(t *testing.T) {
	const missing = "Cluster Autoscaler on groups</text>"
	r := drawnOnAWS()
	text := picture(r)
	text = text[strings.Index(text, "Spot interruptions: longest wait of a pod</text>"):]
	i := strings.Index(text, missing)
	if i < 0 {
		t.Fatalf("the picture does not name the system:\n%s", text)
	}
	if line, _, _ := strings.Cut(text[i+len(missing):], "\n"); strings.Contains(line, "<rect") || !strings.Contains(line, ">–<") {
		t.Errorf("the picture has a bar for no figure: %s", line)
	}
}

// The page holds every table and picture, and fetches nothing.
func TestPage(t *testing.T) {
	page, err := html(drawn())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<caption>A burst of 1000 pods</caption>", `<th scope="row">NodeClaim</th><td>52 ms (50 to 55 ms)</td><td>425 ms</td><td>–</td>`,
		`id="compare-headroom-1-desc"`, "The machine was loaded: before 1 of 5 runs", "color-scheme: light dark"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not hold %q:\n%s", want, page)
		}
	}
	for _, bad := range []string{"<script", "<link", "<img", "url("} {
		if strings.Contains(string(page), bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
}

// The picture of the comparison on the simulated AWS says in words what it shows.
func TestPictureOnAWS(t *testing.T) {
	for _, want := range []string{"One pod, 35s boot: until it runs: Dovetail on EC2 Fleet 35.36 s (35.33 to 35.40 s), Dovetail on groups 36.32 s, Karpenter on EC2 Fleet 38.30 s, Cluster Autoscaler on groups 41.60 s.",
		"300 pods at once: calls to AWS: Dovetail on EC2 Fleet 11 (10 to 12), Dovetail on groups 40, Karpenter on EC2 Fleet 100, Cluster Autoscaler on groups 200.",
		"Spot interruptions: longest wait of a pod: Dovetail on EC2 Fleet 1.1 s (1.0 to 1.2 s), Dovetail on groups 4.0 s, Karpenter on EC2 Fleet 10.0 s, Cluster Autoscaler on groups –."} {
		if got := picture(drawnOnAWS()); !strings.Contains(got, want) {
			t.Errorf("the picture does not say %q:\n%s", want, got)
		}
	}
}

// A quiet machine needs no note.
func TestLoaded(t *testing.T) {
	if got := loaded([]Run{{Busy: 5}, {Busy: 19}}); got != "" {
		t.Errorf("loaded says %q of a quiet machine", got)
	}
}
