// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"log/slog"
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/demandhistory"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/groupstatus"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// stores is what histories are stored with, under a name that Keeper has no method of.
type stores interface{ demandhistory.Store }

// writer is everything that a loop can write to Kubernetes with.
type writer struct {
	Cluster
	Keeper
	stores
}

func (*writer) StoreGroupStatus(context.Context, *groupstatus.Status) error { return nil }
func (*writer) StatusObject() (namespace, name, uid string)                 { return "", "", "" }

// No part of a loop in shadow mode holds anything that writes; of one that acts, the same search finds it.
func TestReadOnlyHoldsNoWriter(t *testing.T) {
	for _, readOnly := range []bool{true, false} {
		w := &writer{}
		c := New(&Controller{ReadOnly: readOnly, Cluster: w, Keeper: w, Histories: w, Decisions: w, GroupStatus: w, Provider: cloud.NewSetAside(nil, cloud.Wall{}, cloud.SetAsideFor),
			State: state.New(), Ledger: ledger.New(10), Metrics: metrics.New(prometheus.NewRegistry(), "test", cloud.Traits{}), Log: slog.New(slog.DiscardHandler), Config: DefaultConfig(), Policy: decide.DefaultPolicy()})
		var held []string
		findType(reflect.ValueOf(c), reflect.TypeFor[*writer](), "Controller", map[uintptr]bool{}, &held)
		if readOnly && len(held) > 0 || !readOnly && len(held) < 5 {
			t.Errorf("ReadOnly %t: a writer is held by %q", readOnly, held)
		}
	}
}

// findType appends the paths to all values of a type that v reaches by fields, elements and pointers.
func findType(v reflect.Value, want reflect.Type, path string, seen map[uintptr]bool, out *[]string) {
	if !v.IsValid() {
		return
	}
	if v.Type() == want && !v.IsNil() {
		*out = append(*out, path)
		return
	}
	switch v.Kind() {
	case reflect.Interface:
		findType(v.Elem(), want, path, seen, out)
	case reflect.Pointer:
		if !v.IsNil() && !seen[v.Pointer()] {
			seen[v.Pointer()] = true
			findType(v.Elem(), want, path, seen, out)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			findType(v.Field(i), want, path+"."+v.Type().Field(i).Name, seen, out)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			findType(v.Index(i), want, path+"[]", seen, out)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			findType(it.Value(), want, path+"[]", seen, out)
		}
	}
}
