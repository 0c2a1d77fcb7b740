// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha5 is the wire form of karpenter.sh/v1alpha5: Provisioner, the NodePool of Karpenter before v0.33, which many
// manifests and articles still show.
//
// A Provisioner is translated to a NodePool that it owns; its status says what came over and what could not. The package holds
// types, validation markers and names. The translation is done elsewhere, and v1alpha5's defaults (on-demand, amd64, linux where
// the Provisioner says nothing) are applied there too, never written back into the object.
//
// Start reading at Provisioner.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha5
