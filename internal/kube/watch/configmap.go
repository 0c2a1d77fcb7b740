// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// ConfigMap watches one ConfigMap until the context ends. missing is called when it is deleted, and at the start if it
// does not exist.
func ConfigMap(ctx context.Context, c *client.Client, namespace, name string, set func(*corev1.ConfigMap), missing func()) {
	there := false
	var mu sync.Mutex
	var first sync.WaitGroup
	lw := cache.NewListWatchFromClient(c.Core, "configmaps", namespace, fields.OneTermEqualSelector("metadata.name", name))
	followList(ctx, &watcher{c: c}, &first, source{c.Core, "configmaps", &corev1.ConfigMap{}}, lw, &mu,
		func(_ string, m *corev1.ConfigMap) {
			there = true
			set(m)
		},
		func(string) {
			there = false
			missing()
		})
	go func() {
		if !waitFor(ctx, &first) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if !there {
			missing()
		}
	}()
}
