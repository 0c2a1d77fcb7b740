// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// Rules of node groups, as Cluster Autoscaler has them: an expendable pod gets no node, runs where there is room, and
// keeps no node; a node whose pods are gone is kept for an annotation that delays its deletion, and no longer. The group
// grows once and shrinks once.
func TestGroupRules(t *testing.T) {
	if os.Getenv("DOVETAIL_SOAK") == "" {
		t.Skip("a sandbox for what text cases show: part of make soak")
	}
	t.Parallel()
	e := newEnv(t, onEC2(t), "rules")
	e.group("ruled", "c5.large", nil)
	e.must(e.s.Create(e.ctx, "/apis/scheduling.k8s.io/v1/priorityclasses", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: spare}, value: -11}`))
	e.fromGroups(map[string]any{"spec.disruption.consolidateAfter": "1s"}, "ruled")
	e.must(e.s.Patch(e.ctx, groupClasses+"/"+e.name, `{"spec":{"options":{"priorityCutoff":-10,"deletionDelayTimeout":"1h"}}}`))
	e.until("the class says its rules", func() error {
		c, err := sandbox.Get[dovetailv1alpha1.NodeGroupClass](e.ctx, e.s, groupClasses+"/"+e.name)
		if err == nil && len(c.Status.Rules) != 2 {
			err = fmt.Errorf("it says %q", c.Status.Rules)
		}
		return err
	})
	e.deploy("spare", 1, e.pod("500m", "512Mi", func(p *corev1.PodTemplateSpec) { p.Spec.PriorityClassName = "spare" }))
	e.podsRefused(1)
	e.pause(5 * time.Second) // long enough for a node to have been asked for
	if n := e.groupNamed("ruled").Desired; n != 0 {
		t.Fatalf("the group should have %d nodes for an expendable pod", n)
	}

	e.deploy("web", 1, e.pod("1000m", "1Gi"))
	e.podsRun(2)
	member := e.membersAre("ruled", 1)[0]
	const key = model.DelayDeletionPrefix + "logs"
	node := "/api/v1/nodes/" + member.Status.NodeName
	e.must(e.s.Patch(e.ctx, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:"being copied"}}}`, key)))
	e.scale("web", 0)
	e.until("the node is drained and kept for its annotation", func() error {
		all := e.claims()
		if len(all) != 1 || all[0].DeletionTimestamp == nil {
			return fmt.Errorf("%d claims, none of them being deleted", len(all))
		}
		c := conditionOf(all[0].Status.Conditions, lifecycle.Terminating)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != "DeletionDelayed" || !strings.Contains(c.Message, key) {
			return fmt.Errorf("its conditions: %s", conditionsText(all[0].Status.Conditions))
		}
		return nil
	})
	e.podsRefused(1) // the successor of the expendable pod
	e.pause(5 * time.Second)
	if g := e.groupNamed("ruled"); g.Desired != 1 || len(g.Members) != 1 {
		t.Fatalf("the group has %d members and should have %d while the deletion is delayed", len(g.Members), g.Desired)
	}
	e.must(e.s.Patch(e.ctx, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key)))
	e.until("the member is given back", func() error {
		if c, g := e.claims(), e.groupNamed("ruled"); len(c)+len(g.Members)+g.Desired > 0 {
			return fmt.Errorf("%d claims, %d members of %d", len(c), len(g.Members), g.Desired)
		}
		return nil
	})
	if have := e.desired("ruled"); !slices.Equal(have, []int{0, 1, 0}) {
		t.Errorf("the group's desired capacity was %v in turn, want 0, 1, 0", have)
	}
}
