// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
)

// kube is an API server's list of Nodes.
type kube struct {
	mu      sync.Mutex
	nodes   map[string]machines.NodeSpec
	creates int
	fail    int  // so many calls fail
	vanish  bool // the next create has its effect and the caller never comes back
}

func newKube() *kube { return &kube{nodes: map[string]machines.NodeSpec{}} }

func (k *kube) CreateNode(ctx context.Context, n machines.NodeSpec) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail > 0 {
		k.fail--
		return errors.New("connection refused")
	}
	k.creates++
	if have, ok := k.nodes[n.Name]; ok && have.ProviderID != n.ProviderID {
		return fmt.Errorf("node %s exists", n.Name)
	}
	k.nodes[n.Name] = n
	vanish := k.vanish
	k.vanish = false
	if vanish {
		k.mu.Unlock()
		<-ctx.Done()
		k.mu.Lock()
		return ctx.Err()
	}
	return nil
}

func (k *kube) RebootNode(_ context.Context, n machines.NodeSpec) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail > 0 {
		k.fail--
		return errors.New("connection refused")
	}
	if k.nodes[n.Name].ProviderID == n.ProviderID {
		k.nodes[n.Name] = n
	}
	return nil
}

func (k *kube) DeleteNode(_ context.Context, name, providerID string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fail > 0 {
		k.fail--
		return errors.New("connection refused")
	}
	if k.nodes[name].ProviderID == providerID {
		delete(k.nodes, name)
	}
	return nil
}

// set changes how it behaves.
func (k *kube) set(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func (k *kube) bootID(node string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nodes[node].BootID
}

func (k *kube) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.nodes)
}

// noListener accepts nobody: calls go to the handler.
type noListener struct {
	closed chan struct{}
	once   sync.Once
}

func (l *noListener) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }
func (l *noListener) Close() error              { l.once.Do(func() { close(l.closed) }); return nil }
func (l *noListener) Addr() net.Addr            { return &net.TCPAddr{} }

// cloudServer is a server that runs, inside a synctest bubble, so that its time is virtual.
type cloudServer struct {
	t       *testing.T
	journal string
	kube    *kube
	server  *simulated.Server
	stop    func()
}

func run(t *testing.T, journal string, k *kube, boot time.Duration) *cloudServer {
	t.Helper()
	s, err := simulated.Open(simulated.Config{Journal: journal, Catalog: parseCatalogue(t), Settings: simulated.Settings{Boot: boot, Seed: 1}}, k)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, &noListener{closed: make(chan struct{})}) }()
	return &cloudServer{t: t, journal: journal, kube: k, server: s, stop: func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}

// call makes a call and wants this status.
func (c *cloudServer) call(method, path string, in, out any, status int) {
	c.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		c.t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.server.Handler().ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(body)))
	if w.Code != status {
		c.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if out != nil {
		if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *cloudServer) launch(uid string) *machines.Instance {
	c.t.Helper()
	var out machines.LaunchAnswer
	c.call("POST", "/v1/launch", machines.LaunchBatch{Requests: []machines.LaunchRequest{{ClaimUID: uid, Types: []string{"c5.large"}}}}, &out, 200)
	if out.Results[0].Error != nil {
		c.t.Fatal(out.Results[0].Error)
	}
	return out.Results[0].Instance
}

func (c *cloudServer) terminate(providerID string) {
	c.t.Helper()
	var out machines.TerminateAnswer
	c.call("POST", "/v1/terminate", machines.TerminateBatch{ProviderIDs: []string{providerID}}, &out, 200)
	if out.Results[0].Error != nil {
		c.t.Fatal(out.Results[0].Error)
	}
}

func (c *cloudServer) state(id string) machines.State {
	c.t.Helper()
	var out machines.InstanceList
	c.call("GET", "/v1/instances?all=true", nil, &out, 200)
	for _, in := range out.Instances {
		if in.ID == id {
			return in.State
		}
	}
	return ""
}

// pass lets time go by and everything that is due happen.
func pass(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

func (c *cloudServer) want(id string, state machines.State, nodes int) {
	c.t.Helper()
	if have := c.state(id); have != state {
		c.t.Errorf("machine is %s, want %s", have, state)
	}
	if have := c.kube.count(); have != nodes {
		c.t.Errorf("there are %d nodes, want %d", have, nodes)
	}
}

func bubble(t *testing.T, test func(t *testing.T, journal string)) {
	journal := filepath.Join(t.TempDir(), "journal")
	synctest.Test(t, func(t *testing.T) { test(t, journal) })
}

// TestLife: no Node before the boot time, one after it, none after the termination.
func TestLife(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		c := run(t, journal, newKube(), 100*time.Second)
		defer c.stop()
		in := c.launch("a")
		pass(89 * time.Second)
		c.want(in.ID, machines.Pending, 0)
		pass(22 * time.Second)
		c.want(in.ID, machines.Running, 1)
		c.terminate(in.ProviderID)
		synctest.Wait()
		c.want(in.ID, machines.Terminated, 0)
	})
}

