// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"context"
	"net/url"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Read returns the JSON at an API path: an object, a list, or the versions of a group. It does not retry.
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

// Patch applies a JSON merge patch to the object at an API path. It does not retry.
func (c *Client) Patch(ctx context.Context, path string, patch []byte) error {
	return c.Core.Patch(types.MergePatchType).AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).Body(patch).MaxRetries(0).Do(ctx).Error()
}
