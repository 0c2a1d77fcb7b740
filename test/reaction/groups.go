// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// NodeGroups is one pending pod on an idle cluster that buys from two Auto Scaling groups, several times.
type NodeGroups struct {
	Runs                   int       `json:"runs"`
	CreationToDesiredP50Ms float64   `json:"creationToSetDesiredCapacityP50Milliseconds"`
	CreationToDesiredP99Ms float64   `json:"creationToSetDesiredCapacityP99Milliseconds"`
	CreationToClaimP50Ms   float64   `json:"creationToNodeClaimP50Milliseconds"`
	CreationToRunP50Ms     float64   `json:"creationToRunningP50Milliseconds"` // the groups launch a second after they were asked
	Controller             Resources `json:"controller"`
}

// onlyGroups is a Result without the rest.
func onlyGroups(ctx context.Context, runs int) (any, error) {
	dir, err := os.MkdirTemp("", "dovetail-reaction-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := struct {
		CPUs       int        `json:"cpus"`
		NodeGroups NodeGroups `json:"nodeGroups"`
	}{CPUs: runtime.NumCPU()}
	err = measureGroups(ctx, dir, runs, &out.NodeGroups)
	return out, err
}

func measureGroups(ctx context.Context, dir string, runs int, out *NodeGroups) error {
	return in(ctx, filepath.Join(dir, "groups"), func(r *rig) error { return r.groups(ctx, runs, out) },
		"--cloud", "aws", "--groups", "--controller-arg", "--node-group-defaults=--scale-down-unneeded-time=0s --scale-down-delay-after-add=0s")
}

// groups measures one pod at a time; the cluster is empty again before the next one comes.
func (r *rig) groups(ctx context.Context, runs int, out *NodeGroups) error {
	err := r.poll(ctx, "the groups' NodePools to be Ready", func() (bool, error) {
		for _, name := range []string{"small", "large"} {
			if ok, err := r.ready(ctx, name); !ok {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	cpu, err := r.usage()
	if err != nil {
		return err
	}
	var toClaim, toDesired, toRun []float64
	for i := range runs {
		name := fmt.Sprint("single-", i)
		begin, claimed, ran, err := r.runPod(ctx, name, podSpec("900m", "1Gi"))
		if err != nil {
			return err
		}
		at, err := r.s.DesiredCapacityRaised(ctx, begin)
		if err != nil {
			return err
		}
		desired := at.Sub(begin)
		fmt.Fprintf(os.Stderr, "groups: %d of %d: NodeClaim after %s, SetDesiredCapacity after %s, running after %s\n", i+1, runs,
			claimed.Round(time.Millisecond), desired.Round(time.Millisecond), ran.Round(time.Millisecond))
		toClaim, toDesired, toRun = append(toClaim, claimed.Seconds()*1000), append(toDesired, desired.Seconds()*1000), append(toRun, ran.Seconds()*1000)
		if err := r.endPod(ctx, name); err != nil {
			return err
		}
	}
	out.Runs = runs
	out.CreationToDesiredP50Ms, out.CreationToDesiredP99Ms = quantile(toDesired, 0.5), quantile(toDesired, 0.99)
	out.CreationToClaimP50Ms, out.CreationToRunP50Ms = quantile(toClaim, 0.5), quantile(toRun, 0.5)
	return r.since(cpu, &out.Controller)
}
