// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// BenchmarkExamine examines 1,000 nodes with 20,000 pods of 100 workloads, 20 of which hold their nodes.
func BenchmarkExamine(b *testing.B) {
	c := largeCluster()
	in := c.examination()
	b.ReportAllocs()
	for b.Loop() {
		r := Examine(in)
		b.ReportMetric(float64(len(r.Findings)), "findings")
	}
}

func largeCluster() *cluster {
	r := rand.New(rand.NewPCG(7, 7))
	c := &cluster{types: families()}
	c.addPool("default", model.OneOf(model.LabelCapacityType, model.Spot, model.OnDemand))
	var pods []*model.Pod
	for i := range 100 {
		w := c.addWorkload(fmt.Sprintf("app%02d", i), 200, 100*(1+r.Int64N(8)), (128<<20)*(1+r.Int64N(12)))
		for _, p := range w[:2] {
			if i%5 == 0 {
				p.DoNotDisrupt = "true"
			}
		}
		pods = append(pods, w...)
	}
	r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	for i := range 1000 {
		n := c.addNode(fmt.Sprintf("n%04d", i), "m.16", "a", model.OnDemand, c.pools[0])
		c.bind(n, pods[i*20:(i+1)*20]...)
	}
	return c
}
