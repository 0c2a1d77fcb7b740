// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestCapacityQuotaTranslated: amounts in their units, nodes apart, a selector, and what can't hold.
func TestCapacityQuotaTranslated(t *testing.T) {
	quota := func(resources map[string]string, selector *metav1.LabelSelector) *bufferv1beta1.CapacityQuota {
		q := &bufferv1beta1.CapacityQuota{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", Generation: 3}}
		q.Spec.Selector, q.Spec.Limits.Resources = selector, map[string]resource.Quantity{}
		for name, v := range resources {
			q.Spec.Limits.Resources[name] = resource.MustParse(v)
		}
		return q
	}
	tr := &Translator{Table: state.NewResourceTable()}
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "web"}}
	l := tr.CapacityQuota(quota(map[string]string{"cpu": "64", "memory": "256Gi", "nodes": "1k", "nvidia.com/gpu": "8"}, team))
	gpu := tr.Table.Dim("nvidia.com/gpu")
	if l.Name != "capacityquota/web" || l.Nodes != 1000 || l.Most.At(model.CPU) != 64_000 || l.Most.At(model.Memory) != 256<<30 || l.Most.At(gpu) != 8 ||
		!l.IsLimited(gpu) || l.MicroPerHour >= 0 || l.Quota.Generation != 3 || l.Quota.Invalid != "" {
		t.Errorf("%+v, of %+v", l, l.Quota)
	}
	if !l.Matches(model.Labels{"team": "web", "x": "y"}) || l.Matches(model.Labels{"team": "other"}) || l.Matches(nil) {
		t.Error("the selector matches otherwise")
	}
	if all := tr.CapacityQuota(quota(map[string]string{"nodes": "3"}, nil)); !all.Matches(nil) {
		t.Error("a quota without a selector does not select a node")
	}
	for _, x := range []struct {
		resources map[string]string
		want      string
	}{
		{nil, "spec.limits.resources is empty"},
		{map[string]string{"cpu": "1500m"}, "spec.limits.resources.cpu is 1500m; give a whole number"},
		{map[string]string{"nodes": "-1"}, "spec.limits.resources.nodes is -1"},
	} {
		l := tr.CapacityQuota(quota(x.resources, team))
		if !strings.Contains(l.Quota.Invalid, x.want) || l.Nodes >= 0 || len(l.HasMost) > 0 {
			t.Errorf("%v: %q, limits %+v", x.resources, l.Quota.Invalid, l)
		}
	}
}
