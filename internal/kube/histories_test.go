// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
)

// TestHistories: with the chart's rights, what was stored is read again, bytes of any value and as many as there may be;
// of two leaders the second to write fails until it has read; and a ConfigMap that somebody deleted is made again.
func TestHistories(t *testing.T) {
	p := newPlane(t)
	ctx := p.ctx
	namespace := client.DefaultLease().Namespace
	a, b := write.NewHistories(p.us, namespace), write.NewHistories(p.us, namespace)
	load := func(h *write.Histories, shard int, want map[string][]byte) {
		t.Helper()
		got, err := h.LoadHistories(ctx, shard)
		if err != nil || !maps.EqualFunc(got, want, bytes.Equal) || (got == nil) != (want == nil) {
			t.Fatalf("loaded %d entries, %v, want %d", len(got), err, len(want))
		}
	}
	store := func(h *write.Histories, shard int, entries map[string][]byte, ok bool) {
		t.Helper()
		if err := h.StoreHistories(ctx, shard, entries); (err == nil) != ok {
			t.Fatalf("store: %v", err)
		}
	}
	load(a, 7, nil)
	load(b, 7, nil)
	full := map[string][]byte{}
	for i := range 64 { // 256 KiB of it
		full["Deployment.shop."+string(rune('a'+i/26))+string(rune('a'+i%26))+".v1"] = slices.Repeat([]byte{0, 1, 254, 255}, 1024)
	}
	store(a, 7, full, true)
	store(b, 7, map[string][]byte{}, false) // it is there already
	load(b, 7, full)
	store(b, 7, map[string][]byte{"Deployment.shop.web": {1}}, true)
	store(a, 7, full, false) // b has written since
	load(a, 7, map[string][]byte{"Deployment.shop.web": {1}})
	store(a, 7, map[string][]byte{}, true)
	load(a, 7, map[string][]byte{})
	if err := kubetest.Kubectl(nil, "-n", namespace, "delete", "configmap", "dovetail-demand-7"); err != nil {
		t.Fatal(err)
	}
	store(a, 7, full, false)
	load(a, 7, nil)
	store(a, 7, full, true)
	past := write.NewDecisions(p.us, namespace)
	load(past, 7, nil)
	store(past, 7, map[string][]byte{"decisions.json.gz": {1}}, true)
	load(past, 7, map[string][]byte{"decisions.json.gz": {1}})
	if _, err := a.LoadHistories(ctx, 8); err == nil {
		t.Error("a ConfigMap that the Role does not name may be read")
	}
}
