// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/chaos"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// seriesOnClusterAPI plays series over MachineDeployments next to Cluster API's own core manager, one after the other: each has the
// controller, the core manager and the API server killed once.
func seriesOnClusterAPI(t *testing.T) {
	first, last := seriesSeeds(t)
	w := newCoreWorld(t, "core-series")
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) {
			newSeries(t, w.s, seed, func(x *series) seriesCloud { return newMachineGroups(x, w) }).play(true)
		})
	}
}

// machineGroups are the MachineDeployments of a series. It implements seriesCloud.
type machineGroups struct {
	*series
	w        *coreWorld
	template map[string]string // of each group

	mu       sync.Mutex
	sized    map[string][]sizeAt
	machines map[types.UID]*machineLife
	claimed  map[types.UID]string // by claim: the provider id of its machine
	twice    []string             // claims that had two machines
}

// machineLife is what was ever seen of a Machine.
type machineLife struct {
	name, group, id, node string
	failed, ours          bool // ours: Dovetail marked it to be deleted
	deleted               time.Time
}

// seenMachine is what is read of a Machine.
type seenMachine struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		ProviderID string `json:"providerID"`
	} `json:"spec"`
	Status struct {
		Phase   string `json:"phase"`
		NodeRef struct {
			Name string `json:"name"`
		} `json:"nodeRef"`
	} `json:"status"`
}

const deploymentLabel = "cluster.x-k8s.io/deployment-name"

func newMachineGroups(x *series, w *coreWorld) seriesCloud {
	m := &machineGroups{series: x, w: w, template: map[string]string{}, sized: map[string][]sizeAt{}, machines: map[types.UID]*machineLife{}, claimed: map[types.UID]string{}}
	w.infra.t = x.t
	x.provision = pace(30 * time.Second).Round(time.Second) // longer than any component is stopped: after two failed launches, pods wait ten minutes
	ctx, cancel := context.WithCancel(x.ctx)
	var watching sync.WaitGroup
	watch := func(do func(context.Context) error) {
		watching.Go(func() {
			if err := do(ctx); err != nil {
				x.t.Errorf("the record of the series is not whole: %v", err)
			}
		})
	}
	watch(func(ctx context.Context) error {
		return sandbox.Watch(ctx, w.s, clusterAPI+"default/machinedeployments", m.seeGroup)
	})
	watch(func(ctx context.Context) error {
		return sandbox.Watch(ctx, w.s, clusterAPI+"default/machines", m.seeMachine)
	})
	watch(func(ctx context.Context) error {
		return sandbox.Watch(ctx, w.s, claims, m.seeClaim)
	})
	x.t.Cleanup(func() { cancel(); watching.Wait() })
	return m
}

func (m *machineGroups) seeGroup(kind string, g *coreGroup) {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.sized[g.Metadata.Name]
	if kind != "DELETED" && (len(have) == 0 || have[len(have)-1].n != g.Spec.Replicas) {
		m.sized[g.Metadata.Name] = append(have, sizeAt{time.Now(), g.Spec.Replicas})
	}
}

func (m *machineGroups) seeMachine(kind string, o *seenMachine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !strings.HasPrefix(o.Metadata.Labels[deploymentLabel], m.name+"-") {
		return
	}
	have := m.machines[o.Metadata.UID]
	if have == nil {
		have = &machineLife{name: o.Metadata.Name, group: o.Metadata.Labels[deploymentLabel]}
		m.machines[o.Metadata.UID] = have
	}
	if o.Spec.ProviderID != "" {
		have.id = o.Spec.ProviderID
	}
	if o.Status.NodeRef.Name != "" {
		have.node = o.Status.NodeRef.Name
	}
	have.failed = have.failed || o.Status.Phase == "Failed"
	if have.deleted.IsZero() {
		have.ours = o.Metadata.Annotations["cluster.x-k8s.io/delete-machine"] == "dovetail.sh"
		if kind == "DELETED" || o.Metadata.DeletionTimestamp != nil {
			have.deleted = time.Now()
		}
	}
}

