// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// faultyAPI is the API of a management cluster that can be made to misbehave.
type faultyAPI struct {
	*client.Client
	mu       sync.Mutex
	throttle time.Duration                    // what the next request is told to wait for
	lose     bool                             // the answer to the next change is lost
	hang     chan struct{}                    // all requests wait until it is closed
	fail     func() (before bool, after bool) // asked at each change: whether it is lost, or its answer
}

var errLost = errors.New("connection reset by peer")

func (f *faultyAPI) enter(ctx context.Context) error {
	f.mu.Lock()
	hang, after := f.hang, f.throttle
	f.throttle = 0
	f.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if after > 0 {
		return &nodegroups.CallError{Kind: cloud.Throttled, After: after, Err: errors.New("slow down")}
	}
	return nil
}

func (f *faultyAPI) Read(ctx context.Context, path string, query url.Values) ([]byte, error) {
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	return f.Client.Read(ctx, path, query)
}

func (f *faultyAPI) Patch(ctx context.Context, path string, patch []byte) error {
	if err := f.enter(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	lose, before := f.lose && bytes.Contains(patch, []byte(`"replicas"`)), false // a mark alone has no effect
	f.lose = f.lose && !lose
	if f.fail != nil {
		before, lose = f.fail()
	}
	f.mu.Unlock()
	if before {
		return errLost
	}
	err := f.Client.Patch(ctx, path, patch)
	if lose {
		return errLost
	}
	return err
}

// capiWorld is a namespace with a Cluster, its Machines, a record, and providers that use them.
type capiWorld struct {
	*machinePlayer
	faults *faultyAPI
	record *cloudtest.Record
}

func newCAPIWorld(t *testing.T, s *sandbox.Sandbox, namespace string) *capiWorld {
	p := playMachines(t, s, namespace)
	return &capiWorld{p, &faultyAPI{Client: p.api}, &cloudtest.Record{}}
}

func (w *capiWorld) provider() *nodegroups.Provider {
	return clusterapi.New(clusterapi.Config{Namespace: w.namespace, Name: "workload"}, w.faults, w.record, state.New().Resources(), cloud.Wall{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
}

func capiClass() cloud.NodeClass {
	return cloud.NodeClass{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass, Name: "groups", UID: "class-uid", Generation: 1, Spec: []byte(`{"selectorTerms":[{"name":"*"}]}`)}
}

// launch asks for a claim's machine until it has come.
func (w *capiWorld) launch(p cloud.Provider, uid string, types ...string) (id string) {
	w.t.Helper()
	testwait.UntilFor(w.t, testwait.Limit, "the machine of "+uid+" has come", func() error {
		res := p.Launch(w.t.Context(), []cloud.LaunchRequest{{ClaimName: "claim-" + uid, ClaimUID: uid, Class: capiClass(), Types: types}})[0]
		if id = res.ProviderID; res.Err == nil && id == "" {
			return errors.New("it has not")
		}
		return res.Err
	})
	return id
}

// TestClusterAPIContract runs the contract of providers against a real API server with the CRDs of Cluster API, then what is particular to it.
func TestClusterAPIContract(t *testing.T) {
	t.Parallel()
	verifyOnly(t)
	s := own(t, "--no-autoscaler")
	applyClusterAPI(t, s)
	n := 0
	next := func(t *testing.T) *capiWorld {
		n++
		return newCAPIWorld(t, s, fmt.Sprintf("capi-%d", n))
	}
	cloudtest.Run(t, func(t *testing.T) cloudtest.Harness {
		w := next(t)
		for i, name := range []string{"large", "medium", "small"} {
			for j, zone := range []string{"a", "b"} {
				cpus := 16 >> (2 * i)
				for capacity, price := range map[string]float64{model.OnDemand: 0.05, model.Spot: 0.02} {
					w.addGroup("MachineDeployment", name+"-"+zone+"-"+capacity, cpus, map[string]string{model.LabelInstanceType: name, model.LabelZone: zone, model.LabelCapacityType: capacity},
						"dovetail.sh/price-per-hour", fmt.Sprint(float64(cpus)*price+float64(j)*0.001))
				}
			}
		}
		f := w.faults
		set := func(change func()) { f.mu.Lock(); defer f.mu.Unlock(); change() }
		return cloudtest.Harness{
			Provider: w.provider(), Pool: &model.NodePool{Name: "default"}, Class: capiClass(), Another: func() cloud.Provider { return w.provider() }, Later: true, NoImages: true,
			Launches: func() map[string]int { return w.record.Launches(w.everMade()) },
			Standing: func() int { return len(w.everMade()) - len(w.everDeleted()) },
			Exhaust: func(keys ...cloud.OfferingKey) {
				w.set(func() {
					clear(w.exhausted)
					for _, k := range keys {
						w.exhausted[k.InstanceType+"-"+k.Zone+"-"+k.CapacityType] = true
					}
				})
			},
			Throttle:  func(after time.Duration) { set(func() { f.throttle = after }) },
			LoseReply: func() { set(func() { f.lose = true }) },
			Hang: func() func() {
				hang := make(chan struct{})
				set(func() { f.hang = hang })
				return func() { set(func() { f.hang = nil }); close(hang) }
			},
			Stray: func(of cloud.LaunchResult) func() int {
				name := of.InstanceType + "-" + of.Zone + "-" + of.CapacityType
				w.set(func() { w.exhausted[name] = true })
				size := func() int { return w.group("machinedeployments", name).Spec.Replicas }
				before := size()
				if err := w.s.Patch(t.Context(), clusterAPI+w.namespace+"/machinedeployments/"+name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, before+1)); err != nil {
					t.Fatal(err)
				}
				return func() int { return size() - before }
			},
			Hold: func() func() {
				w.set(func() { w.hold = true })
				return func() { w.set(func() { w.hold = false }) }
			},
		}
	})
	t.Run("exactly the machines that were decided go", func(t *testing.T) { removesExactly(t, next(t)) })
	t.Run("what is paused or said wrongly is left alone", func(t *testing.T) { leavesAlone(t, next(t)) })
}

// removesExactly: changes are lost, or their answers, and another process goes on each time: the machines that were decided go, and no other does. So it
// is if somebody else deletes a Machine meanwhile.
func removesExactly(t *testing.T, w *capiWorld) {
	w.addGroup("MachineDeployment", "first", 4, map[string]string{model.LabelInstanceType: "first"})
	w.addGroup("MachineSet", "second", 4, map[string]string{model.LabelInstanceType: "second"})
	w.addInfrastructure("played")
	w.addGroup("MachinePool", "third", 4, map[string]string{model.LabelInstanceType: "third"})
	p := w.provider()
	ids := map[string]string{}
	var launching sync.WaitGroup
	var mu sync.Mutex
	for _, group := range []string{"first", "second", "third"} {
		for i := range 6 {
			launching.Go(func() {
				uid := fmt.Sprintf("%s-%d", group, i)
				id := w.launch(p, uid, group)
				mu.Lock()
				defer mu.Unlock()
				ids[uid] = id
			})
		}
	}
	launching.Wait()
	rng := rand.New(rand.NewPCG(7, 7))
	w.faults.mu.Lock()
	w.faults.fail = func() (bool, bool) { return rng.IntN(3) == 0, rng.IntN(3) == 0 }
	w.faults.mu.Unlock()
	var gone []string
	end := func(uids ...string) {
		t.Helper()
		for _, uid := range uids {
			gone = append(gone, ids[uid])
			testwait.UntilFor(t, testwait.Limit, "machine "+uid+" ends", func() error {
				err := w.provider().Terminate(t.Context(), []string{ids[uid]})[0]
				if cloud.KindOf(err) == cloud.NotFound {
					return nil
				}
				return err
			})
		}
	}
	end("first-3", "second-0", "third-2")
	machine := strings.TrimPrefix(ids["first-5"], "played://"+w.namespace+"/")
	gone = append(gone, ids["first-5"])
	if err := w.s.Delete(t.Context(), clusterAPI+w.namespace+"/machines/"+machine, ""); err != nil {
		t.Fatal(err)
	}
	end("first-1", "second-4", "first-0")
	w.faults.mu.Lock()
	w.faults.fail = nil
	w.faults.mu.Unlock()
	slices.Sort(gone)
	testwait.UntilFor(t, testwait.Limit, "the machines have gone", func() error {
		if _, err := p.List(t.Context()); err != nil {
			return err
		}
		have := slices.Sorted(slices.Values(w.everDeleted()))
		have = slices.Compact(have)
		for _, id := range have {
			if !slices.Contains(gone, id) && slices.Contains(slices.Collect(maps.Values(ids)), id) {
				t.Fatalf("machine %s was deleted, which nobody decided", id)
			}
		}
		for _, id := range gone {
			if !slices.Contains(have, id) {
				return fmt.Errorf("machine %s is there", id)
			}
		}
		return nil
	})
	// The Machine that took the place of the one that somebody else deleted is nobody's, until a claim is made for it. If that one was seen to go when the
	// group was lowered for others, none has taken its place.
	testwait.Until(t, "the groups are as large as the claims need, but for a machine that can be adopted", func() error {
		list, err := p.List(t.Context())
		if err != nil {
			return err
		}
		adoptable := 0
		for _, i := range list {
			if i.ClaimUID == "" && i.Class == "groups" && i.Labels[model.LabelNodeGroup] == "first" {
				adoptable++
			}
		}
		first, second, third := w.group("machinedeployments", "first").Spec.Replicas, w.group("machinesets", "second").Spec.Replicas, w.group("machinepools", "third").Spec.Replicas
		if adoptable > 1 || first != 2+adoptable || second != 4 || third != 5 {
			return fmt.Errorf("they are to have %d, %d and %d machines, want %d, 4 and 5", first, second, third, 2+adoptable)
		}
		return nil
	})
}

// leavesAlone: a paused group is not changed, a Machine that somebody else marked is not traded for another, and odd annotations are
// said with object, field, value and remedy.
func leavesAlone(t *testing.T, w *capiWorld) {
	w.addGroup("MachineDeployment", "good", 4, map[string]string{model.LabelInstanceType: "good"})
	w.addGroup("MachinePool", "pool", 4, map[string]string{model.LabelInstanceType: "pool"})
	w.addGroup("MachineDeployment", "paused", 4, map[string]string{model.LabelInstanceType: "paused"})
	w.addGroup("MachineDeployment", "odd", 4, nil, "capacity.cluster-autoscaler.kubernetes.io/cpu", "many")
	w.addGroup("MachineDeployment", "bounds", 4, nil, "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "-1")
	path := clusterAPI + w.namespace + "/machinedeployments/paused"
	p := w.provider()
	a, b := w.launch(p, "a", "good"), w.launch(p, "b", "paused")
	if err := w.s.Patch(t.Context(), path, `{"spec":{"paused":true}}`); err != nil {
		t.Fatal(err)
	}
	p = w.provider()
	if err := p.Terminate(t.Context(), []string{b})[0]; err == nil || !strings.Contains(err.Error(), "MachineDeployment "+w.namespace+"/paused: spec.paused: true; set it to false") {
		t.Errorf("have %v, want an error that names object, field and remedy", err)
	}
	status, err := p.ClassStatus(t.Context(), capiClass())
	if err != nil {
		t.Fatal(err)
	}
	said := status.Conditions[dovetailv1alpha1.ConditionLaunchable].Message
	for _, want := range []string{"/paused: spec.paused: true", `/odd: annotation capacity.cluster-autoscaler.kubernetes.io/cpu: "many": use an amount`, `/bounds: annotation cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: "-1": use a number`,
		"group pool: spec.template.spec.infrastructureRef: PlayedMachineTemplate " + w.namespace + "/pool does not exist; create it"} {
		if !strings.Contains(said, want) {
			t.Errorf("the condition says %q, want %q in it", said, want)
		}
	}
	other := w.launch(p, "c", "good")
	if err := w.s.Patch(t.Context(), clusterAPI+w.namespace+"/machines/"+strings.TrimPrefix(other, "played://"+w.namespace+"/"), `{"metadata":{"annotations":{"cluster.x-k8s.io/delete-machine":"by hand"}}}`); err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(t.Context(), []string{a})[0]; cloud.KindOf(err) != cloud.Denied || !strings.Contains(err.Error(), "which Dovetail did not set") {
		t.Errorf("have %v, want a denial that names the Machine", err)
	}
	if have := w.everDeleted(); len(have) > 0 {
		t.Errorf("machines %q were deleted", have)
	}
}

// TestClusterAPI: a controller with --cloud clusterapi scales the MachineDeployment with the lowest known price from zero for pending pods, a MachineSet and a MachinePool, also
// after it was killed while machines are on their way, and gives every machine back when the pods are gone. One more NodePool has a ClusterAPINodeClass. It has the rights of "dovetail manifests
// --cluster-api".
func TestClusterAPI(t *testing.T) {
	t.Parallel()
	verifyOnly(t)
	s := own(t, "--no-autoscaler")
	applyClusterAPI(t, s)
	e := newEnv(t, s, "capi")
	e.allow("cluster-api")
	m := playMachines(t, s, "default")
	m.addInfrastructure("played")
	m.set(func() { m.nodes = true })
	labels := func(kind string) map[string]string {
		return map[string]string{model.LabelInstanceType: kind, model.LabelZone: "z1", testLabel: e.name}
	}
	m.addGroup("MachineDeployment", "unpriced", 4, labels("unpriced"))
	m.addGroup("MachineDeployment", "cheap", 4, labels("cheap"))
	m.addGroup("MachineDeployment", "dear", 4, labels("dear"), "dovetail.sh/price-per-hour", "0.3")
	m.addGroup("MachineSet", "set", 4, labels("set"), "dovetail.sh/price-per-hour", "0.2")
	m.addGroup("MachinePool", "pool", 4, labels("pool"), "dovetail.sh/price-per-hour", "0.25")
	m.addGroup("MachineDeployment", "member", 4, labels("member"), "dovetail.sh/price-per-hour", "0.9")
	prices := filepath.Join(t.TempDir(), "prices.csv")
	e.must(os.WriteFile(prices, []byte("type,zone,capacityType,usdPerHour\ncheap,z1,on-demand,0.1\n"), 0o600))

	e.must(s.Create(e.ctx, groupClasses, `{apiVersion: dovetail.sh/v1alpha1, kind: NodeGroupClass, metadata: {name: groups}, spec: {selectorTerms: [{name: "*"}]}}`))
	e.nodePool(map[string]any{
		"spec.template.spec.nodeClassRef": map[string]any{"group": "dovetail.sh", "kind": "NodeGroupClass", "name": "groups"},
		"spec.template.spec.requirements": []any{in(model.LabelCapacityType, model.OnDemand)},
		"spec.disruption":                 map[string]any{"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s", "budgets": []any{map[string]any{"nodes": "100%"}}},
	})
	e.must(s.Create(e.ctx, "/apis/karpenter.cluster.x-k8s.io/v1alpha1/clusterapinodeclasses", `{apiVersion: karpenter.cluster.x-k8s.io/v1alpha1, kind: ClusterAPINodeClass, metadata: {name: members},
		spec: {scalableResourceSelector: {matchExpressions: [{key: group, operator: In, values: [member]}]}}}`))
	e.otherPool("members", map[string]any{
		"spec.template.metadata.labels":   map[string]any{testLabel: e.name, "tier": "member"},
		"spec.template.spec.nodeClassRef": map[string]any{"group": "karpenter.cluster.x-k8s.io", "kind": "ClusterAPINodeClass", "name": "members"},
		"spec.template.spec.requirements": []any{in(model.LabelCapacityType, model.OnDemand)},
		"spec.disruption":                 map[string]any{"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s", "budgets": []any{map[string]any{"nodes": "100%"}}},
	})
	flags := []string{"--cloud", "clusterapi", "--cluster-api-cluster", "default/workload", "--price-file", prices}
	stop := e.controllerOf(flags...)
	apart := func(t *corev1.PodTemplateSpec) { // kube-scheduler may bind them to a node that is Ready before Dovetail sees it: it must be none of the others'
		t.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: model.LabelInstanceType, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"set", "pool", "member"}}}}}}}}
	}
	e.deploy("first", 3, e.pod("3", "1Gi", apart))
	member := e.pod("3", "1Gi")
	member.Spec.NodeSelector["tier"] = "member"
	e.deploy("member", 1, member)
	e.podsRun(4)

	m.set(func() { m.hold = true })
	e.deploy("second", 4, e.pod("3", "1Gi", apart))
	for _, group := range []string{"set", "pool"} {
		pod := e.pod("3", "1Gi")
		pod.Spec.NodeSelector[model.LabelInstanceType] = group
		e.deploy(group, 1, pod)
	}
	size := func(group string) int { return m.group("machinedeployments", group).Spec.Replicas }
	e.until("the group is to have seven machines", func() error {
		if n := size("cheap"); n != 7 {
			return fmt.Errorf("it is to have %d", n)
		}
		return nil
	})
	stop(syscall.SIGKILL)
	m.set(func() { m.hold = false })
	stop = e.controllerOf(flags...)
	defer func() { stop(syscall.SIGTERM) }()
	e.podsRun(10)
	if n := size("member"); n != 1 {
		t.Errorf("the group of the ClusterAPINodeClass has %d machines, want 1", n)
	}
	if made := m.everMade(); len(made) != 10 {
		t.Errorf("%d machines were made for 10 pods that need one each: %v", len(made), made)
	}
	if size("dear")+size("unpriced") > 0 {
		t.Error("a dearer group has machines")
	}
	e.scale("first", 0)
	e.scale("second", 0)
	e.scale("set", 0)
	e.scale("pool", 0)
	e.scale("member", 0)
	e.until("every machine is given back", func() error {
		machines, err := m.list(e.ctx, "machines")
		if want := size("cheap") + size("member") + m.group("machinesets", "set").Spec.Replicas + m.group("machinepools", "pool").Spec.Replicas; err == nil && want+len(machines) > 0 {
			err = fmt.Errorf("the groups are to have %d machines and have %d", want, len(machines))
		}
		return err
	})
	if n := len(m.everMade()); n != 10 {
		t.Errorf("%d machines were made, want 10", n)
	}
}
