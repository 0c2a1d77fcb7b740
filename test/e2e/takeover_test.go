// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// as writes a kubeconfig by which the administrator acts as somebody else.
func (e *env) as(user string) string {
	e.t.Helper()
	text, err := os.ReadFile(e.s.Kubeconfig(sandbox.Admin))
	e.must(err)
	var config map[string]any
	e.must(yaml.Unmarshal(text, &config))
	for _, u := range config["users"].([]any) {
		u.(map[string]any)["user"].(map[string]any)["as"] = user
	}
	text, err = yaml.Marshal(config)
	e.must(err)
	path := filepath.Join(e.t.TempDir(), user+".kubeconfig")
	e.must(os.WriteFile(path, text, 0o600))
	return path
}

// grant gives a user the rights of rules.
func (e *env) grant(user string, rules []rbacv1.PolicyRule) {
	e.t.Helper()
	roles, bindings := e.s.Kube.RbacV1().ClusterRoles(), e.s.Kube.RbacV1().ClusterRoleBindings()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	if _, err := roles.Create(e.ctx, role, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err := roles.Update(e.ctx, role, metav1.UpdateOptions{})
		e.must(err)
		return
	}
	_, err := bindings.Create(e.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}}, metav1.CreateOptions{})
	e.must(err)
}

