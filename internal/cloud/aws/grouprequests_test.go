// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"bytes"
	"flag"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/asg"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

var update = flag.Bool("update", false, "rewrite the outputs in testdata")

// groupRequests are the requests of TestGroupRequests, one a line; test/awsmodels holds them against the official models.
const groupRequests = "testdata/grouprequests.golden"

// recording lets calls through and keeps those to Auto Scaling and EKS, each as a line: the service, then of Auto Scaling
// the form's values by name, of EKS the method and the path.
type recording struct {
	by    http.RoundTripper
	mu    sync.Mutex
	lines map[string]bool
}

// instanceIDs are all alike in what is recorded.
var instanceIDs = regexp.MustCompile(`\bi-[0-9a-f]{8,17}\b`)

func (r *recording) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	scope := strings.Split(req.Header.Get("Authorization"), "/") // Credential=KEY/DATE/REGION/SERVICE/aws4_request
	line := ""
	switch scope[min(3, len(scope)-1)] {
	case "autoscaling":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, err
		}
		line = "autoscaling"
		for _, k := range slices.Sorted(maps.Keys(form)) {
			line += " " + k + "=" + url.QueryEscape(form.Get(k))
		}
	case "eks":
		line = strings.TrimSpace("eks " + req.Method + " " + req.URL.RequestURI() + " " + string(body))
	}
	if line != "" {
		r.mu.Lock()
		r.lines[instanceIDs.ReplaceAllString(line, "i-0123456789abcdef0")] = true
		r.mu.Unlock()
	}
	return r.by.RoundTrip(req)
}

// TestGroupRequests: each kind of request that a managed node group's life comes to, byte for byte, as the golden file
// has it: found by name and by tags, scaled up, with and without success, made smaller without an instance ended, an instance ended with
// its place and one without, at the minimum.
func TestGroupRequests(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 10 * time.Millisecond })
	group := managed(0)
	a.define(group)
	r := &recording{by: a, lines: map[string]bool{}}
	clients := a.through(r)
	if _, err := asg.Discover(t.Context(), clients, []string{group.Name}, []map[string]string{{"k8s.io/cluster-autoscaler/enabled": "", "k8s.io/cluster-autoscaler/sandbox": "owned"}}); err != nil {
		t.Fatal(err)
	}
	p := a.providerOf(clients)
	managedStatus(t, p)
	pool := &model.NodePool{Name: "workers", Taints: []model.Taint{{Key: "dedicated", Value: "web", Effect: model.NoSchedule}}}
	if _, err := p.Offerings(t.Context(), pool, groupClass(tagged)); err != nil {
		t.Fatal(err)
	}
	ids := getAll(t, p, clock, "a", "b")
	a.fault(awstest.Fault{Kind: machines.OutOfCapacity, InstanceType: "m5.large"})
	created := clock.Now()
	if res := ask(t, p, "c", created); res.Err != nil {
		t.Fatal(res.Err)
	}
	if err := p.Terminate(t.Context(), []string{"aws:///placeholder/c"})[0]; err != nil {
		t.Fatal(err)
	}
	if res := get(t, p, clock, "d"); cloud.KindOf(res.Err) != cloud.InsufficientCapacity {
		t.Fatalf("a node that can't come: %+v", res)
	}
	if err := p.Terminate(t.Context(), ids[:1])[0]; err != nil {
		t.Fatal(err)
	}
	group.Min, group.DesiredLeftAsItIs = 1, true
	a.define(group)
	if err := p.Terminate(t.Context(), ids[1:])[0]; err != nil {
		t.Fatal(err)
	}
	got := strings.Join(slices.Sorted(maps.Keys(r.lines)), "\n") + "\n"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(groupRequests, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(groupRequests)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; go test ./internal/cloud/aws -run TestGroupRequests -args -update writes:\n%s", groupRequests, got)
	}
}
