// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// getConfigMap reads a ConfigMap before a write. A denied read is reported as a denied write.
func getConfigMap(ctx context.Context, c *client.Client, namespace, name string) (*corev1.ConfigMap, error) {
	var have corev1.ConfigMap
	err := c.Core.Get().Namespace(namespace).Resource("configmaps").Name(name).Do(ctx).Into(&have)
	if err != nil && !apierrors.IsNotFound(err) {
		c.Wrote(client.Written{Kind: "ConfigMap", Namespace: namespace, Name: name, Err: err})
	}
	return &have, err
}

// putConfigMap creates or replaces a ConfigMap, and returns the written object. Every ConfigMap is written by it, so
// that refusals are reported: see client.Client.OnWrite.
func putConfigMap(ctx context.Context, c *client.Client, there bool, next *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	request := c.Core.Post()
	if there {
		request = c.Core.Put().Name(next.Name)
	}
	var written corev1.ConfigMap
	err := request.Namespace(next.Namespace).Resource("configmaps").Body(next).Do(ctx).Into(&written)
	c.Wrote(client.Written{Kind: "ConfigMap", Namespace: next.Namespace, Name: next.Name, Err: err})
	return &written, err
}

// AnswerOf returns the response of the API server to a write, for events and metrics.
func AnswerOf(w client.Written) plan.WriteAnswer {
	return plan.WriteAnswer{Namespace: w.Namespace, Name: w.Name, UID: w.UID, Err: classify(w.Err, "write", w.Kind, model.PodKey(w.Namespace, w.Name))}
}