// dovetail runs a verb and returns its exit status and what it printed.
func (e *env) dovetail(args ...string) (int, string) {
	e.t.Helper()
	_, bin, err := sandbox.Binaries()
	e.must(err)
	cmd := exec.CommandContext(e.ctx, bin, args...)
	out, err := cmd.CombinedOutput()
	if exit := cmd.ProcessState; exit == nil {
		e.must(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// Whatever is in the way of a handover is said in a sentence with the command that mends it, and nothing is changed.
func TestTakeoverRefusals(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := own(t)
	e := newEnv(t, s, "refuse")
	e.nodePool(nil)
	e.deploy("first", 1, e.pod("500m", "256Mi"))
	e.podsRun(1)
	before := e.pool()
	admin := s.Kubeconfig(sandbox.Admin)
	refused := func(kubeconfig string, args []string, words ...string) {
		t.Helper()
		status, out := e.dovetail(append(args, "--kubeconfig", kubeconfig)...)
		for _, w := range append(words, "nothing was changed") {
			if !strings.Contains(out, w) {
				t.Errorf("%q (status %d): it does not say %q:\n%s", args, status, w, out)
			}
		}
		if status != 1 {
			t.Errorf("%q: status %d, want 1:\n%s", args, status, out)
		}
	}
	take := []string{"takeover", "--pool", e.name, "--no-controller-check"}
	refused(admin, []string{"takeover", "--pool", e.name}, "No Dovetail controller holds lease dovetail-system/dovetail-leader", "Otherwise: helm install")
	refused(admin, []string{"takeover", "--pool", "nowhere", "--no-controller-check"}, "--pool \"nowhere\": the cluster has no such NodePool", "fix: kubectl get nodepools")

	// Rights that are missing, one by one.
	all := []rbacv1.PolicyRule{
		{APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodepools", "nodeclaims"}, Verbs: []string{"get", "list", "create", "patch", "delete"}},
		{APIGroups: []string{"karpenter.sh"}, Resources: []string{"nodeclaims/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list"}},
		{APIGroups: []string{"karpenter.kwok.sh"}, Resources: []string{"kwoknodeclasses"}, Verbs: []string{"get"}},
	}
	hander := e.as("hander")
	tried := 0
	for i := range all {
		for j, verb := range all[i].Verbs {
			rules := slices.Clone(all)
			if rules[i].Verbs = slices.Delete(slices.Clone(all[i].Verbs), j, j+1); len(rules[i].Verbs) == 0 {
				rules = slices.Delete(rules, i, i+1)
			}
			e.grant("hander", rules)
			e.until("the right is gone: "+verb, func() error {
				_, out := e.dovetail(append(take, "--dry-run", "--kubeconfig", hander)...)
				resource, _, _ := strings.Cut(all[i].Resources[0], "/")
				if !strings.Contains(strings.ToLower(out), "you may not "+verb+" "+resource) || !strings.Contains(out, "fix: kubectl create clusterrolebinding") || !strings.Contains(out, "nothing was changed") {
					return fmt.Errorf("without %s %v it says:\n%s", verb, all[i].Resources, out)
				}
				return nil
			})
			tried++
		}
	}
	e.grant("hander", all)
	e.until("all rights suffice", func() error {
		if status, out := e.dovetail(append(take, "--dry-run", "--kubeconfig", hander)...); status != 0 || !strings.Contains(out, "All checks passed") {
			return fmt.Errorf("status %d:\n%s", status, out)
		}
		return nil
	})
	t.Logf("%d rights were missing, one by one", tried)

	// Two autoscalers at once, and Karpenter while something is to be given back to it.
	holder, seconds, now := "somebody", int32(3600), metav1.NewMicroTime(time.Now())
	lease := func(name string) {
		_, err := s.Kube.CoordinationV1().Leases("kube-system").Create(e.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}}, metav1.CreateOptions{})
		e.must(err)
	}
	lease("karpenter-leader-election")
	refused(admin, []string{"release", "--pool", e.name}, "would launch a second instance", "fix: kubectl -n kube-system scale deployment karpenter --replicas=0")
	lease("cluster-autoscaler")
	refused(admin, take, "Several autoscalers are running", "fix: kubectl -n kube-system scale deployment cluster-autoscaler --replicas=0")
	e.must(s.Kube.CoordinationV1().Leases("kube-system").Delete(e.ctx, "karpenter-leader-election", metav1.DeleteOptions{}))
	refused(admin, take, "manages no NodePools", "scale deployment cluster-autoscaler --replicas=0")
	e.must(s.Kube.CoordinationV1().Leases("kube-system").Delete(e.ctx, "cluster-autoscaler", metav1.DeleteOptions{}))

	after := e.pool()
	if after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("the pool was changed: %+v", after)
	}
	if _, err := s.Kube.CoreV1().ConfigMaps("dovetail-system").Get(e.ctx, "dovetail-takeover", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("ConfigMap dovetail-takeover: %v, want none", err)
	}

	// A pool that somebody deletes in the middle is not made again.
	e.must(s.Create(e.ctx, pools, `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: vanishes}, spec: {template: {spec: {
		nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: []}}}}`))
	gone := make(chan error, 1)
	go func() {
		gone <- waitFor(e.ctx, func(ctx context.Context) error {
			if _, err := s.Kube.CoreV1().ConfigMaps("dovetail-system").Get(ctx, "dovetail-takeover", metav1.GetOptions{}); err != nil {
				return err
			}
			return s.Delete(ctx, pools+"/vanishes", "")
		})
	}()
	status, out := e.dovetail("takeover", "--pool", "vanishes", "--no-controller-check", "--kubeconfig", admin)
	if status != 1 || !strings.Contains(out, "was deleted by another client during the handover") {
		t.Errorf("status %d:\n%s", status, out)
	}
	e.must(<-gone)
	if _, err := sandbox.Get[karpv1.NodePool](e.ctx, s, pools+"/vanishes"); !apierrors.IsNotFound(err) {
		t.Errorf("the pool is there again: %v", err)
	}

	// A node class that is gone, for a pool in either hand.
	class := "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses/default"
	e.must(s.Delete(e.ctx, class, ""))
	for _, verb := range []string{"takeover", "release"} {
		refused(admin, []string{verb, "--pool", e.name, "--no-controller-check"}, "KWOKNodeClass default does not exist", "Existing nodes stay", "fix: kubectl apply -f FILE")
	}

	// Karpenter that is installed in part.
	e.must(s.Delete(e.ctx, pools+"/"+e.name, ""))
	e.must(s.Delete(e.ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodeclaims.karpenter.sh", ""))
	e.until("the half that is missing is named", func() error {
		status, out := e.dovetail(append(take, "--kubeconfig", admin)...)
		if status != 1 || !strings.Contains(out, "doesn't serve nodeclaims.karpenter.sh/v1: Karpenter is installed in part") || !strings.Contains(out, "fix: dovetail manifests") {
			return fmt.Errorf("status %d:\n%s", status, out)
		}
		return nil
	})
}
