// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// marker is the label that the pods of an adversary select nodes by. The templates of its NodePools set it to its name.
const marker = "adversary"

const (
	pools       = "/apis/karpenter.sh/v1/nodepools"
	claims      = "/apis/karpenter.sh/v1/nodeclaims"
	classes     = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
	nodes       = "/api/v1/nodes"
	deployments = "/apis/apps/v1/namespaces/%s/deployments/%s"
)

// An adversary is something that lives in other people's clusters. It has a namespace, a Deployment "work" and NodePools of its own, all under its
// name, and touches nothing else.
type adversary struct {
	name string
	does string
	// start creates what the adversary needs and begins its loops, which end with the context.
	start func(ctx context.Context, f *field) error
}

// field is where one adversary acts.
type field struct {
	s    *sandbox.Sandbox
	name string

	acts     atomic.Int64 // what it has done so far
	policies []string     // what these refuse is counted as done by it too
	loops    sync.WaitGroup

	mu     sync.Mutex
	failed error // the last failure of a loop that is none of other writers' doing
}

// every calls act again and again until the context ends. Conflicts with other writers and objects that are gone are no failures.
func (f *field) every(ctx context.Context, interval time.Duration, act func() error) {
	f.loops.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := act(); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
				f.mu.Lock()
				if f.failed == nil {
					fmt.Fprintf(os.Stderr, "adversary %s: %v\n", f.name, err)
				}
				f.failed = err
				f.mu.Unlock()
			}
		}
	})
}

// did counts one act, if it was carried out.
func (f *field) did(err error) error {
	if err == nil {
		f.acts.Add(1)
	}
	return err
}

// pool describes a NodePool of nodes of two CPUs.
type pool struct {
	name         string // default: the adversary's
	weight       int
	class        string // default: default
	expireAfter  string // default: Never
	labels       string // of its nodes, beside the marker, as a YAML flow mapping's inside
	requirements string // likewise of a sequence
}

// text returns the manifest of a NodePool.
func (f *field) text(p pool) string {
	weight := ""
	if p.weight > 0 {
		weight = fmt.Sprintf("weight: %d, ", p.weight)
	}
	return fmt.Sprintf(`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: %q}, spec: {%stemplate: {metadata: {labels: {%s: %s%s}}, spec: {
		nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: %s}, expireAfter: %s, requirements: [
		{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: node.kubernetes.io/instance-type, operator: In, values: [c-2x-amd64-linux]}%s]}},
		disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 10s, budgets: [{nodes: "100%%"}]}}}`,
		cmp.Or(p.name, f.name), weight, marker, f.name, p.labels, cmp.Or(p.class, "default"), cmp.Or(p.expireAfter, "Never"), p.requirements)
}

// create creates objects of the adversary: collection and manifest in turn. Those that are there already stay.
func (f *field) create(ctx context.Context, pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if err := f.s.Create(ctx, pairs[i], pairs[i+1]); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create in %s: %w", pairs[i], err)
		}
	}
	return nil
}

// createPools creates NodePools.
func (f *field) createPools(ctx context.Context, all ...pool) error {
	for _, p := range all {
		if err := f.create(ctx, pools, f.text(p)); err != nil {
			return err
		}
	}
	return nil
}

// work creates the namespace and the Deployment, whose pods can only run on nodes of the adversary's NodePools.
func (f *field) work(ctx context.Context, replicas int, cpu string, change ...func(*corev1.PodTemplateSpec)) error {
	if err := f.create(ctx, "/api/v1/namespaces", fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", f.name)); err != nil {
		return err
	}
	d := scaledown.Deployment("work", replicas, 2, cpu, "64Mi")
	d.Namespace = f.name
	d.Spec.Template.Spec.NodeSelector = map[string]string{marker: f.name}
	for _, c := range change {
		c(&d.Spec.Template)
	}
	_, err := f.s.Kube.AppsV1().Deployments(f.name).Create(ctx, d, metav1.CreateOptions{})
	return err
}

// usual creates a NodePool and a Deployment of one pod.
func (f *field) usual(ctx context.Context) error {
	return errors.Join(f.createPools(ctx, pool{}), f.work(ctx, 1, "500m"))
}

// breathe scales the Deployment back and forth between two sizes.
func (f *field) breathe(ctx context.Context, interval time.Duration, small, large int) {
	size := small
	f.every(ctx, interval, func() error {
		size = small + large - size
		return f.s.Patch(ctx, fmt.Sprintf(deployments, f.name, "work"), fmt.Sprintf(`{"spec":{"replicas":%d}}`, size))
	})
}

// onNodes calls act for each node of the adversary's NodePools, several times a second.
func (f *field) onNodes(ctx context.Context, act func(n *corev1.Node) error) {
	f.every(ctx, 500*time.Millisecond, func() error {
		all, err := f.s.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: marker + "=" + f.name})
		if err != nil {
			return err
		}
		var failed error
		for i := range all.Items {
			if err := act(&all.Items[i]); err != nil && !apierrors.IsNotFound(err) {
				failed = err
			}
		}
		return failed
	})
}

// policyDelay is how long the API server may take to know of a new admission policy.
const policyDelay = 5 * time.Second

// enforce creates an admission policy and its binding, and returns when it is in force.
func (f *field) enforce(ctx context.Context, kind, collection, spec, binding string) error {
	const format = "{apiVersion: admissionregistration.k8s.io/v1, kind: %s, metadata: {name: %s}, spec: {%s}}"
	path := "/apis/admissionregistration.k8s.io/v1/" + collection
	if err := f.create(ctx, path+"ies", fmt.Sprintf(format, kind, f.name, spec), path+"ybindings", fmt.Sprintf(format, kind+"Binding", f.name, "policyName: "+f.name+binding)); err != nil {
		return err
	}
	select {
	case <-time.After(policyDelay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refuse has an admission policy refuse the requests that a rule matches, but for those that an expression in CEL allows.
func (f *field) refuse(ctx context.Context, rule, allow string) error {
	f.policies = append(f.policies, f.name)
	return f.enforce(ctx, "ValidatingAdmissionPolicy", "validatingadmissionpolic", fmt.Sprintf(
		`failurePolicy: Fail, matchConstraints: {resourceRules: [%s]}, validations: [{expression: %q, message: "not in this cluster"}]`, rule, allow), ", validationActions: [Deny]")
}

// agentTaint is a taint that no NodePool declares.
const agentTaint = "agent.example.com/not-ready"

// taintJoining makes every node of the adversary's NodePools join with agentTaint, as if its kubelet registered it so.
func (f *field) taintJoining(ctx context.Context) error {
	return f.enforce(ctx, "MutatingAdmissionPolicy", "mutatingadmissionpolic", fmt.Sprintf(`failurePolicy: Fail, reinvocationPolicy: Never,
		matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], resources: [nodes], operations: [CREATE]}]},
		matchConditions: [{name: own, expression: "object.metadata.?labels[?'%s'].orValue('') == '%s'"}],
		mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/taints/-', value: Object.spec.taints{key: '%s', effect: 'NoSchedule'}}]"}}]`,
		marker, f.name, agentTaint), "")
}
