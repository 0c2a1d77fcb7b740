// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package clusterapitest provides an in-memory management cluster with immutable objects, for tests and benchmarks
// that read one. Start reading at Fleet.
package clusterapitest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Answers is an API server with constant responses that counts requests.
type Answers struct {
	Texts  map[string]string // by path
	Errors map[string]error  // by path

	mu    sync.Mutex
	asked map[string]int // by path
}

// Read implements clusterapi.API.
func (a *Answers) Read(_ context.Context, path string, _ url.Values) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[path]++
	if err := a.Errors[path]; err != nil {
		return nil, err
	}
	text, ok := a.Texts[path]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	return []byte(text), nil
}

// Patch implements clusterapi.API. It always fails.
func (a *Answers) Patch(context.Context, string, []byte) error {
	return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
}

// Requests returns the number of requests since the last call, and their paths.
func (a *Answers) Requests() (n int, which string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for path, k := range a.asked {
		n += k
		which += fmt.Sprintf("\n%d %s", k, path)
	}
	clear(a.asked)
	return n, which
}

// Paths of API groups.
const (
	Core  = "/apis/cluster.x-k8s.io"
	Infra = "/apis/infrastructure.cluster.x-k8s.io"
)

// managedFields is as much of them as a Machine has.
var managedFields = `[{"manager":"manager","operation":"Update","apiVersion":"cluster.x-k8s.io/v1beta2","time":"2026-11-27T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{` +
	strings.TrimSuffix(strings.Repeat(`"f:metadata":{"f:annotations":{".":{},"f:cluster.x-k8s.io/cloned-from-name":{}},"f:finalizers":{".":{}}},`, 20), ",") + `}}]`

// Fleet returns an API server with Cluster default/workload and the given number of MachineDeployments (group-00,
// group-01, …), each with the given number of Machines. record is a provider record that says Dovetail launched the
// Machines for NodeClaims default-00000, default-00001, …. The UID of each NodeClaim equals its name.
func Fleet(groups, each int) (a *Answers, record string) {
	a = &Answers{asked: map[string]int{}, Texts: map[string]string{
		Core:  `{"versions":[{"version":"v1beta2"},{"version":"v1beta1"}],"preferredVersion":{"version":"v1beta2"}}`,
		Infra: `{"versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}`,
	}}
	at := Core + "/v1beta2/namespaces/default/"
	a.Texts[at+"clusters/workload"] = `{"metadata":{"name":"workload"}}`
	a.Texts[at+"machinesets"], a.Texts[at+"machinepools"] = `{"items":[]}`, `{"items":[]}`
	var deployments, machines []string
	launched := map[string]any{}
	for g := range groups {
		name := fmt.Sprintf("group-%02d", g)
		d := fmt.Sprintf(`{"metadata":{"name":%[1]q,"uid":%[1]q,"labels":{"cluster.x-k8s.io/cluster-name":"workload"},"managedFields":%[2]s,"annotations":{
			"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size":"0","cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"100","dovetail.sh/price-per-hour":"0.%02[3]d"}},
			"spec":{"replicas":%[4]d,"template":{"spec":{"failureDomain":"z1","infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"KwokMachineTemplate","name":%[1]q}}}}}`, name, managedFields, g+10, each)
		deployments = append(deployments, d)
		a.Texts[at+"machinedeployments/"+name] = d
		a.Texts[Infra+"/v1/namespaces/default/kwokmachinetemplates/"+name] = `{"spec":{"template":{"spec":{"instanceType":"type-` + name + `"}}},"status":{"capacity":{"cpu":"4","memory":"16Gi"}}}`
		owned := map[string]any{}
		for m := range each {
			id := fmt.Sprintf("kwok://%s-%d", name, m)
			machines = append(machines, fmt.Sprintf(`{"metadata":{"name":"%[1]s-%[2]d","uid":"%[1]s-%[2]d","labels":{"cluster.x-k8s.io/cluster-name":"workload","cluster.x-k8s.io/deployment-name":%[1]q},"managedFields":%[3]s},
				"spec":{"providerID":%[4]q,"bootstrap":{"dataSecretName":"none"}},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","reason":"Ready"},{"type":"Available","status":"True","reason":"Available"}]}}`, name, m, managedFields, id))
			claim := fmt.Sprintf("default-%05d", g*each+m)
			owned[id] = map[string]any{"uid": claim, "name": claim, "launched": 1}
		}
		launched[name] = map[string]any{"owned": owned}
	}
	a.Texts[at+"machinedeployments"] = `{"items":[` + strings.Join(deployments, ",") + `]}`
	a.Texts[at+"machines"] = `{"items":[` + strings.Join(machines, ",") + `]}`
	text, err := json.Marshal(map[string]any{"groups": launched})
	if err != nil {
		panic(err) // plain values
	}
	return a, string(text)
}
