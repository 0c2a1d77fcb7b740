// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestOddNames: groups whose names are no label values are used as all others. Their label, by which pods may choose them, is the same in offerings,
// results and the status of the class.
func TestOddNames(t *testing.T) {
	long := strings.Repeat("a", 70)
	for _, name := range []string{"https://cloud.example/zones/a/groups/pool-1", "pool one", "-pool-", "///", "группа", long, long + "/" + long} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute)
				w := newWorld(1, 5)
				w.groups[name] = &group{max: 1, price: 1, machines: map[string]time.Time{}, fails: map[string]bool{}}
				p := w.provider()
				class := groupClass()
				class.Spec = []byte(`{"selectorTerms":[{"name":"group-0"},{"name":` + jsonOf(t, name) + `}]}`)
				types, err := p.Offerings(t.Context(), nil, class)
				if err != nil {
					t.Fatal(err)
				}
				label := ""
				for _, x := range types {
					for _, o := range x.Offerings {
						if l := o.Labels[model.LabelNodeGroup]; l != "group-0" {
							label = l
						}
					}
				}
				if why := validation.IsValidLabelValue(label); label == "" || len(why) > 0 {
					t.Fatalf("label %q: %v", label, why)
				}
				r := w.request("a")
				r.Class, r.Requirements = class, model.Requirements{model.OneOf(model.LabelNodeGroup, label)}
				launch := func(r cloud.LaunchRequest) (res cloud.LaunchResult) {
					for range 100 {
						if res = p.Launch(t.Context(), []cloud.LaunchRequest{r})[0]; res.Err != nil || res.ProviderID != "" {
							break
						}
						time.Sleep(time.Second)
					}
					return res
				}
				if res := launch(r); res.Err != nil || res.Labels[model.LabelNodeGroup] != label {
					t.Errorf("have %v with labels %v, want a machine labelled %s", res.Err, res.Labels, label)
				}
				r = w.request("b") // the group is full
				r.Class, r.Requirements = class, model.Requirements{model.OneOf(model.LabelNodeGroup, label)}
				time.Sleep(time.Minute)
				if res := launch(r); cloud.KindOf(res.Err) != cloud.InsufficientCapacity || len(cloud.OfferingsOf(res.Err)) != 1 || cloud.OfferingsOf(res.Err)[0].Group != label {
					t.Errorf("have %v, want that group %s has no room", res.Err, label)
				}
				status, err := p.ClassStatus(t.Context(), class)
				var said dovetailv1alpha1.NodeGroupClassStatus
				if err == nil {
					err = json.Unmarshal(status.Status, &said)
				}
				if err != nil || len(said.Groups) != 2 || said.Groups[0].Name != label && said.Groups[1].Name != label {
					t.Errorf("have %+v, %v; want group %s", said.Groups, err, label)
				}
				if len(w.wrong) > 0 {
					t.Error(w.wrong)
				}
			})
		})
	}
}

func jsonOf(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
