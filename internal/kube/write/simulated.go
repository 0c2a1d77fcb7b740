// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// Simulated are the nodes simulated by kwok.
type Simulated struct{ c *client.Client }

// NewSimulated returns the nodes simulated by kwok in a cluster.
func NewSimulated(c *client.Client) *Simulated { return &Simulated{c} }

// SimulatedNodes returns the creation time of each simulated node, by provider ID.
func (x *Simulated) SimulatedNodes(ctx context.Context) (map[string]time.Time, error) {
	var list corev1.NodeList
	// From the server's cache, like the watch beside it.
	err := x.c.Core.Get().Resource("nodes").Param("labelSelector", kwokv1alpha1.LabelKWOKNode+"="+kwokv1alpha1.LabelKWOKNodeValue).Param("resourceVersion", "0").Do(ctx).Into(&list)
	if err != nil {
		return nil, fmt.Errorf("list simulated nodes: %w", err)
	}
	out := make(map[string]time.Time, len(list.Items))
	for i := range list.Items {
		if id := list.Items[i].Spec.ProviderID; id != "" {
			out[id] = list.Items[i].CreationTimestamp.Time
		}
	}
	return out, nil
}

// DeleteSimulatedNode deletes a node. A missing node is not an error.
func (x *Simulated) DeleteSimulatedNode(ctx context.Context, name string) error {
	err := x.c.Core.Delete().Resource("nodes").Name(name).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %q: %w", name, err)
	}
	return nil
}
