// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestBareMetalIsLast: bare metal is named to EC2 only where nothing else will do, or is paid for, or minValues counts it.
func TestBareMetalIsLast(t *testing.T) {
	for _, c := range []struct {
		types, capacityType, want string
		minValues                 int
	}{
		{"m5.24xlarge m5.metal c5.metal", model.OnDemand, "m5.24xlarge", 0},
		{"m7i.metal-24xl m5.24xlarge", model.Spot, "m5.24xlarge", 0},
		{"m5.metal c5.metal", model.OnDemand, "m5.metal c5.metal", 0},
		{"m5.24xlarge m5.metal", model.Reserved, "m5.24xlarge m5.metal", 0},
		{"m5.24xlarge m5.metal", model.OnDemand, "m5.24xlarge m5.metal", 2},
	} {
		var list []offering.Option
		for name := range strings.FieldsSeq(c.types) {
			list = append(list, offering.Option{Type: &offering.Type{TypeInfo: &catalogue.TypeInfo{Name: name}}, Offering: &model.Offering{CapacityType: c.capacityType}})
		}
		q := model.OneOf(model.LabelInstanceType, strings.Fields(c.types)...)
		q.MinValues = c.minValues
		var got []string
		for _, o := range withoutBareMetal(list, model.Requirements{q}) {
			got = append(got, o.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("of %s (%s, minValues %d): %v, want %s", c.types, c.capacityType, c.minValues, got, c.want)
		}
	}
}
