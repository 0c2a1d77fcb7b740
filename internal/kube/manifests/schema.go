// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/charts"
)

// customSchema is what an API server checks objects of a custom kind by.
type customSchema struct {
	structural *structuralschema.Structural
	values     validation.SchemaValidator
	rules      *cel.Validator // nil: none
}

// schemas are those of the kinds that occurred, by GroupVersionKind: to compile all of them takes longer than most plans.
var schemas sync.Map

// checkSchema checks an object by the CustomResourceDefinition of its kind, if the chart has one: it returns the path of the first field
// that is wrong, and why.
func checkSchema(kind schema.GroupVersionKind, raw []byte) (field, why string, err error) {
	s, err := schemaOf(kind)
	if s == nil || err != nil {
		return "", "", err
	}
	return s.violation(raw)
}

// schemaOf returns the schema of a custom kind from the chart's CustomResourceDefinition; nil if the chart has none of it.
func schemaOf(kind schema.GroupVersionKind) (*customSchema, error) {
	once, _ := schemas.LoadOrStore(kind, sync.OnceValues(func() (*customSchema, error) {
		s, err := compileSchema(kind)
		if err != nil {
			return nil, fmt.Errorf("CustomResourceDefinition of %s: %w", kind.Kind, err)
		}
		return s, nil
	}))
	return once.(func() (*customSchema, error))()
}

func compileSchema(kind schema.GroupVersionKind) (*customSchema, error) {
	data, err := charts.Definition(kind.Group, kind.Kind)
	if data == nil || err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(data, &crd); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == kind.Version })
	if at < 0 {
		return nil, nil
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[at].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, err
	}
	out := &customSchema{}
	if out.structural, err = structuralschema.NewStructural(&props); err != nil {
		return nil, err
	}
	if out.values, _, err = validation.NewSchemaValidator(&props); err != nil {
		return nil, err
	}
	out.rules = cel.NewValidator(out.structural, true, celconfig.PerCallLimit)
	return out, nil
}

// violation returns the field of an object by which an API server would refuse it first, and why. Both are empty if it would accept it.
func (s *customSchema) violation(raw []byte) (path, why string, err error) {
	var object map[string]any
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return "", "", err
	}
	delete(object, "status") // not stored with an object that is created
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	list := validation.ValidateCustomResource(nil, object, s.values)
	list = append(list, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if len(list) == 0 && s.rules != nil { // rules are written for values that the schema accepts
		list, _ = s.rules.Validate(context.Background(), nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
	}
	if len(list) == 0 {
		return "", "", nil
	}
	first := slices.MinFunc(list, func(a, b *field.Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Detail, b.Detail))
	})
	path = strings.TrimPrefix(first.Field, "<nil>.")
	if path == "<nil>" {
		path = ""
	}
	return path, violationText(first), nil
}

// mustMatch is the prefix of messages about a value that does not match a regular expression.
const mustMatch = "must match "

// violationText returns what is invalid about a value, and what is valid, without the field and the value.
func violationText(e *field.Error) string {
	switch e.Type {
	case field.ErrorTypeRequired:
		if e.Detail == "" {
			return "missing; set it"
		}
	case field.ErrorTypeNotSupported:
		return strings.NewReplacer("supported values: ", "use one of ", `"`, "").Replace(e.Detail)
	case field.ErrorTypeDuplicate:
		return "set twice; remove one"
	}
	if _, text, ok := strings.Cut(e.Detail, " in body should "); ok {
		return "must " + text
	}
	if _, text, ok := strings.Cut(e.Detail, " evaluating rule: "); ok { // a rule that has no result, told after the cause in CEL's words
		return text
	}
	return e.Detail
}
