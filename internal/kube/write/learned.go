// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// Kept is one key of the ConfigMap in which the controller stores its state: the ConfigMap that the chart's Role allows,
// in the namespace of the controller.
type Kept struct {
	client               *client.Client
	namespace, name, key string
}

// NewKept returns a Kept that stores a text under a key.
func NewKept(c *client.Client, namespace, key string) *Kept {
	return &Kept{client: c, namespace: namespace, name: "dovetail-learned", key: key}
}

// Load returns the text; empty if there is none.
func (k *Kept) Load(ctx context.Context) (string, error) {
	have, err := k.get(ctx)
	if err != nil || have == nil {
		return "", err
	}
	return have.Data[k.key], nil
}

func (k *Kept) get(ctx context.Context) (*corev1.ConfigMap, error) {
	out, err := getConfigMap(ctx, k.client, k.namespace, k.name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read configmap %s/%s: %w", k.namespace, k.name, err)
	}
	return out, nil
}

// Store writes the text, and keeps other keys. Only the leader may call it.
func (k *Kept) Store(ctx context.Context, text string) error {
	_, err := k.write(ctx, text, func(string) bool { return true })
	return err
}

// Swap writes the text if the stored text is old, and reports whether it was. Other keys are kept.
func (k *Kept) Swap(ctx context.Context, old, text string) (bool, error) {
	return k.write(ctx, text, func(have string) bool { return have == old })
}

// write writes the text if right accepts the stored text, and reports whether it did.
func (k *Kept) write(ctx context.Context, text string, right func(have string) bool) (bool, error) {
	for {
		have, err := k.get(ctx)
		if err != nil {
			return false, err
		}
		next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.name}}
		if have != nil {
			next = have.DeepCopy()
		}
		if !right(next.Data[k.key]) {
			return false, nil
		}
		next.Data = maps.Clone(next.Data)
		if next.Data == nil {
			next.Data = map[string]string{}
		}
		next.Data[k.key] = text
		_, err = putConfigMap(ctx, k.client, have != nil, next)
		if passing(err, have != nil) && ctx.Err() == nil {
			continue // another entry was written in between
		}
		if err != nil {
			return false, fmt.Errorf("write configmap %s/%s: %w", k.namespace, k.name, err)
		}
		return true, nil
	}
}

// Figures stores numbers by name.
type Figures struct{ Kept *Kept }

// Load returns the numbers; nil if there are none.
func (f Figures) Load(ctx context.Context) (map[string]int64, error) {
	text, err := f.Kept.Load(ctx)
	if err != nil || text == "" {
		return nil, err
	}
	out := map[string]int64{}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("read configmap %s/%s: %s: %w", f.Kept.namespace, f.Kept.name, f.Kept.key, err)
	}
	return out, nil
}

// Store writes the numbers.
func (f Figures) Store(ctx context.Context, figures map[string]int64) error {
	text, err := json.Marshal(figures)
	if err != nil {
		return err // of numbers by name: it can't fail
	}
	return f.Kept.Store(ctx, string(text))
}
