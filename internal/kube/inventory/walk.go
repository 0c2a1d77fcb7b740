// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package inventory

import (
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Kinds are the API types whose fields the inventory lists, in the inventory's order.
var Kinds = []runtime.Object{
	&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{},
	&storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{}, &nodev1.RuntimeClass{}, &schedulingv1.PriorityClass{}, &corev1.LimitRange{},
	&corev1.ResourceQuota{}, &policyv1.PodDisruptionBudget{}, &appsv1.DaemonSet{}, &corev1.Node{},
}

// KindOf returns the name of an object's kind.
func KindOf(o runtime.Object) string { return reflect.TypeOf(o).Elem().Name() }

// leaves are struct types that a person writes as one value.
var leaves = []reflect.Type{
	reflect.TypeFor[resource.Quantity](), reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.FieldsV1](),
	reflect.TypeFor[intstr.IntOrString](),
}

// Fields returns the path of each leaf field of a type: its JSON names joined by dots, with [] for list elements. A map
// is one field, and so is a struct that is written as one value, such as a quantity. The pod template of a workload ends
// at its spec, which is the spec of a Pod.
func Fields(t reflect.Type) []string {
	var out []string
	walk(t, "", 0, func(path string) { out = append(out, path) })
	return out
}

func walk(t reflect.Type, path string, depth int, leaf func(string)) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		t, path = t.Elem(), path+"[]"
	}
	if t.Kind() != reflect.Struct || isLeaf(t) || depth > 0 && isTemplate(t, path) {
		leaf(path)
		return
	}
	if t.NumField() == 0 { // a struct without fields says something by being there
		leaf(path)
		return
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, inline := jsonName(f)
		switch {
		case f.Type == reflect.TypeFor[metav1.TypeMeta]() || name == "-":
		case inline:
			walk(f.Type, path, depth+1, leaf)
		case path == "":
			walk(f.Type, name, depth+1, leaf)
		default:
			walk(f.Type, path+"."+name, depth+1, leaf)
		}
	}
}

// isTemplate reports whether a type is the spec of a pod that a workload makes.
func isTemplate(t reflect.Type, path string) bool {
	return t == reflect.TypeFor[corev1.PodSpec]() && strings.HasSuffix(path, "template.spec")
}

func isLeaf(t reflect.Type) bool {
	return slices.Contains(leaves, t)
}

func jsonName(f reflect.StructField) (name string, inline bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" && (f.Anonymous || strings.Contains(options, "inline")) {
		return "", true
	}
	if name == "" {
		name = f.Name
	}
	return name, false
}