// TestReboot: a restarted machine keeps its Node, which has another boot ID after the time of a boot, also where the server dies in between;
// what does not run is not restarted.
func TestReboot(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		k := newKube()
		c := run(t, journal, k, 100*time.Second)
		in := c.launch("a")
		reboot := machines.RebootRequest{ProviderID: in.ProviderID}
		c.call("POST", "/v1/reboot", reboot, nil, 404)
		pass(111 * time.Second)
		first := k.bootID(in.Node.Name)
		k.set(func() { k.fail = 2 })
		c.call("POST", "/v1/reboot", reboot, nil, 200)
		pass(time.Second)
		if id := k.bootID(in.Node.Name); id != first || first == "" {
			t.Errorf("boot ID %q a second after the call, %q before", id, first)
		}
		c.stop()
		c = run(t, journal, k, 100*time.Second)
		defer c.stop()
		pass(3 * time.Minute)
		second := k.bootID(in.Node.Name)
		if second == first {
			t.Errorf("boot ID %q, as before the restart", second)
		}
		c.want(in.ID, machines.Running, 1)
		c.call("POST", "/v1/reboot", reboot, nil, 200)
		pass(3 * time.Minute)
		if id := k.bootID(in.Node.Name); id == first || id == second {
			t.Errorf("boot ID %q after another restart, %q and %q before", id, first, second)
		}
		c.terminate(in.ProviderID)
		c.call("POST", "/v1/reboot", reboot, nil, 404)
		pass(3 * time.Minute)
		c.want(in.ID, machines.Terminated, 0)
	})
}

// TestTerminateWhileBooting: the Node is never made.
func TestTerminateWhileBooting(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		c := run(t, journal, newKube(), 100*time.Second)
		defer c.stop()
		in := c.launch("a")
		pass(time.Second)
		c.terminate(in.ProviderID)
		synctest.Wait()
		c.want(in.ID, machines.Terminated, 0)
		pass(time.Hour)
		if c.kube.creates != 0 {
			t.Errorf("the node was made %d times", c.kube.creates)
		}
	})
}

// TestNodesAreRetried: an API server that is away for a while delays Nodes, no more.
func TestNodesAreRetried(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		k := newKube()
		c := run(t, journal, k, 0)
		defer c.stop()
		k.set(func() { k.fail = 5 })
		in := c.launch("a")
		pass(0)
		c.want(in.ID, machines.Pending, 0)
		pass(time.Minute)
		c.want(in.ID, machines.Running, 1)
		k.set(func() { k.fail = 5 })
		c.terminate(in.ProviderID)
		pass(0)
		c.want(in.ID, machines.ShuttingDown, 1)
		pass(time.Minute)
		c.want(in.ID, machines.Terminated, 0)

		// Away from boot to termination: nothing is left behind.
		k.set(func() { k.fail = 1000 })
		b := c.launch("b")
		pass(time.Minute)
		c.terminate(b.ProviderID)
		pass(time.Minute)
		c.want(b.ID, machines.ShuttingDown, 0)
		k.set(func() { k.fail = 0 })
		pass(time.Minute)
		c.want(b.ID, machines.Terminated, 0)
	})
}

