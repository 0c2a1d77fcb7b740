// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

var manifestScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, schedulingv1.AddToScheme, nodev1.AddToScheme, resourceapi.AddToScheme,
		karpv1.AddToScheme, karpv1alpha1.AddToScheme, karpv1alpha5.AddToScheme, awsv1alpha1.AddToScheme, kwokv1alpha1.AddToScheme, awsv1.AddToScheme, clusterapiv1alpha1.AddToScheme, dovetailv1alpha1.AddToScheme, bufferv1beta1.AddToScheme,
	} {
		if err := add(s); err != nil {
			panic(err) // the same kinds twice: a mistake in this file
		}
	}
	return s
}()

var strict = serializer.NewCodecFactory(manifestScheme, serializer.EnableStrict).UniversalDeserializer()

// Read reads a stream of YAML or JSON documents into the set. name is the name of the stream, for messages. Errors are
// *Error.
func (m *Set) Read(name string, data []byte) error {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for _, d := range split(data) {
		docs, err := d.documents(name)
		if err != nil {
			return err
		}
		for i := range docs {
			docs[i].m, docs[i].file = m, name
			if err := docs[i].add(docs[i].json, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

type part struct {
	line int
	text []byte
}

// split cuts a stream at the lines that begin with three dashes.
func split(data []byte) []part {
	var out []part
	cur := part{line: 1}
	line, start := 1, 0
	for at := 0; at < len(data); line++ {
		end := bytes.IndexByte(data[at:], '\n')
		if end < 0 {
			end = len(data)
		} else {
			end += at + 1
		}
		if l := data[at:end]; bytes.HasPrefix(l, []byte("---")) && (len(l) == 3 || strings.IndexByte(" \t\r\n", l[3]) >= 0) {
			cur.text = data[start:at]
			out = append(out, cur)
			// What stands behind the dashes belongs to the next document.
			start, cur = at+3, part{line: line}
		}
		at = end
	}
	cur.text = data[start:]
	return append(out, cur)
}

// documents returns the documents of a part: one YAML text, or a sequence of JSON texts.
func (p part) documents(file string) ([]reader, error) {
	if t := bytes.TrimSpace(p.text); len(t) > 0 && t[0] == '{' {
		var out []reader
		dec := json.NewDecoder(bytes.NewReader(p.text))
		for {
			var one json.RawMessage
			if err := dec.Decode(&one); err != nil {
				break
			}
			end := dec.InputOffset()
			begin := end - int64(len(one))
			out = append(out, reader{line: p.line + bytes.Count(p.text[:begin], []byte{'\n'}), text: p.text[begin:end], json: one})
		}
		if rest := bytes.TrimSpace(p.text[dec.InputOffset():]); len(rest) == 0 {
			return out, nil
		}
		// YAML in braces, or a mistake that the YAML parser will name.
	}
	doc, err := yaml.YAMLToJSONStrict(p.text)
	if err != nil {
		return nil, p.syntax(file, err)
	}
	if len(doc) == 0 || bytes.Equal(doc, []byte("null")) {
		return nil, nil
	}
	return []reader{{line: p.line, text: p.text, json: doc}}, nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// syntax returns an error with the location of a YAML syntax error.
func (p part) syntax(file string, err error) error {
	text := err.Error()
	for _, p := range []string{"error converting YAML to JSON: ", "yaml: ", "unmarshal errors:", "\n"} {
		text = strings.TrimSpace(strings.TrimPrefix(text, p))
	}
	text, _, _ = strings.Cut(text, "\n")
	line := p.line
	if at := yamlLine.FindStringSubmatchIndex(text); at != nil {
		if n, err := strconv.Atoi(text[at[2]:at[3]]); err == nil {
			line += max(0, n-1)
		}
		text = text[:at[0]] + text[at[1]:]
	}
	if bytes.Contains(p.text, []byte("{{")) {
		text += "; Helm templates have to be rendered first ('helm template')"
	}
	return &Error{File: file, Line: line, Reason: "not YAML or JSON: " + text}
}

// header is what every object has.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`
		UID          string `json:"uid"`
	} `json:"metadata"`
	Items *[]json.RawMessage `json:"items"`
}

// add adds one object, or the items of a list. path is its location in the document.
func (r *reader) add(raw json.RawMessage, path []any) error {
	if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '{' {
		return r.wrong(path, "", "need an object with apiVersion and kind")
	}
	var h header
	if err := json.Unmarshal(raw, &h); err != nil {
		return r.undecodable(raw, path, "", func(b []byte) error { return json.Unmarshal(b, &header{}) }, err)
	}
	if h.Items != nil && (strings.HasSuffix(h.Kind, "List") || h.Kind == "") {
		for i, item := range *h.Items {
			var typed header
			if len(h.Kind) > 4 && json.Unmarshal(item, &typed) == nil && typed.Kind == "" {
				item = withType(item, h.APIVersion, strings.TrimSuffix(h.Kind, "List"))
			}
			if err := r.add(item, append(slices.Clip(path), "items", i)); err != nil {
				return err
			}
		}
		return nil
	}
	object := h.Kind
	if name := h.Metadata.Name; name != "" {
		if h.Metadata.Namespace != "" {
			name = h.Metadata.Namespace + "/" + name
		}
		object += " " + strconv.Quote(name)
	}
	switch {
	case h.Kind == "":
		return r.wrong(append(slices.Clip(path), "kind"), "", "missing; every object names its kind")
	case h.APIVersion == "":
		return r.wrong(append(slices.Clip(path), "apiVersion"), object, "missing; every object names its API version")
	}
	return r.object(raw, path, h, object)
}

// withType adds the apiVersion and kind of a typed list to an item.
func withType(raw json.RawMessage, apiVersion, kind string) json.RawMessage {
	var o map[string]any
	if json.Unmarshal(raw, &o) != nil {
		return raw
	}
	o["apiVersion"], o["kind"] = apiVersion, kind
	out, err := json.Marshal(o)
	if err != nil {
		return raw
	}
	return out
}

// object decodes an object of a kind that is known.
func (r *reader) object(raw json.RawMessage, path []any, h header, name string) error {
	gv, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		return r.wrong(append(slices.Clip(path), "apiVersion"), name, "need group/version")
	}
	if translate.GangKindOf(gv.WithKind(h.Kind)) != nil {
		return r.gang(raw, path, h, name)
	}
	if !manifestScheme.Recognizes(gv.WithKind(h.Kind)) {
		if want := r.meant(gv, h.Kind); want != "" && gv.Group != resourceapi.GroupName { // a cluster older than 1.34 has others of that group
			return r.wrong(append(slices.Clip(path), "apiVersion"), name, want)
		}
		if manifestScheme.IsVersionRegistered(gv) && !strings.HasSuffix(gv.Group, ".sh") {
			return r.wrong(append(slices.Clip(path), "kind"), name, "there is no such kind in "+h.APIVersion)
		}
		r.m.skip(gv.Group, h.Kind, h.Metadata.Name)
		return nil
	}
	ours := gv == karpv1.GroupVersion || gv == karpv1alpha1.GroupVersion
	data := []byte(raw)
	if ours {
		data = defaulted(h.Kind, raw)
	}
	obj, _, err := strict.Decode(data, nil, nil)
	// A field of a Kubernetes newer than this program is no mistake on an object that a cluster has taken.
	tolerated := err != nil && runtime.IsStrictDecodingError(err) && obj != nil && !ours && h.Metadata.UID != ""
	if err != nil && !tolerated {
		return r.undecodable(data, path, name, func(b []byte) error { _, _, err := strict.Decode(b, nil, nil); return err }, err)
	}
	x, ok := obj.(metav1.Object)
	if !ok {
		return nil // of the meta kinds, such as Status
	}
	return r.keep(raw, x, path, h, name, obj)
}

// gang reads an object that declares a gang, of which only a few fields are used.
func (r *reader) gang(raw json.RawMessage, path []any, h header, name string) error {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return r.undecodable(raw, path, name, func(b []byte) error { return u.UnmarshalJSON(b) }, err)
	}
	return r.keep(raw, u, path, h, name, u)
}

// keep names an object as the API server would, checks it and takes it in.
func (r *reader) keep(raw json.RawMessage, x metav1.Object, path []any, h header, name string, obj runtime.Object) error {
	if x.GetName() == "" && x.GetGenerateName() != "" {
		k := h.Kind + " " + x.GetNamespace() + "/" + x.GetGenerateName()
		x.SetName(x.GetGenerateName() + strconv.Itoa(r.m.generated[k]))
		r.m.generated[k]++
	}
	if x.GetName() == "" {
		return r.wrong(append(slices.Clip(path), "metadata", "name"), name, "missing; give the object a name")
	}
	if x.GetNamespace() == "" && namespaced(obj) {
		x.SetNamespace(metav1.NamespaceDefault)
	}
	if x.GetUID() == "" {
		if !r.m.unchecked {
			field, why, err := checkSchema(schema.FromAPIVersionAndKind(h.APIVersion, h.Kind), raw)
			if err != nil {
				return r.wrong(path, name, err.Error())
			}
			if f, w := check(obj); w != "" && (why == "" || strings.HasPrefix(why, mustMatch)) {
				field, why = f, w // says more than a regular expression
			}
			if why != "" {
				return r.wrong(append(slices.Clip(path), parsePath(field)...), name, why)
			}
		}
		x.SetUID(types.UID(fileUID + h.Kind + "/" + translate.Key(x)))
	}
	r.m.Keep(h.Kind, x)
	return nil
}

// kubernetesGroups are the API groups of Kubernetes itself that have a dot in their name.
var kubernetesGroups = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
	"certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io",
	"internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io",
	"scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
}

