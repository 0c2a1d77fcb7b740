// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package karpenteraws

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

var ordinary = flag.Duration("ordinary", 0, "duration of the additional phase in which Deployments are scaled and instances interrupted every minute (0: skip)")

const (
	round       = time.Minute
	deployments = 6 // that are scaled each round
	most        = 30
)

// bill is what was there during a part of a life, sampled once a second.
type bill struct {
	dollars  float64
	launched int           // instances
	pending  time.Duration // of all pods without a node, added up
}

func (b *bill) String() string {
	return fmt.Sprintf("$%.2f in all, %d instances launched, pods waited %.0f s for a node in all", b.dollars, b.launched, b.pending.Seconds())
}

// ordinaryLife scales Deployments, interrupts instances, takes the capacity of zones away and loses replies for a stated time. The same seed gives every autoscaler
// the same series: what happens in a round depends on the round alone, apart from which of the running spot instances is interrupted.
func (l *life) ordinaryLife(lasts time.Duration) *bill {
	l.t.Helper()
	names := make([]string, deployments)
	for i := range names {
		names[i] = fmt.Sprintf("ordinary-%d", i)
		d := scaledown.Deployment(names[i], 0, 1, []string{"250m", "500m", "900m", "1", "2", "3500m"}[i], []string{"512Mi", "1Gi", "3100Mi", "1Gi", "4Gi", "12Gi"}[i])
		if i%2 == 0 {
			d.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone",
				WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: d.Spec.Selector}}
		}
		l.must(scaledown.Deploy(l.ctx, l.s, d))
	}
	draw, b, want := rand.New(rand.NewPCG(1, 1)), &bill{launched: -l.books().Started}, make([]int, deployments)
	start := time.Now()
	last, next := start, start
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for now := start; now.Sub(start) < lasts; {
		if !now.Before(next) {
			l.ordinaryRound(draw, names, want)
			next = next.Add(round)
		}
		select {
		case <-l.ctx.Done():
			l.t.Fatal("told to end during the ordinary life")
		case now = <-tick.C:
		}
		if err := l.a.ended(); err != nil {
			l.t.Fatal(err)
		}
		passed := now.Sub(last)
		last = now
		b.dollars += dollars(l.books()) * passed.Hours()
		b.pending += passed * time.Duration(l.podsWithoutNode())
	}
	l.aws(http.MethodDelete, "/_aws/faults", nil, nil)
	for i, name := range names {
		l.run(name, want[i])
	}
	b.launched += l.books().Started
	for _, name := range names {
		l.must(l.s.Kube.AppsV1().Deployments("default").Delete(l.ctx, name, metav1.DeleteOptions{}))
	}
	return b
}

// ordinaryRound begins a round: it scales two Deployments and, by chance, interrupts a spot instance, has a zone run out of capacity until the next round, loses the reply
// to a launch, or changes the class.
func (l *life) ordinaryRound(draw *rand.Rand, names []string, want []int) {
	l.t.Helper()
	for range 2 {
		i := draw.IntN(len(names))
		want[i] = draw.IntN(most)
		l.scale(names[i], want[i])
	}
	interrupted, outOf, lost, drifts, which := draw.IntN(3) == 0, draw.IntN(5), draw.IntN(8) == 0, draw.IntN(10) == 0, draw.Float64()
	l.aws(http.MethodDelete, "/_aws/faults", nil, nil)
	spot := slices.DeleteFunc(l.books().Alive, func(i awstest.BookedInstance) bool { return i.CapacityType != "spot" })
	if interrupted && len(spot) > 0 {
		id := spot[int(which*float64(len(spot)))].ID
		l.aws(http.MethodPost, "/_aws/interrupt", awstest.Interruption{Kind: awstest.SpotInterruption, Instances: []string{id}, Notice: machines.Duration(90 * time.Second)}, nil)
	}
	if zones := []string{"us-east-1a", "us-east-1b"}; outOf < len(zones) {
		l.fault(awstest.Fault{Kind: awstest.LaunchError, Zone: zones[outOf], Code: "InsufficientInstanceCapacity"})
	}
	if lost {
		l.fault(awstest.Fault{Kind: awstest.LostReply, Action: "CreateFleet", Count: 1})
	}
	if drifts {
		l.must(l.s.Patch(l.ctx, classes+"/default", fmt.Sprintf(`{"spec":{"tags":{"team":"t%d"}}}`, draw.IntN(1000))))
	}
}

// podsWithoutNode returns how many pods have no node yet.
func (l *life) podsWithoutNode() int {
	l.t.Helper()
	list, err := l.s.Kube.CoreV1().Pods("default").List(l.ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: "spec.nodeName="})
	l.must(err)
	return len(list.Items)
}
