// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// outcome is what a shape cost and what became of its pods.
type outcome struct {
	Shape     string  `json:"shape"`
	Pods      int     `json:"pods"`               // of the tenant
	Translate float64 `json:"translateCPUMillis"` // all pods of the tenant, from API objects to classes
	Step      float64 `json:"stepCPUMillis"`      // the dearest step: snapshot, decision, verification, texts of the reasons
	Wall      float64 `json:"stepMillis"`         // the same, by the clock
	Latency   float64 `json:"ordinaryMillis"`     // from the pods' arrival until the ordinary pods have a node, by the clock
	Steps     int     `json:"steps"`              // until every ordinary pod has a node
	Heap      float64 `json:"heapMiB"`            // in use at the end, pods included
	Bought    int     `json:"ordinaryPodsWithNode"`
	Answered  int     `json:"tenantPodsAnswered"` // tenant's pods with a node or a reason
	Reason    string  `json:"reason,omitempty"`   // the first of the tenant's refusals, shortened
	Work      int64   `json:"work"`               // steps that the solver counted in the dearest step
	Err       string  `json:"error,omitempty"`
}

// pools is what may be launched: one NodePool over the whole catalogue of the zone's amd64 types.
const pools = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default, uid: pool-1}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
`

// cluster is the way from API objects to a plan, as the controller goes it, without an API server.
type cluster struct {
	state *state.State
	tr    *translate.Translator
	mem   decide.Memory
	pol   decide.Policy
	now   time.Time
}

// newCluster returns a cluster with one NodePool and no node.
func newCluster() (*cluster, error) {
	s := state.New()
	cat, err := catalog.Builtin()
	if err != nil {
		return nil, err
	}
	offered := cat.InstanceTypes(s.Resources().Dim)
	m, err := manifests.Read("pools", []byte(pools))
	if err != nil {
		return nil, err
	}
	m.Feed(s)
	for _, p := range s.Pools.ListPools() {
		s.Pools.SetTypes(p.Name, offered)
		s.Pools.SetReady(p.Name, true, model.Condition{})
	}
	pol := decide.DefaultPolicy()
	pol.Solve.Work = 4_000_000 // as the controller has it
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s.SetNow(now)
	return &cluster{state: s, tr: &translate.Translator{Table: s.Resources()}, pol: pol, now: now}, nil
}

// add takes in pods as the watch does.
func (c *cluster) add(pods []*corev1.Pod) {
	for _, p := range pods {
		c.state.SetPod(c.tr.Pod(p))
	}
}

// step decides once, has the plan verified, and writes the texts that events and log lines hold.
func (c *cluster) step() (decide.Output, error) {
	snap := c.state.Snapshot(c.now)
	out, mem := decide.Step(snap, c.mem, c.now, c.pol, decide.Request{Solve: true})
	c.mem = mem
	err := approve.Verify(snap, &out).Err()
	for _, d := range out.Pods {
		if d.Outcome == plan.Refused {
			_, _ = report.Refusal(d.Reasons[:1]), report.Refusal(d.Reasons)
		}
	}
	return out, err
}

// land has pods run, each on a node of its own that no NodePool launched. On no node is room for another.
func (c *cluster) land(pods []*corev1.Pod) {
	for i, p := range pods {
		name := fmt.Sprintf("stands-%d", i)
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("10")}
		c.state.SetNode(c.tr.Node(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: "us-east-1a"}},
			Spec:       corev1.NodeSpec{ProviderID: "other:///" + name},
			Status:     corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}), 0)
		p.Spec.NodeName, p.Status = name, corev1.PodStatus{Phase: corev1.PodRunning}
	}
	c.add(pods)
}

// processorTime is how long all processors have worked for this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// mostSteps is how often a shape is decided on at most: what is set aside comes again.
const mostSteps = 4

// try runs a shape beside the ordinary pods. With landed, nine in ten of the tenant's pods run already.
func try(s shape, seed uint64, landed bool) outcome {
	o := outcome{Shape: s.name}
	c, err := newCluster()
	if err != nil {
		o.Err = err.Error()
		return o
	}
	tenant, ordinary := s.make(seed), ordinaryPods()
	if landed {
		stand := len(tenant) * 9 / 10
		c.land(tenant[:stand])
		tenant = tenant[stand:]
		if _, err := c.step(); err != nil { // what the nodes are is looked at once
			o.Err = err.Error()
		}
		c.now = c.now.Add(time.Second)
	}
	o.Pods = len(tenant)
	runtime.GC()
	began := time.Now()
	cpu := processorTime()
	c.add(tenant)
	c.add(ordinary)
	o.Translate = millis(processorTime() - cpu)
	answered, served := map[string]bool{}, map[string]bool{}
	for range mostSteps {
		cpu, wall := processorTime(), time.Now()
		out, err := c.step()
		if err != nil {
			o.Err = err.Error()
		}
		o.Steps++
		if used := millis(processorTime() - cpu); used > o.Step {
			o.Step, o.Wall, o.Work = used, millis(time.Since(wall)), out.Stats.Work
		}
		c.note(&o, out, answered, served)
		if len(served) == len(ordinary) && o.Latency == 0 {
			o.Latency = millis(time.Since(began))
		}
		if len(answered) == len(tenant) && len(served) == len(ordinary) {
			break
		}
		c.now = c.now.Add(time.Second)
	}
	o.Answered, o.Bought = len(answered), len(served)
	var mem runtime.MemStats
	debug.FreeOSMemory()
	runtime.ReadMemStats(&mem)
	o.Heap = float64(mem.HeapInuse) / (1 << 20)
	runtime.KeepAlive(c)
	return o
}

// note takes in what a step has decided for pods.
func (c *cluster) note(o *outcome, out decide.Output, answered, served map[string]bool) {
	placed := map[string]bool{}
	for _, a := range out.Actions {
		if b, ok := a.(plan.CreateClaim); ok {
			for _, p := range b.Pods {
				placed[p.UID] = true
			}
		}
	}
	for _, d := range out.Pods {
		done := placed[d.Pod.UID] || d.Outcome == plan.OnNode || d.Outcome == plan.OnClaim
		if d.Pod.Namespace == ordinaryNamespace {
			if done {
				served[d.Pod.UID] = true
			} else if d.Outcome == plan.Refused && o.Err == "" {
				o.Err = "an ordinary pod is refused: " + report.Refusal(d.Reasons)
			}
			continue
		}
		answered[d.Pod.UID] = true
		if d.Outcome == plan.Refused && o.Reason == "" {
			o.Reason = report.Refusal(d.Reasons)
			if len(o.Reason) > 400 {
				o.Reason = fmt.Sprintf("%s… (%d bytes)", o.Reason[:200], len(o.Reason))
			}
		}
	}
}
