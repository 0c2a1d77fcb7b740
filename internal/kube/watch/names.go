// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// mostNames is how many names of one kind are listed.
const mostNames = 500

// ListNames returns the names of the first objects of a kind, sorted: pod, deployment, node, nodeclaim, nodepool, headroom or namespace. Names of
// namespaced objects are written NAMESPACE/NAME, or NAME if only one namespace is listed.
func ListNames(ctx context.Context, c *client.Client, kind, namespace string) ([]string, error) {
	from := map[string]struct {
		api        rest.Interface
		resource   string
		namespaced bool
	}{
		"pod": {c.Core, "pods", true}, "deployment": {c.Apps, "deployments", true}, "headroom": {c.Dovetail, "headrooms", true},
		"node": {c.Core, "nodes", false}, "namespace": {c.Core, "namespaces", false},
		"nodeclaim": {c.Karpenter, "nodeclaims", false}, "nodepool": {c.Karpenter, "nodepools", false},
	}[kind]
	if from.api == nil {
		return nil, fmt.Errorf("list names of kind %q: unknown kind", kind)
	}
	request := from.api.Get().Resource(from.resource).Param("limit", fmt.Sprint(mostNames)).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	if from.namespaced {
		request = request.Namespace(namespace)
	}
	raw, err := request.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list %s of API server %s: %w", from.resource, c.Address, err)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("list %s of API server %s: %w", from.resource, c.Address, err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		if from.namespaced && namespace == "" {
			names = append(names, translate.Key(&list.Items[i]))
		} else {
			names = append(names, list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
