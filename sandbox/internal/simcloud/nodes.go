// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simcloud

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// nodeMaker makes and deletes Node objects, as kubelets and a cloud's node
// controller do.
type nodeMaker struct{ client kubernetes.Interface }

// connect returns a nodeMaker of an API server that has answered. While nobody
// listens there it tries again, for apiServerWait at most.
func connect(ctx context.Context, log *slog.Logger, kubeconfig string) (nodeMaker, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nodeMaker{}, fmt.Errorf("read kubeconfig %q: %w", kubeconfig, err)
	}
	config.QPS, config.UserAgent = -1, "dovetail-machines"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nodeMaker{}, fmt.Errorf("connect to API server %s: %w", config.Host, err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, apiServerWait, true, func(ctx context.Context) (bool, error) {
		var err error
		if _, err = client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return true, nil
		}
		if !utilnet.IsConnectionRefused(err) && !utilnet.IsConnectionReset(err) {
			return false, err
		}
		if last == nil {
			log.Warn("the API server does not answer, trying again", "for", apiServerWait.String(), "error", err.Error())
		}
		last = err
		return false, nil
	})
	if last != nil && wait.Interrupted(err) {
		err = last
	}
	if err != nil {
		return nodeMaker{}, fmt.Errorf("connect to API server %s: %w", config.Host, err)
	}
	return nodeMaker{client}, nil
}

// CreateNode makes a Node and its status in one call. A Node of that name and
// provider ID that exists already is success.
func (m nodeMaker) CreateNode(ctx context.Context, s machines.NodeSpec) error {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Labels: kubeletLabels(s.Labels), Annotations: s.Annotations},
		Spec:       corev1.NodeSpec{ProviderID: s.ProviderID},
	}
	for _, t := range s.Taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	n.Status.NodeInfo.BootID = s.BootID
	var err error
	if n.Status.Capacity, err = quantities(s.Capacity); err != nil {
		return fmt.Errorf("create node %q: capacity: %w", s.Name, err)
	}
	if n.Status.Allocatable, err = quantities(s.Allocatable); err != nil {
		return fmt.Errorf("create node %q: allocatable: %w", s.Name, err)
	}
	_, err = m.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		have, err := m.client.CoreV1().Nodes().Get(ctx, s.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("create node %q: %w", s.Name, err)
		}
		if have.Spec.ProviderID == s.ProviderID {
			return nil
		}
		return fmt.Errorf("create node %q: another machine's node has that name: provider id %q, want %q", s.Name, have.Spec.ProviderID, s.ProviderID)
	}
	if err != nil {
		return fmt.Errorf("create node %q: %w", s.Name, err)
	}
	return nil
}

// kubeletLabels adds the deprecated labels that every kubelet sets in addition
// to the labels it is given.
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

// RebootNode writes the boot ID of a machine that was restarted into its Node.
func (m nodeMaker) RebootNode(ctx context.Context, s machines.NodeSpec) error {
	nodes := m.client.CoreV1().Nodes()
	have, err := nodes.Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && have.Spec.ProviderID != s.ProviderID {
		return nil
	}
	var patch []byte
	if err == nil {
		patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"uid": have.UID}, "status": map[string]any{"nodeInfo": map[string]any{"bootID": s.BootID}}})
	}
	if err == nil {
		_, err = nodes.Patch(ctx, s.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("write the boot ID of node %q: %w", s.Name, err)
}

// kubeletStopped is patched into a Node whose instance has ended: kwok sends no
// heartbeats for it any more, so that the controller manager finds it not
// Ready, as it finds a Node whose kubelet has ended.
const kubeletStopped = `{"metadata":{"annotations":{"sandbox.dovetail.sh/kubelet":"stopped"}}}`

// DeleteNode stops the heartbeats of the Node of this name if it has this
// provider ID, and deletes it. No such Node, or another machine's, is success; so
// is one that is being deleted.
func (m nodeMaker) DeleteNode(ctx context.Context, name, providerID string) error {
	nodes := m.client.CoreV1().Nodes()
	have, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && have.Spec.ProviderID != providerID {
		return nil
	}
	if err == nil {
		_, err = nodes.Patch(ctx, name, types.MergePatchType, []byte(kubeletStopped), metav1.PatchOptions{})
	}
	if err == nil && have.DeletionTimestamp == nil {
		err = nodes.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &have.UID}})
	}
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete node %q: %w", name, err)
}

// apiServerWait is how long the simulated cloud waits for an API server that
// does not answer: a real cloud does not go away with a cluster's control plane.
const apiServerWait = time.Minute
