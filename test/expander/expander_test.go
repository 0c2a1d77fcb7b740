// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package expander

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	client "github.com/dovetail-sh/dovetail/internal/expander"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/expander/expanderpb"
)

// server is an expander that answers as it is told.
type server struct {
	expanderpb.UnimplementedExpanderServer
	answer func(context.Context, *expanderpb.BestOptionsRequest) (*expanderpb.BestOptionsResponse, error)
}

// BestOptions implements expanderpb.ExpanderServer.
func (s *server) BestOptions(ctx context.Context, in *expanderpb.BestOptionsRequest) (*expanderpb.BestOptionsResponse, error) {
	return s.answer(ctx, in)
}

// start runs a server with a certificate of its own on loopback, and returns it with a client of it.
func start(t *testing.T, s *server) (*grpc.Server, *client.Client) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "expander"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})))
	expanderpb.RegisterExpanderServer(g, s)
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(listener) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	c, err := client.Connect(listener.Addr().String(), cert)
	if err != nil {
		t.Fatal(err)
	}
	return g, c
}

// query asks about groups, with so many pods for each.
func query(pods int, groups ...string) *nodegroups.Query {
	class := &model.Class{Key: "web", Namespace: "shop", Labels: model.Labels{"app": "web"}, Requests: model.Resources{1500, 2 << 30, 0, 1, 1}, Scheduler: "default-scheduler", Priority: 7,
		Terms:       []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf("disk", "ssd"))}},
		Tolerations: []model.Toleration{{Key: "team", Value: "web", Effect: "NoSchedule"}}}
	q := &nodegroups.Query{ResourceNames: append(model.FixedNames(), "nvidia.com/gpu")}
	for _, g := range groups {
		o := nodegroups.Option{Group: g, Nodes: 2, Pool: &model.NodePool{Name: "pool-" + g, Labels: model.Labels{"team": "web"}, Taints: []model.Taint{{Key: "team", Value: "web", Effect: "NoSchedule"}}},
			First: solve.NewNode{Type: &model.InstanceType{Name: "m5.large", Labels: model.Labels{model.LabelInstanceType: "m5.large"}, Capacity: model.Resources{2000, 8 << 30, 0, 29, 1}, Allocatable: model.Resources{1900, 7 << 30, 0, 29, 1}},
				Offering: model.Offering{Zone: "us-east-1a", CapacityType: model.Spot, Labels: model.Labels{model.LabelNodeGroup: g}}}}
		for i := range pods {
			o.Pods = append(o.Pods, &model.Pod{Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("uid-", i), Class: class, Owner: model.Owner{Kind: "ReplicaSet", Name: "web", UID: "rs"}})
		}
		q.Options = append(q.Options, o)
	}
	return q
}

// A server that is generated from the protocol reads what it is asked, to the pods and nodes, and what it answers is read.
func TestAnswer(t *testing.T) {
	limit := testwait.Left(t, testwait.Limit)
	_, c := start(t, &server{answer: func(ctx context.Context, in *expanderpb.BestOptionsRequest) (*expanderpb.BestOptionsResponse, error) {
		if until, limited := ctx.Deadline(); !limited || time.Until(until) > limit+time.Second { // what is said is rounded up
			t.Error("the server is not told how long it has")
		}
		var groups []string
		for _, o := range in.Options {
			groups = append(groups, fmt.Sprint(o.NodeGroupId, " ", o.NodeCount, " ", len(o.PodBytes)))
			var pod corev1.Pod
			if err := pod.Unmarshal(o.PodBytes[0]); err != nil {
				t.Fatal(err)
			}
			requests, term := pod.Spec.Containers[0].Resources.Requests, pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
			if pod.Namespace != "shop" || pod.Labels["app"] != "web" || requests.Cpu().MilliValue() != 1500 || requests.Memory().Value() != 2<<30 || len(requests) != 3 || *pod.Spec.Priority != 7 ||
				pod.Spec.Tolerations[0].Key != "team" || term.Key != "disk" || !slices.Equal(term.Values, []string{"ssd"}) || pod.OwnerReferences[0].Name != "web" {
				t.Errorf("the pod is %v", &pod)
			}
			var node corev1.Node
			if err := node.Unmarshal(in.NodeBytesMap[o.NodeGroupId]); err != nil {
				t.Fatal(err)
			}
			gpus := node.Status.Allocatable["nvidia.com/gpu"]
			if node.Status.Allocatable.Cpu().MilliValue() != 1900 || gpus.Value() != 1 || node.Labels[model.LabelZone] != "us-east-1a" || node.Labels["team"] != "web" || node.Spec.Taints[0].Key != "team" {
				t.Errorf("the node is %v", &node)
			}
		}
		if want := []string{"a 2 3", "b 2 3", "c 2 3"}; !slices.Equal(groups, want) {
			t.Errorf("asked about %v, want %v", groups, want)
		}
		return &expanderpb.BestOptionsResponse{Options: []*expanderpb.Option{in.Options[2], {NodeGroupId: "a", NodeCount: 1, Debug: "by name alone"}}}, nil
	}})
	for range 3 { // over one connection
		call, cancel := context.WithTimeout(t.Context(), testwait.Left(t, testwait.Limit))
		got, err := c.BestOptions(call, query(3, "a", "b", "c"))
		cancel()
		if err != nil || !slices.Equal(got, []string{"c", "a"}) {
			t.Fatalf("answered %v, %v", got, err)
		}
	}
}

