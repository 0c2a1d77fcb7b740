// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/dovetail-sh/dovetail/internal/kube/inventory"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// objectSet is the objects of testdata/inventory.yaml.
type objectSet []runtime.Object

func readObjects(t *testing.T) objectSet {
	text, err := os.ReadFile("../translate/testdata/inventory.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{nodev1.AddToScheme, func(s *runtime.Scheme) error {
		for kind, x := range manifestScheme.AllKnownTypes() {
			s.AddKnownTypeWithName(kind, reflect.New(x).Interface().(runtime.Object))
		}
		return nil
	}} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var out objectSet
	for _, part := range strings.Split(string(text), "\n---\n") {
		o, _, err := decoder.Decode([]byte(part), nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, part)
		}
		out = append(out, o)
	}
	return out
}

// translation is all that the translation makes of the objects, as text.
func (w objectSet) translation() (string, error) {
	var text strings.Builder
	for _, o := range w {
		doc, err := json.Marshal(o) // which is YAML, and faster to read
		if err != nil {
			return "", err
		}
		text.WriteString("---\n" + string(doc) + "\n")
	}
	m := New()
	if err := m.Read("inventory.yaml", []byte(text.String())); err != nil {
		return "", err
	}
	s := state.New()
	m.Feed(s)
	tr := &translate.Translator{Table: s.Resources(), Lookup: m}
	var more []any
	for _, o := range w {
		switch x := o.(type) {
		case *corev1.ResourceQuota:
			more = append(more, quotaLeaves(x))
		case *corev1.Pod:
			more = append(more, tr.Pod(x), tr.PodFacts(x))
		}
	}
	out, err := json.Marshal([]any{s.Snapshot(time.Time{}), m.FullQuotas(), m.NotMade, m.Missing, more})
	return string(out), err
}

// change returns the set with all objects of a kind changed.
func (w objectSet) change(kind string, f func(runtime.Object)) objectSet {
	out := make(objectSet, len(w))
	for i, o := range w {
		if out[i] = o; inventory.KindOf(o) == kind {
			out[i] = o.DeepCopyObject()
			f(out[i])
		}
	}
	return out
}

// quotaLeaves is how many pods of a CapacityBuffer a ResourceQuota leaves room for, by the pods' PriorityClass.
func quotaLeaves(q *corev1.ResourceQuota) (out []int) {
	for _, class := range []string{"high", "usual"} {
		b := translate.SizedBuffer{Buffer: &model.Buffer{Replicas: 100, Like: &model.Pod{}}, Template: &corev1.PodSpec{PriorityClassName: class, Containers: []corev1.Container{{Name: "c"}}},
			Requests: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("1")}}
		translate.ApplyQuotas([]translate.SizedBuffer{b}, []*corev1.ResourceQuota{q})
		out = append(out, b.Replicas)
	}
	return out
}

// TestKinds keeps an object of each kind that the inventory lists.
func TestKinds(t *testing.T) {
	for _, o := range inventory.Kinds {
		o = o.DeepCopyObject()
		o.(metav1.Object).SetName("x")
		m := New()
		m.Keep(inventory.KindOf(o), o.(metav1.Object))
		if m.Len() == 0 || len(m.Skipped) > 0 {
			t.Errorf("%s: %d kept, skipped %v", inventory.KindOf(o), m.Len(), m.Skipped)
		}
	}
}

