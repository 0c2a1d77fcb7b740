// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

var builtin = sync.OnceValues(catalog.Builtin)

// some is the built-in catalog with these types only.
func some(t testing.TB, names ...string) *catalog.Catalog {
	all, err := builtin()
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		return all
	}
	small := *all
	small.Types = nil
	for _, n := range names {
		small.Types = append(small.Types, *all.Find(n))
	}
	return &small
}

// account is a simulated AWS on a socket.
type account struct {
	t         testing.TB
	url       string
	clock     cloud.Clock
	client    *http.Client
	resources *table
	throttle  atomic.Int64 // milliseconds that the next throttled answer asks for
}

func open(t testing.TB, c *catalog.Catalog, clock cloud.Clock, change ...func(*awstest.Settings)) *account {
	t.Helper()
	return openWith(t, c, clock, cloudtest.NoNodes{}, change...)
}

// openWith is open with a cluster that the machines join.
func openWith(t testing.TB, c *catalog.Catalog, clock cloud.Clock, nodes simulated.NodeMaker, change ...func(*awstest.Settings)) *account {
	t.Helper()
	settings := awstest.Default()
	settings.Endpoint = "https://127.0.0.1:6443"
	for _, f := range change {
		f(&settings)
	}
	aws, err := awstest.New(c, settings, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &account{t: t, clock: clock, resources: newTable()}
	m, err := simulated.Open(simulated.Config{Journal: filepath.Join(t.TempDir(), "journal"), Catalog: c, Clock: clock, Guest: aws}, nodes)
	if err != nil {
		t.Fatal(err)
	}
	aws.Attach(m)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	serve := func(what func(context.Context, net.Listener) error) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := what(ctx, l); err != nil {
				t.Error(err)
			}
		})
		return "http://" + l.Addr().String()
	}
	serve(m.Serve)
	a.url = serve(aws.Serve)
	a.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		a.client.CloseIdleConnections()
	})
	return a
}

// RoundTrip adds what a throttled answer asks for: the simulated EC2 does not say, as the real one.
func (a *account) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := a.client.Transport.RoundTrip(r)
	if err == nil && res.StatusCode >= 400 && a.throttle.Load() > 0 {
		res.Header.Set("X-Amz-Retry-After", strconv.FormatInt(a.throttle.Swap(0), 10))
	}
	return res, err
}

func (a *account) config() awsapi.Config {
	c := awsapi.DefaultConfig()
	c.ClusterName = awstest.Default().Cluster
	return c
}

func (a *account) clients() *awsapi.Clients {
	a.t.Helper()
	return a.through(a)
}

// through is the clients whose requests go through this.
func (a *account) through(by http.RoundTripper) *awsapi.Clients {
	a.t.Helper()
	a.t.Setenv("AWS_CA_BUNDLE", "") // the machine's own has no place here
	clients, err := awsapi.Connect(context.Background(), config.WithBaseEndpoint(a.url), config.WithRegion("us-east-1"),
		config.WithHTTPClient(&http.Client{Transport: by}), config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "none", "")))
	if err != nil {
		a.t.Fatal(err)
	}
	return clients
}

func (a *account) provider(change ...func(*awsapi.Config)) *aws.Provider {
	a.t.Helper()
	return a.providerOf(a.clients(), change...)
}

func (a *account) providerOf(clients *awsapi.Clients, change ...func(*awsapi.Config)) *aws.Provider {
	a.t.Helper()
	c := a.config()
	for _, f := range change {
		f(&c)
	}
	p, err := aws.New(clients, c, a.resources, a.clock, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

// control asks the simulated AWS itself.
func (a *account) control(method, path string, in, out any) {
	a.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		a.t.Fatal(err)
	}
	req, err := http.NewRequest(method, a.url+"/_aws/"+path, bytes.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	res, err := a.client.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		a.t.Fatalf("%s %s: %s %s %v", method, path, res.Status, text, err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *account) fault(faults ...awstest.Fault) {
	a.t.Helper()
	a.control("POST", "faults", awstest.FaultList{Faults: faults}, nil)
}

func (a *account) books() awstest.Books {
	a.t.Helper()
	var b awstest.Books
	a.control("GET", "books?tag="+awsv1.TagClaimUID, nil, &b)
	return b
}

func (a *account) launches() map[string]int {
	a.t.Helper()
	out := map[string]int{}
	for uid, list := range a.books().Launches {
		out[uid] = len(list)
	}
	return out
}

// deleteTemplates deletes all launch templates and says how many there were.
func (a *account) deleteTemplates() int {
	a.t.Helper()
	c := a.clients().EC2
	res, err := c.DescribeLaunchTemplates(a.t.Context(), &ec2.DescribeLaunchTemplatesInput{})
	if err != nil {
		a.t.Fatal(err)
	}
	for _, t := range res.LaunchTemplates {
		if _, err := c.DeleteLaunchTemplate(a.t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId}); err != nil {
			a.t.Fatal(err)
		}
	}
	return len(res.LaunchTemplates)
}

// deleteTemplate deletes a launch template.
func (a *account) deleteTemplate(name string) {
	a.t.Helper()
	if _, err := a.clients().EC2.DeleteLaunchTemplate(a.t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name}); err != nil {
		a.t.Fatal(err)
	}
}

const discovery = `"subnetSelectorTerms":[{"tags":{"karpenter.sh/discovery":"sandbox"}}],"securityGroupSelectorTerms":[{"tags":{"karpenter.sh/discovery":"sandbox"}}]`

func class(spec string) cloud.NodeClass {
	if spec == "" {
		spec = `{"role":"sandbox-node","amiSelectorTerms":[{"alias":"al2023@latest"}],` + discovery + `}`
	}
	return cloud.NodeClass{Group: awsv1.Group, Kind: awsv1.KindEC2NodeClass, Name: "default", UID: "class-uid", Generation: 1, Spec: []byte(spec)}
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

// soon asks until something holds that the simulated AWS does on its own. The error says how far it is.
func (a *account) soon(what string, holds func() error) {
	a.t.Helper()
	err := testwait.Poll(a.t.Context(), testwait.Left(a.t, testwait.Limit), 5*time.Millisecond, func(context.Context) error { return holds() })
	if err != nil {
		a.t.Fatalf("waiting until %s: %v", what, err)
	}
}

// turns returns a function that moves a clock ahead, the first 400 times that it is called: from then on the simulated AWS is only waited for, so
// that a slow machine does not turn a wait into hours for the code under test.
func (a *account) turns(clock cloud.Clock, by time.Duration) func() {
	n := 0
	return func() {
		if n++; n <= 400 {
			if err := clock.Wait(a.t.Context(), by); err != nil {
				a.t.Fatal(err)
			}
		}
	}
}

// shifted is the wall clock, so far ahead.
type shifted struct{ ahead atomic.Int64 }

func (s *shifted) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

func (s *shifted) Wait(ctx context.Context, d time.Duration) error { return cloud.Wall{}.Wait(ctx, d) }

// hurried is a clock on which ten seconds pass in one: what waits for AWS to catch up waits, and nobody for it.
type hurried struct{ since time.Time }

const hurry = 10

func (h hurried) Now() time.Time { return h.since.Add(time.Since(h.since) * hurry) }

func (h hurried) Wait(ctx context.Context, d time.Duration) error {
	return cloud.Wall{}.Wait(ctx, d/hurry)
}
