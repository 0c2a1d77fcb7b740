// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import "github.com/dovetail-sh/dovetail/internal/kube/translate"

// byNamespace holds objects of one kind by namespace, and there by key (namespace/name).
type byNamespace[T any] map[string]map[string]T

// get returns the object of a key; the zero value if there is none.
func (m byNamespace[T]) get(key string) T { return m[translate.NamespaceOf(key)][key] }

func (m byNamespace[T]) set(key string, x T) {
	namespace := translate.NamespaceOf(key)
	if m[namespace] == nil {
		m[namespace] = map[string]T{}
	}
	m[namespace][key] = x
}

func (m byNamespace[T]) delete(key string) {
	namespace := translate.NamespaceOf(key)
	if delete(m[namespace], key); len(m[namespace]) == 0 {
		delete(m, namespace)
	}
}
