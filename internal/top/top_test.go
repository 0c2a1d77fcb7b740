// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// now is the instant of the API server's clock that all cases are looked at.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestCases plays testdata/*.txt. A case builds a Board line by line and says what to write of it:
//
//	node|claim|pool|pod|event|ledger NAME KEY=VALUE…
//	gone KIND NAME
//	use NAME CPU MEMORY
//	problem WHAT TEXT…       reading KIND      autoscaler NAME     skew DURATION
//	press KEY…               keys, one after the other
//	frame WIDTHxHEIGHT       once WIDTH        overview WIDTH      json                doing
//
// Underscores in values are blanks. Several things may be written; each shows what is so by then.
func TestCases(t *testing.T) {
	casetest.Run(t, func(t *testing.T, input string) string {
		c := &scripted{t: t, board: NewBoard(Cluster{Name: "prod", Server: "https://10.0.0.1", Version: "1.36"}, testPrices), look: NewLook()}
		for line := range strings.Lines(input) {
			if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
				c.play(f)
			}
		}
		return c.out.String()
	})
}

// testPrices know m5.large and m5.xlarge in us-east-1a.
var testPrices = Prices{Name: "test", AsOf: "2026-01-01", Find: func(instanceType, zone, capacityType string) (Price, bool) {
	micro, ok := map[string]int64{"m5.large": 96_000, "m5.xlarge": 192_000, "m5.24xlarge": 4_608_000}[instanceType]
	p := Price{Micro: micro, Other: zone != "us-east-1a"}
	if capacityType == "spot" {
		p.Micro, p.Modelled = p.Micro/2, true
	}
	return p, ok
}}

type scripted struct {
	t     *testing.T
	board *Board
	look  *Look
	out   strings.Builder
}

type values struct {
	t    *testing.T
	name string
	all  map[string][]string
}

func (v values) has(key string) bool { return len(v.all[key]) > 0 }

func (v values) get(key string) string {
	if !v.has(key) {
		return ""
	}
	return strings.ReplaceAll(v.all[key][0], "_", " ")
}

func (v values) ago(key string) time.Time {
	if !v.has(key) {
		return time.Time{}
	}
	d, err := time.ParseDuration(v.get(key))
	if err != nil {
		v.t.Fatal(err)
	}
	return now.Add(-d)
}

// amounts reads cpu in cores and mem in Gi.
func (v values) amounts() Amounts {
	n := func(key string) float64 {
		if !v.has(key) {
			return 0
		}
		f, err := strconv.ParseFloat(v.get(key), 64)
		if err != nil {
			v.t.Fatal(err)
		}
		return f
	}
	return Amounts{CPU: int64(n("cpu") * 1000), Memory: int64(n("mem") * (1 << 30))}
}

func (v values) conditions() map[string]model.Condition {
	out := map[string]model.Condition{}
	for _, c := range v.all["is"] {
		f := strings.SplitN(strings.ReplaceAll(c, "_", " "), ":", 4)
		for len(f) < 4 {
			f = append(f, "")
		}
		out[f[0]] = model.Condition{Status: f[1], Reason: f[2], Message: f[3], Since: now.Add(-time.Minute)}
	}
	return out
}

