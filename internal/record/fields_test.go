// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/inventory"
)

var update = flag.Bool("update", false, "write testdata/strings.golden")

// kindTypes are the kinds that a recording can hold.
func kindTypes() []runtime.Object {
	out := slices.Clone(inventory.Kinds)
	out = slices.DeleteFunc(out, func(o runtime.Object) bool { return inventory.KindOf(o) == "ResourceQuota" }) // it keeps pods from being made, and those are recorded
	return append(out, &corev1.Namespace{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &karpv1.NodePool{}, &karpv1.NodeClaim{},
		&karpv1alpha1.NodeOverlay{}, &kwokv1alpha1.KWOKNodeClass{}, &awsv1.EC2NodeClass{}, &dovetailv1alpha1.NodeGroupClass{}, &clusterapiv1alpha1.ClusterAPINodeClass{}, &bufferv1beta1.CapacityQuota{})
}

// flat returns the paths of the fields below a field, without the marks of lists.
func (f *field) flat(path string, out map[string]treatment) {
	for k, below := range f.below {
		at := strings.TrimPrefix(path+"."+k, ".")
		if below.of != "" {
			out[at] = below.of
			continue
		}
		below.flat(at, out)
	}
}

// What a plan is made of is recorded, but for what stands here with its reason.
func TestHeededFieldsAreRecorded(t *testing.T) {
	left := map[string]string{
		"metadata.resourceVersion":  "a number that changes with every write; nothing is decided by it",
		"status.conditions.message": "free text",
		"metadata.finalizers":       "of other kinds than pods, nodes and claims",
	}
	blocks, err := inventory.All()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, b := range blocks {
		for _, f := range b.Fields {
			path := strings.ReplaceAll(f.Path, "[]", "")
			root := fields().kinds[f.Kind]
			if b.Verdict == inventory.Irrelevant || left[path] != "" || f.Kind == "ResourceQuota" {
				continue
			}
			if root == nil {
				t.Errorf("%s: kind %s is not recorded", f, f.Kind)
				continue
			}
			checked++
			have := map[string]treatment{}
			root.flat("", have)
			if path == "spec.template.spec" || have[path] != "" {
				continue
			}
			t.Errorf("%s: heeded, but not recorded", f)
		}
	}
	if checked < 100 {
		t.Errorf("only %d fields were compared", checked)
	}
}

// Every line of fields.txt speaks of fields that there are.
func TestRecordedFieldsExist(t *testing.T) {
	free := []string{"spec.kubelet.", "spec.blockDeviceMappings."} // not typed; a list of pointers, which inventory.Fields takes for one field
	seen := map[string]bool{}
	for _, o := range kindTypes() {
		kind := inventory.KindOf(o)
		seen[kind] = true
		root := fields().kinds[kind]
		if root == nil {
			t.Errorf("%s is not recorded", kind)
			continue
		}
		there := inventory.Fields(reflect.TypeOf(o))
		for i := range there {
			there[i] = strings.ReplaceAll(there[i], "[]", "")
		}
		have := map[string]treatment{}
		root.flat("", have)
		for path := range have {
			if !slices.Contains(there, path) && !strings.HasPrefix(path, "spec.template.spec.") && !slices.ContainsFunc(free, func(p string) bool { return strings.HasPrefix(path, p) }) &&
				!slices.ContainsFunc(there, func(p string) bool { return strings.HasPrefix(p, path+".") }) {
				t.Errorf("%s %s: there is no such field", kind, path)
			}
		}
	}
	for _, kind := range recordedKinds() {
		if !seen[kind] {
			t.Errorf("kind %s is not among the types of this test", kind)
		}
	}
}

// filler puts a marker into every text of an object: fields, elements of lists, keys and values of maps.
type filler struct{ n int }

func (f *filler) marker() string {
	f.n++
	return "secret-" + strconv.Itoa(f.n) + "-"
}

func (f *filler) fill(v reflect.Value) {
	switch v.Type() {
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.FieldsV1](), reflect.TypeFor[metav1.TypeMeta]():
		return
	case reflect.TypeFor[intstr.IntOrString]():
		v.Set(reflect.ValueOf(intstr.FromString(f.marker())))
		return
	case reflect.TypeFor[runtime.RawExtension]():
		raw, _ := json.Marshal(map[string]any{"clusterDNS": []string{f.marker()}, f.marker(): f.marker()})
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: raw}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.marker())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(f.marker()))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			k, x := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(k)
			f.fill(x)
			v.SetMapIndex(k, x)
		}
	}
}

var marker = regexp.MustCompile(`secret-[0-9]+-`)

// survivors returns where markers are in a decoded object.
func survivors(v any, path string, out map[string]bool) {
	switch v := v.(type) {
	case string:
		if marker.MatchString(v) {
			out[path] = true
		}
	case []any:
		for _, x := range v {
			survivors(x, path+"[]", out)
		}
	case map[string]any:
		for k, x := range v {
			if marker.MatchString(k) {
				out[path+" (keys)"], k = true, "*"
			}
			survivors(x, strings.TrimPrefix(path+"."+k, "."), out)
		}
	}
}

// A marker is planted in every text of every kind. Which of them a recording holds, and an anonymized one, is the list of
// testdata/strings.golden, for people to read: nothing else is ever written.
func TestPlantedSecrets(t *testing.T) {
	a := &Anonymizer{key: []byte("a key")}
	var out strings.Builder
	planted := 0
	for _, o := range kindTypes() {
		kind := inventory.KindOf(o)
		f := &filler{}
		x := o.DeepCopyObject()
		f.fill(reflect.ValueOf(x).Elem())
		if kind == "Pod" { // the annotations that are kept are those of every kind: one shows them
			for k := range fields().annotations {
				x.(metav1.Object).GetAnnotations()[k] = f.marker()
			}
		}
		planted += f.n
		plainly, hidden := map[string]bool{}, map[string]bool{}
		survivors(project(kind, decoded(t, x), nil), "", plainly)
		survivors(project(kind, decoded(t, x), a), "", hidden)
		for _, path := range sorted(plainly) {
			if rest, ok := strings.CutPrefix(path, "spec.template.spec"); ok && kind == "DaemonSet" && strings.Contains(out.String(), " Pod spec"+rest+"\n") {
				continue
			}
			mark := "  "
			if hidden[path] {
				mark = "* "
			}
			out.WriteString(mark + kind + " " + path + "\n")
		}
		for path := range hidden {
			if !plainly[path] {
				t.Errorf("%s %s is in an anonymized recording alone", kind, path)
			}
		}
	}
	if planted < 1000 {
		t.Fatalf("only %d secrets were planted", planted)
	}
	head := "# Texts that a recording holds; * in anonymized ones too. Written by: go test ./internal/record -run TestPlantedSecrets -update\n"
	file := filepath.Join("testdata", "strings.golden")
	if *update {
		if err := os.WriteFile(file, []byte(head+out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if have := head + out.String(); have != string(want) {
		t.Errorf("other texts are recorded than %s says: read the difference, then run with -update\n%s", file, have)
	}
}

func decoded(t *testing.T, x any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func sorted(m map[string]bool) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
