// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"io"
	"net/http"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// PlainBodies is an HTTP client whose requests have bodies that can only be read. The SDK closes a request's body as
// soon as the answer begins, and its body's WriteTo then says EOF as an error (smithy-go 1.28): where net/http has
// not looked for the end of the body yet, it takes that for a failed write and cuts the connection in the middle of
// the answer. Over a network that is rare; on loopback it is one call in twenty.
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