// skip notes an object of a kind that is not read. Those of Kubernetes itself change no node; whether a custom resource does is known
// to its controller only.
func (m *Set) skip(group, kind, name string) {
	if !strings.Contains(group, ".") || slices.Contains(kubernetesGroups, group) {
		m.Skipped = append(m.Skipped, kind+" "+name)
		return
	}
	if i, there := slices.BinarySearch(m.Custom, kind); !there {
		m.Custom = slices.Insert(m.Custom, i, kind)
	}
}

// meant says which API version a kind that we know by another one should have.
func (r *reader) meant(gv schema.GroupVersion, kind string) string {
	var have []string
	for k := range manifestScheme.AllKnownTypes() {
		if k.Kind == kind && (k.Group == gv.Group || gv.Group == "extensions") && k.Version != runtime.APIVersionInternal {
			have = append(have, k.GroupVersion().String())
		}
	}
	if len(have) == 0 {
		return ""
	}
	slices.Sort(have)
	return "unsupported version of " + kind + "; use " + strings.Join(have, " or ")
}

func namespaced(obj runtime.Object) bool {
	switch obj.(type) {
	case *corev1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver, *storagev1.VolumeAttachment, *corev1.Node, *corev1.Namespace, *schedulingv1.PriorityClass, *nodev1.RuntimeClass, *resourceapi.DeviceClass, *resourceapi.DeviceTaintRule, *resourceapi.ResourceSlice,
		*karpv1.NodePool, *karpv1.NodeClaim, *karpv1alpha1.NodeOverlay, *kwokv1alpha1.KWOKNodeClass, *awsv1.EC2NodeClass, *dovetailv1alpha1.NodeGroupClass, *clusterapiv1alpha1.ClusterAPINodeClass, *karpv1alpha5.Provisioner,
		*awsv1alpha1.AWSNodeTemplate:
		return false
	}
	return true
}

// defaulted fills in the defaults of the CustomResourceDefinitions. They must be there before decoding: a duration that is absent
// can't be told from Never afterwards.
func defaulted(kind string, raw []byte) []byte {
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		return raw
	}
	at := func(m map[string]any, path ...string) map[string]any {
		for _, p := range path {
			next, ok := m[p].(map[string]any)
			if !ok {
				if _, there := m[p]; there {
					return map[string]any{} // of the wrong type; decoding says so
				}
				next = map[string]any{}
				m[p] = next
			}
			m = next
		}
		return m
	}
	set := func(m map[string]any, key string, v any) {
		if _, ok := m[key]; !ok {
			m[key] = v
		}
	}
	switch kind {
	case "NodePool":
		set(at(object, "spec", "template", "spec"), "expireAfter", "720h")
		d := at(object, "spec", "disruption")
		set(d, "consolidateAfter", "0s")
		set(d, "consolidationPolicy", string(karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized))
		set(d, "budgets", []any{map[string]any{"nodes": "10%"}})
	case "NodeClaim":
		set(at(object, "spec"), "expireAfter", "720h")
	}
	out, err := json.Marshal(object)
	if err != nil {
		return raw
	}
	return out
}
