// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"errors"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A client that only reads refuses each kind of write by whichever of its ways, though the administrator's identity may write, and reads and asks for
// rights as any other.
func TestReadOnlyClient(t *testing.T) {
	p := newPlane(t)
	config := rest.CopyConfig(p.adminConfig)
	c, err := client.New(p.ctx, config, client.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]rest.Interface{
		"core": c.Core, "apps": c.Apps, "policy": c.Policy, "storage": c.Storage, "coordination": c.Coordination, "node": c.Node, "scheduling": c.Scheduling,
		"karpenter": c.Karpenter, "provisioner": c.Provisioner, "kwok": c.KWOK, "aws": c.AWS, "dovetail": c.Dovetail, "karpenterAlpha": c.KarpenterAlpha, "buffers": c.Buffers, "awsAlpha": c.AWSAlpha,
	} {
		for verb, q := range map[string]*rest.Request{"post": r.Post(), "put": r.Put(), "patch": r.Patch("application/merge-patch+json"), "delete": r.Delete()} {
			if err := q.AbsPath("/api/v1/namespaces/default/configmaps/x").Body([]byte("{}")).Do(p.ctx).Error(); !errors.Is(err, client.ErrReadOnly) {
				t.Errorf("%s by %s: %v, want %v", verb, name, err, client.ErrReadOnly)
			}
		}
	}
	if _, err := write.NewActor(c, p.objects, time.Now).CreateClaim(p.ctx, plan.CreateClaim{Name: "x"}); err == nil {
		t.Error("an Actor of a client that only reads created a NodeClaim")
	}
	if err := c.Core.Get().Resource("nodes").Do(p.ctx).Into(&corev1.NodeList{}); err != nil {
		t.Error(err)
	}
	if ok, err := c.May(p.ctx, &authorizationv1.ResourceAttributes{Resource: "nodes", Verb: "list"}); err != nil || !ok {
		t.Errorf("asking for a right: %t, %v", ok, err)
	}
}
