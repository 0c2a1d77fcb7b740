// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Default constraints count what a pod's controller and its Services select, also where these come after the pod or go before it.
func TestDefaultConstraintsFollow(t *testing.T) {
	p := newPlane(t)
	p.objects.Defaults = translate.SchedulerDefaults{corev1.DefaultSchedulerName: {{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule}}}
	w := p.watch(t)
	apply := func(object string) {
		t.Helper()
		if err := kubetest.Kubectl([]byte(object), "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(s *state.State, name string) []string {
		x := s.FindPod("default/" + name)
		if x == nil || len(x.Class.Spread) != 1 || x.Class.Spread[0].Selector == nil {
			return nil
		}
		var out []string
		for _, r := range *x.Class.Spread[0].Selector {
			out = append(out, r.Key)
		}
		return out
	}
	apply(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"spread"},"spec":{"replicas":1,"serviceName":"none","selector":{"matchLabels":{"app":"spread"}},
"template":{"metadata":{"labels":{"app":"spread","tier":"1"}},"spec":{"nodeSelector":{"no":"where"},"containers":[{"name":"c","image":"c"}]}}}}`)
	w.until("the StatefulSet's selector", func(s *state.State) bool { return slices.Equal(keys(s, "spread-0"), []string{"app"}) })
	apply(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"spread"},"spec":{"selector":{"tier":"1"},"ports":[{"port":80}]}}`)
	w.until("the Service's too", func(s *state.State) bool { return slices.Equal(keys(s, "spread-0"), []string{"app", "tier"}) })
	if err := kubetest.Kubectl(nil, "delete", "service", "spread"); err != nil {
		t.Fatal(err)
	}
	w.until("the Service's no more", func(s *state.State) bool { return slices.Equal(keys(s, "spread-0"), []string{"app"}) })

	// Nobody selects this one, and it is spread by nothing.
	apply(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"alone","labels":{"app":"spread"}},"spec":{"nodeSelector":{"no":"where"},"containers":[{"name":"c","image":"c"}]}}`)
	w.until("the pod alone", func(s *state.State) bool { return s.FindPod("default/alone") != nil })
	if x := w.s.FindPod("default/alone"); len(x.Class.Spread) != 0 {
		t.Errorf("a pod that nobody selects is spread by %+v", x.Class.Spread)
	}
}
