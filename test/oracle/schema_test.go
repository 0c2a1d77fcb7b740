// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package oracle

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// difference is one keyword of one schema in which Dovetail means to differ; without a keyword, a schema that one of them doesn't have.
type difference struct {
	kind, path, keyword string
	why                 string
}

const (
	conditionsAreAMap = "Ours is a list by type, as in the other kinds. That matters only to who applies a part of it."
	noEffectOnLists   = "Karpenter sets a string's keyword on a list of strings, where it has no effect. On the items it would refuse objects that " +
		"Karpenter takes."
)

func acceptedDifferences() []difference {
	return []difference{
		{"NodePool", "spec.template.spec.requirements[].values", "maxLength", noEffectOnLists},
		{"NodePool", "spec.template.spec.requirements[].values", "pattern", noEffectOnLists},
		{"NodeClaim", "spec.requirements[].values", "maxLength", noEffectOnLists},
		{"NodeClaim", "spec.requirements[].values", "pattern", noEffectOnLists},
		{"NodeOverlay", "spec.requirements[].values", "maxLength", noEffectOnLists},
		{"NodeOverlay", "spec.requirements[].values", "pattern", noEffectOnLists},
		{"EC2NodeClass", "spec.kubelet{}", "", "Both take any fields: theirs says so of each value, too."},
		{"EC2NodeClass", "status.conditions", "x-kubernetes-list-type", conditionsAreAMap},
		{"EC2NodeClass", "status.conditions", "x-kubernetes-list-map-keys", conditionsAreAMap},
	}
}

// The schemas have the same fields with the same keywords. Descriptions are ours; rules are compared by TestVerdicts.
func TestSchemas(t *testing.T) {
	accepted := map[difference]bool{}
	for _, d := range acceptedDifferences() {
		if d.why == "" {
			t.Errorf("accepted difference %+v has no reason", d)
		}
		d.why = ""
		accepted[d] = false
	}
	for _, k := range sharedKinds(t) {
		ours, theirs := keywords(t, k.ourCRD(t)), keywords(t, k.theirCRD(t))
		if len(theirs) < 10 {
			t.Fatalf("%s: only %d schemas to compare", k.name, len(theirs))
		}
		for _, path := range slices.Sorted(maps.Keys(union(ours, theirs))) {
			if ours[path] == nil || theirs[path] == nil {
				d := difference{kind: k.name, path: path}
				if _, ok := accepted[d]; ok {
					accepted[d] = true
					continue
				}
				t.Errorf("%s: field %s: ours %v, theirs %v", k.name, path, ours[path] != nil, theirs[path] != nil)
				continue
			}
			for _, keyword := range slices.Sorted(maps.Keys(union(ours[path], theirs[path]))) {
				if ours[path][keyword] == theirs[path][keyword] {
					continue
				}
				d := difference{kind: k.name, path: path, keyword: keyword}
				if _, ok := accepted[d]; ok {
					accepted[d] = true
					continue
				}
				t.Errorf("%s: %s: %s: ours %s, theirs %s", k.name, path, keyword, ours[path][keyword], theirs[path][keyword])
			}
		}
	}
	for d, seen := range accepted {
		if !seen {
			t.Errorf("accepted difference %+v is none: take it off the list", d)
		}
	}
}

// Names, columns and subresources are the same. A version of ours beside the stored one has its schema.
func TestDefinitions(t *testing.T) {
	for _, k := range sharedKinds(t) {
		t.Run(k.name, func(t *testing.T) {
			ours, theirs := k.ourCRD(t).Spec, k.theirCRD(t).Spec
			for _, v := range ours.Versions[1:] {
				if diff := cmp.Diff(ours.Versions[0].Schema, v.Schema); diff != "" || v.Storage || !v.Served {
					t.Errorf("version %s is not served like the stored one: %s", v.Name, diff)
				}
			}
			if len(theirs.Versions) != 1 {
				t.Errorf("theirs has %d versions, want 1", len(theirs.Versions))
			}
			ours.Versions = ours.Versions[:1]
			ours.Versions[0].Schema, theirs.Versions[0].Schema = nil, nil
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("ours differs from theirs (-theirs +ours):\n%s", diff)
			}
		})
	}
}

// keywords is every schema of a definition by path, and by keyword what it says, in JSON.
func keywords(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) map[string]map[string]string {
	t.Helper()
	b, err := json.Marshal(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(b, &root); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	collect(t, root, "", all)
	return all
}

func collect(t *testing.T, schema map[string]any, path string, all map[string]map[string]string) {
	t.Helper()
	here := map[string]string{}
	all[path] = here
	for keyword, value := range schema {
		switch keyword {
		case "description", "x-kubernetes-validations":
		case "properties":
			for name, property := range value.(map[string]any) {
				below := path + "." + name
				if path == "" {
					below = name
				}
				collect(t, property.(map[string]any), below, all)
			}
		case "items":
			collect(t, value.(map[string]any), path+"[]", all)
		case "additionalProperties":
			if properties, ok := value.(map[string]any); ok {
				collect(t, properties, path+"{}", all)
				continue
			}
			here[keyword] = text(t, value)
		case "required", "enum":
			list := value.([]any)
			words := make([]string, 0, len(list))
			for _, v := range list {
				words = append(words, text(t, v))
			}
			slices.Sort(words)
			here[keyword] = text(t, words)
		default:
			here[keyword] = text(t, value)
		}
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func union[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
