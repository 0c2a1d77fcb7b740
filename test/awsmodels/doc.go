// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package awsmodels compares the simulated AWS (internal/cloud/aws/awstest) with the official service models in version 1 of the
// SDK for Go: every call, every member read from a request, and every element written to a response, with its name on the wire
// and its type.
//
// It is a separate module, so that no other module depends on that SDK. Start reading at TestShapes.
package awsmodels

// The models are no Go package; this one of their module keeps the module required.
import _ "github.com/aws/aws-sdk-go/aws/awserr"
