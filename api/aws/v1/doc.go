// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1 is the wire form of karpenter.k8s.aws/v1: EC2NodeClass, the settings of machines that are bought from EC2.
//
// The types carry the same JSON as Karpenter's AWS provider, so that an object written for one is read by the other.
// The package holds types, defaults, validation markers, the names (labels, annotations, conditions, reasons) that are part of the
// interface, and two functions of the spec alone: its image family and its hash. It decides nothing.
//
// Invariants: a field is never renamed, retyped or given another default without a new version; the Go names below EC2NodeClassSpec
// and the order of fields are fixed too, because EC2NodeClassSpec.Hash depends on them. After a change here run `make gen`.
//
// Start reading at EC2NodeClass.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.k8s.aws
package v1
