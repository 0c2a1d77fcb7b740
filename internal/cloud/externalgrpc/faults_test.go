// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/externalgrpctest"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

func request(uid string) cloud.LaunchRequest {
	return cloud.LaunchRequest{ClaimName: "claim-" + uid, ClaimUID: uid, Class: class(all)}
}

// comes asks for a machine until it has come.
func (w *world) comes(p cloud.Provider, uid string) (res cloud.LaunchResult) {
	w.t.Helper()
	testwait.UntilFor(w.t, testwait.Limit, "the machine of "+uid+" has come", func() error {
		res = p.Launch(w.t.Context(), []cloud.LaunchRequest{request(uid)})[0]
		if res.Err == nil && res.ProviderID == "" {
			return errors.New("it has not")
		}
		return res.Err
	})
	return res
}

// TestLostReplyAndOldTarget: the reply to a growth is lost, the server goes on telling the size from before, and the process is another
// one by then. The group grows once.
func TestLostReplyAndOldTarget(t *testing.T) {
	s := &externalgrpctest.Server{Hold: true}
	name := s.AddGroup("small", "a", model.OnDemand, 2, 0.1)
	w := newWorld(t, s)
	s.Set(func(s *externalgrpctest.Server) { s.Lose, s.Targets = true, map[string]int32{name: 0} })
	if err := w.provider().Launch(t.Context(), []cloud.LaunchRequest{request("a")})[0].Err; cloud.KindOf(err) != cloud.Unknown {
		t.Fatalf("have %v, want an unknown end", err)
	}
	other := w.provider()
	for range 5 {
		if res := other.Launch(t.Context(), []cloud.LaunchRequest{request("a")})[0]; res.Err != nil || res.ProviderID != "" {
			t.Errorf("have %+v, want a machine that is to come", res)
		}
	}
	s.Set(func(s *externalgrpctest.Server) { s.Hold, s.Targets = false, nil })
	w.comes(other, "a")
	if n := len(s.EverMade()); n != 1 {
		t.Errorf("%d machines were made, want 1: %v", n, s.Calls())
	}
}