// TestRestart stops the server at every stage of a life and goes on with a new one.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		k := newKube()
		c := run(t, journal, k, 100*time.Second)
		in := c.launch("a")
		pass(time.Second)
		c.stop() // while it boots
		pass(10 * time.Second)
		c = run(t, journal, k, 100*time.Second)
		if again := c.launch("a"); again.ID != in.ID || !again.Registers.Equal(in.Registers) {
			t.Errorf("after the restart the machine is %+v, was %+v", again, in)
		}
		pass(time.Until(in.Registers) - time.Second)
		c.want(in.ID, machines.Pending, 0)
		k.set(func() { k.vanish = true })
		pass(2 * time.Second)
		c.stop() // when the Node is made and nobody knows
		if k.count() != 1 {
			t.Fatalf("have %d nodes", k.count())
		}
		c = run(t, journal, k, 100*time.Second)
		pass(0)
		c.want(in.ID, machines.Running, 1)
		c.stop() // while it runs
		c = run(t, journal, k, 100*time.Second)
		pass(time.Hour)
		c.want(in.ID, machines.Running, 1)
		if k.creates != 2 {
			t.Errorf("the node was made %d times, want 2", k.creates)
		}
		k.set(func() { k.fail = 1000 })
		c.terminate(in.ProviderID)
		pass(time.Second)
		c.stop() // while its Node is being deleted
		k.set(func() { k.fail = 0 })
		c = run(t, journal, k, 100*time.Second)
		pass(0)
		c.want(in.ID, machines.Terminated, 0)
		c.stop()
		c = run(t, journal, k, 100*time.Second)
		defer c.stop()
		c.want(in.ID, machines.Terminated, 0)
	})
}

// TestFaultyMachines: one never registers, one is not for kwok; both end as any other.
func TestFaultyMachines(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		c := run(t, journal, newKube(), time.Second)
		defer c.stop()
		c.call("POST", "/v1/faults", machines.FaultList{Faults: []machines.Fault{{Kind: machines.NeverRegisters, Count: 1}}}, nil, 200)
		a := c.launch("a")
		pass(time.Hour)
		c.want(a.ID, machines.Pending, 0)
		c.call("POST", "/v1/faults", machines.FaultList{Faults: []machines.Fault{{Kind: machines.NeverReady, Count: 1}}}, nil, 200)
		b := c.launch("b")
		pass(time.Hour)
		c.want(b.ID, machines.Running, 1)
		if n := c.kube.nodes[b.Node.Name]; n.Annotations[simulated.KwokNode] != "" || n.Labels[simulated.KwokNode] != "" {
			t.Errorf("kwok will make this node ready: %+v", n)
		}
		c.terminate(a.ProviderID)
		c.terminate(b.ProviderID)
		pass(0)
		c.want(a.ID, machines.Terminated, 0)
		c.want(b.ID, machines.Terminated, 0)
	})
}

// TestBaseNode: made at once, and there again after a restart without being made a second time.
func TestBaseNode(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		k := newKube()
		c := run(t, journal, k, time.Hour)
		var in machines.Instance
		for range 2 {
			c.call("POST", "/v1/base-node", machines.BaseNode{InstanceType: "m5.large", Name: "base"}, &in, 200)
			pass(0)
			c.want(in.ID, machines.Running, 1)
		}
		c.stop()
		c = run(t, journal, k, time.Hour)
		defer c.stop()
		pass(0)
		if k.creates != 1 {
			t.Errorf("the node was made %d times", k.creates)
		}
		c.call("POST", "/v1/base-node", machines.BaseNode{InstanceType: "m5.huge"}, nil, 400)
	})
}

// TestBadCalls: what can't be read is refused with the field and the value.
func TestBadCalls(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		c := run(t, journal, newKube(), 0)
		defer c.stop()
		for _, b := range []struct{ path, body, want string }{
			{"/v1/launch", `{`, "EOF"},
			{"/v1/launch", `{"request":[]}`, `"request"`},
			{"/v1/launch", `{"requests":[{"registrationDelay":"soon"}]}`, `"soon"`},
			{"/v1/launch", `{"requests":[{"registrationDelay":30}]}`, "30"},
			{"/v1/terminate", `[]`, "array"},
			{"/v1/faults", `{"faults":[{"kind":"throttle"},{"kind":"fire"}]}`, "faults[1]"},
		} {
			w := httptest.NewRecorder()
			c.server.Handler().ServeHTTP(w, httptest.NewRequest("POST", b.path, strings.NewReader(b.body)))
			var answer machines.ErrorAnswer
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			if w.Code != 400 || answer.Error.Kind != cloud.Denied || !strings.Contains(answer.Error.Message, b.want) {
				t.Errorf("%s %s: %d %+v", b.path, b.body, w.Code, answer.Error)
			}
		}
		var faults machines.FaultList
		if c.call("GET", "/v1/faults", nil, &faults, 200); len(faults.Faults) != 0 {
			t.Errorf("a refused list of faults left %v", faults)
		}
		c.call("GET", "/v1/journal?after=x", nil, nil, 400)
	})
}