// TestHeeded changes each field that the inventory calls heeded or refused: the translation changes.
func TestHeeded(t *testing.T) {
	w := readObjects(t)
	before, err := w.translation()
	if err != nil {
		t.Fatal(err)
	}
	all, err := inventory.All()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range all {
		for _, f := range b.Fields {
			if b.Verdict == inventory.Irrelevant {
				continue
			}
			n++
			if !w.changes(f, before) {
				t.Errorf("%s: called %s, and nothing changes with it", f, b.Verdict)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d fields were changed", n)
	}
}

// changes reports whether the translation changes with a field of all objects of a kind, or of one. What can't be read with the
// change says nothing.
func (w objectSet) changes(f inventory.Field, before string) bool {
	differs := func(after string, err error) bool { return err == nil && after != before }
	for i, o := range w {
		if inventory.KindOf(o) != f.Kind {
			continue
		}
		first := !slices.ContainsFunc(w[:i], func(o runtime.Object) bool { return inventory.KindOf(o) == f.Kind })
		for _, set := range inventory.Changes(o, f.Path) {
			if first && differs(w.change(f.Kind, set).translation()) {
				return true
			}
			one := slices.Clone(w)
			one[i] = o.DeepCopyObject()
			set(one[i])
			if differs(one.translation()) {
				return true
			}
		}
	}
	return false
}

// TestIrrelevant gives each field that the inventory calls irrelevant a value: the translation stays as it is.
func TestIrrelevant(t *testing.T) {
	w := readObjects(t)
	all, err := inventory.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range inventory.Kinds {
		kind := inventory.KindOf(k)
		bySource := map[string][]string{}
		for _, path := range inventory.Fields(reflect.TypeOf(k)) {
			if b := inventory.Find(all, inventory.Field{Kind: kind, Path: path}); b != nil && b.Verdict == inventory.Irrelevant {
				source := volumeSource(kind, path)
				bySource[source] = append(bySource[source], path)
			}
		}
		for source, paths := range bySource {
			of := w
			if source != "" {
				of = w.change(kind, func(o runtime.Object) { keepSource(o, source) })
			}
			for _, path := range of.heededAmong(t, kind, paths) {
				t.Errorf("%s %s: called irrelevant, and the translation changes with it", kind, path)
			}
		}
	}
}

// volumeSource is the plugin whose field a path is, empty for other fields. A volume has one plugin: its fields are tried by themselves.
func volumeSource(kind, path string) string {
	below := map[string]string{"Pod": "spec.volumes[].", "PersistentVolume": "spec."}[kind]
	rest, ok := strings.CutPrefix(path, below)
	name, _, deeper := strings.Cut(rest, ".")
	if below == "" || !ok || !deeper || kind == "PersistentVolume" && (name == "claimRef" || name == "nodeAffinity") {
		return ""
	}
	return name
}

// keepSource leaves volumes the plugin of this name alone.
func keepSource(o runtime.Object, name string) {
	keep := func(sources reflect.Value) {
		for i := range sources.NumField() {
			if tag, _, _ := strings.Cut(sources.Type().Field(i).Tag.Get("json"), ","); tag != name {
				sources.Field(i).SetZero()
			}
		}
	}
	switch x := o.(type) {
	case *corev1.Pod:
		for i := range x.Spec.Volumes {
			keep(reflect.ValueOf(&x.Spec.Volumes[i].VolumeSource).Elem())
		}
	case *corev1.PersistentVolume:
		keep(reflect.ValueOf(&x.Spec.PersistentVolumeSource).Elem())
	}
}

// heededAmong returns those of a kind's fields with which the translation changes. It halves the list until it has them.
func (w objectSet) heededAmong(t *testing.T, kind string, paths []string) []string {
	if len(paths) == 0 {
		return nil
	}
	reached := w.change(kind, func(o runtime.Object) {
		for _, p := range paths {
			inventory.Reach(o, p)
		}
	})
	given := reached.change(kind, func(o runtime.Object) {
		for _, p := range paths {
			c := inventory.Changes(o, p)
			c[len(c)-1](o)
		}
	})
	before, err := reached.translation()
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	after, err := given.translation()
	if err == nil && after == before {
		return nil
	}
	if len(paths) == 1 {
		return []string{fmt.Sprint(paths[0], errorText(err))}
	}
	return append(w.heededAmong(t, kind, paths[:len(paths)/2]), w.heededAmong(t, kind, paths[len(paths)/2:])...)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}