// TestServersAnswers: what servers may answer, right or not.
func TestServersAnswers(t *testing.T) {
	for name, change := range map[string]struct {
		server func(*externalgrpctest.Server, string)
		holds  func(t *testing.T, w *world, p cloud.Provider)
	}{
		"a template as before Kubernetes 1.35": {func(s *externalgrpctest.Server, _ string) { s.Old = true }, func(t *testing.T, w *world, p cloud.Provider) {
			if res := w.comes(p, "a"); res.InstanceType != "small" {
				t.Errorf("have %+v", res)
			}
		}},
		"no prices": {func(s *externalgrpctest.Server, _ string) { s.Unpriced = true }, func(t *testing.T, w *world, p cloud.Provider) {
			types, err := p.Offerings(t.Context(), nil, class(all))
			if err != nil || types[0].Offerings[0].PriceMicro != 0 {
				t.Errorf("have %v, %v; want a price that is not known", types, err)
			}
		}},
		"no node in the template":  {func(s *externalgrpctest.Server, g string) { s.Templates = map[string][]byte{g: nil} }, isNotReady("template node is empty")},
		"nonsense in the template": {func(s *externalgrpctest.Server, g string) { s.Templates = map[string][]byte{g: []byte("\xff\xff\xff")} }, isNotReady("can't be read")},
		"a size that it does not raise": {func(s *externalgrpctest.Server, g string) { s.Refuse = map[string]error{g: errors.New("no quota")} }, func(t *testing.T, w *world, p cloud.Provider) {
			err := p.Launch(t.Context(), []cloud.LaunchRequest{request("a")})[0].Err
			if cloud.KindOf(err) != cloud.InsufficientCapacity || !strings.Contains(err.Error(), "no quota") {
				t.Errorf("have %v, want no capacity, with the server's words", err)
			}
		}},
		"calls that are not allowed": {func(s *externalgrpctest.Server, g string) {
			s.Refuse = map[string]error{g: status.Error(codes.PermissionDenied, "not you")}
		}, func(t *testing.T, w *world, p cloud.Provider) {
			err := p.Launch(t.Context(), []cloud.LaunchRequest{request("a")})[0].Err
			if cloud.KindOf(err) != cloud.Denied || !strings.Contains(err.Error(), "NodeGroupIncreaseSize: the server at "+w.address+" answers PermissionDenied: not you") {
				t.Errorf("have %v, want a denial that names the call", err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &externalgrpctest.Server{}
			group := s.AddGroup("small", "a", model.OnDemand, 2, 0.1)
			w := newWorld(t, s)
			s.Set(func(s *externalgrpctest.Server) { change.server(s, group) })
			change.holds(t, w, w.provider())
		})
	}
}

func isNotReady(words string) func(*testing.T, *world, cloud.Provider) {
	return func(t *testing.T, _ *world, p cloud.Provider) {
		_, err := p.Offerings(t.Context(), nil, class(all))
		if cloud.KindOf(err) != cloud.NotReady || !strings.Contains(err.Error(), "group small-a-on-demand: ") || !strings.Contains(err.Error(), words) {
			t.Errorf("have %v, want one that is not ready and names the group and %q", err, words)
		}
	}
}

// TestMachinesOfOthers: machines that a group had before are not listed, not matched and not ended.
func TestMachinesOfOthers(t *testing.T) {
	s := &externalgrpctest.Server{}
	name := s.AddGroup("small", "a", model.OnDemand, 2, 0.1)
	s.Grow(name, 2)
	w := newWorld(t, s)
	p := w.provider()
	others := s.EverMade()
	res := w.comes(p, "a")
	if len(others) != 2 || res.ProviderID == others[0] || res.ProviderID == others[1] {
		t.Errorf("claim a has machine %s; there were %v before", res.ProviderID, others)
	}
	list, err := p.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ClaimUID != "a" {
		t.Errorf("have %v, %v; want the machine of claim a alone", list, err)
	}
	if err := p.Terminate(t.Context(), others[:1])[0]; cloud.KindOf(err) != cloud.NotFound {
		t.Errorf("ending another's machine: %v, want NotFound", err)
	}
	if _, machines := s.Size(name); machines != 3 {
		t.Errorf("the group has %d machines, want 3", machines)
	}
}

// TestErrorsOfRunningMachines: running machines report an error, that of a claim and one that somebody else has asked for. Both stay, and the latter is
// matched to a claim like any machine that runs.
func TestErrorsOfRunningMachines(t *testing.T) {
	s := &externalgrpctest.Server{}
	name := s.AddGroup("small", "a", model.OnDemand, 2, 0.1)
	w := newWorld(t, s)
	p := w.provider()
	w.comes(p, "a")
	s.Grow(name, 1)
	s.Break(name)
	for range 3 {
		list, err := p.List(t.Context())
		if err != nil || len(list) != 1 || list[0].ClaimUID != "a" || list[0].Gone {
			t.Errorf("have %v, %v; want the machine of claim a", list, err)
		}
	}
	if target, machines := s.Size(name); target != 2 || machines != 2 {
		t.Errorf("the group is to have %d machines and has %d, want 2: %v", target, machines, s.Calls())
	}
	if have, want := w.comes(p, "b").ProviderID, s.EverMade()[1]; have != want {
		t.Errorf("claim b has machine %s, want %s", have, want)
	}
}

// TestServerGone: a server that does not answer gives errors that name the call, the server and the remedy, and nothing is taken to have ended.
func TestServerGone(t *testing.T) {
	s := &externalgrpctest.Server{}
	s.AddGroup("small", "a", model.OnDemand, 2, 0.1)
	w := newWorld(t, s)
	p := w.provider()
	w.comes(p, "a")
	s.Stop()
	_, err := p.List(t.Context())
	if cloud.KindOf(err) != cloud.Unknown {
		t.Fatalf("have %v, want an unknown end", err)
	}
	for _, want := range []string{"Refresh: the server at " + w.address + " is not available", "; if this persists, check that the server runs, and address in --cloud-config;"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("have %v, want one with %q", err, want)
		}
	}
}

// TestConfig: mistakes in a configuration name file, field, value and remedy.
func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"address: server":                                  `address: "server": use HOST:PORT`,
		"address: server:8086":                             `a server on another host requires TLS; set key, cert and cacert`,
		"{address: 'server:8086', key: k}":                 `cert, cacert: missing`,
		"{address: 'localhost:1', grpc_timeout: soon}":     `grpc_timeout: "soon": use a duration`,
		"{address: 'localhost:1', timeout: 5s}":            `unknown field "timeout"`,
		"{address: 'localhost:8086', grpc_timeout: 10s}":   "",
		"{address: 's:1', key: k, cert: c, cacert: other}": "",
	} {
		file := filepath.Join(t.TempDir(), "server.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		switch _, err := externalgrpc.ReadConfig(file); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file)):
			t.Errorf("%s: have %v, want one that names the file and %s", text, err, want)
		}
	}
}
