// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package v1alpha5 contains the API types of karpenter.sh/v1alpha5: Provisioner, the predecessor of NodePool before
// Karpenter v0.33, which many manifests and published walkthroughs still use. Each Provisioner is translated to a
// NodePool that it owns. Its status lists the fields that were translated, and those that were not.
//
// The package contains types, validation markers and names; it does not translate. The defaults of v1alpha5
// (on-demand, amd64, linux) are applied during translation, and never written to the Provisioner. Start reading at
// Provisioner.
//
// +kubebuilder:object:generate=true
// +groupName=karpenter.sh
package v1alpha5
