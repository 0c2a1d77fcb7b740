// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// answers is an API server that gives the same answers again and again, and counts who asked for what.
type answers struct {
	mu     sync.Mutex
	texts  map[string]string // by path
	errors map[string]error  // by path
	asked  map[string]int    // by path
}

func (a *answers) Read(_ context.Context, path string, _ url.Values) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[path]++
	if err := a.errors[path]; err != nil {
		return nil, err
	}
	text, ok := a.texts[path]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
	}
	return []byte(text), nil
}

func (a *answers) Patch(context.Context, string, []byte) error {
	return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
}

// requests returns how many requests were made since it was called last.
func (a *answers) requests() (n int, which string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for path, k := range a.asked {
		n += k
		which += fmt.Sprintf("\n%d %s", k, path)
	}
	clear(a.asked)
	return n, which
}

const (
	core  = "/apis/cluster.x-k8s.io"
	infra = "/apis/infrastructure.cluster.x-k8s.io"
)

// managedFields is as much of them as a Machine has.
var managedFields = `[{"manager":"manager","operation":"Update","apiVersion":"cluster.x-k8s.io/v1beta2","time":"2026-11-27T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{` +
	strings.TrimSuffix(strings.Repeat(`"f:metadata":{"f:annotations":{".":{},"f:cluster.x-k8s.io/cloned-from-name":{}},"f:finalizers":{".":{}}},`, 20), ",") + `}}]`

// fleet is a cluster of some groups that have some machines each, all of which Dovetail launched.
func fleet(groups, each int) (*answers, nodegroups.Records) {
	a := &answers{asked: map[string]int{}, texts: map[string]string{
		core:  `{"versions":[{"version":"v1beta2"},{"version":"v1beta1"}],"preferredVersion":{"version":"v1beta2"}}`,
		infra: `{"versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}`,
	}}
	at := core + "/v1beta2/namespaces/default/"
	a.texts[at+"clusters/workload"] = `{"metadata":{"name":"workload"}}`
	a.texts[at+"machinesets"], a.texts[at+"machinepools"] = `{"items":[]}`, `{"items":[]}`
	var deployments, machines []string
	record := map[string]any{}
	for g := range groups {
		name := fmt.Sprintf("group-%02d", g)
		d := fmt.Sprintf(`{"metadata":{"name":%[1]q,"uid":%[1]q,"labels":{"cluster.x-k8s.io/cluster-name":"workload"},"managedFields":%[2]s,"annotations":{
			"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size":"0","cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"100","dovetail.sh/price-per-hour":"0.%02[3]d"}},
			"spec":{"replicas":%[4]d,"template":{"spec":{"failureDomain":"z1","infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"KwokMachineTemplate","name":%[1]q}}}}}`, name, managedFields, g+10, each)
		deployments = append(deployments, d)
		a.texts[at+"machinedeployments/"+name] = d
		a.texts[infra+"/v1/namespaces/default/kwokmachinetemplates/"+name] = `{"spec":{"template":{"spec":{"instanceType":"type-` + name + `"}}},"status":{"capacity":{"cpu":"4","memory":"16Gi"}}}`
		owned := map[string]any{}
		for m := range each {
			id := fmt.Sprintf("kwok://%s-%d", name, m)
			machines = append(machines, fmt.Sprintf(`{"metadata":{"name":"%[1]s-%[2]d","uid":"%[1]s-%[2]d","labels":{"cluster.x-k8s.io/cluster-name":"workload","cluster.x-k8s.io/deployment-name":%[1]q},"managedFields":%[3]s},
				"spec":{"providerID":%[4]q,"bootstrap":{"dataSecretName":"none"}},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","reason":"Ready"},{"type":"Available","status":"True","reason":"Available"}]}}`, name, m, managedFields, id))
			owned[id] = map[string]any{"uid": id, "name": id, "launched": 1}
		}
		record[name] = map[string]any{"owned": owned}
	}
	a.texts[at+"machinedeployments"] = `{"items":[` + strings.Join(deployments, ",") + `]}`
	a.texts[at+"machines"] = `{"items":[` + strings.Join(machines, ",") + `]}`
	text, err := json.Marshal(map[string]any{"groups": record})
	if err != nil {
		panic(err) // plain values
	}
	kept := &cloudtest.Record{}
	if _, err := kept.Swap(context.Background(), "", string(text)); err != nil {
		panic(err) // a record in memory
	}
	return a, kept
}

