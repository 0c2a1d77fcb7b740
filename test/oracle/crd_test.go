// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package oracle

import (
	"os"
	"path/filepath"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	karpenterapis "sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/yaml"
)

// kind is a kind that both serve, or that only Dovetail does.
type kind struct {
	name   string
	file   string
	theirs []byte
}

func kinds(t *testing.T) []kind {
	t.Helper()
	return []kind{
		{"NodePool", "karpenter.sh_nodepools.yaml", karpenterapis.NodePoolCRD},
		{"NodeClaim", "karpenter.sh_nodeclaims.yaml", karpenterapis.NodeClaimCRD},
		{"KWOKNodeClass", "karpenter.kwok.sh_kwoknodeclasses.yaml", kwokapis.KWOKNodeClassCRD},
		{"NodeOverlay", "karpenter.sh_nodeoverlays.yaml", karpenterapis.NodeOverlayCRD},
		{"CapacityBuffer", "autoscaling.x-k8s.io_capacitybuffers.yaml", karpenterapis.CapacityBufferCRD},
		// Karpenter v1.15 serves no Provisioner any more; its cases record our verdicts alone.
		{"Provisioner", "karpenter.sh_provisioners.yaml", nil},
		{"EC2NodeClass", "karpenter.k8s.aws_ec2nodeclasses.yaml", karpenterAWSFile(t, "pkg/apis/crds/karpenter.k8s.aws_ec2nodeclasses.yaml")},
	}
}

func sharedKinds(t *testing.T) []kind {
	t.Helper()
	var shared []kind
	for _, k := range kinds(t) {
		if k.theirs != nil {
			shared = append(shared, k)
		}
	}
	if len(shared) != 6 {
		t.Fatalf("%d kinds to compare, want 6", len(shared))
	}
	return shared
}

func (k kind) ourCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "charts", "dovetail", "crds", k.file))
	if err != nil {
		t.Fatal(err)
	}
	return parseCRD(t, b)
}

func (k kind) theirCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return parseCRD(t, k.theirs)
}

func parseCRD(t *testing.T, b []byte) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(b, &crd); err != nil {
		t.Fatal(err)
	}
	if len(crd.Spec.Versions) == 0 || !crd.Spec.Versions[0].Storage {
		t.Fatalf("%s: its first version is not the stored one", crd.Name)
	}
	return &crd
}

// internal is the form of a CustomResourceDefinition that the API server's code works on, defaulted as if created.
func internal(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	crd = crd.DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	var out apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &out, nil); err != nil {
		t.Fatal(err)
	}
	out.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	return &out
}

// An API server takes the definitions: they are structural, their defaults valid, and their rules compile within its cost limits.
func TestDefinitionsAreAccepted(t *testing.T) {
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) {
			errs := validation.ValidateCustomResourceDefinition(t.Context(), internal(t, k.ourCRD(t)))
			for _, err := range errs {
				t.Error(err)
			}
		})
	}
}
