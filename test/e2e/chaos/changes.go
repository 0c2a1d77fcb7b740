// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// createPools makes the node class, the NodePool of the Deployments, and one whose nodes are made to expire.
func (s *Series) createPools(ctx context.Context) error {
	err := s.sb.Create(ctx, "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {}}")
	if err != nil {
		return err
	}
	for name, taints := range map[string]string{"default": "", "brief": "taints: [{key: " + briefTaint + ", effect: NoSchedule}], "} {
		err := s.sb.Create(ctx, pools, fmt.Sprintf(`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: %s}, spec: {
			template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never, %s
				requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64]},
					{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}, {key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ["9"]}]}},
			disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: %s, budgets: [{nodes: "100%%"}]}}}`, name, taints, s.after))
		if err != nil {
			return err
		}
	}
	return nil
}

// spreadText is what keeps a Deployment's pods in different zones.
func spreadText(app string, spread bool) string {
	if !spread {
		return ""
	}
	return "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: " + app + "}}}], "
}

// deploy makes a Deployment; more is put into the spec of its pods.
func (s *Series) deploy(ctx context.Context, name string, replicas int, cpu, memory, more string) error {
	return s.sb.Create(ctx, "/apis/apps/v1/namespaces/default/deployments", fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s}, spec: {
		replicas: %[2]d, selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}, spec: {%[5]s terminationGracePeriodSeconds: 2,
			containers: [{name: c, image: "registry.k8s.io/pause:3.10", resources: {requests: {cpu: %[3]s, memory: %[4]s}}}]}}}}`, name, replicas, cpu, memory, more))
}

// begin has a change begin, and says when it did.
func (s *Series) begin(ctx context.Context, f Fault) (time.Time, error) {
	switch f.Change {
	case Grow, Shrink:
		return time.Now(), s.scaleAll(ctx, f.Replicas)
	case Sway:
		began, before := time.Now(), s.replicas
		err := s.scaleAll(ctx, f.Replicas)
		s.replicas = before // which is what they are in the end: see goOn
		return began, err
	case Drift:
		s.template++
		return time.Now(), s.patch(ctx, pools+"/default", fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"example.com/template":"%d"}}}}}`, s.template))
	case Expiry:
		return s.startBrief(ctx)
	}
	return time.Time{}, fmt.Errorf("unknown change %q", f.Change)
}

// goOn is what of a change comes later, whatever has failed by then.
func (s *Series) goOn(ctx context.Context, f Fault) error {
	if f.Change != Sway {
		return nil
	}
	wait(ctx, 3*time.Second)
	return s.scaleAll(ctx, slices.Clone(s.replicas))
}

// startBrief has pods run on nodes that expire, and returns a second before the first one does. Nodes launched in their place don't expire.
func (s *Series) startBrief(ctx context.Context) (time.Time, error) {
	expire := func(after string) error {
		return s.patch(ctx, pools+"/brief", fmt.Sprintf(`{"spec":{"template":{"spec":{"expireAfter":%q}}}}`, after))
	}
	if err := expire(lifetime.String()); err != nil {
		return time.Time{}, err
	}
	s.brief = 5
	if err := s.scale(ctx, "brief", s.brief); err != nil {
		return time.Time{}, err
	}
	var first time.Time
	err := until(ctx, "there are nodes that will expire", func() (bool, error) {
		claims, err := s.briefClaims(ctx)
		if len(claims) > 0 {
			first = claims[0].CreationTimestamp.Time
		}
		return len(claims) > 0, err
	})
	if err != nil {
		return time.Time{}, err
	}
	if err := expire("Never"); err != nil {
		return time.Time{}, err
	}
	began := first.Add(lifetime - time.Second)
	wait(ctx, time.Until(began))
	return began, ctx.Err()
}

// endBrief has the nodes go that an expiry before has left.
func (s *Series) endBrief(ctx context.Context) error {
	if s.brief == 0 {
		return nil
	}
	s.brief = 0
	if err := s.scale(ctx, "brief", 0); err != nil {
		return err
	}
	return until(ctx, "the nodes in place of expired ones are gone", func() (bool, error) {
		claims, err := s.briefClaims(ctx)
		return len(claims) == 0, err
	})
}

// until asks until the answer is yes.
func until(ctx context.Context, what string, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience(), errors.New("waited "+patience().String()+" until "+what))
	defer cancel()
	for {
		yes, err := ask()
		if yes && err == nil {
			return nil
		}
		if wait(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}
