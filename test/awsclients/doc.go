// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package awsclients runs other people's clients on the simulated AWS, and other people's AWS under Dovetail's client: aws-cli and boto3 read the answers of the
// simulated AWS; moto's server and the simulated AWS answer the same requests, which are compared by structure; Auto Scaling groups of moto's launch and end
// machines for Dovetail. A program that is not installed is not run, and the test says so.
package awsclients