// Ten thousand pods are asked about in one message.
func TestManyPods(t *testing.T) {
	pods := 0
	_, c := start(t, &server{answer: func(_ context.Context, in *expanderpb.BestOptionsRequest) (*expanderpb.BestOptionsResponse, error) {
		pods = len(in.Options[0].PodBytes)
		return &expanderpb.BestOptionsResponse{Options: in.Options}, nil // their pods and all
	}})
	if got, err := c.BestOptions(t.Context(), query(10_000, "a")); err != nil || !slices.Equal(got, []string{"a"}) || pods != 10_000 {
		t.Errorf("answered %v, %v to %d pods", got, err, pods)
	}
}

// A server that is slow is waited for as long as the call may take.
func TestSlow(t *testing.T) {
	free := make(chan struct{})
	defer close(free)
	ctx, cancel := context.WithCancel(testwait.Context(t))
	defer cancel()
	_, c := start(t, &server{answer: func(ctx context.Context, _ *expanderpb.BestOptionsRequest) (*expanderpb.BestOptionsResponse, error) {
		cancel() // the caller has waited long enough
		select {
		case <-ctx.Done():
		case <-free:
		}
		return nil, ctx.Err()
	}})
	if got, err := c.BestOptions(ctx, query(1, "a", "b")); err == nil || ctx.Err() == nil {
		t.Errorf("answered %v, %v", got, err)
	}
}

// One that answers nonsense is read all the same: what it names is not this client's to judge.
func TestNonsense(t *testing.T) {
	var answer *expanderpb.BestOptionsResponse
	var fail error
	_, c := start(t, &server{answer: func(context.Context, *expanderpb.BestOptionsRequest) (*expanderpb.BestOptionsResponse, error) {
		return answer, fail
	}})
	answer = &expanderpb.BestOptionsResponse{}
	if got, err := c.BestOptions(t.Context(), query(1, "a", "b")); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	answer = &expanderpb.BestOptionsResponse{Options: []*expanderpb.Option{{NodeGroupId: "elsewhere"}, {}}}
	if got, err := c.BestOptions(t.Context(), query(1, "a", "b")); err != nil || !slices.Equal(got, []string{"elsewhere"}) {
		t.Errorf("an unknown one: %v, %v", got, err)
	}
	fail = status.Error(codes.Internal, "out of ideas: 100 %")
	if _, err := c.BestOptions(t.Context(), query(1, "a", "b")); err == nil || !strings.Contains(err.Error(), "status 13: out of ideas: 100 %") {
		t.Errorf("an error: %v", err)
	}
	fail = status.Error(codes.Unimplemented, "")
	if _, err := c.BestOptions(t.Context(), query(1, "a", "b")); err == nil || !strings.Contains(err.Error(), "status 12") {
		t.Errorf("a server that does not know the method: %v", err)
	}
}

// One that dies amid a call fails it at once, and one that is not there fails it, too.
func TestDies(t *testing.T) {
	asked := make(chan struct{}, 1)
	g, c := start(t, &server{answer: func(ctx context.Context, _ *expanderpb.BestOptionsRequest) (*expanderpb.BestOptionsResponse, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, errors.New("dead")
	}})
	go func() {
		<-asked
		g.Stop()
	}()
	ctx := testwait.Context(t)
	for i := range 2 {
		if got, err := c.BestOptions(ctx, query(1, "a", "b")); err == nil || ctx.Err() != nil {
			t.Errorf("call %d: answered %v, %v", i, got, err)
		}
	}
}

// What can't work is said before anything is asked.
func TestConnect(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ address, cert, want string }{
		{"127.0.0.1:1", "", "set --grpc-expander-cert"},
		{"localhost", empty, "use HOST:PORT"},
		{"127.0.0.1:1", filepath.Join(dir, "missing.pem"), "no such file"},
		{"127.0.0.1:1", empty, "it holds no certificate in PEM"},
	} {
		if _, err := client.Connect(x.address, x.cert); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s with %q: %v, want %q", x.address, x.cert, err, x.want)
		}
	}
}
