// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi_test

import (
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi/clusterapitest"
)

// TestNodePrices: each node has the price of its MachineDeployment; a group without a price says nothing, and a management cluster that is another one is
// no error.
func TestNodePrices(t *testing.T) {
	const at = clusterapitest.Core + "/v1beta2/namespaces/default/"
	a, _ := clusterapitest.Fleet(3, 2)
	of := clusterapi.ClusterOf(map[string]string{"cluster.x-k8s.io/cluster-name": "workload", "cluster.x-k8s.io/cluster-namespace": "default"})
	a.Texts[at+"machinedeployments"] = strings.Replace(a.Texts[at+"machinedeployments"], "dovetail.sh/price-per-hour", "other", 1)
	a.Texts[at+"machines"] = regexp.MustCompile(`(?s)"name":"(group-[0-9]+-[0-9]+)"(.*?)"phase":"Running",`).ReplaceAllString(a.Texts[at+"machines"], `"name":"$1"$2"phase":"Running","nodeRef":{"name":"$1"},`)
	prices, err := clusterapi.NodePrices(t.Context(), of, a)
	if err != nil {
		t.Fatal(err)
	}
	different := map[string]bool{}
	for _, p := range prices {
		different[p] = true
	}
	if len(prices) != 4 || len(different) != 2 {
		t.Errorf("have %v, want the prices of 4 nodes of two groups", prices)
	}
	if n, which := a.Requests(); n != 5 {
		t.Errorf("%d requests, want one for each resource and one for the version:%s", n, which)
	}
	a.Errors = map[string]error{at + "machines": apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", nil)}
	if prices, err := clusterapi.NodePrices(t.Context(), of, a); err == nil {
		t.Errorf("have %v, want an error", prices)
	}
	a.Errors = map[string]error{clusterapitest.Core: apierrors.NewNotFound(schema.GroupResource{}, "cluster.x-k8s.io")}
	if prices, err := clusterapi.NodePrices(t.Context(), of, a); err != nil || prices != nil {
		t.Errorf("have %v, %v; want nothing of a cluster without Cluster API", prices, err)
	}
	if got := clusterapi.ClusterOf(map[string]string{"cluster.x-k8s.io/cluster-name": "workload"}); got != (clusterapi.Config{}) {
		t.Errorf("have %v, want no Cluster without a namespace", got)
	}
}
