// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// coreWorld is a sandbox with Cluster API's own controllers and webhooks, an infrastructure provider, and a controller of ours.
type coreWorld struct {
	*env
	whole *env // of the whole test
	capi  *sandbox.ClusterAPI
	infra *kwokInfra
	stop  func(syscall.Signal)
}

// newCoreWorld starts all of it. The controller runs until the test ends.
func newCoreWorld(t testing.TB, name string, flags ...string) *coreWorld {
	t.Helper()
	s := own(t, append([]string{"--no-autoscaler"}, flags...)...)
	capi, err := s.StartClusterAPI(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		capi.Kill()
		if t.Failed() {
			t.Logf("Cluster API's manager:\n%s", capi.LogTail(60))
		}
	})
	e := newEnv(t, s, name)
	w := &coreWorld{env: e, whole: e, capi: capi, infra: startInfra(t, s)}
	w.allow("cluster-api")
	w.controller()
	return w
}

// TestClusterAPICore runs a controller with --cloud clusterapi next to Cluster API's own core manager: its Cluster, MachineDeployment, MachineSet
// and Machine controllers and its webhooks, compiled from its module. Only the infrastructure provider is the test's.
func TestClusterAPICore(t *testing.T) {
	t.Parallel()
	verifyOnly(t)
	w := newCoreWorld(t, "core")
	if !t.Run("life", func(t *testing.T) { w.in(t).life() }) {
		return // the others would wait until their deadlines
	}
	t.Run("fails", func(t *testing.T) { w.in(t).fails() })
	t.Run("paused", func(t *testing.T) { w.in(t).paused() })
	t.Run("rollout", func(t *testing.T) { w.in(t).rollout() })
}

// in returns the world for a part of the test.
func (w *coreWorld) in(t *testing.T) *coreWorld {
	out, e, p := *w, *w.env, w.infra
	e.t, e.ctx, p.t = t, t.Context(), t
	out.env = &e
	return &out
}

// controller starts a controller, which outlives the part of the test.
func (w *coreWorld) controller() {
	w.stop = w.whole.controllerOf("--cloud", "clusterapi", "--cluster-api-cluster", "default/workload")
}

// addPool makes a class and a pool of the groups with these names, and returns the environment of its pods.
func (w *coreWorld) addPool(name string, groups ...string) *env {
	w.t.Helper()
	e := newEnv(w.t, w.s, name)
	var terms []string
	for _, g := range groups {
		terms = append(terms, `{"name":"`+g+`"}`)
	}
	w.must(w.s.Create(w.ctx, groupClasses, `{"apiVersion":"dovetail.sh/v1alpha1","kind":"NodeGroupClass","metadata":{"name":"`+name+`"},"spec":{"selectorTerms":[`+strings.Join(terms, ",")+`]}}`))
	e.nodePool(map[string]any{
		"spec.template.spec.nodeClassRef": map[string]any{"group": "dovetail.sh", "kind": "NodeGroupClass", "name": name},
		"spec.template.spec.requirements": []any{in(model.LabelCapacityType, model.OnDemand)},
		"spec.disruption":                 map[string]any{"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": []any{map[string]any{"nodes": "100%"}}},
	})
	return e
}

// nodeLabels are the labels of a pool's groups.
func (w *coreWorld) nodeLabels(pool string) map[string]string {
	return map[string]string{testLabel: pool, corev1.LabelTopologyZone: "z1"}
}

// emptied waits until groups are to have no machines and have none.
func (w *coreWorld) emptied(names ...string) {
	w.t.Helper()
	w.until("every machine of the groups is given back", func() error {
		groups, err := w.infra.groups()
		if err != nil {
			return err
		}
		for _, name := range names {
			if g := groups[name]; g.Spec.Replicas+g.Status.Replicas > 0 {
				return fmt.Errorf("group %s is to have %d machines and has %d", name, g.Spec.Replicas, g.Status.Replicas)
			}
		}
		return nil
	})
}