func (c *scripted) play(f []string) {
	b := c.board
	v := values{t: c.t, all: map[string][]string{}}
	for _, x := range f[1:] {
		if key, value, ok := strings.Cut(x, "="); ok {
			v.all[key] = append(v.all[key], value)
		} else if v.name == "" {
			v.name = x
		}
	}
	namespace, name, _ := strings.Cut(v.name, "/")
	switch f[0] {
	case "node":
		n := &Node{Name: v.name, Pool: v.get("pool"), Type: v.get("type"), Zone: v.get("zone"), CapacityType: v.get("capacity"), Created: v.ago("age"),
			Deleting: v.ago("deleting"), Allocatable: v.amounts(), Pods: 58, Ready: "True", NotReady: v.get("notready"), Cordoned: v.has("cordoned")}
		if n.NotReady != "" {
			n.Ready = "False"
		}
		for _, x := range v.all["taint"] {
			n.Taints = append(n.Taints, model.Taint{Key: x, Effect: "NoSchedule"})
		}
		for _, x := range v.all["annotation"] {
			key, value, _ := strings.Cut(x, ":")
			n.Annotations = map[string]string{key: value}
		}
		b.SetNode(n)
	case "claim":
		b.SetClaim(&Claim{Name: v.name, Pool: v.get("pool"), Node: v.get("node"), Type: v.get("type"), Zone: v.get("zone"), CapacityType: v.get("capacity"),
			Created: v.ago("age"), Deleting: v.ago("deleting"), Allocatable: v.amounts(), Conditions: v.conditions()})
	case "pool":
		p := &Pool{Key: v.name, NotReady: v.get("notready")}
		if v.has("limit") {
			p.Limits = map[string]string{"cpu": v.get("limit")}
		}
		for _, x := range v.all["budget"] { // NODES, or NODES@SCHEDULE@DURATION
			nodes, window, _ := strings.Cut(x, "@")
			schedule, duration, _ := strings.Cut(window, "@")
			budget := model.Budget{Schedule: strings.ReplaceAll(schedule, "_", " ")}
			budget.Nodes, _ = strconv.ParseInt(nodes, 10, 64)
			budget.Duration, _ = time.ParseDuration(duration)
			p.Budgets = append(p.Budgets, budget)
		}
		b.SetPool(p)
	case "pod":
		b.SetPod(&Pod{Namespace: namespace, Name: name, Owner: v.get("of"), Node: v.get("node"), Requests: v.amounts(), Created: v.ago("age"),
			Daemon: v.has("daemon"), Starting: v.has("starting"), DoNotDisrupt: v.has("kept"),
			Waits: Waits{Reason: v.get("reason"), Message: v.get("message"), Scheduler: "default-scheduler"}})
	case "event":
		b.SetEvent(v.name+v.get("reason"), Decision{Blocker: v.get("blocker"), At: v.ago("ago"), By: v.get("by"), Kind: v.get("reason"), Subject: v.name, Text: v.get("text"), Refusal: v.has("refusal")})
	case "ledger":
		b.SetLedger([]Decision{{Blocker: v.get("blocker"), At: v.ago("ago"), By: Dovetail, Kind: v.get("kind"), Subject: v.name, Text: v.get("text"), Refusal: v.has("refusal"), Keeps: v.has("keeps"), Pods: v.all["for"], Count: 3}})
	case "gone":
		switch f[1] {
		case "pod":
			b.DeletePod(f[2])
		case "node":
			b.DeleteNode(f[2])
		case "claim":
			b.DeleteClaim(f[2])
		}
	case "use":
		use := map[string]Amounts{}
		for n, a := range b.use {
			use[n] = a
		}
		use[v.name] = v.amounts()
		b.SetUse(use)
	case "nouse":
		b.SetUse(nil)
	case "problem":
		b.SetProblem(f[1], strings.Join(f[2:], " "))
	case "reading":
		b.SetReading(f[1], true)
	case "autoscaler":
		b.SetSigns("leases", []Autoscaler{{Name: strings.ReplaceAll(f[1], "_", " "), Sign: "its lease"}})
	case "skew":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			c.t.Fatal(err)
		}
		b.SetSkew(d)
	case "escape": // a pod whose scheduler writes escape sequences
		b.SetPod(&Pod{Namespace: "default", Name: v.name, Created: now, Waits: Waits{Reason: "Unschedulable", Message: "\x1b]0;title\x07red \x1b[31m\u202eend"}})
	case "sort":
		if err := c.look.SortNodes(f[1]); err != nil {
			fmt.Fprintln(&c.out, err)
		}
	case "press":
		for _, key := range f[1:] {
			view := c.view()
			if c.look.Press(key, view, b.Detail(view, c.look.Subject(), c.look.Width)) {
				c.out.WriteString("(quit)\n")
			}
		}
	case "frame":
		if _, err := fmt.Sscanf(f[1], "%dx%d", &c.look.Width, &c.look.Height); err != nil {
			c.t.Fatal(err)
		}
		view := c.view()
		var details []DetailLine
		if s := c.look.Subject(); s != "" {
			details = b.Detail(view, s, c.look.Width)
		}
		lines := Frame(view, c.look, details)
		if len(lines) != c.look.Height {
			c.t.Errorf("%d lines, want %d", len(lines), c.look.Height)
		}
		for _, line := range lines {
			if n := width(line.String()); n > c.look.Width {
				c.t.Errorf("a line of %d columns, want at most %d: %q", n, c.look.Width, line)
			}
			if strings.ContainsAny(line.String(), "\x1b\a\u202e") {
				c.t.Errorf("a control character: %q", line)
			}
			// The bar marks blank lines, which the form of cases would not keep.
			c.out.WriteString(strings.TrimRight("|"+line.String(), " ") + "\n")
		}
	case "once", "json", "overview":
		c.look.Width = 0
		if len(f) > 1 {
			c.look.Width, _ = strconv.Atoi(f[1])
		}
		write := Text
		switch f[0] {
		case "json":
			write = JSON
		case "overview":
			write = func(w io.Writer, v *View, l *Look) error { return Overview(w, v, l.Width, "dovetail") }
		}
		var w bytes.Buffer
		if err := write(&w, c.view(), c.look); err != nil {
			c.t.Fatal(err)
		}
		for line := range strings.Lines(w.String()) {
			if n := width(strings.TrimSuffix(line, "\n")); c.look.Width > 0 && n > c.look.Width {
				c.t.Errorf("a line of %d columns, want at most %d: %q", n, c.look.Width, line)
			}
		}
		c.out.WriteString(w.String())
	case "doing":
		for _, r := range c.view().Nodes {
			fmt.Fprintf(&c.out, "%s: %s: %s\n", r.Name, r.State, r.Doing)
		}
	default:
		c.t.Fatalf("unknown line %q", f)
	}
}

