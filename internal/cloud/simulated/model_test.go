// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
	"github.com/dovetail-sh/dovetail/internal/model"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

const testCatalogue = `{"region":"zone","zones":["zone-a","zone-b","zone-c"],"instanceTypes":[
{"name":"c5.large","arch":"amd64","vcpu":2,"memoryMiB":4096,"labels":{"instance-family":"c5"},"allocatable":{"cpu":"1930m","memory":"3114Mi","pods":"29"},"onDemandUSDPerHour":0.085,"spotUSDPerHour":{"zone-a":0.03,"zone-b":0.02}},
{"name":"m5.large","arch":"amd64","vcpu":2,"memoryMiB":8192,"labels":{"instance-family":"m5"},"allocatable":{"cpu":"1930m","memory":"6903Mi","pods":"29"},"onDemandUSDPerHour":0.096,"spotUSDPerHour":0.025}]}`

func parseCatalogue(t testing.TB) *catalog.Catalog {
	c, err := catalog.Parse("test", []byte(testCatalogue))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestModel runs testdata/model.txt: cases separated by an empty line, each a comment, calls, ----, and what they answer.
func TestModel(t *testing.T) {
	data, err := os.ReadFile("testdata/model.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	for i, c := range cases {
		head, want, ok := strings.Cut(c+"\n", "\n----\n")
		if !ok {
			t.Fatalf("case %d has no ---- line:\n%s", i, c)
		}
		have := strings.TrimSpace(play(t, head))
		if *update {
			cases[i] = head + "\n----\n" + have
		} else if have != strings.TrimSpace(want) {
			t.Errorf("%s\n---- have\n%s", c, have)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/model.txt", []byte(strings.Join(cases, "\n\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// play makes the calls of a case. Time goes on only where at says so. In the end everything is replayed from its records, and must
// be the same.
func play(t *testing.T, script string) string {
	c := parseCatalogue(t)
	var settings simulated.Settings
	m := simulated.NewModel(c, settings)
	var records []machines.Record
	var b strings.Builder
	now := epoch
	byUID := map[string]string{} // machine ids
	for _, line := range strings.Split(script, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		verb, args := line, map[string]string{}
		if fields := strings.Fields(line); len(fields) > 0 {
			verb = fields[0]
			for _, f := range fields[1:] {
				k, v, _ := strings.Cut(f, "=")
				args[k] = v
			}
		}
		if at, ok := args["at"]; ok {
			now = epoch.Add(duration(t, at))
		}
		id := byUID[args["uid"]]
		switch verb {
		case "settings":
			settings.Boot = duration(t, args["boot"])
			settings.Seed, _ = strconv.ParseInt(args["seed"], 10, 64)
			m, records, byUID = simulated.NewModel(c, settings), nil, map[string]string{}
			continue
		case "launch":
			r := machines.LaunchRequest{
				ClaimUID: args["uid"], ClaimName: "claim-" + args["uid"], Types: list(args["types"]), Zones: list(args["zones"]), CapacityTypes: list(args["capacityTypes"]),
			}
			if d := args["delay"]; d != "" {
				r.RegistrationDelay = machines.Duration(duration(t, d))
			}
			for _, l := range list(args["labels"]) {
				k, v, _ := strings.Cut(l, "=")
				if r.Labels == nil {
					r.Labels = model.Labels{}
				}
				r.Labels[k] = v
			}
			for _, l := range list(args["taints"]) {
				l, effect, _ := strings.Cut(l, ":")
				k, v, _ := strings.Cut(l, "=")
				r.Taints = append(r.Taints, machines.Taint{Key: k, Value: v, Effect: effect})
			}
			res := m.Launch(r, now)
			fmt.Fprintf(&b, "%s: ", r.ClaimUID)
			if res.Error != nil {
				fmt.Fprintf(&b, "%s: %s", res.Error.Kind, res.Error.Message)
				for _, k := range res.Error.Offerings {
					fmt.Fprintf(&b, " %s", k)
				}
			} else {
				byUID[r.ClaimUID] = res.Instance.ID
				b.WriteString(describe(res.Instance))
			}
			for _, k := range res.Unavailable {
				fmt.Fprintf(&b, " unavailable=%s", k)
			}
			b.WriteString("\n")
		case "base":
			in, wrong := m.Base(machines.BaseNode{InstanceType: args["type"], Name: args["name"], Zone: args["zone"]}, now)
			if wrong != nil {
				fmt.Fprintf(&b, "%s: %s\n", wrong.Kind, wrong.Message)
			} else {
				byUID["base "+in.Node.Name] = in.ID
				fmt.Fprintf(&b, "%s\n", describe(in))
			}
		case "terminate":
			target := args["id"]
			if target == "" {
				target = m.Instance(id).ProviderID
			}
			if res := m.Terminate(target, now); res.Error != nil {
				fmt.Fprintf(&b, "%s: %s\n", res.Error.Kind, res.Error.Message)
			} else {
				b.WriteString("terminating\n")
			}
		case "node-created":
			m.NodeCreated(id, now)
		case "node-deleted":
			m.NodeDeleted(id, now)
		case "list":
			for _, in := range m.List(false, now) {
				fmt.Fprintf(&b, "- %s %s\n", in.ClaimName, describe(&in))
			}
		case "node":
			if n := args["base"]; n != "" {
				id = byUID["base "+n]
			}
			out, err := json.Marshal(m.Instance(id).Node)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s\n", out)
		case "fault":
			f := machines.Fault{Kind: args["kind"], InstanceType: args["instanceType"], Zone: args["zone"], CapacityType: args["capacityType"], Call: args["call"]}
			f.Count, _ = strconv.Atoi(args["count"])
			if d := args["duration"]; d != "" {
				f.Duration = machines.Duration(duration(t, d))
			}
			if d := args["delay"]; d != "" {
				f.Delay = machines.Duration(duration(t, d))
			}
			if err := m.AddFault(f, now); err != nil {
				fmt.Fprintf(&b, "error: %s\n", err)
			}
		case "notices":
			for _, n := range m.Interruptions() {
				fmt.Fprintf(&b, "%s sent +%s goes +%s\n", byID(byUID, n.ProviderID), n.Sent.Sub(epoch), n.At.Sub(epoch))
			}
		case "noticed":
			m.Noticed([]string{m.Instance(id).ProviderID}, now)
		case "clear-faults":
			m.ClearFaults()
		case "records":
			for _, r := range records {
				fmt.Fprintf(&b, "%d +%s %s %s\n", r.Seq, r.At.Sub(epoch), r.Kind, r.ClaimUID)
			}
		default:
			t.Fatalf("unknown call %q", line)
		}
		records = append(records, m.Take()...)
	}
	m.ClearFaults()
	replayed(t, c, settings, records, m.List(true, now))
	return b.String()
}

// byID is the claim of a machine.
func byID(ids map[string]string, providerID string) string {
	for uid, id := range ids {
		if strings.HasSuffix(providerID, "/"+id) {
			return uid
		}
	}
	return "nobody's " + providerID
}

// replayed holds a model made of the records, after a way through JSON, against the one that made them.
func replayed(t *testing.T, c *catalog.Catalog, settings simulated.Settings, records []machines.Record, want []machines.Instance) {
	t.Helper()
	m := simulated.NewModel(c, settings)
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var back machines.Record
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatal(err)
		}
		if err := m.Apply(back); err != nil {
			t.Fatal(err)
		}
	}
	h, _ := json.Marshal(m.List(true, epoch))
	w, _ := json.Marshal(want)
	if string(h) != string(w) {
		t.Fatalf("replayed: %s\nwant: %s", h, w)
	}
}

func describe(in *machines.Instance) string {
	s := fmt.Sprintf("%s %s %s %d %s node=%s registers=+%s", in.InstanceType, in.Zone, in.CapacityType, in.PriceMicro, in.State, in.Node.Name, in.Registers.Sub(epoch))
	if in.NeverRegisters {
		s += " never-registers"
	}
	if in.NeverReady {
		s += " never-ready"
	}
	return s
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestNodeNames: among thousands of machines no two live ones have one Node name, though 24 bits make some meet.
func TestNodeNames(t *testing.T) {
	m := simulated.NewModel(parseCatalogue(t), simulated.Settings{})
	seen := map[string]string{}
	for i := range 8000 {
		res := m.Launch(machines.LaunchRequest{ClaimUID: strconv.Itoa(i), Types: []string{"c5.large"}}, epoch)
		if res.Error != nil {
			t.Fatal(res.Error)
		}
		if other, ok := seen[res.Instance.Node.Name]; ok {
			t.Errorf("machines %s and %s have node name %s", other, res.Instance.ID, res.Instance.Node.Name)
		}
		seen[res.Instance.Node.Name] = res.Instance.ID
	}
}

// TestApplyRefuses: records that can't have happened are refused and change nothing.
func TestApplyRefuses(t *testing.T) {
	c := parseCatalogue(t)
	source := simulated.NewModel(c, simulated.Settings{})
	source.Launch(machines.LaunchRequest{ClaimUID: "a", Types: []string{"c5.large"}}, epoch)
	launched := source.Take()[0]
	for name, records := range map[string][]machines.Record{
		"gap":             {{Seq: 2, Kind: machines.RecordLaunched, ID: launched.ID, Instance: launched.Instance}},
		"twice":           {launched, launched},
		"launched twice":  {launched, {Seq: 2, Kind: machines.RecordLaunched, ID: launched.ID, Instance: launched.Instance}},
		"unknown machine": {{Seq: 1, Kind: machines.RecordTerminating, ID: "i-1"}},
		"unknown kind":    {launched, {Seq: 2, Kind: "exploded", ID: launched.ID}},
		"no machine":      {{Seq: 1, Kind: machines.RecordLaunched, ID: "i-1"}},
	} {
		m := simulated.NewModel(c, simulated.Settings{})
		for i, r := range records {
			if err := m.Apply(r); (err != nil) != (i == len(records)-1) {
				t.Errorf("%s: record %d: %v", name, i, err)
			}
		}
	}
}

// FuzzModel plays any calls, twice: the results are the same, and so is what the records replay.
func FuzzModel(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 40, 41, 80, 81, 120, 121, 160, 161, 200, 201})
	f.Fuzz(func(t *testing.T, calls []byte) {
		c := parseCatalogue(t)
		settings := simulated.Settings{Boot: time.Minute, Seed: 7}
		run := func() (string, *simulated.Model, []machines.Record) {
			m := simulated.NewModel(c, settings)
			var b strings.Builder
			var records []machines.Record
			for i, call := range calls {
				now := epoch.Add(time.Duration(i) * time.Second)
				uid := strconv.Itoa(int(call) % 5)
				switch call / 40 {
				case 0, 1:
					res := m.Launch(machines.LaunchRequest{ClaimUID: uid, Types: []string{"c5.large", "m5.large"}}, now)
					fmt.Fprintln(&b, res.Instance != nil, res.Unavailable)
				case 2, 3:
					all := m.List(false, now)
					if len(all) > 0 {
						in := all[int(call)%len(all)]
						fmt.Fprintln(&b, m.Terminate(in.ProviderID, now).Error == nil)
					}
				case 4:
					for _, in := range m.List(false, now) {
						if in.State == machines.ShuttingDown {
							m.NodeDeleted(in.ID, now)
							break
						}
					}
				default:
					kinds := []string{machines.OutOfCapacity, machines.NeverReady, machines.NeverRegisters}
					_ = m.AddFault(machines.Fault{Kind: kinds[int(call)%3], Zone: "zone-b", Count: int(call) % 4}, now)
				}
				records = append(records, m.Take()...)
			}
			return b.String(), m, records
		}
		first, m, records := run()
		second, _, again := run()
		if first != second || len(records) != len(again) {
			t.Fatal("the same calls had other results")
		}
		launched := map[string]int{}
		for _, r := range records {
			if r.Kind == machines.RecordLaunched {
				launched[r.ClaimUID]++
			}
		}
		for _, uid := range slices.Sorted(maps.Keys(launched)) {
			if launched[uid] > 1 {
				t.Errorf("claim %s was launched %d times", uid, launched[uid])
			}
		}
		m.ClearFaults()
		replayed(t, c, settings, records, m.List(true, epoch))
	})
}
