// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kwok_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// TestContract runs the suite over a real socket to a real machines server.
func TestContract(t *testing.T) {
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		c := serve(t, smallCatalogue(t))
		return cloudtest.Harness{
			Provider: c.provider(), Pool: &model.NodePool{Name: "default"}, Class: class(`{"nodeRegistrationDelay":"0s"}`),
			Another: c.provider,
			Exhaust: func(keys ...cloud.OfferingKey) {
				for _, k := range keys {
					c.fault(machines.Fault{Kind: machines.OutOfCapacity, InstanceType: k.InstanceType, Zone: k.Zone, CapacityType: k.CapacityType})
				}
			},
			Throttle: func(d time.Duration) {
				c.fault(machines.Fault{Kind: machines.Throttle, Delay: machines.Duration(d), Count: 1})
			},
			LoseReply: func() { c.fault(machines.Fault{Kind: machines.LostReply, Count: 1}) },
			Hang: func() func() {
				c.fault(machines.Fault{Kind: machines.Stall, Delay: machines.Duration(time.Hour)})
				return c.clearFaults
			},
			Launches: c.launches,
		}
	})
}

func class(spec string) cloud.NodeClass {
	return cloud.NodeClass{Group: kwok.Group, Kind: kwok.Kind, Name: "default", Spec: []byte(spec)}
}

func smallCatalogue(t *testing.T) *catalog.Catalog {
	all, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	small := *all
	small.Types = nil
	for _, n := range []string{"c5.large", "g5.xlarge", "m5.large", "m6g.large", "r5.large"} {
		small.Types = append(small.Types, *all.Find(n))
	}
	return &small
}

// server is a machines server on a loopback socket.
type server struct {
	t         testing.TB
	url       string
	client    *http.Client
	resources *table
}

func serve(t testing.TB, c *catalog.Catalog) *server {
	s, err := simulated.Open(simulated.Config{Journal: filepath.Join(t.TempDir(), "journal"), Catalog: c}, cloudtest.NoNodes{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		cancel()
		if err := testwait.Receive(t, "the end of the server", done); err != nil {
			t.Error(err)
		}
		client.CloseIdleConnections()
	})
	return &server{t: t, url: "http://" + l.Addr().String(), client: client, resources: newTable()}
}

func (s *server) provider() cloud.Provider {
	return kwok.New(s.url, s.client, s.resources, cloud.Wall{})
}

func (s *server) do(method, path string, in, out any) {
	s.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequest(method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s %s: %s", method, path, res.Status)
	}
	if out != nil {
		if err := json.NewDecoder(res.Body).Decode(out); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *server) fault(f machines.Fault) {
	s.t.Helper()
	s.do(http.MethodPost, "/v1/faults", machines.FaultList{Faults: []machines.Fault{f}}, nil)
}

func (s *server) clearFaults() { s.do(http.MethodDelete, "/v1/faults", nil, nil) }

// launches reads the cloud's own books.
func (s *server) launches() map[string]int {
	s.t.Helper()
	res, err := s.client.Get(s.url + "/v1/journal")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	out := map[string]int{}
	for dec := json.NewDecoder(res.Body); dec.More(); {
		var r machines.Record
		if err := dec.Decode(&r); err != nil {
			s.t.Fatal(err)
		}
		if r.Kind == machines.RecordLaunched && r.ClaimUID != "" {
			out[r.ClaimUID]++
		}
	}
	return out
}

type table struct {
	mu    sync.Mutex
	names []string
}

func newTable() *table { return &table{names: model.FixedNames()} }

func (t *table) Dim(name string) model.Dim {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, n := range t.names {
		if n == name {
			return model.Dim(i)
		}
	}
	t.names = append(t.names, name)
	return model.Dim(len(t.names) - 1)
}

func (t *table) Names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.names...)
}

// TestOfferingsAreTheCatalogue holds what comes over the wire against the catalog itself.
func TestOfferingsAreTheCatalogue(t *testing.T) {
	all, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, all)
	have, err := s.provider().Offerings(t.Context(), nil, class(""))
	if err != nil {
		t.Fatal(err)
	}
	want := all.InstanceTypes(s.resources.Dim)
	if len(have) != len(want) {
		t.Fatalf("have %d types, want %d", len(have), len(want))
	}
	for i := range want {
		if have[i].Name != want[i].Name || !have[i].Capacity.Equal(want[i].Capacity) || !have[i].Allocatable.Equal(want[i].Allocatable) {
			t.Errorf("have %v, want %v", have[i], want[i])
		}
		if h, w := fmt.Sprint(have[i].Labels, have[i].Offerings), fmt.Sprint(want[i].Labels, want[i].Offerings); h != w {
			t.Errorf("have %s\nwant %s", h, w)
		}
	}
}

func TestNodeClass(t *testing.T) {
	s := serve(t, smallCatalogue(t))
	p := s.provider()
	for _, c := range []struct{ spec, want string }{
		{"", ""},
		{"{}", ""},
		{`{"nodeRegistrationDelay":"1m30s"}`, ""},
		{`{"nodeRegistrationDelay":"soon"}`, `spec.nodeRegistrationDelay: "soon"`},
		{`{"nodeRegistrationDelay":"-1s"}`, `spec.nodeRegistrationDelay: "-1s"`},
		{`[]`, "spec"},
	} {
		_, err := p.Offerings(t.Context(), nil, class(c.spec))
		statuser, ok := cloud.As[cloud.ClassStatuser](p)
		if !ok {
			t.Fatal("no class status")
		}
		status, statusErr := statuser.ClassStatus(t.Context(), class(c.spec))
		if statusErr != nil {
			t.Error(statusErr)
		}
		ready := status.Conditions["Ready"]
		if c.want == "" {
			if err != nil || !ready.True() {
				t.Errorf("%s: %v, %+v", c.spec, err, ready)
			}
			continue
		}
		if cloud.KindOf(err) != cloud.NotReady || !strings.Contains(err.Error(), c.want) || ready.Status != "False" || !strings.Contains(ready.Message, c.want) {
			t.Errorf("%s: %v, %+v", c.spec, err, ready)
		}
	}
}