func (c *scripted) view() *View { return c.board.View(now.Add(c.board.skew)) }

// Sums that follow each change are those of all pods counted anew.
func TestSumsFollowChanges(t *testing.T) {
	for seed := range uint64(20) {
		r := newDraw(seed)
		b := NewBoard(Cluster{}, testPrices)
		pods := map[string]*Pod{}
		for range 2000 {
			name := "p" + strconv.Itoa(r.n(60))
			if r.n(4) == 0 {
				b.DeletePod("default/" + name)
				delete(pods, name)
				continue
			}
			p := &Pod{Namespace: "default", Name: name, Requests: Amounts{int64(r.n(1000)), int64(r.n(1 << 20))}, Daemon: r.n(5) == 0,
				Starting: r.n(3) == 0, DoNotDisrupt: r.n(7) == 0, Deleting: r.n(9) == 0, Created: now.Add(-time.Duration(r.n(1000)) * time.Second)}
			if n := r.n(6); n > 0 {
				p.Node = "n" + strconv.Itoa(n)
			} else {
				p.Waits = Waits{Reason: "Unschedulable", Message: "0/" + strconv.Itoa(r.n(3)) + " nodes are available: " + strconv.Itoa(r.n(9)) + " Insufficient " + []string{"cpu", "memory"}[r.n(2)] + "."}
			}
			b.SetPod(p)
			pods[name] = p
		}
		fresh := NewBoard(Cluster{}, testPrices)
		for _, p := range pods {
			fresh.SetPod(p)
		}
		for i := range 6 {
			n := "n" + strconv.Itoa(i)
			have, want := b.loads[n], fresh.loads[n]
			if (have == nil) != (want == nil) || have != nil && *have != *want {
				t.Errorf("load of %s: %+v, want %+v", n, have, want)
			}
		}
		if b.starting != fresh.starting {
			t.Errorf("%d pods starting, want %d", b.starting, fresh.starting)
		}
		have, want := b.View(now), fresh.View(now)
		if len(want.Pending) == 0 || len(have.Pending) != len(want.Pending) || !reflect.DeepEqual(have.Total, want.Total) {
			t.Fatalf("pending %d, want %d; total %+v, want %+v", len(have.Pending), len(want.Pending), have.Total, want.Total)
		}
		for i := range want.Pending {
			h, w := &have.Pending[i], &want.Pending[i]
			if h.Cause != w.Cause || len(h.Pods) != len(w.Pods) || h.Requests != w.Requests || h.Oldest != w.Oldest {
				t.Errorf("cause %d: %+v, want %+v", i, h, w)
			}
		}
	}
}

