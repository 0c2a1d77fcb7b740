// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simcloud

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
)

// kubeletMaker has Nodes made by the kubelets of their machines.
type kubeletMaker struct {
	nodeMaker
	url string // of the supervisor, which starts and ends them
}

// machine is what a kubelet is told of its machine, as dovetail-kubelet reads it.
type machine struct {
	Node     machines.NodeSpec
	NotReady bool
}

// registrationWait is how long a kubelet may take to register its Node before
// that is an error, and is asked for again.
const registrationWait = time.Minute

// CreateNode starts the machine's kubelet and returns when its Node is there.
func (m kubeletMaker) CreateNode(ctx context.Context, s machines.NodeSpec) error {
	if err := m.start(ctx, s); err != nil {
		return err
	}
	var node *corev1.Node
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, registrationWait, true, func(ctx context.Context) (bool, error) {
		var err error
		node, err = m.client.CoreV1().Nodes().Get(ctx, s.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("wait until the kubelet of node %q has registered it: %w", s.Name, err)
	}
	if node.Spec.ProviderID != s.ProviderID {
		return fmt.Errorf("create node %q: another machine's node has that name: provider id %q, want %q", s.Name, node.Spec.ProviderID, s.ProviderID)
	}
	annotations := withoutKwok(s.Annotations)
	if len(annotations) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return fmt.Errorf("encode the annotations of node %q: %w", s.Name, err)
	}
	if _, err := m.client.CoreV1().Nodes().Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("annotate node %q: %w", s.Name, err)
	}
	return nil
}

// DeleteNode ends the machine's kubelet and deletes its Node. The pods on it end with the machine, as when an instance is terminated.
func (m kubeletMaker) DeleteNode(ctx context.Context, name, providerID string) error {
	if err := m.call(ctx, http.MethodDelete, name, nil); err != nil {
		return fmt.Errorf("end the kubelet of node %q: %w", name, err)
	}
	return m.nodeMaker.DeleteNode(ctx, name, providerID)
}

// RebootNode ends the machine's kubelet and starts it with the new boot ID. Its pods do not end with it, as the ends of containers are not
// simulated.
func (m kubeletMaker) RebootNode(ctx context.Context, s machines.NodeSpec) error {
	if err := m.call(ctx, http.MethodDelete, s.Name, nil); err != nil {
		return fmt.Errorf("end the kubelet of node %q: %w", s.Name, err)
	}
	return m.start(ctx, s)
}

// resume starts the kubelets of machines that the journal has running: after `down --keep` none is left.
func (m kubeletMaker) resume(ctx context.Context, server *simulated.Server) error {
	var running []machines.Instance
	if err := server.Change(false, func(model *simulated.Model, now time.Time) {
		for _, in := range model.List(false, time.Time{}) {
			if in.State == machines.Running {
				running = append(running, in)
			}
		}
	}); err != nil {
		return err
	}
	for _, in := range running {
		if err := m.start(ctx, in.Boot()); err != nil {
			return err
		}
	}
	return nil
}

func (m kubeletMaker) start(ctx context.Context, s machines.NodeSpec) error {
	description := machine{Node: s, NotReady: s.Annotations[simulated.KwokNode] == ""}
	description.Node.Labels, description.Node.Annotations = kubeletLabels(s.Labels), nil
	body, err := json.Marshal(description)
	if err == nil {
		err = m.call(ctx, http.MethodPut, s.Name, body)
	}
	if err != nil {
		return fmt.Errorf("start the kubelet of node %q: %w", s.Name, err)
	}
	return nil
}

func (m kubeletMaker) call(ctx context.Context, method, node string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, m.url+"/v1/kubelets/"+url.PathEscape(node), bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", answer.Status, strings.TrimSpace(string(text)))
}

// withoutKwok returns the annotations without the one by which kwok takes a node for its own.
func withoutKwok(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	delete(out, simulated.KwokNode)
	return out
}