// life: 300 pods over 12 groups of different price, from zero. Both managers are killed while machines are on their way, and again
// while some end. The pods cost what the cheapest groups cost, no machine is made for nobody, and no pod that stays is moved.
func (w *coreWorld) life() {
	var names []string
	price, perPod := map[string]float64{}, 1.0
	for i, cpus := range []int{4, 8, 16} {
		for j := range 4 {
			name := fmt.Sprintf("life-%d-%d", cpus, j)
			names = append(names, name)
			price[name] = float64(cpus) * (0.05 + 0.01*float64(j) - 0.001*float64(i))
			perPod = min(perPod, price[name]/float64(cpus))
			w.infra.addGroup(name, cpus, w.nodeLabels("life"), "dovetail.sh/price-per-hour", fmt.Sprintf("%.4f", price[name]), "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size", "10")
		}
	}
	claimed := w.claimedMachines()
	e := w.addPool("life", names...)
	from := time.Now()
	e.deploy("first", 100, e.pod("1", "2Gi"))
	e.podsRun(100)
	w.t.Logf("100 pods run %.1f s after they were created", time.Since(from).Seconds())

	w.infra.set(func() { w.infra.hold = true })
	e.deploy("second", 200, e.pod("1", "2Gi"))
	e.until("the groups are raised", func() error {
		groups, err := w.infra.groups()
		n := 0
		for _, g := range groups {
			n += g.Spec.Replicas
		}
		if err == nil && n < 19 {
			err = fmt.Errorf("they are to have %d machines", n)
		}
		return err
	})
	w.stop(syscall.SIGKILL)
	w.capi.Kill()
	w.infra.set(func() { w.infra.hold = false })
	w.controller() // its writes fail for now: the webhooks don't answer
	w.must(w.capi.Start(w.ctx))
	pods := e.podsRun(300)
	made, cost, cpus := w.infra.everMade(), 0.0, 0
	for name, n := range made {
		size := 0
		if _, err := fmt.Sscanf(name, "life-%d", &size); err != nil {
			continue
		}
		cost, cpus = cost+float64(n)*price[name], cpus+n*size
	}
	bound := 300 * perPod
	w.t.Logf("300 pods on machines %v: $%.3f/h, %.3f of the bound", made, cost, cost/bound)
	if cpus >= 300+16*2 {
		w.t.Errorf("machines with %d CPUs were made for 300 pods of one each: %v", cpus, made)
	}
	if cost > 1.15*bound { // the cheapest groups are full: 160 CPUs each
		w.t.Errorf("the machines cost $%.3f/h, more than 1.15 of the bound $%.3f/h", cost, bound)
	}

	e.scale("second", 0)
	e.until("some machines are deleted", func() error {
		if len(w.infra.everDeleted()) == 0 {
			return errors.New("none is")
		}
		return nil
	})
	w.capi.Kill()
	w.stop(syscall.SIGKILL)
	w.must(w.capi.Start(w.ctx))
	w.controller()
	kept := map[string]bool{}
	for _, p := range pods {
		if p.Labels["app"] == "first" {
			kept[p.Spec.NodeName] = true
		}
	}
	e.until("only nodes with pods are left", func() error {
		if n := len(e.nodes()); n != len(kept) {
			return fmt.Errorf("there are %d nodes, %d have pods", n, len(kept))
		}
		return nil
	})
	for _, p := range e.podsRun(100) {
		if !kept[p.Spec.NodeName] {
			w.t.Errorf("pod %s is on node %s now: its node was taken away", p.Name, p.Spec.NodeName)
		}
	}
	from = time.Now()
	e.scale("first", 0)
	w.emptied(names...)
	w.t.Logf("all machines are gone %.1f s after the pods", time.Since(from).Seconds())
	if n := w.infra.everMade(); fmt.Sprint(n) != fmt.Sprint(made) {
		w.t.Errorf("machines %v were made, and before %v", n, made)
	}
	w.infra.set(func() {
		var unclaimed []string
		ids, without := claimed()
		for id, template := range w.infra.made {
			if !ids[id] {
				unclaimed = append(unclaimed, template+" "+id)
			}
		}
		if len(unclaimed) > without { // a claim whose pods found room elsewhere may be gone before it has its machine
			w.t.Errorf("machines were made for no claim: %d claims never had one, and no claim had %v", without, unclaimed)
		}
	})
}

