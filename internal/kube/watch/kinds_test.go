// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"reflect"
	"testing"

	"k8s.io/client-go/rest"
	restfake "k8s.io/client-go/rest/fake"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/record"
)

// TestRecordedKinds: a recording holds every kind that is watched for it. One object of another kind would end the recording.
func TestRecordedKinds(t *testing.T) {
	c := &client.Client{}
	for _, f := range reflect.ValueOf(c).Elem().Fields() {
		if f.Type() == reflect.TypeFor[rest.Interface]() && f.CanSet() {
			f.Set(reflect.ValueOf(&restfake.RESTClient{}))
		}
	}
	n := 0
	for _, k := range kindsFor(c, recorded) {
		n++
		if err := record.Holds(k.kind); err != nil {
			t.Errorf("%s: %v", k.kind, err)
		}
	}
	if n < 20 {
		t.Errorf("only %d kinds are recorded", n)
	}
}
