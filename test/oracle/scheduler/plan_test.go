// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scheduler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// kinds knows every kind of a scenario.
var kinds = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, karpv1.AddToScheme, karpv1alpha1.AddToScheme, kwokv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // the same kinds twice: a mistake in this file
		}
	}
	return s
}()

// manifests writes a scenario as a person would.
func (s *scenario) manifests() ([]byte, error) { return manifestsOf(s.objects()) }

func manifestsOf(objects []runtime.Object) ([]byte, error) {
	var out bytes.Buffer
	for _, o := range objects {
		o = o.DeepCopyObject()
		gvk, _, err := kinds.ObjectKinds(o)
		if err != nil {
			return nil, err
		}
		o.GetObjectKind().SetGroupVersionKind(gvk[0])
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

// answer is what the product says to a scenario.
type answer struct {
	out    decide.Output
	pools  map[string]*model.NodePool
	names  []string // of resources
	broken error    // what verify has against it
}

// answerFor plans from objects, with the machines of a scenario.
func (s *scenario) answerFor(objects []runtime.Object) (*answer, error) {
	text, err := manifestsOf(objects)
	if err != nil {
		return nil, err
	}
	m, err := manifests.Read("scenario.yaml", text)
	if err != nil {
		return nil, err
	}
	st := state.New()
	types := s.types(st.Resources())
	m.Feed(st)
	for _, p := range st.Pools.ListPools() {
		st.Pools.SetTypes(p.Name, types)
	}
	now := time.Unix(1_800_000_000, 0)
	snap := st.Snapshot(now)
	a := &answer{out: decide.WhatIf(snap, now, decide.DefaultPolicy()), pools: map[string]*model.NodePool{}, names: snap.ResourceNames}
	for _, p := range snap.Pools {
		a.pools[p.Name] = p
	}
	a.broken = approve.Verify(snap, &a.out).Demand
	return a, nil
}

func (s *scenario) types(table *state.ResourceTable) []*model.InstanceType {
	vector := func(l corev1.ResourceList) model.Resources {
		var out model.Resources
		for _, name := range slices.Sorted(maps.Keys(l)) {
			q, d := l[name], table.Dim(string(name))
			if d == model.CPU {
				out = out.With(d, q.MilliValue())
			} else {
				out = out.With(d, q.Value())
			}
		}
		return out
	}
	var out []*model.InstanceType
	for _, m := range s.machines {
		t := &model.InstanceType{Name: m.name, Labels: m.labels, Capacity: vector(m.capacity), Allocatable: vector(m.allocatable), Offerings: m.offerings}
		if m.attach > 0 {
			t.CSILimits = map[string]int64{driver: m.attach, ebs: m.attach}
		}
		out = append(out, t)
	}
	return out
}

func (s *scenario) machine(name string) *machine {
	return &s.machines[slices.IndexFunc(s.machines, func(m machine) bool { return m.name == name })]
}

// claims are the machines that the plan buys.
func (a *answer) claims() []plan.CreateClaim {
	var out []plan.CreateClaim
	for _, x := range a.out.Actions {
		if c, ok := x.(plan.CreateClaim); ok {
			out = append(out, c)
		}
	}
	return out
}

// describe writes a plan for a person.
func (a *answer) describe() string {
	var b bytes.Buffer
	for _, c := range a.claims() {
		fmt.Fprintf(&b, "new %s in %s, requirements %s, reserved %t:", c.Name, c.Pool.Name, c.Requirements, c.Reserved)
		for _, p := range c.Pods {
			b.WriteString(" " + p.Key())
		}
		b.WriteByte('\n')
	}
	for _, p := range a.out.Pods {
		switch p.Outcome {
		case plan.OnNew:
		case plan.Refused, plan.NotOurs:
			reasons, _ := json.Marshal(p.Reasons)
			fmt.Fprintf(&b, "%s %s: %s\n", p.Outcome, p.Pod.Key(), reasons)
		default:
			fmt.Fprintf(&b, "%s %s on %s\n", p.Outcome, p.Pod.Key(), p.Target)
		}
	}
	return b.String()
}

// label is what a machine of this type and offering bears, before its pool's own labels.
func (m *machine) label(key string, o *model.Offering) (string, bool) {
	switch key {
	case zoneKey:
		return o.Zone, true
	case ctKey:
		return o.CapacityType, true
	}
	if v, ok := o.Labels[key]; ok {
		return v, true
	}
	v, ok := m.labels[key]
	return v, ok
}

// provided are the labels that come with a machine and not with its pool.
func (s *scenario) provided(key string) bool {
	return key == zoneKey || key == ctKey || slices.ContainsFunc(s.machines, func(m machine) bool { _, ok := m.labels[key]; return ok })
}

// choice is one of the machines that a claim allows.
type choice struct {
	m *machine
	o *model.Offering
}

// choices are the available offerings that requirements allow.
func (s *scenario) choices(rs model.Requirements, types []string) (out []choice) {
	for i := range s.machines {
		m := &s.machines[i]
		if types != nil && !slices.Contains(types, m.name) {
			continue
		}
		for j := range m.offerings {
			o := &m.offerings[j]
			ok := o.Available
			for k := range rs {
				if s.provided(rs[k].Key) {
					v, has := m.label(rs[k].Key, o)
					ok = ok && rs[k].Matches(v, has)
				}
			}
			if ok {
				out = append(out, choice{m, o})
			}
		}
	}
	return out
}

// node is a machine of a pool as it would register, with the given labels of the pool's own.
func (c choice) node(name string, p *model.NodePool, own map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: maps.Clone(c.m.labels)}}
	maps.Copy(n.Labels, own)
	maps.Copy(n.Labels, p.Labels)
	n.Labels[zoneKey], n.Labels[ctKey], n.Labels[poolKey], n.Labels[hostKey] = c.o.Zone, c.o.CapacityType, p.Name, name
	n.Labels[karpv1.NodeClassLabel(p.ClassGroup, p.ClassKind)] = p.ClassName
	for _, t := range p.Taints { // startup taints have been taken away by the time pods come
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	n.Status.Capacity, n.Status.Allocatable = maps.Clone(c.m.capacity), maps.Clone(c.m.allocatable)
	return n
}

// fixed are the labels that requirements give a node because they allow one value, or the first of those they list.
func (s *scenario) fixed(rs model.Requirements) map[string]string {
	out := map[string]string{}
	for _, r := range rs {
		if !s.provided(r.Key) && !r.Complement && len(r.Values) > 0 {
			out[r.Key] = r.Values[0]
		}
	}
	return out
}

// variants are the ways in which a pool's own labels may come out, among the words that scenarios use.
func (s *scenario) variants(p *model.NodePool) []map[string]string {
	out := []map[string]string{{}}
	for _, r := range p.Requirements {
		if s.provided(r.Key) || p.Labels[r.Key] != "" || r.Key == poolKey {
			continue
		}
		values := r.Values
		if r.Complement {
			values = nil
			for _, v := range slices.Concat(teams, tiers, []string{"3", strconv.FormatInt(max(0, r.Min), 10)}) {
				if r.Matches(v, true) && !slices.Contains(values, v) && (r.Key == teamKey) == slices.Contains(teams, v) {
					values = append(values, v)
				}
			}
		}
		var next []map[string]string
		for _, have := range out {
			for _, v := range values {
				with := maps.Clone(have)
				with[r.Key] = v
				next = append(next, with)
			}
			if r.AllowAbsent {
				next = append(next, have)
			}
		}
		out = next
	}
	return out
}

// left is what the plan leaves of a pool's limits, its machines counted as the largest they may become.
func (s *scenario) left(a *answer, p *model.NodePool) (left model.Resources, nodes int64) {
	left, nodes = p.Limits, p.NodeLimit
	for _, c := range a.claims() {
		if c.Pool.Name != p.Name {
			continue
		}
		var most model.Resources
		for _, t := range c.Types {
			most = most.Max(t.Capacity)
		}
		left = left.Sub(most)
		if nodes > 0 {
			nodes--
		}
	}
	return left, nodes
}

// probes are one empty node of every offering, in every variant, that a pool allows and can pay.
func (s *scenario) probes(a *answer, p *model.NodePool, name func() string) (out []*corev1.Node, attach map[string]int64) {
	attach = map[string]int64{}
	left, nodes := s.left(a, p)
	if !p.Ready || nodes == 0 {
		return nil, attach
	}
	for _, own := range s.variants(p) {
		for _, c := range s.choices(p.Requirements, nil) {
			t := p.Types[slices.IndexFunc(p.Types, func(t *model.InstanceType) bool { return t.Name == c.m.name })]
			ok := true
			for d, limited := range p.HasLimit {
				ok = ok && (!limited || t.Capacity.At(model.Dim(d)) <= left.At(model.Dim(d)))
			}
			if ok {
				n := c.node(name(), p, own)
				out, attach[n.Name] = append(out, n), c.m.attach
			}
		}
	}
	return out, attach
}

// daemonGoesTo reports whether the DaemonSet controller would make a pod for a node.
func daemonGoesTo(x *appsv1.DaemonSet, n *corev1.Node) bool {
	p := &corev1.Pod{Spec: x.Spec.Template.Spec}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil || !ok {
		return false
	}
	_, untolerated := corehelpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, daemonTolerations(p), func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false)
	return !untolerated
}

// daemonTolerations are a DaemonSet's and what its controller adds.
func daemonTolerations(p *corev1.Pod) []corev1.Toleration {
	out := slices.Clone(p.Spec.Tolerations)
	for _, t := range []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
	} {
		t.Operator = corev1.TolerationOpExists
		out = append(out, t)
	}
	return out
}
