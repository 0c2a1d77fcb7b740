// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package awsmodels holds the simulated AWS (internal/cloud/aws/awstest) against the official service models, which the first
// version of the SDK for Go carries: every call, every member that is read from a request, every element that is written into an
// answer, with its name on the wire and its type.
//
// It is a module of its own, so that nothing else depends on that SDK. Start reading at TestShapes.
package awsmodels

// The models are no Go package; this one of their module keeps the module required.
import _ "github.com/aws/aws-sdk-go/aws/awserr"
