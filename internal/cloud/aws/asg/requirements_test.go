// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"encoding/json"
	"reflect"
	"testing"

	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// fill sets every field of a structure to something.
func fill(v reflect.Value) (set int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				set += fill(v.Field(i))
			}
		}
		return set
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1.5)
	default:
		v.SetInt(7)
	}
	return 1
}

// TestAttributesAreReadWhole: whatever attribute a group or a launch template may ask for is asked for, too, when it
// is found out which types have them.
func TestAttributesAreReadWhole(t *testing.T) {
	for _, said := range []any{&astypes.InstanceRequirements{}, &types.InstanceRequirements{}} {
		if n := fill(reflect.ValueOf(said).Elem()); n < 25 {
			t.Fatalf("%T: %d fields: there is nothing to lose", said, n)
		}
		g := &group{}
		g.addRequirements(said)
		if g.problem != "" || len(g.instanceRequirements) != 1 {
			t.Fatalf("%T: %q", said, g.problem)
		}
		want, err := json.Marshal(said)
		if err != nil {
			t.Fatal(err)
		}
		have, err := json.Marshal(g.instanceRequirements[0])
		if err != nil {
			t.Fatal(err)
		}
		var a, b map[string]any
		if json.Unmarshal(want, &a) != nil || json.Unmarshal(have, &b) != nil {
			t.Fatal("not JSON")
		}
		for k, v := range a {
			if !reflect.DeepEqual(v, b[k]) {
				t.Errorf("%T: %s is %v, and is asked for as %v", said, k, v, b[k])
			}
		}
	}
}
