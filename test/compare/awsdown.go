// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// AWSScaleDown is the result of scaling the burst down to 30 %. Instances and cost are on-demand only.
type AWSScaleDown struct {
	Pods      int     `json:"pods"`
	Seconds   float64 `json:"seconds"` // until the last change of on-demand pods and nodes, including consolidateAfter
	Nodes     int     `json:"nodes"`
	USD       float64 `json:"usdPerHour"`
	Evictions int     `json:"evictions"`
	Calls     int     `json:"calls"`               // to AWS, including calls for spot instances
	Unrested  bool    `json:"notAtRest,omitempty"` // not stable after Seconds; the other figures are from that time
}

// AWSInterruption is the result of interrupting half of the spot instances.
type AWSInterruption struct {
	Instances int     `json:"instances"`          // number of interrupted instances
	Pods      int     `json:"pods"`               // number of pods on them
	Seconds   float64 `json:"seconds"`            // from the notices until all pods run on other instances
	Down      float64 `json:"longestDownSeconds"` // longest time from creation of an evicted pod's successor until it ran
}

// spotPods are the pods of the Deployment on spot instances.
const spotPods = 60

// scaleDownAWS scales the burst down to 30 % and waits until the cluster is stable, or for the longest wait. Meanwhile, a Deployment on spot
// instances is created, and half of the instances get an interruption notice. Cluster Autoscaler does not read notices, so it gets none.
func (c *cluster) scaleDownAWS(ctx context.Context, system string, o options) (down AWSScaleDown, in AWSInterruption, err error) {
	fail := func(err error) (AWSScaleDown, AWSInterruption, error) { return down, in, err }
	if err := c.Sandbox.AWS(ctx, http.MethodDelete, "/_aws/calls", nil, nil); err != nil {
		return fail(err)
	}
	down.Pods = o.Pods * 3 / 10
	begin := time.Now()
	if err := c.Sandbox.Patch(ctx, "/apis/apps/v1/namespaces/default/deployments/burst", fmt.Sprintf(`{"spec":{"replicas":%d}}`, down.Pods)); err != nil {
		return fail(err)
	}
	all := 1 + down.Pods
	if system != clusterAutoscalerGroups {
		if in, err = c.interruptSpot(ctx); err != nil {
			return fail(err)
		}
		all += spotPods
	}
	_, err = c.follow(ctx, "the cluster to be stable", o.Longest-time.Since(begin), o.Still, func() bool { return c.Running() == all })
	if down.Seconds = round(c.lastMovedOnDemand().Sub(begin).Seconds()); errors.Is(err, watch.ErrWaited) {
		down.Unrested, down.Seconds = true, o.Longest.Seconds()
	} else if err != nil {
		return fail(err)
	}
	for _, p := range c.Pods {
		if p.App != "spot" && p.Created.After(begin) { // a ReplicaSet that is scaled down creates no other pods: this one replaces an evicted pod
			down.Evictions++
		}
	}
	b, err := c.books(ctx)
	if err != nil {
		return fail(err)
	}
	down.Nodes, down.USD = billAWS(b, "on-demand")
	down.Calls = callsOf(b)
	return down, in, nil
}

// lastMovedOnDemand returns when anything last changed but the pods and nodes of the interruptions, which not all systems have.
func (c *cluster) lastMovedOnDemand() (at time.Time) {
	for _, p := range c.Pods {
		if p.App != "spot" && p.Moved.After(at) {
			at = p.Moved
		}
	}
	for _, n := range c.Nodes {
		if n.CapacityType != karpv1.CapacityTypeSpot && n.Moved.After(at) {
			at = n.Moved
		}
	}
	return at
}

// interruptSpot starts pods on spot instances, has EC2 announce that it takes half of these, and waits until the pods run on others.
func (c *cluster) interruptSpot(ctx context.Context) (out AWSInterruption, err error) {
	d := scaledown.Deployment("spot", spotPods, 30, "500m", "512Mi")
	d.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "spot"}
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
	if err := scaledown.Deploy(ctx, c.Sandbox, d); err != nil {
		return out, err
	}
	gone := map[string]bool{} // nodes
	var last time.Time        // when the last of the pods began to run
	runElsewhere := func() bool {
		n := 0
		for _, p := range c.Pods {
			if p.App == "spot" && p.Runs && !gone[p.Node] {
				n++
				if p.Running.After(last) {
					last = p.Running
				}
			}
		}
		return n == spotPods
	}
	if _, err := c.follow(ctx, fmt.Sprint(spotPods, " pods to run on spot instances"), patience, 0, runElsewhere); err != nil {
		return out, err
	}
	b, err := c.books(ctx)
	if err != nil {
		return out, err
	}
	notices := awstest.Interruption{Kind: awstest.SpotInterruption}
	spot, _ := billAWS(b, "spot")
	for _, i := range b.Alive {
		if i.CapacityType == "spot" && 2*len(notices.Instances) < spot {
			notices.Instances = append(notices.Instances, i.ID)
			gone[i.Node] = true
		}
	}
	for _, p := range c.Pods {
		if p.App == "spot" && p.Runs && gone[p.Node] {
			out.Pods++
		}
	}
	if out.Instances = len(notices.Instances); out.Pods == 0 {
		return out, fmt.Errorf("no pod runs on the %d of %d spot instances that are to be interrupted", out.Instances, spot)
	}
	begin := time.Now()
	if err := c.Sandbox.AWS(ctx, http.MethodPost, "/_aws/interrupt", notices, nil); err != nil {
		return out, err
	}
	if _, err := c.follow(ctx, "the pods to run on instances that EC2 does not take", patience, 0, runElsewhere); err != nil {
		return out, err
	}
	out.Seconds = round(last.Sub(begin).Seconds())
	for _, p := range c.Pods {
		if p.App == "spot" && p.Created.After(begin) {
			out.Down = max(out.Down, round(p.Running.Sub(p.Created).Seconds()))
		}
	}
	return out, nil
}
