// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestRecallDevices: instance types have the devices that were kept once they are recalled; an API server without devices is not asked.
func TestRecallDevices(t *testing.T) {
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/version" {
			_, _ = w.Write([]byte(`{"major":"1","minor":"36"}`))
			return
		}
		asked++
		_ = json.NewEncoder(w).Encode(corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "dovetail-learned"},
			Data: map[string]string{"devices.json": `[{"pool":"p","instanceType":"t1","slices":[{"driver":"d.example.com","devices":[{"name":"a"},{"name":"b"}]}]}]`}})
	}))
	t.Cleanup(server.Close)
	c, err := client.New(t.Context(), &rest.Config{Host: server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, client.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	s.Pools.SetPool(&model.NodePool{Name: "p", UID: "u", Types: []*model.InstanceType{{Name: "t1"}}})
	tr := &translate.Translator{Table: s.Resources(), Lookup: c.Seen.Lookup()}
	recall := func() {
		t.Helper()
		if err := RecallDevices(t.Context(), c, NewKept(c, "n", "devices.json"), tr, func(change state.Change) { change(s) }); err != nil {
			t.Fatal(err)
		}
	}
	if recall(); asked != 0 {
		t.Errorf("an API server without devices was asked %d times", asked)
	}
	d := translate.NewDevices()
	c.Seen.Devices = d
	d.SetDeviceClass("gpu", &resourceapi.DeviceClass{})
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one"}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}}}
	d.SetResourceClaim("n/one", claim)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}}
	if need := d.OfPod(p); len(need.Unsupported) > 0 {
		t.Fatal(need.Unsupported)
	}
	recall()
	if got := s.Pools.FindPool("p").Types[0].Devices.At(s.Resources().Dim("devices/gpu")); got != 2 {
		t.Errorf("a node to come has %d devices, want 2", got)
	}
}