// TestJournal: records come one a line, and from where they are asked for.
func TestJournal(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		c := run(t, journal, newKube(), 0)
		defer c.stop()
		c.launch("a")
		pass(0)
		c.launch("b")
		pass(0)
		for after, want := range []string{"launched a,node-created a,launched b,node-created b", "node-created a,launched b,node-created b", "launched b,node-created b", "node-created b", "", ""} {
			w := httptest.NewRecorder()
			c.server.Handler().ServeHTTP(w, httptest.NewRequest("GET", fmt.Sprintf("/v1/journal?after=%d", after), nil))
			var have []string
			for dec := json.NewDecoder(w.Body); ; {
				var r machines.Record
				if err := dec.Decode(&r); err == io.EOF {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				have = append(have, r.Kind+" "+r.ClaimUID)
			}
			if strings.Join(have, ",") != want {
				t.Errorf("after %d: have %v, want %s", after, have, want)
			}
		}
	})
}

// TestTornJournal cuts a journal at every byte of its last two records, as a kill may. What is whole is there, and what was
// promised once is kept: launching again makes the same machine.
func TestTornJournal(t *testing.T) {
	var whole []byte
	var a, b *machines.Instance
	bubble(t, func(t *testing.T, journal string) {
		c := run(t, journal, newKube(), time.Hour)
		a, b = c.launch("a"), c.launch("b")
		c.stop()
		var err error
		if whole, err = os.ReadFile(journal); err != nil {
			t.Fatal(err)
		}
	})
	first := bytes.IndexByte(whole, '\n') + 1
	for cut := 0; cut <= len(whole); cut += 7 {
		bubble(t, func(t *testing.T, journal string) {
			if err := os.WriteFile(journal, whole[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			c := run(t, journal, newKube(), time.Hour)
			var list machines.InstanceList
			c.call("GET", "/v1/instances", nil, &list, 200)
			want := 0
			if cut >= first {
				want++
			}
			if cut == len(whole) {
				want++
			}
			if len(list.Instances) != want {
				t.Errorf("cut at %d: %d machines, want %d", cut, len(list.Instances), want)
			}
			if again := c.launch("a"); again.ID != a.ID {
				t.Errorf("cut at %d: machine %s, was %s", cut, again.ID, a.ID)
			}
			if again := c.launch("b"); again.ID != b.ID {
				t.Errorf("cut at %d: machine %s, was %s", cut, again.ID, b.ID)
			}
			c.stop()
			c = run(t, journal, newKube(), time.Hour) // what was appended behind the cut can be read
			c.call("GET", "/v1/instances", nil, &list, 200)
			if len(list.Instances) != 2 {
				t.Errorf("cut at %d: %d machines after appending", cut, len(list.Instances))
			}
			c.stop()
		})
	}
}

// TestBrokenJournal: what a kill can't leave behind is an error that names the line.
func TestBrokenJournal(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"not JSON", "{}x\n", "line 1"},
		{"a gap", `{"seq":2,"kind":"terminating","id":"x"}` + "\n", "record 2 follows record 0"},
		{"unknown machine", `{"seq":1,"kind":"terminating","id":"x"}` + "\n", "machine x"},
	} {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := simulated.Open(simulated.Config{Journal: path, Catalog: parseCatalogue(t)}, newKube())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestOneProcess: a journal in use is refused.
func TestOneProcess(t *testing.T) {
	bubble(t, func(t *testing.T, journal string) {
		c := run(t, journal, newKube(), 0)
		defer c.stop()
		_, err := simulated.Open(simulated.Config{Journal: journal, Catalog: parseCatalogue(t)}, newKube())
		if err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("have %v", err)
		}
	})
}

// TestLostListener: a server whose socket fails says so.
func TestLostListener(t *testing.T) {
	s, err := simulated.Open(simulated.Config{Journal: filepath.Join(t.TempDir(), "journal"), Catalog: parseCatalogue(t)}, newKube())
	if err != nil {
		t.Fatal(err)
	}
	l := &noListener{closed: make(chan struct{})}
	l.Close()
	if err := s.Serve(t.Context(), l); err == nil {
		t.Error("no error")
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/v1/instances", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("a stopped server answers %d", w.Code)
	}
}
