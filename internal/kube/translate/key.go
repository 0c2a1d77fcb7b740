// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Key returns namespace/name of an object, or the name of a cluster-scoped object.
func Key(x metav1.Object) string {
	if ns := x.GetNamespace(); ns != "" {
		return ns + "/" + x.GetName()
	}
	return x.GetName()
}

// NamespaceOf returns the namespace of a key; empty: the object is cluster-scoped.
func NamespaceOf(key string) string {
	if ns, _, ok := strings.Cut(key, "/"); ok {
		return ns
	}
	return ""
}

// NameOf returns the name of a key.
func NameOf(key string) string { return key[strings.IndexByte(key, '/')+1:] }

// OwnerKey returns the key of a workload among workloads of all kinds.
func OwnerKey(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }
