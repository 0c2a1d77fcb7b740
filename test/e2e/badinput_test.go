// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// What the API server can judge it rejects, naming the field.
func TestRejectedNodePools(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "rejected")
	for i, c := range []struct {
		field string // where the fault is
		set   map[string]any
	}{
		{"spec.template.spec.requirements[0].operator", map[string]any{"spec.template.spec.requirements": []any{map[string]any{"key": "team", "operator": "Like", "values": []string{"x"}}}}},
		{"spec.template.spec.requirements", map[string]any{"spec.template.spec.requirements": []any{map[string]any{"key": "team", "operator": "In", "values": []string{}}}}},
		{"spec.template.spec.requirements", map[string]any{"spec.template.spec.requirements": []any{map[string]any{"key": "team", "operator": "Gt", "values": []string{"many"}}}}},
		{"spec.template.spec.requirements", map[string]any{"spec.template.spec.requirements": []any{in("karpenter.sh/nodepool", "other")}}},
		{"spec.template.metadata.labels", map[string]any{"spec.template.metadata.labels": map[string]any{"kubernetes.io/hostname": "x"}}},
		{"spec.template.spec.nodeClassRef", map[string]any{"spec.template.spec.nodeClassRef": nil}},
		{"spec.template.spec.nodeClassRef.name", map[string]any{"spec.template.spec.nodeClassRef.name": ""}},
		{"spec.template.spec.expireAfter", map[string]any{"spec.template.spec.expireAfter": "two days"}},
		{"spec.template.spec.taints[0].effect", map[string]any{"spec.template.spec.taints": []any{map[string]any{"key": "a", "effect": "NoWay"}}}},
		{"spec.disruption.consolidateAfter", map[string]any{"spec.disruption.consolidateAfter": "-1s"}},
		{"spec.disruption.consolidationPolicy", map[string]any{"spec.disruption.consolidationPolicy": "Sometimes"}},
		{"spec.disruption.budgets[0].nodes", map[string]any{"spec.disruption.budgets": []any{map[string]any{"nodes": "110%"}}}},
		{"spec.disruption.budgets", map[string]any{"spec.disruption.budgets": []any{map[string]any{"nodes": "1", "schedule": "@daily"}}}},
		{"spec.weight", map[string]any{"spec.weight": 101}},
	} {
		err := e.tryNodePool(fmt.Sprintf("%s-%d", e.name, i), c.set)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s = %v: want a rejection that names the field, have: %v", c.field, c.set, err)
		}
	}
}

// What only Dovetail can judge becomes a condition of the pool that names the field, and events of the pods that wait for it. Other
// pools go on.
func TestUnusableNodePools(t *testing.T) {
	s := shared(t)
	t.Parallel()
	taint := func(effect string) map[string]any { return map[string]any{"key": "twice", "effect": effect} }
	for _, c := range []struct {
		name      string
		set       map[string]any
		condition string // of the pool that becomes False; empty: the pool is fine, only nothing can be bought
		reason    string
		says      []string // the condition's message
		event     []string // words of the pods' event, beside the pool's name
	}{
		{"same-taint", map[string]any{"spec.template.spec.taints": []any{taint("NoSchedule")}, "spec.template.spec.startupTaints": []any{taint("NoSchedule")}},
			karpv1.ConditionValidationSucceeded, "NodePoolValidationFailed", []string{"spec.template.spec.startupTaints[0]", "twice"}, []string{"NodePoolValidationFailed"}},
		{"no-capacity-type", map[string]any{"spec.template.spec.requirements": []any{in("karpenter.sh/capacity-type", "borrowed")}},
			karpv1.ConditionValidationSucceeded, "NodePoolValidationFailed", []string{"spec.template.spec.requirements[0]", "borrowed"}, []string{"NodePoolValidationFailed"}},
		{"contradiction", map[string]any{"spec.template.spec.requirements": []any{in("team", "red"), in("team", "blue")}},
			karpv1.ConditionValidationSucceeded, "NodePoolValidationFailed", []string{"spec.template.spec.requirements", "team"}, []string{"NodePoolValidationFailed"}},
		{"no-class", map[string]any{"spec.template.spec.nodeClassRef.name": "nowhere"},
			karpv1.ConditionNodeClassReady, "NodeClassNotFound", []string{"spec.template.spec.nodeClassRef", "nowhere"}, []string{"NodeClassNotFound", "nowhere"}},
		{"no-kind", map[string]any{"spec.template.spec.nodeClassRef.kind": "EC2NodeClass", "spec.template.spec.nodeClassRef.group": "karpenter.k8s.aws"},
			karpv1.ConditionNodeClassReady, "NodeClassNotFound", []string{"EC2NodeClass"}, []string{"NodeClassNotFound", "EC2NodeClass"}},
		{"no-type", map[string]any{"spec.template.spec.requirements": only("m99.huge")}, "", "", nil, []string{"NoInstanceType", "m99.huge"}},
		{"no-zone", map[string]any{"spec.template.spec.requirements": []any{in("topology.kubernetes.io/zone", "moon-1a")}}, "", "", nil, []string{"Offering", "requires zone moon-1a"}},
		{"too-small", map[string]any{"spec.template.spec.requirements": only("m5.large")}, "", "", nil, []string{"Resource", "cpu", "4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, s, "bad-"+c.name)
			e.nodePool(c.set)
			e.deploy("waits", 1, e.pod("4", "1Gi", func(p *corev1.PodTemplateSpec) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "twice", Operator: corev1.TolerationOpExists}} // so that the pool's fault is all that is left
			}))
			if c.condition == "" {
				e.poolCondition(e.name, karpv1.ConditionReady, metav1.ConditionTrue)
			} else {
				got := e.poolCondition(e.name, c.condition, metav1.ConditionFalse)
				if got.Reason != c.reason || slices.ContainsFunc(c.says, func(w string) bool { return !strings.Contains(got.Message, w) }) {
					t.Errorf("%s is False with %s: %q, want %s and the words %q", c.condition, got.Reason, got.Message, c.reason, c.says)
				}
				e.poolCondition(e.name, karpv1.ConditionReady, metav1.ConditionFalse)
			}
			ev := e.event("Pod", "waits-", "FailedScheduling", append([]string{"NodePool " + e.name + ":"}, c.event...)...)
			t.Log(ev.Message)

			// A pool beside it that is right takes the pod.
			e.otherPool(e.name+"-right", map[string]any{"spec.template.spec.requirements": only("m5.2xlarge")})
			e.podsRun(1)
			if n := len(e.launches(e.name + "-right")); n != 1 {
				t.Errorf("%d machines were launched for the pool that is right, want 1", n)
			}
		})
	}
}

// A node class that comes later is all that a pool needs.
func TestNodeClassComesLater(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "later")
	e.nodePool(map[string]any{"spec.template.spec.nodeClassRef.name": "later", "spec.template.spec.requirements": only("m5.large")})
	e.deploy("waits", 1, e.pod("1", "1Gi"))
	e.poolCondition(e.name, karpv1.ConditionNodeClassReady, metav1.ConditionFalse)
	e.must(s.Create(e.ctx, classes, "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: later}, spec: {}}"))
	e.poolCondition(e.name, karpv1.ConditionReady, metav1.ConditionTrue)
	e.podsRun(1)
}

// A catalog that can't be read keeps the sandbox from coming up, and it says which file, object and field.
func TestMalformedCatalog(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "catalog.json")
	if err := os.WriteFile(file, []byte(strings.Replace(tight, `"Price": 1.6`, `"Price": "cheap"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.Up(t.Context(), filepath.Join(t.TempDir(), "sb"), "--boot", "0", "--pull", "0", "--catalog", file)
	if err == nil {
		t.Error("the sandbox came up")
		if err := s.Down(); err != nil {
			t.Error(err)
		}
		return
	}
	for _, w := range []string{"exact-16", "offerings[0].Price", "cheap", file, "machines"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("it does not say %q:\n%s", w, err)
		}
	}
}

// A controller that can't reach its API server ends with an error that has the address in it, and what was wrong.
func TestUnreachableAPIServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil { // nobody listens there now
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}],\n" +
		" clusters: [{name: c, cluster: {server: 'https://" + address + "', insecure-skip-tls-verify: true}}]}\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, dovetail, err := sandbox.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Scale(limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, dovetail, "controller", "--kubeconfig", kubeconfig, "--machines", "http://127.0.0.1:9", "--leader-elect=false",
		"--metrics-address", "", "--health-address", "")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v, want exit status 1", err)
	}
	if !strings.Contains(out.String(), address) {
		t.Errorf("its words don't name %s:\n%s", address, out.String())
	}
}
