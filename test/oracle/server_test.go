// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package oracle

import (
	"context"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// verdict is what a server says of a write: the object as it would be stored, or the fields it objects to and the texts of the rules
// that they break.
type verdict struct {
	stored   map[string]any
	fields   []string
	messages []string
}

func (v verdict) accepted() bool { return v.stored != nil }

// server takes writes of one kind. A write that it accepts is what the next one is an update of.
type server interface {
	create(t *testing.T, object map[string]any) verdict
	update(t *testing.T, old, object map[string]any) verdict
	updateStatus(t *testing.T, old, object map[string]any) verdict
}

// inProcess is the part of a real API server that judges custom resources, without the server. It follows
// k8s.io/apiextensions-apiserver/pkg/registry/customresource.
type inProcess struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func newInProcess(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *inProcess {
	t.Helper()
	spec := internal(t, crd).Spec
	if spec.Validation == nil {
		t.Fatalf("%s has no schema", crd.Name)
	}
	structural, err := structuralschema.NewStructural(spec.Validation.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	schema, _, err := validation.NewSchemaValidator(spec.Validation.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	return &inProcess{structural, schema, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// decode is what is made of an object on its way in.
func (s *inProcess) decode(object map[string]any) map[string]any {
	object = runtime.DeepCopyJSON(object)
	pruning.Prune(object, s.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	return object
}

func (s *inProcess) create(t *testing.T, object map[string]any) verdict {
	object = s.decode(object)
	delete(object, "status")
	errs := validation.ValidateCustomResource(nil, object, s.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	return s.judge(t.Context(), errs, object, nil)
}

func (s *inProcess) update(t *testing.T, old, object map[string]any) verdict {
	object = s.decode(object)
	delete(object, "status")
	if status, ok := old["status"]; ok {
		object["status"] = status
	}
	return s.judgeUpdate(t.Context(), old, object)
}

func (s *inProcess) updateStatus(t *testing.T, old, object map[string]any) verdict {
	decoded := s.decode(object)
	object = runtime.DeepCopyJSON(old)
	object["status"] = decoded["status"]
	return s.judgeUpdate(t.Context(), old, object)
}

func (s *inProcess) judgeUpdate(ctx context.Context, old, object map[string]any) verdict {
	correlated := common.NewCorrelatedObject(object, old, &model.Structural{Structural: s.structural})
	errs := validation.ValidateCustomResourceUpdate(nil, object, old, s.schema, validation.WithRatcheting(correlated))
	if len(listtype.ValidateListSetsAndMaps(nil, s.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	}
	return s.judge(ctx, errs, object, old, cel.WithRatcheting(correlated))
}

func (s *inProcess) judge(ctx context.Context, errs field.ErrorList, object, old map[string]any, options ...cel.Option) verdict {
	if !slices.ContainsFunc(errs, blocksRules) {
		// An old object that is absent must be an interface that is nil.
		var before any
		if old != nil {
			before = old
		}
		broken, _ := s.rules.Validate(ctx, nil, s.structural, object, before, celconfig.RuntimeCELCostBudget, options...)
		errs = append(errs, broken...)
	}
	if len(errs) == 0 {
		return verdict{stored: s.read(object)}
	}
	var v verdict
	for _, err := range errs {
		v.messages = append(v.messages, err.Detail)
		// An error of the rules as a whole has no field.
		if err.Field != "" && err.Field != "<nil>" {
			v.fields = append(v.fields, err.Field)
		}
	}
	slices.Sort(v.fields)
	v.fields = slices.Compact(v.fields)
	return v
}

// read is what is made of an object on its way out of the store: what is missing is defaulted again.
func (s *inProcess) read(object map[string]any) map[string]any {
	object = runtime.DeepCopyJSON(object)
	defaulting.Default(object, s.structural)
	return object
}

// blocksRules reports whether an error is of a kind after which the API server does not ask the rules, for they might not be able to
// read the object.
func blocksRules(err *field.Error) bool {
	switch err.Type {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	}
	return false
}
