// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"context"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Read returns the JSON of what is at a path of the API: an object, a list, or the versions of a group. Nothing is repeated.
func (c *Client) Read(ctx context.Context, path string, query url.Values) ([]byte, error) {
	r := c.Core.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).MaxRetries(0)
	for k, values := range query {
		for _, v := range values {
			r = r.Param(k, v)
		}
	}
	result := r.Do(ctx)
	data, err := result.Raw()
	if err != nil {
		return nil, result.Error() // in the words of the API server, which Raw leaves out
	}
	return data, nil
}

// Patch makes a JSON merge patch of the object at a path of the API. Nothing is repeated.
func (c *Client) Patch(ctx context.Context, path string, patch []byte) error {
	return c.Core.Patch(types.MergePatchType).AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).Body(patch).MaxRetries(0).Do(ctx).Error()
}
