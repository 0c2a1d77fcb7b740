// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"math"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// A selector that wants no label to have a value counts once, for the namespaces that it looks at and that have pending
// pods. Estimate charges it to each class of these.
func TestStandingRules(t *testing.T) {
	anti := func(namespace, key string, rs ...model.Requirement) *model.Class {
		pods := model.Requirements(rs)
		c := &model.Class{Namespace: namespace, Labels: model.Labels{"id": key}, AntiAffinity: []model.PodTerm{
			{TopologyKey: model.LabelZone, Selector: model.Selector{Namespaces: []string{namespace}, Pods: &pods}}}}
		c.Key = key
		return c
	}
	absent := func(key string) model.Requirement {
		return model.Requirement{Key: key, Values: []string{"x", "y"}, Complement: true, AllowAbsent: true, Min: math.MinInt64, Max: math.MaxInt64}
	}
	var pods []*model.Pod
	add := func(c *model.Class) { pods = append(pods, &model.Pod{Namespace: c.Namespace, Name: c.Key, Class: c}) }
	for i := range 5 {
		add(anti("tenant", fmt.Sprint("a", i), absent("p"), absent(fmt.Sprint("q", i)))) // one each
	}
	add(anti("tenant", "same", absent("p"), absent("q0")))                       // as the first
	add(anti("tenant", "found", model.OneOf("app", "a"), absent("p")))           // found by its label
	add(anti("elsewhere", "other", absent("p"), absent("r")))                    // looks at a namespace without pending pods
	add(&model.Class{Namespace: "tenant", Key: "plain", Labels: model.Labels{}}) // has no rule
	nodes := []*model.Node{{Name: "n", Pods: pods}, {Name: "none", NoAnti: true, Pods: pods}}
	s := CountStandingRules(nodes, map[string]bool{"tenant": true, "shop": true})
	if got := s.byNamespace["tenant"].selectors; got != 5 {
		t.Errorf("%d selectors look at the tenant's pods, want 5", got)
	}
	if len(s.byNamespace) != 1 {
		t.Errorf("counted for %v, want the tenant's namespace alone", s.byNamespace)
	}
	for namespace, more := range map[string]bool{"tenant": true, "shop": false} {
		class := &model.Class{Namespace: namespace}
		with, without := Estimate{Standing: s}, Estimate{}
		if a, b := with.Add(class), without.Add(class); a > b != more {
			t.Errorf("a class of %s is %d units of work beside them and %d without", namespace, a, b)
		}
	}
}