// TestUnreachable: a cloud that is not there is an Unknown error that says where it was looked for; once the catalog is known,
// it stays in use.
func TestUnreachable(t *testing.T) {
	p := kwok.New("http://127.0.0.1:1", http.DefaultClient, newTable(), cloud.Wall{})
	_, err := p.Offerings(t.Context(), nil, class(""))
	if cloud.KindOf(err) != cloud.Unknown || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("have %v", err)
	}
	s := serve(t, smallCatalogue(t))
	clock := &frozen{now: time.Unix(0, 0)}
	p = kwok.New(s.url, s.client, s.resources, clock)
	before, err := p.Offerings(t.Context(), nil, class(""))
	if err != nil {
		t.Fatal(err)
	}
	s.fault(machines.Fault{Kind: machines.Throttle, Call: machines.CallOfferings, Delay: machines.Duration(time.Second)})
	clock.now = clock.now.Add(2 * kwok.Refresh)
	after, err := p.Offerings(t.Context(), nil, class(""))
	if err != nil || &after[0] != &before[0] {
		t.Errorf("the known catalogue was not kept: %v", err)
	}
	s.clearFaults()
	again, err := p.Offerings(t.Context(), nil, class("")) // asked again, answered 304
	if err != nil || &again[0] != &before[0] {
		t.Errorf("an unchanged catalogue became another one: %v", err)
	}
}

type frozen struct{ now time.Time }

func (f *frozen) Now() time.Time { return f.now }

func (f *frozen) Wait(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// TestRequirementsOnOfferingLabels: offerings that differ in further labels are never bought in a combination that the
// requirements exclude.
func TestRequirementsOnOfferingLabels(t *testing.T) {
	c, err := catalog.Parse("test", []byte(`[{"name":"a","architecture":"amd64","operatingSystems":["linux"],"resources":{"cpu":"4","memory":"16Gi"},"offerings":[
		{"Price":0.1,"Requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["reserved"]},{"key":"topology.kubernetes.io/zone","operator":"In","values":["z1"]},{"key":"example.com/reservation","operator":"In","values":["r1"]}]},
		{"Price":0.2,"Requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["reserved"]},{"key":"topology.kubernetes.io/zone","operator":"In","values":["z2"]},{"key":"example.com/reservation","operator":"In","values":["r2"]}]},
		{"Price":0.3,"Requirements":[{"key":"karpenter.sh/capacity-type","operator":"In","values":["spot"]},{"key":"topology.kubernetes.io/zone","operator":"In","values":["z1"]},{"key":"example.com/reservation","operator":"In","values":["r2"]}]}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, c)
	res := s.provider().Launch(t.Context(), []cloud.LaunchRequest{{
		ClaimUID: "a", ClaimName: "a", Class: class(""), Requirements: model.NewRequirements(model.OneOf("example.com/reservation", "r2")),
	}})[0]
	if res.Err != nil || res.Zone != "z2" || res.PriceMicro != 200_000 || res.Labels["example.com/reservation"] != "r2" {
		t.Errorf("bought %+v", res)
	}
}

// TestCancelWhileAnotherRefreshes: a caller whose context ends does not wait for another's slow refresh.
func TestCancelWhileAnotherRefreshes(t *testing.T) {
	s := serve(t, smallCatalogue(t))
	s.fault(machines.Fault{Kind: machines.Stall, Call: machines.CallOfferings, Delay: machines.Duration(time.Hour), Count: 1})
	p := s.provider()
	slow, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := p.Offerings(slow, nil, class("")); done <- err }()
	testwait.Until(t, "the slow call has arrived", func() error {
		var list machines.FaultList
		if s.do(http.MethodGet, "/v1/faults", nil, &list); len(list.Faults) > 0 {
			return fmt.Errorf("the faults still to be had are %+v", list.Faults)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Offerings(ctx, nil, class("")); err == nil {
		t.Error("no error")
	}
	stop()
	if err := testwait.Receive(t, "the end of the slow call", done); err == nil {
		t.Error("no error")
	}
	if _, err := p.Offerings(t.Context(), nil, class("")); err != nil {
		t.Error(err)
	}
}

// BenchmarkLaunch is what a burst of claims costs, each launched by a call of its own, as a controller does that lets no claim
// wait for another.
func BenchmarkLaunch(b *testing.B) {
	all, err := catalog.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	s := serve(b, all)
	p := s.provider()
	var types []string
	for _, t := range all.Types[:60] {
		types = append(types, t.Name)
	}
	var n atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			uid := strconv.FormatInt(n.Add(1), 10)
			res := p.Launch(b.Context(), []cloud.LaunchRequest{{ClaimUID: uid, ClaimName: uid, Class: class(""), Types: types,
				Requirements: model.NewRequirements(model.OneOf(model.LabelOS, "linux"), model.OneOf(model.LabelInstanceType, types...))}})
			if res[0].Err != nil {
				b.Error(res[0].Err)
			}
		}
	})
}
