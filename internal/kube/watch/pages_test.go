// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/top"
)

// connectTo connects to a server that stands for an API server.
func connectTo(t testing.TB, h http.Handler) *client.Client {
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	client, err := client.New(t.Context(), &rest.Config{Host: server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, client.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// answerVersion answers what every client asks first; false: the request is another.
func answerVersion(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/version" {
		return false
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	_, _ = w.Write([]byte(`{"major":"1","minor":"36"}`))
	return true
}

// answerStatus answers as kube-apiserver refuses.
func answerStatus(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.APIVersion, status.Kind = "v1", "Status"
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// Every object of every page is read once, in protobuf and in JSON; an API server that goes away in the middle is an error, and
// pages that it has forgotten are followed by all objects at once.
func TestReadAll(t *testing.T) {
	const pods = 2*listPage + 7
	page := func(from, to int) *corev1.PodList {
		list := &corev1.PodList{ListMeta: pageMeta(from, to)}
		for i := from; i < min(from+listPage, to); i++ {
			list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(i)}})
		}
		return list
	}
	for _, c := range []struct {
		name    string
		binary  bool
		second  func(w http.ResponseWriter) // answers the second page; nil: as it is
		fails   string
		atLeast int // pods that are read all the same
	}{
		{"protobuf", true, nil, "", pods},
		{"JSON", false, nil, "", pods},
		{"forgotten", true, func(w http.ResponseWriter) {
			answerStatus(w, apierrors.NewResourceExpired("the continue token is too old"))
		}, "", pods},
		{"refused", true, func(w http.ResponseWriter) {
			answerStatus(w, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", fmt.Errorf("not you")))
		}, "forbidden", listPage},
		{"gone", true, func(w http.ResponseWriter) { panic(http.ErrAbortHandler) }, "EOF", listPage},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := connectTo(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if answerVersion(w, r) {
					return
				}
				from, token := 0, r.URL.Query().Get("continue")
				if token != "" {
					_, _ = fmt.Sscan(token, &from)
				}
				if from == listPage && c.second != nil {
					c.second(w)
					return
				}
				list := page(from, pods)
				if r.URL.Query().Get("limit") == "" {
					list = &corev1.PodList{}
					for i := 0; i < pods; i += listPage {
						list.Items = append(list.Items, page(i, pods).Items...)
					}
				}
				kind := runtime.ContentTypeProtobuf
				if !c.binary {
					kind = runtime.ContentTypeJSON
				}
				w.Header().Set("Content-Type", kind)
				info, _ := runtime.SerializerInfoForMediaType(client.Codecs.SupportedMediaTypes(), kind)
				if err := client.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(list, w); err != nil {
					t.Error(err)
				}
			}))
			seen := map[string]bool{}
			err := readAll(t.Context(), source{client.Core, "pods", &corev1.Pod{}}, livePods, func(p *corev1.Pod) { seen[p.Name] = true })
			if len(seen) < c.atLeast || c.fails == "" && (err != nil || len(seen) != pods) || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
				t.Errorf("%d pods of %d, %v; want an error that says %q", len(seen), pods, err, c.fails)
			}
		})
	}
}

// Each kind that may not be listed, one by one, is said by both readers and keeps nothing else from being read, but for nodes and pods
// where there is nothing to say without.
func TestEachRightMissing(t *testing.T) {
	var mu sync.Mutex
	denied, asked := "", map[string]bool{}
	client := connectTo(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answerVersion(w, r) {
			return
		}
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		mu.Lock()
		defer mu.Unlock()
		asked[resource] = true
		if resource == denied {
			answerStatus(w, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("not you")))
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		group := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/"), "/apis/"), "/"+resource)
		kind := map[string]string{"nodes": "NodeList", "pods": "PodList", "events": "EventList", "namespaces": "NamespaceList", "resourcequotas": "ResourceQuotaList",
			"persistentvolumeclaims": "PersistentVolumeClaimList", "persistentvolumes": "PersistentVolumeList", "storageclasses": "StorageClassList", "csinodes": "CSINodeList", "csidrivers": "CSIDriverList", "csistoragecapacities": "CSIStorageCapacityList",
			"daemonsets": "DaemonSetList", "poddisruptionbudgets": "PodDisruptionBudgetList", "leases": "LeaseList", "nodepools": "NodePoolList", "nodeclaims": "NodeClaimList"}[resource]
		if kind == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{},"items":[]}`, group, kind)
	}))
	client.Log = slog.New(slog.DiscardHandler)
	set := func(resource string) {
		mu.Lock()
		defer mu.Unlock()
		denied = resource
	}
	survey := func() (*Survey, error) { return ReadSurvey(t.Context(), client, manifests.New()) }
	overview := func() (*top.View, error) {
		var mu sync.Mutex
		board := top.NewBoard(top.Cluster{}, top.Prices{})
		err := ReadOverview(context.Background(), client, func(c top.Change) { mu.Lock(); defer mu.Unlock(); c(board) })
		return board.View(time.Now()), err
	}
	if s, err := survey(); err != nil || len(s.Denied) > 0 {
		t.Fatalf("with all rights: %+v, %v", s, err)
	}
	of := map[string]bool{}
	for resource := range asked {
		of[resource] = true
	}
	if len(of) < 15 {
		t.Fatalf("only %d kinds were asked for", len(of))
	}
	for resource := range of {
		set(resource)
		s, err := survey()
		switch {
		case resource == "nodes" || resource == "pods":
			if err == nil || !strings.Contains(err.Error(), "list "+resource) {
				t.Errorf("doctor without %s: %v", resource, err)
			}
		case err != nil || len(s.Denied) != 1 || s.Denied[0].Resource != resource:
			t.Errorf("doctor without %s: %+v, %v", resource, s, err)
		}
	}
	for _, resource := range []string{"nodes", "pods", "nodepools", "nodeclaims", "events", "leases"} {
		set(resource)
		v, err := overview()
		if (err != nil) != (resource == "nodes") {
			t.Errorf("top without %s: %v", resource, err)
		}
		said := fmt.Sprint(v.Problems)
		if !strings.Contains(said, "permission to list") || !strings.Contains(said, resource) {
			t.Errorf("top without %s says %s", resource, said)
		}
	}
}
