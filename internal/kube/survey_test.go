// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestSurvey: a survey takes over what may be read and says what may not; kinds that the API server does not have are no
// problem, and without nodes or pods there is nothing to say.
func TestSurvey(t *testing.T) {
	p := newPlane(t)
	for _, text := range []string{
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"surveyed"},"spec":{"nodeSelector":{"no":"where"},"containers":[{"name":"c","image":"c"}]}}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"surveyor"},"rules":[{"apiGroups":[""],"resources":["nodes","pods"],"verbs":["list"]}]}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"surveyor"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"surveyor"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"surveyor"}]}`,
	} {
		if err := kubetest.Kubectl([]byte(text), "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string) *client.Client {
		config := rest.CopyConfig(p.adminConfig)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
		c, err := client.New(p.ctx, config, client.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}

	all := manifests.New()
	survey, err := watch.ReadSurvey(p.ctx, p.admin, all)
	if err != nil || len(survey.Denied) > 0 {
		t.Fatalf("%+v %v", survey, err)
	}

	var m *manifests.Set
	for range 100 { // the API server takes a moment to heed a binding
		m = manifests.New()
		if survey, err = watch.ReadSurvey(p.ctx, as("surveyor"), m); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	denied := map[string]bool{}
	for _, d := range survey.Denied {
		denied[d.Resource] = true
	}
	for _, want := range []string{"poddisruptionbudgets", "nodepools", "nodeclaims", "daemonsets", "leases"} {
		if !denied[want] {
			t.Errorf("%s are not among those that may not be listed: %+v", want, survey.Denied)
		}
	}
	s := state.New()
	m.Feed(s)
	if pod := s.FindPod("default/surveyed"); pod == nil || pod.Node != "" || pod.Unschedulable.IsZero() {
		t.Errorf("the pod was read as %+v", pod)
	}

	nobody := as("nobody")
	if _, err := watch.ReadSurvey(p.ctx, nobody, manifests.New()); err == nil || !strings.Contains(err.Error(), "list nodes of API server "+nobody.Address) || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("want the kind that may not be listed and where, have %v", err)
	}
}
