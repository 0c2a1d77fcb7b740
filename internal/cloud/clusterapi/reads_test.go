// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi/clusterapitest"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// fleet is a cluster of some groups that have some machines each, all of which Dovetail launched.
func fleet(groups, each int) (*clusterapitest.Answers, nodegroups.Records) {
	a, record := clusterapitest.Fleet(groups, each)
	kept := &cloudtest.Record{}
	if _, err := kept.Swap(context.Background(), "", record); err != nil {
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
func refresher(tb testing.TB, a *clusterapitest.Answers, kept nodegroups.Records, groups, machines int) func() {
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
	if n, which := a.Requests(); n < 2+60+9 || n > 2+60+9+16 {
		t.Errorf("the first refresh takes %d requests, want one for each API group, one for each template and nine:%s", n, which)
	}
	refresh()
	if n, which := a.Requests(); n != 9 {
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

// patches is a management cluster that accepts changes, makes none, and remembers of which objects.
type patches struct {
	*clusterapitest.Answers
	mu   sync.Mutex
	made []string // paths
}

func (p *patches) Patch(_ context.Context, path string, _ []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = append(p.made, path)
	return nil
}

// TestDrivers: annotations say how many volumes can be attached and which devices a DRA driver will publish. Such devices are a resource only if their type is
// named as well.
func TestDrivers(t *testing.T) {
	const at = clusterapitest.Core + "/v1beta2/namespaces/default/machinedeployments"
	const capacity = "capacity.cluster-autoscaler.kubernetes.io/"
	for _, c := range []struct {
		annotations string
		csi, gpus   map[string]int64
		resource    bool
	}{
		{`"` + capacity + `csi-driver":"ebs.csi.aws.com=25, disk.csi.azure.com=4"`, map[string]int64{"ebs.csi.aws.com": 25, "disk.csi.azure.com": 4}, nil, false},
		{`"` + capacity + `gpu-count":"2"`, nil, nil, true},
		{`"` + capacity + `gpu-count":"2","` + capacity + `dra-driver":"gpu.nvidia.com"`, nil, map[string]int64{"gpu.nvidia.com": 2}, false},
		{`"` + capacity + `gpu-count":"2","` + capacity + `dra-driver":"gpu.nvidia.com","` + capacity + `gpu-type":"nvidia.com/gpu"`, nil, map[string]int64{"gpu.nvidia.com": 2}, true},
		{`"` + capacity + `dra-driver":"gpu.nvidia.com"`, nil, nil, false},
	} {
		a, kept := fleet(1, 0)
		a.Texts[at] = strings.Replace(a.Texts[at], `"annotations":{`, `"annotations":{`+c.annotations+`,`, 1)
		resources := state.New().Resources()
		p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, a, kept, resources, cloud.Wall{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		types, err := p.Offerings(t.Context(), nil, groupClass())
		if err != nil || len(types) != 1 {
			t.Fatalf("%s: have %v, %v; want one type", c.annotations, types, err)
		}
		if have := types[0]; !maps.Equal(have.CSILimits, c.csi) || !maps.Equal(have.DriverGPUs, c.gpus) || have.Capacity.At(resources.Dim("nvidia.com/gpu")) > 0 != c.resource {
			t.Errorf("%s: limits %v, devices %v, capacity %v; want %v, %v, and a resource: %t", c.annotations, have.CSILimits, have.DriverGPUs, have.Capacity, c.csi, c.gpus, c.resource)
		}
	}
}

// TestFailedMachines: of two Machines that have failed and that no claim has, the one that never had a node is removed. The other is left to be adopted:
// pods may be on its node.
func TestFailedMachines(t *testing.T) {
	const at = clusterapitest.Core + "/v1beta2/namespaces/default/machines"
	for _, failed := range []string{`"phase":"Failed"`, `"phase":"Running","failureReason":"UpdateError"`} {
		a, _ := clusterapitest.Fleet(1, 2)
		machines := strings.Split(a.Texts[at], `"phase":"Running"`)
		a.Texts[at] = machines[0] + failed + machines[1] + failed + `,"nodeRef":{"name":"group-00-1"}` + machines[2]
		kept := &cloudtest.Record{}
		if _, err := kept.Swap(t.Context(), "", `{"groups":{"group-00":{}}}`); err != nil {
			t.Fatal(err)
		}
		api := &patches{Answers: a}
		p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, api, kept, state.New().Resources(), cloud.Wall{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if _, err := p.Offerings(t.Context(), nil, groupClass()); err != nil {
			t.Fatal(err)
		}
		list, err := p.List(t.Context())
		if err != nil || len(list) != 1 || list[0].ProviderID != "kwok://group-00-1" || list[0].Class != "groups" {
			t.Errorf("%s: have %v, %v; want the Machine that has a node, to be adopted", failed, list, err)
		}
		group := strings.Replace(at, "machines", "machinedeployments", 1) + "/group-00"
		if have, want := strings.Join(api.made, " "), at+"/group-00-0 "+group; have != want {
			t.Errorf("%s: changes of %q, want %q: the Machine that never had a node is removed", failed, have, want)
		}
		res := p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "adopts", ClaimUID: "adopts", Class: groupClass(), Annotations: map[string]string{dovetailv1alpha1.AnnotationAdopt: list[0].ProviderID}}})[0]
		if res.Err != nil || res.ProviderID != list[0].ProviderID {
			t.Errorf("%s: have %+v, want that the claim has the Machine", failed, res)
		}
		api.made = nil
		if err := p.Terminate(t.Context(), []string{list[0].ProviderID})[0]; err != nil {
			t.Error(err)
		}
		if have, want := strings.Join(api.made, " "), at+"/group-00-1 "+group; have != want {
			t.Errorf("%s: changes of %q, want %q: the adopted Machine is removed", failed, have, want)
		}
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
		at := clusterapitest.Core + "/v1beta2/namespaces/default/machinedeployments"
		a.Texts[at] = strings.Replace(a.Texts[at], `"spec":{"replicas"`, `"status":`+c.status+`,"spec":{"replicas"`, 1)
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

// TestStalledRollout: a Machine of a group that rolls out has no node. From a while on nothing more is launched in the group, which is said, and other groups are used.
// A group that does not roll out is left to the claims that wait for it.
func TestStalledRollout(t *testing.T) {
	const at = clusterapitest.Core + "/v1beta2/namespaces/default/"
	for _, c := range []struct {
		name, status, machine string
		age                   time.Duration
		blocked               bool
	}{
		{"it may join yet", `"updatedReplicas":1,"replicas":2`, ``, 14 * time.Minute, false},
		{"it has not joined", `"updatedReplicas":1,"replicas":2`, ``, 16 * time.Minute, true},
		{"it has joined", `"updatedReplicas":1,"replicas":2`, `"nodeRef":{"name":"n"},`, time.Hour, false},
		{"it has failed", `"updatedReplicas":1,"replicas":2`, `"failureReason":"x",`, time.Hour, false},
		{"there is no rollout", `"updatedReplicas":2,"replicas":2`, ``, time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, kept := fleet(2, 1)
			clock := &steppedClock{now: time.Unix(1_800_000_000, 0)}
			created := clock.now.Add(-c.age).UTC().Format(time.RFC3339)
			a.Texts[at+"machinedeployments"] = strings.Replace(a.Texts[at+"machinedeployments"], `"spec":{"replicas"`, `"status":{`+c.status+`},"spec":{"replicas"`, 1)
			a.Texts[at+"machines"] = strings.Replace(a.Texts[at+"machines"], `"name":"group-00-0",`, `"name":"group-00-0","creationTimestamp":"`+created+`",`, 1)
			a.Texts[at+"machines"] = strings.Replace(a.Texts[at+"machines"], `"status":{`, `"status":{`+c.machine, 1)
			p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, a, kept, state.New().Resources(), clock, slog.New(slog.NewTextHandler(io.Discard, nil)))
			if _, err := p.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			types, err := p.Offerings(t.Context(), nil, groupClass())
			if want := 2; err != nil || c.blocked && len(types) != want-1 || !c.blocked && len(types) != want {
				t.Errorf("%d types are offered, %v; group-00 is to be blocked: %t", len(types), err, c.blocked)
			}
			status, err := p.ClassStatus(t.Context(), groupClass())
			if err != nil {
				t.Fatal(err)
			}
			if said := status.Conditions[dovetailv1alpha1.ConditionLaunchable]; strings.Contains(said.Message, "Machine default/group-00-0 has had no node for 15 minutes") != c.blocked {
				t.Errorf("the condition is %+v, want that it names the Machine: %t", said, c.blocked)
			}
		})
	}
}
