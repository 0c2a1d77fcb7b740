// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

var web = model.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}

// ask asks a server that answers as told for minutes 100 to 104.
func ask(t *testing.T, ctx context.Context, w model.Workload, answer http.HandlerFunc) ([]int, error) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	s, err := Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return s.Replicas(ctx, w, 100, 104)
}

func matrix(values string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`, values)
	}
}

// TestAnswers reads answers that are whole, have gaps, or have values that are no replicas.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, values string
		want         []int
	}{
		{"whole", `[6000,"1"],[6060,"2"],[6120,"3"],[6180,"4"],[6240,"5"]`, []int{1, 2, 3, 4, 5}},
		{"gaps", `[6060,"2"],[6240,"0"]`, []int{-1, 2, -1, -1, 0}},
		{"empty", ``, []int{-1, -1, -1, -1, -1}},
		{"no replicas", `[6000,"NaN"],[6060,"-3"],[6120,"+Inf"],[6180,"1e300"],[6240,"7"]`, []int{-1, -1, -1, -1, 7}},
		{"other times", `[0,"9"],[5940,"9"],[6300,"9"],[6120,"3"]`, []int{-1, -1, 3, -1, -1}},
	} {
		if got, err := ask(t, t.Context(), web, matrix(c.values)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

// TestQueries: each kind has its metric, names are quoted, and a kind that is not counted is not asked for.
func TestQueries(t *testing.T) {
	for kind, want := range map[string]string{
		"Deployment":  `max(kube_deployment_spec_replicas{namespace="shop",deployment="a\"b"})`,
		"StatefulSet": `max(kube_statefulset_replicas{namespace="shop",statefulset="a\"b"})`,
		"ReplicaSet":  `max(kube_replicaset_spec_replicas{namespace="shop",replicaset="a\"b"})`,
		"Rollout":     "",
	} {
		asked := ""
		got, err := ask(t, t.Context(), model.Workload{Namespace: "shop", Kind: kind, Name: `a"b`}, func(w http.ResponseWriter, r *http.Request) {
			asked = r.FormValue("query")
			matrix("")(w, r)
		})
		if err != nil || asked != want || !slices.Equal(got, []int{-1, -1, -1, -1, -1}) {
			t.Errorf("%s: asked %q, want %q; %v, %v", kind, asked, want, got, err)
		}
	}
}

// TestBadAnswers: a server that is broken in any way is an error in bounded time and size, and never an answer.
func TestBadAnswers(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"500":        func(w http.ResponseWriter, _ *http.Request) { http.Error(w, strings.Repeat("trouble ", 1000), 500) },
		"503":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"garbage":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\x00\xff<html>") },
		"other JSON": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[1,2,3]`) },
		"error": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"error","errorType":"x","error":"y"}`)
		},
		"no matrix": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`)
		},
		"half": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[{"met`)
		},
		"broken off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"status"`)
		},
		"without end":  func(w http.ResponseWriter, r *http.Request) { endless(w, r) },
		"not a number": matrix(`[6000,"many"]`),
	} {
		got, err := ask(t, t.Context(), web, answer)
		if err == nil || got != nil || !strings.Contains(err.Error(), "deployment/shop/web") || len(err.Error()) > 500 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	part := []byte(strings.Repeat(" ", 1<<16))
	for r.Context().Err() == nil {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

// TestHangs: a server that takes the question and never answers ends with the caller's patience.
func TestHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(testwait.Context(t))
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	if _, err := ask(t, ctx, web, func(_ http.ResponseWriter, r *http.Request) {
		cancel() // it has been asked
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// TestConnectRefuses what is no address of a server.
func TestConnectRefuses(t *testing.T) {
	for _, address := range []string{"", "prometheus:9090", "ftp://a", "http://", "http://[::1", "\x00"} {
		if _, err := Connect(address); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
	if _, err := Connect("https://user:secret@prometheus.monitoring/below/a/path"); err != nil {
		t.Error(err)
	}
	if _, err := (&Server{}).Replicas(t.Context(), web, 0, mostSteps); err == nil {
		t.Error("more minutes than one question may have are asked for")
	}
}
