// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompletion completes kinds, names, namespaces and contexts. The server knows only lists: what an API server answers to them is tried on the
// sandbox.
func TestCompletion(t *testing.T) {
	lists := map[string]string{
		"/api/v1/nodes":                   `{"metadata": {"name": "ip-10-0-0-2"}}, {"metadata": {"name": "ip-10-0-0-1"}}`,
		"/api/v1/namespaces":              `{"metadata": {"name": "shop"}}, {"metadata": {"name": "search"}}`,
		"/api/v1/pods":                    `{"metadata": {"namespace": "shop", "name": "cart-1"}}, {"metadata": {"namespace": "search", "name": "query-1"}}`,
		"/api/v1/namespaces/shop/pods":    `{"metadata": {"namespace": "shop", "name": "cart-1"}}`,
		"/apis/karpenter.sh/v1/nodepools": `{"metadata": {"name": "default"}}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch items, ok := lists[r.URL.Path]; {
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"major": "1", "minor": "37", "gitVersion": "v1.37.0"}`)
		case ok:
			fmt.Fprintf(w, `{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": [%s]}`, items)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: staging, clusters: [{name: a, cluster: {server: %q}}], users: [{name: a, user: {token: a}}],
contexts: [{name: staging, context: {cluster: a, user: a}}, {name: production, context: {cluster: a, user: a}}]}`, server.URL), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words string
		want  string
	}{
		{"why ", "pod/ deployment/ node/ nodeclaim/ nodepool/ headroom/ :6"},
		{"history n", "node/ nodeclaim/ nodepool/ :6"},
		{"why node/", "node/ip-10-0-0-1 node/ip-10-0-0-2 :4"},
		{"why pod/s", "pod/search/query-1 pod/shop/cart-1 :4"},
		{"why -n shop pod/", "pod/cart-1 :4"},
		{"why nodepool/x", ":4"},
		{"why nodeclaim/", ":4"}, // they can't be listed
		{"why secret/", ":4"},
		{"why node/a ", ":4"},
		{"why -n s", "search shop :4"},
		{"doctor --context ", "production staging :4"},
		{"--context s", "staging :4"},
	} {
		words := strings.Split(c.words, " ")
		typed := words[len(words)-1]
		args := append([]string{"__complete"}, words[:len(words)-1]...)
		if words[0] != "--context" {
			args = append(args, "--kubeconfig", kubeconfig)
			if n := len(words); n > 1 && strings.HasPrefix(words[n-2], "-") { // the flag stands before its value
				args = append(args[:n-1], "--kubeconfig", kubeconfig, words[n-2])
			}
		} else {
			args = []string{"__complete", "--kubeconfig", kubeconfig, "--context"}
		}
		got := strings.Join(strings.Fields(runInto(t, 0, append(args, typed)...)), " ")
		if got != c.want {
			t.Errorf("%q completes to %q, want %q", c.words, got, c.want)
		}
	}
}
