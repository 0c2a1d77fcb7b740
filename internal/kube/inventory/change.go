// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package inventory

import (
	"reflect"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// IsSet reports whether a field of an object has a value, in any element of the lists above it.
func IsSet(o runtime.Object, path string) bool {
	set := false
	visit(reflect.ValueOf(o).Elem(), path, false, func(v reflect.Value) { set = set || !v.IsZero() })
	return set
}

// Reach creates the missing parents of a field: empty structs, and a first element of each empty list.
func Reach(o runtime.Object, path string) {
	visit(reflect.ValueOf(o).Elem(), path, true, func(reflect.Value) {})
}

// Changes returns functions that each change the value of a field, in all elements of the lists above it: first to no
// value, then to other values of the field's type.
func Changes(o runtime.Object, path string) []func(runtime.Object) {
	var kind reflect.Type
	probe := o.DeepCopyObject()
	visit(reflect.ValueOf(probe).Elem(), path, true, func(v reflect.Value) { kind = v.Type() })
	if kind == nil {
		return nil
	}
	set := func(to reflect.Value) func(runtime.Object) {
		return func(o runtime.Object) {
			visit(reflect.ValueOf(o).Elem(), path, true, func(v reflect.Value) { v.Set(to) })
		}
	}
	out := []func(runtime.Object){func(o runtime.Object) {
		visit(reflect.ValueOf(o).Elem(), path, false, func(v reflect.Value) { v.SetZero() })
	}}
	for _, v := range values(kind) {
		out = append(out, set(v))
	}
	return out
}

// visit calls f with each value of a field in a struct. With reach it creates missing parents of the field.
func visit(v reflect.Value, path string, reach bool, f func(reflect.Value)) {
	name, rest, more := strings.Cut(path, ".")
	name, list := strings.CutSuffix(name, "[]")
	field, ok := fieldOf(v, name)
	switch {
	case !ok:
		return
	case !more && !list:
		f(field)
		return
	case list:
		if field.Len() == 0 && reach {
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		}
		for i := range field.Len() {
			if !more { // elements without fields
				f(field.Index(i))
				continue
			}
			visitBelow(field.Index(i), rest, reach, f)
		}
		return
	}
	visitBelow(field, rest, reach, f)
}

func visitBelow(v reflect.Value, path string, reach bool, f func(reflect.Value)) {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			if !reach {
				return
			}
			v.Set(reflect.New(v.Type().Elem()))
		}
		v = v.Elem()
	}
	visit(v, path, reach, f)
}

// fieldOf finds a field by its JSON name, also among those of inlined structs. An inlined pointer is not followed: none of the
// types has one that matters.
func fieldOf(v reflect.Value, name string) (reflect.Value, bool) {
	t := v.Type()
	for i := range t.NumField() {
		n, inline := jsonName(t.Field(i))
		switch {
		case inline && v.Field(i).Kind() == reflect.Struct:
			if x, ok := fieldOf(v.Field(i), name); ok {
				return x, true
			}
		case n == name:
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// words are texts of which one is a value, and another one, of each field that has few values.
var words = []string{"In", "NotIn", "Exists", "DoesNotExist", "Equal", "NoSchedule", "NoExecute", "DoNotSchedule", "ScheduleAnyway", "Honor", "Ignore", "Never",
	"PreemptLowerPriority", "Always", "True", "False", "Ready", "PodScheduled", "Succeeded", "Bound", "Lost", "WaitForFirstConsumer", "Immediate", "Memory", "windows", "AlwaysAllow",
	"IfHealthyBudget", "Container", "Pod", "UDP", "InProgress", "RestartAllContainers", "DaemonSet", "fast", "node-1", "metadata.name", "topology.kubernetes.io/zone", "other"}

// values are some that a field of a type may have.
func values(t reflect.Type) (out []reflect.Value) {
	if t.Kind() == reflect.Pointer {
		for _, v := range values(t.Elem()) {
			p := reflect.New(t.Elem())
			p.Elem().Set(v)
			out = append(out, p)
		}
		return out
	}
	add := func(x any) { out = append(out, reflect.ValueOf(x).Convert(t)) }
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		add(resource.MustParse("0"))
		add(resource.MustParse("77"))
		return out
	case reflect.TypeFor[metav1.Time]():
		add(metav1.NewTime(time.Unix(1_700_000_000, 0)))
		return out
	case reflect.TypeFor[metav1.MicroTime]():
		add(metav1.NewMicroTime(time.Unix(1_700_000_000, 0)))
		return out
	case reflect.TypeFor[intstr.IntOrString]():
		add(intstr.FromInt32(77))
		return out
	case reflect.TypeFor[metav1.FieldsV1]():
		add(*metav1.NewFieldsV1("{}"))
		return out
	case reflect.TypeFor[corev1.PodSpec]():
		add(corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other"}}, NodeSelector: map[string]string{"other": "other"}})
		return out
	}
	switch t.Kind() {
	case reflect.String:
		for _, w := range words {
			out = append(out, reflect.ValueOf(w).Convert(t))
		}
	case reflect.Bool:
		out = append(out, reflect.ValueOf(false).Convert(t), reflect.ValueOf(true).Convert(t))
	case reflect.Int, reflect.Int32, reflect.Int64:
		out = append(out, reflect.ValueOf(1).Convert(t), reflect.ValueOf(77).Convert(t))
	case reflect.Uint8:
		out = append(out, reflect.ValueOf(77).Convert(t))
	case reflect.Slice:
		for _, v := range values(t.Elem()) {
			s := reflect.MakeSlice(t, 1, 1)
			s.Index(0).Set(v)
			out = append(out, s)
		}
		for _, w := range []string{"ReadWriteOncePod", "ReadWriteMany", "version"} {
			if t.Elem().Kind() == reflect.String {
				s := reflect.MakeSlice(t, 1, 1)
				s.Index(0).SetString(w)
				out = append(out, s)
			}
		}
	case reflect.Map:
		for _, key := range []string{"other", "cpu", "pods", "storage", "topology.kubernetes.io/zone", "volume.kubernetes.io/selected-node"} {
			for _, v := range values(t.Elem()) {
				m := reflect.MakeMap(t)
				m.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), v)
				out = append(out, m)
			}
		}
	case reflect.Struct:
		out = append(out, reflect.New(t).Elem())
	}
	return out
}
