// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// NodeMaker makes and deletes Node objects, as kubelets and a cloud's node controller do. The simulated cloud needs it; the
// controller has no right to do either without a NodeClaim.
type NodeMaker struct{ c *Client }

// NodeSpec is a Node to be made.
type NodeSpec struct {
	Name, ProviderID    string
	Labels, Annotations map[string]string
	Taints              []model.Taint
	// Capacity and Allocatable are Kubernetes quantities by resource name.
	Capacity, Allocatable map[string]string
}

// NodeRef is a Node that is there.
type NodeRef struct {
	Name, UID, ProviderID string
	Labels                map[string]string
	Deleting              bool
}

// NewNodeMaker makes a NodeMaker.
func NewNodeMaker(c *Client) *NodeMaker { return &NodeMaker{c} }

// CreateNode makes a Node and its status in one call. One of that name and provider id that is there already is success.
func (m *NodeMaker) CreateNode(ctx context.Context, s NodeSpec) error {
	n := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: kubeletLabels(s.Labels), Annotations: s.Annotations},
		Spec:       corev1.NodeSpec{ProviderID: s.ProviderID, Taints: wireTaints(s.Taints)},
	}
	var err error
	if n.Status.Capacity, err = quantities(s.Capacity); err != nil {
		return fmt.Errorf("create node %q: capacity: %w", s.Name, err)
	}
	if n.Status.Allocatable, err = quantities(s.Allocatable); err != nil {
		return fmt.Errorf("create node %q: allocatable: %w", s.Name, err)
	}
	err = m.c.core.Post().Resource("nodes").Body(n).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		var have corev1.Node
		if err := m.c.core.Get().Resource("nodes").Name(s.Name).Do(ctx).Into(&have); err != nil {
			return classify(err, "create", "node", s.Name)
		}
		if have.Spec.ProviderID == s.ProviderID {
			return nil
		}
		return fmt.Errorf("create node %q: another machine's node has that name: provider id %q, want %q", s.Name, have.Spec.ProviderID, s.ProviderID)
	}
	return classify(err, "create", "node", s.Name)
}

// kubeletLabels adds what every kubelet says of itself beside the labels it is given.
func kubeletLabels(l map[string]string) map[string]string {
	out := maps.Clone(l)
	for from, to := range map[string]string{
		corev1.LabelOSStable: "beta.kubernetes.io/os", corev1.LabelArchStable: "beta.kubernetes.io/arch", corev1.LabelInstanceTypeStable: corev1.LabelInstanceType,
	} {
		if v, ok := out[from]; ok && out[to] == "" {
			out[to] = v
		}
	}
	return out
}

func quantities(m map[string]string) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		q, err := resource.ParseQuantity(m[k])
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", k, m[k], err)
		}
		out[corev1.ResourceName(k)] = q
	}
	return out, nil
}

// DeleteNode deletes the Node of this name if it has this provider id. None there, or another machine's, is success; so is one
// that is being deleted already.
func (m *NodeMaker) DeleteNode(ctx context.Context, name, providerID string) error {
	var have corev1.Node
	err := m.c.core.Get().Resource("nodes").Name(name).Do(ctx).Into(&have)
	if apierrors.IsNotFound(err) || err == nil && (have.Spec.ProviderID != providerID || have.DeletionTimestamp != nil) {
		return nil
	}
	if err == nil {
		err = m.c.core.Delete().Resource("nodes").Name(name).Body(deleteOptions(string(have.UID), nil)).Do(ctx).Error()
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return classify(err, "delete", "node", name)
}

// Nodes lists the Nodes that a label selector matches.
func (m *NodeMaker) Nodes(ctx context.Context, selector string) ([]NodeRef, error) {
	var list corev1.NodeList
	if err := m.c.core.Get().Resource("nodes").Param("labelSelector", selector).Do(ctx).Into(&list); err != nil {
		return nil, fmt.Errorf("list nodes by %q: %w", selector, err)
	}
	out := make([]NodeRef, 0, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		out = append(out, NodeRef{
			Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID, Labels: n.Labels, Deleting: n.DeletionTimestamp != nil,
		})
	}
	return out, nil
}
