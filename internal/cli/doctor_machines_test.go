// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi/clusterapitest"
	"github.com/dovetail-sh/dovetail/internal/doctor"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestPriceMachines: a node of Cluster API has the price, type and zone that its MachineDeployment says, if it says none itself. What can't be read is noted.
func TestPriceMachines(t *testing.T) {
	a, _ := clusterapitest.Fleet(2, 1)
	const machines = clusterapitest.Core + "/v1beta2/namespaces/default/machines"
	a.Texts[machines] = regexp.MustCompile(`(?s)"name":"(group-[0-9]+-[0-9]+)"(.*?)"phase":"Running",`).ReplaceAllString(a.Texts[machines], `"name":"$1"$2"phase":"Running","nodeRef":{"name":"$1"},`)
	node := func(name, labels, annotations string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {%s}, annotations: {%s}}\n---\n", name, labels, annotations)
	}
	const of = "cluster.x-k8s.io/cluster-name: workload, cluster.x-k8s.io/cluster-namespace: default"
	m := manifests.New()
	if err := readFiles(m, []string{"-"}, strings.NewReader(node("group-00-0", "", of)+node("group-01-0", "node.kubernetes.io/instance-type: own", of+", dovetail.sh/price-per-hour: '7'")+node("other", "", ""))); err != nil {
		t.Fatal(err)
	}
	var in doctor.Input
	priceMachines(t.Context(), a, m, &in)
	have := map[string]string{}
	for _, n := range m.Nodes() {
		have[n.Name] = strings.Join([]string{n.Annotations[model.AnnotationPrice], n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone]}, " ")
	}
	if want := fmt.Sprint(map[string]string{"group-00-0": "0.10 type-group-00 z1", "group-01-0": "7 own ", "other": "  "}); fmt.Sprint(have) != want || len(in.Denied) > 0 {
		t.Errorf("have %v, denied %v; want %v", have, in.Denied, want)
	}
	a.Errors = map[string]error{machines: fmt.Errorf("no answer")}
	priceMachines(t.Context(), a, m, &in)
	if len(in.Denied) != 1 || in.Denied[0].Resource != "machines" {
		t.Errorf("denied %v, want the machines", in.Denied)
	}
}
