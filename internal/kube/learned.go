// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Learned keeps figures by name in a ConfigMap, so that they outlive the process.
type Learned struct {
	client          *Client
	namespace, name string
}

// learnedKey is the entry of the ConfigMap that holds the figures, in JSON.
const learnedKey = "memory.json"

// NewLearned keeps figures in the ConfigMap that the chart's Role allows, in the controller's own namespace.
func NewLearned(c *Client, namespace string) *Learned {
	return &Learned{client: c, namespace: namespace, name: "dovetail-learned"}
}

// Load reads the figures; none where there is no ConfigMap.
func (l *Learned) Load(ctx context.Context) (map[string]int64, error) {
	have, err := l.get(ctx)
	if err != nil || have == nil {
		return nil, err
	}
	out := map[string]int64{}
	if text := have.Data[learnedKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return nil, fmt.Errorf("read configmap %s/%s: %s: %w", l.namespace, l.name, learnedKey, err)
		}
	}
	return out, nil
}

func (l *Learned) get(ctx context.Context) (*corev1.ConfigMap, error) {
	var out corev1.ConfigMap
	err := l.client.core.Get().Namespace(l.namespace).Resource("configmaps").Name(l.name).Do(ctx).Into(&out)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read configmap %s/%s: %w", l.namespace, l.name, err)
	}
	return &out, nil
}

// Store writes the figures. Only the leader does.
func (l *Learned) Store(ctx context.Context, figures map[string]int64) error {
	text, err := json.Marshal(figures)
	if err != nil {
		return err // of numbers by name: it can't fail
	}
	have, err := l.get(ctx)
	if err != nil {
		return err
	}
	data := map[string]string{learnedKey: string(text)}
	if have == nil {
		err = l.client.core.Post().Namespace(l.namespace).Resource("configmaps").
			Body(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}, Data: data}).Do(ctx).Error()
	} else {
		next := have.DeepCopy()
		next.Data = data
		err = l.client.core.Put().Namespace(l.namespace).Resource("configmaps").Name(l.name).Body(next).Do(ctx).Error()
	}
	if err != nil {
		return fmt.Errorf("write configmap %s/%s: %w", l.namespace, l.name, err)
	}
	return nil
}
