// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Read takes over what is there, and says at once what it may not list.
func TestRead(t *testing.T) {
	p := newPlane(t)
	if err := kubetest.Kubectl([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"to-be-read"},"spec":{"nodeSelector":{"no":"where"},"containers":[{"name":"c","image":"c"}]}}`),
		"apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	s := state.New()
	if err := watch.Read(p.ctx, p.us, translator(s, p.us), s); err != nil {
		t.Fatal(err)
	}
	if pod := s.FindPod("default/to-be-read"); pod == nil || pod.Node != "" {
		t.Errorf("the pod was read as %+v", pod)
	}

	config := rest.CopyConfig(p.adminConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody", Groups: []string{"system:authenticated"}}
	nobody, err := client.New(p.ctx, config, client.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	s = state.New()
	err = watch.Read(p.ctx, nobody, translator(s, nobody), s)
	if err == nil || !strings.Contains(err.Error(), "list ") || !strings.Contains(err.Error(), "forbidden") || !strings.Contains(err.Error(), nobody.Address) {
		t.Errorf("want the kind that may not be listed and where, have %v", err)
	}

	ctx, cancel := context.WithCancel(p.ctx)
	cancel()
	other, err := client.New(p.ctx, rest.CopyConfig(p.adminConfig), client.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Read(ctx, other, translator(s, other), state.New()); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// translator returns what translates for a State.
func translator(s *state.State, c *client.Client) *translate.Translator {
	return &translate.Translator{Table: s.Resources(), Lookup: c.Seen.Lookup()}
}
