// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package awstest is Amazon Web Services without machines: a server on loopback that speaks the protocols of EC2, Auto Scaling,
// SSM, SQS, IAM, STS, EKS, ARC zonal shift and the Price List, for the calls that Dovetail makes. Its instances are the machines of
// cloud/machines, so an instance that it starts appears as a Node. A product, what `dovetail-sandbox up --cloud aws` buys from, and
// not a mock.
//
// It never checks a signature, never reaches out, and knows nothing of NodePools or claims beyond the tags it is given. What
// becomes of a Node it takes from the user data of the instance and from nothing else, as a kubelet would.
//
// Invariants. What was answered is in the journal of cloud/machines, on disk, before the answer leaves, and a call's records are
// there all or not at all: client tokens, launch templates, tags, groups and messages outlive the process. Equal seeds, faults
// and calls give equal answers. A parameter that it does not read is refused (UnknownParameter), never ignored. The shapes are
// those of the official service models (package shapes); test/awsmodels proves it of every field. Faults live in memory only, except what they
// did.
//
// Start reading at Cloud, then operations.go for the calls; fleet.go is the heart.
package awstest