func (m *machineGroups) seeClaim(_ string, c *karpv1.NodeClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Labels[karpv1.LabelNodePool] != m.name {
		return
	}
	before, now := m.claimed[c.UID], c.Status.ProviderID
	if before != "" && now != "" && now != before {
		m.twice = append(m.twice, fmt.Sprintf("%s: %s and %s", c.Name, before, now))
	}
	if now != "" || before == "" {
		m.claimed[c.UID] = now
	}
}

func (m *machineGroups) labels() map[string]string { return m.w.nodeLabels(m.name) }

func cpusOf(g *seriesGroup) int {
	if g.large {
		return 4
	}
	return 2
}

// change patches a group, again while a webhook does not answer.
func (m *machineGroups) change(name, patch string) {
	m.t.Helper()
	m.must(waitFor(m.ctx, func(ctx context.Context) error {
		return m.s.Patch(ctx, clusterAPI+"default/machinedeployments/"+name, patch)
	}))
}

func (m *machineGroups) define(g *seriesGroup) {
	m.t.Helper()
	size, first := `"cluster.x-k8s.io/cluster-api-autoscaler-node-group-%s-size":"%d"`, m.template[g.name] == ""
	if first {
		m.template[g.name] = g.name
		m.w.infra.addGroup(g.name, cpusOf(g), m.labels(), "dovetail.sh/price-per-hour", fmt.Sprintf("%.2f", 0.05*float64(cpusOf(g))))
	}
	m.change(g.name, `{"metadata":{"annotations":{`+fmt.Sprintf(size, "min", g.min)+`,`+fmt.Sprintf(size, "max", g.max)+`}}}`)
	if first {
		m.change(g.name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, g.min))
	}
}

// all returns the Machines of a group.
func (m *machineGroups) all(group string) []seenMachine {
	m.t.Helper()
	list, err := sandbox.Get[struct{ Items []seenMachine }](m.ctx, m.s, clusterAPI+"default/machines", "labelSelector", deploymentLabel+"="+group)
	m.must(err)
	return list.Items
}

// lastPart is what names a Machine in a series: the last part of its provider id, or its name if it has none.
func (o *seenMachine) lastPart() string {
	if id := o.Spec.ProviderID; id != "" {
		return id[strings.LastIndexByte(id, '/')+1:]
	}
	return o.Metadata.Name
}

func (m *machineGroups) group(name string) (want int, members []string) {
	m.t.Helper()
	g, err := sandbox.Get[coreGroup](m.ctx, m.s, clusterAPI+"default/machinedeployments/"+name)
	m.must(err)
	for _, o := range m.all(name) {
		members = append(members, o.lastPart())
	}
	slices.Sort(members)
	return g.Spec.Replicas, members
}

func (m *machineGroups) failed(_ *seriesGroup, id string) bool {
	m.w.infra.mu.Lock()
	defer m.w.infra.mu.Unlock()
	return m.w.infra.failed[id] // its Machine has no provider ID, and has the name of the infrastructure provider's
}

// isRollingOut reports whether Machines of a group are being replaced. A rollout ends only if its Machines come, so no fault strikes those: machines
// that never join would keep it from ending. Cluster API's condition RollingOut does not tell: it is true for nodes whose kubelets tell another version than
// the template, too, and follows a new template only a moment after it has been seen.
func (m *machineGroups) isRollingOut(group string) bool {
	m.t.Helper()
	var g *coreGroup
	var sets *struct{ Items []machineSet }
	m.until("Cluster API has seen the last change of "+group, func() (err error) {
		g, err = sandbox.Get[coreGroup](m.ctx, m.s, clusterAPI+"default/machinedeployments/"+group)
		if err == nil && g.Status.ObservedGeneration < g.Metadata.Generation {
			err = fmt.Errorf("it has seen generation %d of %d", g.Status.ObservedGeneration, g.Metadata.Generation)
		}
		if err == nil {
			sets, err = sandbox.Get[struct{ Items []machineSet }](m.ctx, m.s, clusterAPI+"default/machinesets", "labelSelector", deploymentLabel+"="+group)
		}
		return err
	})
	return slices.ContainsFunc(sets.Items, func(set machineSet) bool {
		return set.Spec.Replicas+set.Status.Replicas > 0 && set.Spec.Template.Spec.InfrastructureRef.Name != m.template[group]
	})
}

