// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/groupstatus"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// StatusConfigMap is the default name of Cluster Autoscaler's status ConfigMap.
const StatusConfigMap = "cluster-autoscaler-status"

// Key and annotation of the ConfigMap, as in Cluster Autoscaler.
const (
	statusKey             = "status"
	annotationLastUpdated = "cluster-autoscaler.kubernetes.io/last-updated"
)

// GroupStatus writes the status of node groups to a ConfigMap in Cluster Autoscaler's format.
type GroupStatus struct {
	client          *client.Client
	namespace, name string
	uid             atomic.Pointer[string] // of the ConfigMap as it was written last
}

// NewGroupStatus returns a GroupStatus that writes to a ConfigMap. It creates the ConfigMap if missing.
func NewGroupStatus(c *client.Client, namespace, name string) *GroupStatus {
	return &GroupStatus{client: c, namespace: namespace, name: name}
}

// StatusObject returns which ConfigMap is written; its uid is empty before it was written once.
func (g *GroupStatus) StatusObject() (namespace, name, uid string) {
	if p := g.uid.Load(); p != nil {
		uid = *p
	}
	return g.namespace, g.name, uid
}

// StoreGroupStatus writes a status. Labels, annotations and keys of other writers are kept.
func (g *GroupStatus) StoreGroupStatus(ctx context.Context, s *groupstatus.Status) error {
	text, err := yaml.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the status of node groups: %w", err)
	}
	next, err := getConfigMap(ctx, g.client, g.namespace, g.name)
	there := err == nil
	switch {
	case apierrors.IsNotFound(err):
		next = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: g.name}}
	case err != nil:
		return fmt.Errorf("read configmap %s/%s: %w", g.namespace, g.name, err)
	}
	if next.Data == nil {
		next.Data = map[string]string{}
	}
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Data[statusKey], next.Annotations[annotationLastUpdated] = string(text), s.Time
	written, err := putConfigMap(ctx, g.client, there, next)
	if err != nil {
		return fmt.Errorf("write configmap %s/%s: %w", g.namespace, g.name, err)
	}
	uid := string(written.UID)
	g.uid.Store(&uid)
	return nil
}