func groupClass() cloud.NodeClass {
	return cloud.NodeClass{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass, Name: "groups", Spec: []byte(`{"selectorTerms":[{"name":"*"}]}`)}
}

// steppedClock is a clock that stands until it is moved.
type steppedClock struct {
	cloud.Wall
	mu  sync.Mutex
	now time.Time
}

func (c *steppedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *steppedClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// refresher makes a provider of a fleet, and a function that reads all of it anew.
func refresher(tb testing.TB, a *answers, kept nodegroups.Records, groups, machines int) func() {
	clock := &steppedClock{now: time.Unix(1_800_000_000, 0)}
	p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, a, kept, state.New().Resources(), clock, slog.New(slog.NewTextHandler(io.Discard, nil)))
	return func() {
		clock.add(11 * time.Second)
		types, err := p.Offerings(context.Background(), nil, groupClass())
		if err != nil || len(types) != groups {
			tb.Fatalf("%d types are offered, %v; want %d", len(types), err, groups)
		}
		list, err := p.List(context.Background())
		if err != nil || len(list) != machines {
			tb.Fatalf("%d machines are listed, %v; want %d", len(list), err, machines)
		}
	}
}

// TestReadsPerRefresh: groups with their sizes take four requests, and machines five, however many there are. Templates are read now and then.
func TestReadsPerRefresh(t *testing.T) {
	a, kept := fleet(60, 17)
	refresh := refresher(t, a, kept, 60, 60*17)
	refresh()
	// Those who ask at the same time at first, 16 at most, all ask for the versions.
	if n, which := a.requests(); n < 2+60+9 || n > 2+60+9+16 {
		t.Errorf("the first refresh takes %d requests, want one for each API group, one for each template and nine:%s", n, which)
	}
	refresh()
	if n, which := a.requests(); n != 9 {
		t.Errorf("a refresh takes %d requests, want 9:%s", n, which)
	}
}

// BenchmarkRefresh reads 60 groups with 1,020 machines, as the provider does every ten seconds.
func BenchmarkRefresh(b *testing.B) {
	a, kept := fleet(60, 17)
	refresh := refresher(b, a, kept, 60, 60*17)
	refresh()
	b.ReportAllocs()
	for b.Loop() {
		refresh()
	}
}

// TestRollingOut: a group is left alone while its Machines are replaced, not when kubelets tell another version than the template: Cluster API says
// RollingOut then too, for good.
func TestRollingOut(t *testing.T) {
	version := "* Node.status.nodeInfo.kubeletVersion v1.37.2+k3s1, v1.37.2 required"
	for _, c := range []struct {
		status string
		want   bool
	}{
		{`{"replicas":1}`, false},
		{`{"conditions":[{"type":"RollingOut","status":"False"}]}`, false},
		{`{"conditions":[{"type":"RollingOut","status":"True","message":"Rolling out 1 not up-to-date replicas\n* KwokMachine is not up-to-date"}]}`, true},
		{`{"conditions":[{"type":"RollingOut","status":"True","message":"Rolling out 1 not up-to-date replicas"}]}`, true},
		{`{"conditions":[{"type":"RollingOut","status":"True"}]}`, true},
		{`{"conditions":[{"type":"RollingOut","status":"True","message":"Rolling out 1 not up-to-date replicas\n` + version + `"}]}`, false},
		{`{"conditions":[{"type":"RollingOut","status":"True","message":"Rolling out 2 not up-to-date replicas\n* Version v1.37.1, v1.37.2 required\n` + version + `"}]}`, true},
		{`{"replicas":3,"updatedReplicas":2}`, true},
		{`{"replicas":3,"updatedReplicas":3}`, false},
	} {
		a, kept := fleet(1, 1)
		at := core + "/v1beta2/namespaces/default/machinedeployments"
		a.texts[at] = strings.Replace(a.texts[at], `"spec":{"replicas"`, `"status":`+c.status+`,"spec":{"replicas"`, 1)
		p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, a, kept, state.New().Resources(), cloud.Wall{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		status, err := p.ClassStatus(t.Context(), groupClass())
		if err != nil {
			t.Fatal(err)
		}
		said := status.Conditions[dovetailv1alpha1.ConditionUndisturbed]
		if (said.Status == "False") != c.want {
			t.Errorf("status %s: the condition is %+v, want that it is rolling out: %t", c.status, said, c.want)
		}
	}
}
