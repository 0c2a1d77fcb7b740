// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// Histories stores state that outlives the process in numbered ConfigMaps of one namespace, as binaryData: demand
// histories in dovetail-demand-0 and following with one key per workload, past decisions in dovetail-history-0 and
// following, the savings account in dovetail-savings-0 and -1. It overwrites only what it has read or written itself: if
// a former leader still writes after losing its lease, the second write fails.
type Histories struct {
	client    *client.Client
	namespace string
	prefix    string // of the names: the number follows

	mu       sync.Mutex
	versions map[int]string // resourceVersion by number, as it was read or written last; empty: there was none
}

// NewHistories returns the demand histories stored in a namespace.
func NewHistories(c *client.Client, namespace string) *Histories {
	return &Histories{client: c, namespace: namespace, prefix: "dovetail-demand-", versions: map[int]string{}}
}

// NewDecisions returns the past decisions stored in a namespace.
func NewDecisions(c *client.Client, namespace string) *Histories {
	return &Histories{client: c, namespace: namespace, prefix: "dovetail-history-", versions: map[int]string{}}
}

// NewSavings returns the savings account stored in a namespace.
func NewSavings(c *client.Client, namespace string) *Histories {
	return &Histories{client: c, namespace: namespace, prefix: "dovetail-savings-", versions: map[int]string{}}
}

func (h *Histories) name(shard int) string { return h.prefix + strconv.Itoa(shard) }

// LoadHistories returns the entries of a ConfigMap, nil if it does not exist.
func (h *Histories) LoadHistories(ctx context.Context, shard int) (map[string][]byte, error) {
	have, err := getConfigMap(ctx, h.client, h.namespace, h.name(shard))
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read configmap %s/%s: %w", h.namespace, h.name(shard), err)
	}
	h.setVersion(shard, have.ResourceVersion)
	if err != nil {
		return nil, nil
	}
	if have.BinaryData == nil {
		return map[string][]byte{}, nil
	}
	return have.BinaryData, nil
}

// StoreHistories replaces the entries of a ConfigMap. It returns an error if another writer has changed, created or
// deleted the ConfigMap since it was loaded or stored here.
func (h *Histories) StoreHistories(ctx context.Context, shard int, entries map[string][]byte) error {
	h.mu.Lock()
	version := h.versions[shard]
	h.mu.Unlock()
	next := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: h.name(shard), ResourceVersion: version,
			Labels: map[string]string{"app.kubernetes.io/name": "dovetail"}},
		BinaryData: entries,
	}
	written, err := putConfigMap(ctx, h.client, version != "", next)
	if err != nil {
		return fmt.Errorf("write configmap %s/%s: %w", h.namespace, next.Name, err)
	}
	h.setVersion(shard, written.ResourceVersion)
	return nil
}

func (h *Histories) setVersion(shard int, version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[shard] = version
}
