// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

var deviceKinds = []string{"deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates", "resourceslices"}

// emptyCluster answers as the API server of a cluster that serves the kinds of Kubernetes, NodePools and NodeClaims. It has one pod, which has a
// resource claim, and refuses to list some kinds.
func emptyCluster(t *testing.T, denied ...string) http.Handler {
	lists := map[schema.GroupVersionResource]string{}
	for gvk := range client.Scheme.AllKnownTypes() {
		if kind, ok := strings.CutSuffix(gvk.Kind, "List"); ok {
			plural, _ := meta.UnsafeGuessKindToResource(gvk.GroupVersion().WithKind(kind))
			lists[plural] = gvk.Kind
		}
	}
	write := func(w http.ResponseWriter, x any) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		if err := json.NewEncoder(w).Encode(x); err != nil {
			t.Error(err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answerVersion(w, r) {
			return
		}
		path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if path[0] == "api" {
			path = slices.Insert(path, 1, "")
		}
		if len(path) < 3 {
			http.NotFound(w, r)
			return
		}
		gv := schema.GroupVersion{Group: path[1], Version: path[2]}
		if !slices.Contains([]string{"", "apps", "policy", "storage.k8s.io", "node.k8s.io", "scheduling.k8s.io", resourceapi.GroupName, karpv1.GroupVersion.Group}, gv.Group) {
			http.NotFound(w, r)
			return
		}
		if len(path) == 3 {
			found := metav1.APIResourceList{GroupVersion: gv.String()}
			for gvr := range lists {
				if gvr.GroupVersion() == gv {
					found.APIResources = append(found.APIResources, metav1.APIResource{Name: gvr.Resource})
				}
			}
			write(w, found)
			return
		}
		resource := path[3]
		switch {
		case slices.Contains(denied, resource):
			answerStatus(w, apierrors.NewForbidden(schema.GroupResource{Group: gv.Group, Resource: resource}, "", errors.New("not you")))
		case lists[gv.WithResource(resource)] == "":
			http.NotFound(w, r)
		case r.URL.Query().Has("sendInitialEvents"):
			answerStatus(w, apierrors.NewBadRequest("no streams"))
		case r.URL.Query().Has("watch"):
			<-r.Context().Done()
		default:
			items := []any{}
			if resource == "pods" {
				name := "gpu"
				items = append(items, corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
					Spec:       corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &name}}},
				})
			}
			write(w, map[string]any{"apiVersion": gv.String(), "kind": lists[gv.WithResource(resource)], "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
		}
	})
}

// TestDeviceRights: a right that is missing on a kind of devices keeps nothing else from being read or watched. It is said once, and on pods with
// claims.
func TestDeviceRights(t *testing.T) {
	for _, denied := range append(slices.Collect(slices.Chunk(deviceKinds, 1)), deviceKinds, nil) {
		for _, once := range []bool{true, false} {
			var log lockedText
			c := connectTo(t, emptyCluster(t, denied...))
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
			s := state.New()
			tr := &translate.Translator{Table: s.Resources(), Lookup: c.Seen.Lookup()}
			if once {
				if err := Read(t.Context(), c, tr, s); err != nil {
					t.Fatalf("read without the right to list %v: %v", denied, err)
				}
			} else {
				readByWatch(t, c, tr, s)
			}
			why := strings.Join(s.FindPod("default/p").Class.Unsolved, "; ")
			if len(denied) == 0 {
				if !strings.Contains(why, "ResourceClaimTemplate default/gpu not found") || strings.Contains(log.String(), "claims") || c.Seen.Devices == nil {
					t.Errorf("with all rights a pod with claims is told %q, and the log is %s", why, log.String())
				}
				continue
			}
			if n := strings.Count(log.String(), "pod with resource claims"); n != 1 || strings.Contains(log.String(), "watch failed") || c.Seen.Devices != nil {
				t.Errorf("without the right to list %v: %d warnings, want 1: %s", denied, n, log.String())
			}
			for _, resource := range denied {
				for _, text := range []string{log.String(), why} {
					if !strings.Contains(text, "list") || !strings.Contains(text, resource+".resource.k8s.io") {
						t.Errorf("without the right to list %v: %q does not name %s", denied, text, resource)
					}
				}
			}
		}
	}
}

// lockedText is a buffer that several goroutines write to.
type lockedText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *lockedText) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *lockedText) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// readByWatch is Read, by a Watch.
func readByWatch(t *testing.T, c *client.Client, tr *translate.Translator, s *state.State) {
	t.Helper()
	var mu sync.Mutex
	synced, err := Watch(t.Context(), c, tr, func(change state.Change) {
		mu.Lock()
		defer mu.Unlock()
		change(s)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	testwait.Receive(t, "the end of the first lists", synced)
}
