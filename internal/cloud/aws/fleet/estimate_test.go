// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"encoding/json"
	"slices"
	"testing"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestEstimateOfDefaults shows that a class that says nothing of sizes has nodes of the catalog's sizes: what a pool without a class in
// the input is planned with.
func TestEstimateOfDefaults(t *testing.T) {
	cat, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	table := &goldenTable{model.FixedNames()}
	spec, err := json.Marshal(awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}, Role: "r"})
	if err != nil {
		t.Fatal(err)
	}
	e := NewEstimator(cat, table)
	est, err := e.Offerings(t.Context(), &model.NodePool{}, cloud.NodeClass{Group: awsv1.Group, Kind: awsv1.KindEC2NodeClass, Name: "default", Spec: spec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := cat.InstanceTypes(table.Dim)
	if len(est.Types) < len(want)*9/10 {
		t.Fatalf("%d of %d types are offered", len(est.Types), len(want))
	}
	for _, have := range est.Types {
		i := slices.IndexFunc(want, func(x *model.InstanceType) bool { return x.Name == have.Name })
		if x := want[i]; !x.Allocatable.Fits(have.Allocatable) || !have.Allocatable.Fits(x.Allocatable) || len(x.Offerings) != len(have.Offerings) {
			t.Errorf("%s: %s in %d offerings, the catalog has %s in %d", have.Name, have.Allocatable.Format(table.names), len(have.Offerings), x.Allocatable.Format(table.names), len(x.Offerings))
		}
	}
}