// draw is a small source of numbers.
type draw struct{ s uint64 }

func newDraw(seed uint64) *draw { return &draw{seed*2654435761 + 1} }

func (d *draw) n(below int) int {
	d.s = d.s*6364136223846793005 + 1442695040888963407
	return int((d.s >> 33) % uint64(below))
}

// largeBoard has 5,000 nodes with 20 pods each, of which 2,000 pods are pending.
func largeBoard() (*Board, []*Pod) {
	b := NewBoard(Cluster{Name: "large"}, testPrices)
	var pods []*Pod
	r := newDraw(1)
	for i := range 5000 {
		node := fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", i>>16, i>>8&255, i&255)
		b.SetNode(&Node{Name: node, Pool: "nodepool/p" + strconv.Itoa(i%12), Type: "m5.xlarge", Zone: "us-east-1" + string(rune('a'+i%3)), CapacityType: "spot",
			Created: now.Add(-time.Hour), Allocatable: Amounts{3920, 14 << 30}, Pods: 58, Ready: "True"})
		b.SetClaim(&Claim{Name: "p-" + strconv.Itoa(i), Node: node, Conditions: map[string]model.Condition{"Initialized": {Status: "True"}}})
		for j := range 20 {
			p := &Pod{Namespace: "default", Name: fmt.Sprintf("web-%d-%d", i, j), Owner: "deployment/web", Node: node, Requests: Amounts{int64(50 + r.n(200)), 128 << 20}, Created: now}
			if i%50 == 0 {
				p.Node = ""
				p.Waits = Waits{Reason: "Unschedulable", Message: "0/5000 nodes are available: 5000 Insufficient cpu. preemption: 0/5000 nodes are available."}
			}
			b.SetPod(p)
			pods = append(pods, p)
		}
	}
	return b, pods
}

// BenchmarkEvent is one pod's change.
func BenchmarkEvent(b *testing.B) {
	board, pods := largeBoard()
	i := 0
	for b.Loop() {
		p := *pods[i%len(pods)]
		p.Starting = i%2 == 0
		board.SetPod(&p)
		i++
	}
}

// BenchmarkFrame is a View, sorted and filtered, and its lines.
func BenchmarkFrame(b *testing.B) {
	board, _ := largeBoard()
	look := &Look{Width: 160, Height: 50, Focus: Nodes, Filter: "us-east-1"}
	if err := look.SortNodes("-cpu"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Frame(board.View(now), look, nil)
	}
}

// BenchmarkDetail is the details of one node.
func BenchmarkDetail(b *testing.B) {
	board, _ := largeBoard()
	v := board.View(now)
	for b.Loop() {
		board.Detail(v, "node/"+v.Nodes[7].Name, 160)
	}
}

// What a scheduler says beside the checks that fail is none of the cause.
func TestGroupMessage(t *testing.T) {
	for message, want := range map[string]string{
		"0/11 nodes are available: 11 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/11 nodes are available: 11 Preemption is not helpful for scheduling.": "didn't match Pod's node affinity/selector",
		"0/3 nodes are available: 2 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {a.b/c: d. e}. preemption: none.":                                                                        "Insufficient nvidia.com/gpu; untolerated taint {a.b/c: d. e}",
		"0/1 nodes are available: 1 Too many pods.": "Too many pods",
		"no nodes. at all":                          "no nodes. at all",
	} {
		if got := groupMessage(message); got != want {
			t.Errorf("of %q: %q, want %q", message, got, want)
		}
	}
}
