// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// Apply applies a NodePool or NodeGroupClass with server-side apply. If dryRun is true, nothing is stored. before is
// the stored object (nil if none) and after is the result, both without status and server-set metadata. Apply returns
// an error that names both managers if another manager owns a field with a different value.
func Apply(ctx context.Context, c *client.Client, o map[string]any, manager string, dryRun bool) (before, after map[string]any, err error) {
	u := unstructured.Unstructured{Object: o}
	kind, name := u.GetKind(), u.GetName()
	var at rest.Interface
	resource := ""
	switch kind {
	case "NodePool":
		at, resource = c.Karpenter, "nodepools"
	case dovetailv1alpha1.KindNodeGroupClass:
		at, resource = c.Dovetail, "nodegroupclasses"
	default:
		return nil, nil, fmt.Errorf("apply %s %s: only NodePools and NodeGroupClasses are applied", kind, name)
	}
	before, err = DecodeObject(at.Get().Resource(resource).Name(name).SetHeader("Accept", "application/json").Do(ctx).Raw())
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, fmt.Errorf("read %s %s: %w", kind, name, err)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return nil, nil, fmt.Errorf("write %s %s: %w", kind, name, err)
	}
	r := at.Patch(types.ApplyYAMLPatchType).Resource(resource).Name(name).Param("fieldManager", manager).SetHeader("Accept", "application/json").Body(body)
	if dryRun {
		r = r.Param("dryRun", "All")
	}
	after, err = DecodeObject(r.Do(ctx).Raw())
	if err != nil {
		return nil, nil, fmt.Errorf("apply %s %s: %w", kind, name, err)
	}
	return written(before), written(after), nil
}

// written returns an object without its status and server-set metadata; nil for nil.
func written(o map[string]any) map[string]any {
	if o == nil {
		return nil
	}
	delete(o, "status")
	meta, _ := o["metadata"].(map[string]any)
	for _, key := range []string{"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp"} {
		delete(meta, key)
	}
	return o
}

// DecodeObject decodes the object in a response of the API server, including unknown fields.
func DecodeObject(answer []byte, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(answer, &out); err != nil {
		return nil, fmt.Errorf("response of the API server: %w", err)
	}
	return out, nil
}

// Field returns a nested field of a decoded object, or nil if it does not exist.
func Field(o any, path ...string) any {
	for _, key := range path {
		m, _ := o.(map[string]any)
		o = m[key]
	}
	return o
}
