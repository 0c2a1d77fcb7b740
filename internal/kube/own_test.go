// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/groupstatus"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// TestDeniedOwnObjects has ConfigMaps and a Lease refused that Dovetail keeps for itself, by a policy and for a missing right. Each is told, as a refusal in the words of who
// refused it, and that it is let through, where it is.
func TestDeniedOwnObjects(t *testing.T) {
	p := newPlane(t)
	var mu sync.Mutex
	told := map[string]error{}
	stop := func() {} // ends the election
	p.us.OnWrite(func(w client.Written) {
		mu.Lock()
		defer mu.Unlock()
		if told[w.Kind+" "+w.Namespace+"/"+w.Name] = write.AnswerOf(w).Err; w.Kind == "Lease" && w.Err != nil {
			stop()
		}
	})
	objects := func(namespace string) map[string]func() error {
		lease := client.Lease{Namespace: namespace, Name: "dovetail-denied", Identity: "us", Duration: 3 * time.Second, Renew: 2 * time.Second, Retry: 500 * time.Millisecond}
		return map[string]func() error{
			"ConfigMap " + namespace + "/dovetail-learned": func() error {
				return write.NewKept(p.us, namespace, "denied").Store(p.ctx, "x")
			},
			"ConfigMap " + namespace + "/dovetail-demand-77": func() error {
				return write.NewHistories(p.us, namespace).StoreHistories(p.ctx, 77, map[string][]byte{"x": nil})
			},
			"ConfigMap " + namespace + "/denied-status": func() error {
				return write.NewGroupStatus(p.us, namespace, "denied-status").StoreGroupStatus(p.ctx, &groupstatus.Status{})
			},
			"Lease " + namespace + "/dovetail-denied": func() error {
				ctx, cancel := context.WithCancel(p.ctx)
				defer cancel()
				mu.Lock()
				stop = cancel
				mu.Unlock()
				led := false
				err := client.Lead(ctx, p.us, lease, func(context.Context) { led = true })
				if err == nil && !led {
					err = errors.New("the lease was not had")
				}
				return err
			},
		}
	}
	refusedBy := func(namespace, words string) {
		for name, do := range objects(namespace) {
			err := do()
			mu.Lock()
			if said := told[name]; err == nil || !errors.Is(said, plan.ErrInvalid) || !strings.Contains(said.Error(), words) {
				t.Errorf("%s: answered %v, told as %v; want a refusal with %q", name, err, said, words)
			}
			mu.Unlock()
		}
	}
	refusedBy("kube-public", "cannot ") // a right is missing

	policy := []byte(fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"denied-own"},"spec":{"failurePolicy":"Fail",
		"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["CREATE","UPDATE"],"resources":["configmaps","leases"]}]},
		"matchConditions":[{"name":"here","expression":"request.namespace == 'denied-own'"}],"validations":[{"expression":"false","message":%q}]}}
		{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"denied-own"},"spec":{"policyName":"denied-own","validationActions":["Deny"]}}
		{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"denied-own"}}
		{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"denied-own","namespace":"denied-own"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
			"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"system:authenticated"}]}`, deniedText))
	if err := kubetest.Kubectl(policy, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := kubetest.Kubectl(policy, "delete", "--wait=false", "--ignore-not-found", "-f", "-"); err != nil {
			t.Error(err)
		}
	}()
	own := objects("denied-own")
	status := own["ConfigMap denied-own/denied-status"]
	testwait.Until(t, "the policy is in force", func() error {
		if err := status(); err == nil || !strings.Contains(err.Error(), deniedText) {
			return fmt.Errorf("a write answers %v", err)
		}
		return nil
	})
	refusedBy("denied-own", deniedText)
	if err := kubetest.Kubectl(nil, "delete", "validatingadmissionpolicybinding", "denied-own"); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the policy is gone", func() error { return status() })
	for name, do := range own {
		if err := do(); err != nil {
			t.Errorf("%s is refused without the policy: %v", name, err)
		}
		mu.Lock()
		if err, was := told[name]; !was || err != nil {
			t.Errorf("that %s is let through is told as %v", name, err)
		}
		mu.Unlock()
	}
}

// Whatever writes ConfigMaps goes through what tells of refusals.
func TestConfigMapsAreWrittenInOnePlace(t *testing.T) {
	files, err := filepath.Glob("write/*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) != "configmap.go" && !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), `Resource("configmaps")`) {
			t.Errorf("%s reads or writes ConfigMaps past getConfigMap and putConfigMap", file)
		}
	}
}