// claimedMachines returns a function that returns the provider ids that claims have had since, and how many of the claims that were there since
// never had one.
func (w *coreWorld) claimedMachines() func() (ids map[string]bool, without int) {
	var mu sync.Mutex
	var watching sync.WaitGroup
	of := map[types.UID]string{}
	ctx, cancel := context.WithCancel(w.ctx)
	watching.Go(func() {
		if err := sandbox.Watch(ctx, w.s, claims, func(_ string, c *karpv1.NodeClaim) {
			mu.Lock()
			defer mu.Unlock()
			of[c.UID] = cmp.Or(c.Status.ProviderID, of[c.UID])
		}); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() { cancel(); watching.Wait() })
	return func() (ids map[string]bool, without int) {
		mu.Lock()
		defer mu.Unlock()
		ids = map[string]bool{}
		for _, id := range of {
			if ids[id] = true; id == "" {
				without++
			}
		}
		return ids, without
	}
}

// fails: the Machines of the cheapest group fail; the next group has the pods, and the failed Machines are gone.
func (w *coreWorld) fails() {
	w.infra.addGroup("fails-cheap", 4, w.nodeLabels("fails"), "dovetail.sh/price-per-hour", "0.1")
	w.infra.addGroup("fails-dear", 4, w.nodeLabels("fails"), "dovetail.sh/price-per-hour", "0.2")
	w.infra.set(func() { w.infra.exhausted["fails-cheap"] = true })
	e := w.addPool("fails", "fails-cheap", "fails-dear")
	e.deploy("app", 3, e.pod("3", "1Gi"))
	e.podsRun(3)
	w.emptied("fails-cheap")
	if n := w.infra.everMade(); n["fails-cheap"] != 0 || n["fails-dear"] != 3 {
		w.t.Errorf("machines %v were made, want 3 of fails-dear", n)
	}
	e.scale("app", 0)
	w.emptied("fails-dear")
}

// paused: a paused group is not used, and is used again when the pause ends.
func (w *coreWorld) paused() {
	w.infra.addGroup("paused-cheap", 4, w.nodeLabels("paused"), "dovetail.sh/price-per-hour", "0.1")
	w.infra.addGroup("paused-dear", 4, w.nodeLabels("paused"), "dovetail.sh/price-per-hour", "0.2")
	path := clusterAPI + "default/machinedeployments/paused-cheap"
	w.must(w.s.Patch(w.ctx, path, `{"spec":{"paused":true}}`))
	e := w.addPool("paused", "paused-cheap", "paused-dear")
	e.deploy("first", 2, e.pod("3", "1Gi"))
	e.podsRun(2)
	if n := w.infra.everMade(); n["paused-cheap"] != 0 || n["paused-dear"] != 2 {
		w.t.Errorf("machines %v were made, want 2 of paused-dear", n)
	}
	w.must(w.s.Patch(w.ctx, path, `{"spec":{"paused":false}}`))
	e.until("the class has no unusable group", func() error {
		class, err := sandbox.Get[struct {
			Status struct {
				Groups []struct{ Name, Problem string }
			}
		}](w.ctx, w.s, groupClasses+"/paused")
		if err != nil {
			return err
		}
		for _, g := range class.Status.Groups {
			if g.Problem != "" {
				err = errors.New(g.Name + ": " + g.Problem)
			}
		}
		return err
	})
	e.deploy("second", 2, e.pod("3", "1Gi"))
	e.podsRun(4)
	if n := w.infra.everMade(); n["paused-cheap"] != 2 || n["paused-dear"] != 2 {
		w.t.Errorf("machines %v were made, want 2 of each", n)
	}
	e.scale("first", 0)
	e.scale("second", 0)
	w.emptied("paused-cheap", "paused-dear")
}

// rollout: Cluster API replaces all Machines of a group under its pods. The new Machines get claims, the pods run again, and in the end there are as many
// machines as before.
func (w *coreWorld) rollout() {
	w.infra.addGroup("rollout-cheap", 4, w.nodeLabels("rollout"), "dovetail.sh/price-per-hour", "0.1")
	w.infra.addGroup("rollout-dear", 4, w.nodeLabels("rollout"), "dovetail.sh/price-per-hour", "0.2")
	w.infra.addTemplate("rollout-new", "type-rollout-cheap", 4, w.nodeLabels("rollout"))
	e := w.addPool("rollout", "rollout-cheap", "rollout-dear")
	e.deploy("first", 3, e.pod("3", "1Gi"))
	e.podsRun(3)
	w.must(w.s.Patch(w.ctx, clusterAPI+"default/machinedeployments/rollout-cheap", `{"spec":{"template":{"spec":{"infrastructureRef":{"name":"rollout-new"}}}}}`))
	e.until("the rollout is over", func() error {
		if standing := w.infra.standing(); standing["rollout-cheap"] > 0 || standing["rollout-new"] == 0 {
			return fmt.Errorf("there are machines %v", standing)
		}
		return nil
	})
	e.podsRun(3)
	e.until("the machines of the rollout have claims", func() error {
		if c, n := len(e.claims()), len(e.nodes()); c != n {
			return fmt.Errorf("%d nodes have %d claims", n, c)
		}
		return nil
	})
	w.t.Logf("machines made: %v", w.infra.everMade())
	e.until("there are three machines", func() error {
		groups, err := w.infra.groups()
		if n := groups["rollout-cheap"].Spec.Replicas + groups["rollout-dear"].Spec.Replicas; err == nil && n != 3 {
			err = fmt.Errorf("the groups are to have %d", n)
		}
		return err
	})
	e.podsRun(3)
	e.scale("first", 0)
	w.emptied("rollout-cheap", "rollout-dear")
}
