// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestGroupsOfOtherClouds hands over node groups on a machine without AWS credentials: where the groups are known to be of another cloud, nothing is asked
// of AWS, not even the instance metadata service, and each error names a remedy. The API server knows a controller at most.
func TestGroupsOfOtherClouds(t *testing.T) {
	var asked atomic.Int64 // requests to the instance metadata service
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "no", http.StatusNotFound)
	}))
	defer metadata.Close()
	for k, v := range map[string]string{"AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata.URL, "AWS_EC2_METADATA_DISABLED": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull} {
		t.Setenv(k, v)
	}
	args, requests := "", 0 // of the controller; none: there is no controller
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}`)
		case strings.HasSuffix(r.URL.Path, "/leases"):
			fmt.Fprint(w, `{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": []}`)
		case strings.HasSuffix(r.URL.Path, "/pods") && args != "":
			fmt.Fprintf(w, `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "dovetail-0", "namespace": "dovetail-system"}, "spec": {"containers": [
				{"name": "proxy", "args": ["--cloud=aws"]}, {"name": "controller", "args": [%s]}]}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}]}`, args)
		case strings.HasSuffix(r.URL.Path, "/pods"):
			fmt.Fprint(w, `{"kind": "PodList", "apiVersion": "v1", "items": []}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: %q}}], users: [{name: a, user: {token: a}}],
contexts: [{name: a, context: {cluster: a, user: a}}]}`, server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line, controller string
		status           int
		asksAWS          bool
		offline          bool // nothing is asked of the API server
		want             []string
	}{
		{line: "takeover --class a --cloud clusterapi", status: 2, want: []string{"--cluster-api-cluster", "use NAMESPACE/NAME of the Cluster object"}},
		{line: "takeover --class a --cloud clusterapi --cluster-api-cluster default/workload", status: 1, want: []string{"ask API server"}},
		{line: "takeover --class a --cloud clusterapi --cluster-api-cluster default/workload --management-kubeconfig missing", status: 2, want: []string{"--management-kubeconfig: "}},
		{line: "takeover --group a --cloud externalgrpc", status: 2, offline: true, want: []string{"--cloud externalgrpc", "drain the existing nodes", "docs/EXTERNALGRPC.md"}},
		{line: "takeover --group a --cloud kwok", status: 2, offline: true, want: []string{"use --pool or --all"}},
		{line: "takeover --group a --cloud azure", status: 2, offline: true, want: []string{`--cloud "azure": use aws, clusterapi, externalgrpc or kwok`}},
		{line: "takeover --pool a --cloud azure", status: 2, offline: true, want: []string{`--cloud "azure"`}},
		{line: "release --class a --cloud externalgrpc", status: 2, offline: true, want: []string{"--cloud externalgrpc", "delete the NodePools of the groups", "start Cluster Autoscaler"}},
		{line: "takeover --class a", controller: `"controller", "--cloud=externalgrpc"`, status: 1, want: []string{"the controller runs with --cloud=externalgrpc", "stop Cluster Autoscaler", "use --cloud aws"}},
		{line: "takeover --class a", controller: `"controller", "--cloud=clusterapi", "--cluster-api-cluster=default/workload"`, status: 1, want: []string{"ask API server"}},
		{line: "takeover --class a", controller: `"controller", "--cloud=clusterapi", "--cluster-api-cluster=default/workload", "--management-kubeconfig=/etc/x"`, status: 2, want: []string{"the controller uses a separate management cluster"}},
		{line: "release --class a", controller: `"controller", "--cloud", "externalgrpc"`, status: 1, want: []string{"the controller runs with --cloud=externalgrpc", "delete the NodePools", "use --cloud aws"}},
		{line: "takeover --class a", controller: `"controller", "--cloud=aws"`, status: 1, asksAWS: true, want: []string{"--group, --class:", "connect to AWS", "set AWS_REGION and AWS_PROFILE", "--cloud clusterapi or --cloud externalgrpc"}},
		{line: "release --group a", status: 1, asksAWS: true, want: []string{"set AWS_REGION and AWS_PROFILE", "--cloud clusterapi or --cloud externalgrpc"}},
		{line: "takeover --class a --cloud aws", controller: `"controller", "--cloud=clusterapi"`, status: 1, asksAWS: true, want: []string{"set AWS_REGION"}},
		// NodePools need no cloud: it is this API server that knows neither rights nor NodePools.
		{line: "takeover --pool a --cloud clusterapi", status: 1, want: []string{"nothing was changed"}},
		{line: "release --all", controller: `"controller", "--cloud=clusterapi"`, status: 1, want: []string{"could not find the requested resource"}},
	} {
		args, requests = c.controller, 0
		asked.Store(0)
		words := strings.Fields(c.line)
		var out, errs bytes.Buffer
		status := Main(context.Background(), append(words, "--kubeconfig", kubeconfig, "--dry-run"), strings.NewReader(""), &out, &errs)
		if status != c.status || (asked.Load() > 0) != c.asksAWS || (requests == 0) != c.offline {
			t.Errorf("%s, controller %s: status %d, want %d; %d requests to the metadata service, want some: %t; %d to the API server", c.line, c.controller, status, c.status, asked.Load(), c.asksAWS, requests)
		}
		for _, want := range c.want {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%s, controller %s: no %q in %s", c.line, c.controller, want, &errs)
			}
		}
	}
}
