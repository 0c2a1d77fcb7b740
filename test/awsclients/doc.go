// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package awsclients tests the simulated AWS with other clients, and Dovetail's client with another simulation: aws-cli and boto3 parse the responses of the
// simulated AWS; responses of moto's server and of the simulated AWS to the same requests are compared by structure; Dovetail launches and terminates
// instances of moto's Auto Scaling groups. Tests of programs that are not installed are skipped.
package awsclients
