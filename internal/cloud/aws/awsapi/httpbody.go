// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"io"
	"net/http"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// PlainBodies wraps an HTTP client so that request bodies only implement Read. The SDK closes a request body as soon as
// the response begins, and its WriteTo then returns io.EOF as an error (smithy-go 1.28). If net/http has not reached the
// end of the body, it treats this as a failed write and closes the connection in the middle of the response. This is
// rare over a network, but affects about one call in twenty on loopback.
func PlainBodies(client sdk.HTTPClient) sdk.HTTPClient {
	if client == nil {
		client = awshttp.NewBuildableClient()
	}
	return plainBodies{client}
}

// plainBodies is an HTTP client that hides everything of a request's body but Read and Close.
type plainBodies struct{ client sdk.HTTPClient }

// Do implements the SDK's HTTPClient.
func (p plainBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return p.client.Do(r)
}
