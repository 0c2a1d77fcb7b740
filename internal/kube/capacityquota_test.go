// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestCapacityQuotaServed: an API server refuses what Cluster Autoscaler's own definition refuses, takes both versions,
// and has the status that is written, of the resources that are limited now and no others.
func TestCapacityQuotaServed(t *testing.T) {
	p := newPlane(t)
	w := p.watch(t)
	apply := func(version, name, resources string) error {
		return kubetest.Kubectl(fmt.Appendf(nil, `{"apiVersion":"autoscaling.x-k8s.io/%s","kind":"CapacityQuota","metadata":{"name":%q},"spec":{"selector":{"matchLabels":{"team":%[2]q}},"limits":{"resources":{%s}}}}`, version, name, resources), "apply", "-f", "-")
	}
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprintf(`"example.com/r%d":1`, i)
	}
	for resources, want := range map[string]string{
		`"cpu":"500m"`: "All resource quantities must be non-negative integers.", `"cpu":"1000m"`: "All resource quantities must be non-negative integers.",
		`"memory":"3.67Gi"`: "All resource quantities must be non-negative integers.", `"nodes":-1`: "All resource quantities must be non-negative integers.",
		`"nodes":"-1"`: "All resource quantities must be non-negative integers.", `"` + strings.Repeat("a", 64) + `":1`: "Resource names must be 63 characters or less.",
		strings.Join(many, ","): "must have at most 20 items",
	} {
		if err := apply("v1beta1", "refused", resources); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("{%s}: want %q, got %v", resources, want, err)
		}
	}
	if err := apply("v1alpha1", "old", `"nodes":3`); err != nil {
		t.Fatal(err)
	}
	if err := apply("v1beta1", "new", `"cpu":"2k","memory":"32Gi"`); err != nil {
		t.Fatal(err)
	}
	find := func(name string) (out *model.CapacityLimit) {
		for _, l := range w.s.Snapshot(time.Now()).Limits {
			if l.Name == translate.QuotaLimitName(name) {
				out = l
			}
		}
		return out
	}
	w.until("both quotas", func(*state.State) bool { return find("old") != nil && find("new") != nil })
	if old, l := find("old"), find("new"); old.Nodes != 3 || !old.Matches(model.Labels{"team": "old"}) || l.Most.At(model.CPU) != 2_000_000 || l.Most.At(model.Memory) != 32<<30 {
		t.Errorf("they are %+v and %+v", old, l)
	}
	status := func(version string) (out bufferv1beta1.CapacityQuotaStatus, used map[string]string) {
		t.Helper()
		raw, err := p.admin.Core.Get().AbsPath("/apis/autoscaling.x-k8s.io/" + version + "/capacityquotas/new").Do(p.ctx).Raw()
		var have bufferv1beta1.CapacityQuota
		if err == nil {
			err = json.Unmarshal(raw, &have)
		}
		if err != nil {
			t.Fatal(err)
		}
		used = map[string]string{}
		if have.Status.Used != nil {
			for name, v := range have.Status.Used.Resources {
				used[name] = v.String()
			}
		}
		return have.Status, used
	}
	q := find("new").Quota
	for i, want := range []map[string]string{{"cpu": "12", "memory": "24Gi"}, {"nodes": "2"}, {}} {
		valid := model.Condition{Status: "True", Reason: "Valid"}
		if len(want) == 0 {
			valid = model.Condition{Status: "False", Reason: "Invalid", Message: "it names no resource"}
		}
		_, err := p.actor.UpdateQuota(p.ctx, plan.UpdateQuota{Quota: q.Name, UID: q.UID, Generation: int64(i + 1), Used: want, Conditions: map[string]model.Condition{"cluster-autoscaler.kubernetes.io/valid": valid}})
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			st, used := status(version)
			if !maps.Equal(used, want) || st.ObservedGeneration != int64(i+1) || len(st.Conditions) != 1 || string(st.Conditions[0].Status) != valid.Status {
				t.Errorf("%s has used %v, want %v; the status is %+v", version, used, want, st)
			}
		}
	}
	w.until("the last status", func(*state.State) bool { return find("new").Quota.ObservedGeneration == 3 })
	if used := find("new").Quota.Used; len(used) > 0 {
		t.Errorf("read back: used %v", used)
	}
}
