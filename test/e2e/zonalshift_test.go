// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
)

// A zonal shift moves the cluster away from a zone: the NodePool's events tell, pods get nodes in other zones, and a pod that only the zone could
// hold waits, of which `why` names the shift. When the shift is cancelled, it gets its node there.
func TestEC2ZonalShift(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	const zone, n = "us-east-1a", 3
	s := onEC2(t)
	e := newEnv(t, s, "shift")
	e.ec2Pool()
	var shift awstest.Shift
	e.must(s.AWS(e.ctx, http.MethodPost, "/_aws/shifts", awstest.Shift{AwayFrom: zone}, &shift))
	e.event("NodePool", e.name, "ZonalShiftActive", zone, shift.AwayFrom)
	e.deploy("any", n, e.pod("1500m", "1Gi"))
	e.deploy("here", 1, e.pod("1500m", "1Gi", func(p *corev1.PodTemplateSpec) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
	}))
	running := func(app string) (names []string, run int) {
		for _, p := range e.pods() {
			if strings.HasPrefix(p.Name, app+"-") {
				names = append(names, p.Name)
				if p.Status.Phase == corev1.PodRunning {
					run++
				}
			}
		}
		return names, run
	}
	e.until("the pods that may run elsewhere run", func() error {
		if _, run := running("any"); run != n {
			return fmt.Errorf("%d run", run)
		}
		return nil
	})
	e.until("why names the shift", func() error {
		names, run := running("here")
		if len(names) != 1 || run > 0 {
			return fmt.Errorf("pods %v, of which %d run", names, run)
		}
		if text := e.why("pod/" + e.name + "/" + names[0]); !strings.Contains(text, shift.ID) || !strings.Contains(text, zone) {
			return fmt.Errorf("it answers\n%s", text)
		}
		return nil
	})
	for _, c := range e.claimsAre(n, "Ready", ready) {
		if c.Labels[corev1.LabelTopologyZone] == zone {
			t.Errorf("claim %s is in the zone", c.Name)
		}
	}
	e.must(s.AWS(e.ctx, http.MethodPost, "/_aws/shifts/end", awstest.ShiftEnd{ID: shift.ID}, nil))
	e.event("NodePool", e.name, "ZonalShiftCleared", zone)
	e.podsRun(n + 1)
	here := 0
	for _, c := range e.claimsAre(n+1, "Ready", ready) {
		if c.Labels[karpv1.LabelNodePool] == e.name && c.Labels[corev1.LabelTopologyZone] == zone {
			here++
		}
	}
	if here != 1 {
		t.Errorf("%d claims are in the zone after the shift, want 1", here)
	}
}