// machineSet is what is read of a MachineSet.
type machineSet struct {
	Spec struct {
		Replicas int `json:"replicas"`
		Template struct {
			Spec struct {
				InfrastructureRef struct {
					Name string `json:"name"`
				} `json:"infrastructureRef"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		Replicas int `json:"replicas"`
	} `json:"status"`
}

func (m *machineGroups) noCapacity(g *seriesGroup, d time.Duration) {
	m.t.Helper()
	if m.isRollingOut(g.name) {
		m.say("not while it rolls out")
		return
	}
	template := m.template[g.name]
	m.w.infra.set(func() { m.w.infra.exhausted[template] = true })
	time.AfterFunc(d, func() { m.w.infra.set(func() { delete(m.w.infra.exhausted, template) }) })
}

func (m *machineGroups) notJoining(g *seriesGroup, n int) {
	m.t.Helper()
	if m.isRollingOut(g.name) {
		m.say("not while it rolls out")
		return
	}
	m.w.infra.set(func() { m.w.infra.never[m.template[g.name]] += n })
}

// end deletes a Machine, which its MachineSet replaces.
func (m *machineGroups) end(g *seriesGroup, id string) error {
	for _, o := range m.all(g.name) {
		if o.lastPart() == id {
			err := m.s.Delete(m.ctx, clusterAPI+"default/machines/"+o.Metadata.Name, "")
			if apierrors.IsNotFound(err) {
				return err
			}
			m.must(err)
		}
	}
	return nil
}

// replace rolls a new template out.
func (m *machineGroups) replace(g *seriesGroup) string {
	m.t.Helper()
	if m.isRollingOut(g.name) {
		return g.name + " rolls out already"
	}
	name := m.template[g.name] + "x"
	m.w.infra.addTemplate(name, "type-"+g.name, cpusOf(g), m.labels())
	m.template[g.name] = name
	m.change(g.name, `{"spec":{"template":{"spec":{"infrastructureRef":{"name":"`+name+`"}}}}}`)
	return "rollout of " + g.name
}

func (m *machineGroups) kills() []seriesKill {
	return []seriesKill{
		{"the controller", func() { m.w.stop(syscall.SIGKILL); m.w.controller() }},
		{"Cluster API's core manager", func() { m.w.capi.Kill(); m.must(m.w.capi.Start(m.ctx)) }},
		{"the API server", func() { m.must(m.s.Fault(m.ctx, chaos.Kill, time.Second, "kube-apiserver")) }},
	}
}

func (m *machineGroups) sizes(name string) []sizeAt {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sized[name])
}

func (m *machineGroups) failures(name string, since time.Time) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.machines {
		if o.group == name && o.deleted.After(since) && (o.failed || o.node == "") {
			n++
		}
	}
	return n
}

func (m *machineGroups) ended() (out []endedMachine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.machines) == 0 {
		m.t.Error("no Machine was made, so nothing was tested")
	}
	for _, o := range m.machines {
		if !o.deleted.IsZero() {
			one := endedMachine{o.name, o.node, o.deleted, "Cluster API, or a person"}
			if o.ours {
				one.by = ""
			}
			out = append(out, one)
		}
	}
	return out
}

// judge: no claim has had two machines, and groups were raised at most once for each claim and once more for each of its machines that failed.
func (m *machineGroups) judge() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, what := range m.twice {
		m.t.Errorf("a claim had two machines: %s", what)
	}
	raised, most := 0, len(m.claimed)
	for _, g := range []*seriesGroup{m.small, m.large} {
		before := g.min
		for _, s := range m.sized[g.name] {
			raised, before = raised+max(0, s.n-before), s.n
		}
	}
	for _, o := range m.machines {
		if o.failed || o.node == "" {
			most++
		}
	}
	if raised > most {
		m.t.Errorf("the groups were raised by %d machines in all, for %d claims and %d machines that failed", raised, len(m.claimed), most-len(m.claimed))
	}
}
