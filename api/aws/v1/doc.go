// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1 contains the API types of karpenter.k8s.aws/v1: EC2NodeClass, the settings of EC2 instances. Its JSON
// equals that of Karpenter's AWS provider, so an object written for one can be read by the other.
//
// The package contains types, defaults, validation markers, and the names that are part of the API (labels,
// annotations, conditions, reasons). It has two functions, which depend on the spec only: the AMI family and the
// hash.
//
// Invariants: a field is never renamed, and its type and default never change, without a new API version. The Go
// names below EC2NodeClassSpec and the order of its fields do not change either, because EC2NodeClassSpec.Hash
// depends on them.
//
// Run `make gen` after a change. Start reading at EC2NodeClass.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
package v1
