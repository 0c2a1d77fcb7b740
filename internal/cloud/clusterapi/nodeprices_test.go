// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi/clusterapitest"
)

// TestNodeOffers: each node has the price of its MachineDeployment, and one without a label for its type that of the template; a group without a price says nothing, and a management cluster that is another one is
// no error.
func TestNodeOffers(t *testing.T) {
	const at = clusterapitest.Core + "/v1beta2/namespaces/default/"
	a, _ := clusterapitest.Fleet(3, 2)
	of := clusterapi.ClusterOf(map[string]string{"cluster.x-k8s.io/cluster-name": "workload", "cluster.x-k8s.io/cluster-namespace": "default"})
	a.Texts[at+"machinedeployments"] = strings.Replace(a.Texts[at+"machinedeployments"], "dovetail.sh/price-per-hour", "other", 1)
	a.Texts[at+"machines"] = regexp.MustCompile(`(?s)"name":"(group-[0-9]+-[0-9]+)"(.*?)"phase":"Running",`).ReplaceAllString(a.Texts[at+"machines"], `"name":"$1"$2"phase":"Running","nodeRef":{"name":"$1"},`)
	untyped := func(node string) bool { return node == "group-00-1" || node == "group-01-1" }
	prices, err := clusterapi.NodeOffers(t.Context(), of, a, untyped)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]clusterapi.NodeOffer{
		"group-00-1": {Type: "type-group-00", Zone: "z1"}, "group-01-0": {Price: "0.11"}, "group-01-1": {Price: "0.11", Type: "type-group-01", Zone: "z1"}, "group-02-0": {Price: "0.12"}, "group-02-1": {Price: "0.12"},
	}; !maps.Equal(prices, want) {
		t.Errorf("have %+v, want %+v", prices, want)
	}
	if n, which := a.Requests(); n != 8 {
		t.Errorf("%d requests, want one for each resource, API group, and template that is asked for:%s", n, which)
	}
	a.Errors = map[string]error{at + "machines": apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", nil)}
	if prices, err := clusterapi.NodeOffers(t.Context(), of, a, untyped); err == nil {
		t.Errorf("have %v, want an error", prices)
	}
	a.Errors = map[string]error{clusterapitest.Core: apierrors.NewNotFound(schema.GroupResource{}, "cluster.x-k8s.io")}
	if prices, err := clusterapi.NodeOffers(t.Context(), of, a, untyped); err != nil || prices != nil {
		t.Errorf("have %v, %v; want nothing of a cluster without Cluster API", prices, err)
	}
	if got := clusterapi.ClusterOf(map[string]string{"cluster.x-k8s.io/cluster-name": "workload"}); got != (clusterapi.Config{}) {
		t.Errorf("have %v, want no Cluster without a namespace", got)
	}
}
