// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package awstest simulates Amazon Web Services without machines: a server on loopback with the protocols of EC2, Auto
// Scaling, SSM, SQS, IAM, STS, EKS, ARC zonal shift and the Price List, for the calls that Dovetail makes. Its
// instances are machines of package machines, so a launched instance appears as a Node. `dovetail-sandbox up --cloud
// aws` uses it, so it is part of the product, not a test mock.
//
// It does not check signatures, makes no outgoing requests, and knows NodePools and claims only by tags. Like a
// kubelet, it takes the properties of a Node only from the user data of the instance.
//
// Invariants: data is written to the journal of package machines before it is returned, and the records of a call are
// complete or missing, so client tokens, launch templates, tags, groups and messages survive restarts. Equal seeds,
// faults and calls give equal responses. An unsupported parameter is rejected (UnknownParameter), never ignored. The
// shapes are those of the official service models (package shapes), which test/awsmodels checks for every field. Faults
// are only in memory, except for their effects.
//
// Start reading at Cloud, then at operations.go for the calls. CreateFleet is in fleet.go.
package awstest
