// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"strings"
	"time"
)

// The figures on the simulated AWS that the picture shows too.
var (
	awsRunning     = awsStart("Running", func(s Start) float64 { return s.RunningMs })
	awsBurst       = awsOf("all Running", seconds, func(r AWSRun) float64 { return r.Burst.Seconds })
	awsBurstUSD    = awsOf("cost an hour", dollars, func(r AWSRun) float64 { return r.Burst.USD })
	awsBurstCalls  = awsOf("calls to AWS", number, func(r AWSRun) float64 { return float64(r.Burst.Calls) })
	awsStartStages = []func(bool) figure{
		awsStart("Pending", func(s Start) float64 { return s.PodMs }),
		awsStart("NodeClaim", func(s Start) float64 { return s.ClaimMs }),
		awsStart("desired capacity raised", func(s Start) float64 { return s.DesiredMs }, dovetailGroups),
		awsStart("instance launched", func(s Start) float64 { return s.InstanceMs }),
		awsStart("Node (NotReady)", func(s Start) float64 { return s.NodeMs }),
		awsStart("Node Ready", func(s Start) float64 { return s.ReadyMs }),
		awsStart("pod bound", func(s Start) float64 { return s.BoundMs }),
		awsRunning,
		awsStart("Running, less the time that the instance took to boot", func(s Start) float64 { return s.RunningMs - (s.NodeMs - s.InstanceMs) }),
	}
)

// awsOf returns a figure of the part with instances that boot (true) or of the part with instances that are ready at once.
func awsOf(name string, format func(float64) string, of func(AWSRun) float64, only ...string) func(booting bool) figure {
	return func(booting bool) figure {
		return figure{name: name, format: format, only: only, of: func(r Run) float64 {
			if booting {
				return of(r.Booting)
			}
			return of(r.Ready)
		}}
	}
}

func awsStart(name string, of func(Start) float64, only ...string) func(bool) figure {
	return awsOf(name, func(ms float64) string { return fmt.Sprintf("%.2f s", ms/1000) }, func(r AWSRun) float64 { return of(r.Start) }, only...)
}

// awsSections are all figures on the simulated AWS.
func awsSections(s Settings) (out []section) {
	for _, booting := range []bool{true, false} {
		first := section{title: "A Deployment of one pod that needs a node, after it was created; instances " + bootText(s, booting)}
		for _, f := range awsStartStages {
			first.figures = append(first.figures, f(booting))
		}
		nodes := awsOf("nodes", number, func(r AWSRun) float64 { return float64(r.Burst.Nodes) })
		out = append(out, first, section{
			fmt.Sprintf("A burst of %d pods; instances %s", s.Pods, bootText(s, booting)),
			[]figure{awsBurst(booting), nodes(booting), awsBurstUSD(booting), awsBurstCalls(booting)},
		})
	}
	return out
}

func bootText(s Settings, booting bool) string {
	if booting {
		return "boot in " + short(s.Boot)
	}
	return "are ready at once"
}

func awsPanels(s Settings) []panel {
	burst := fmt.Sprintf("%d pods at once: ", s.Pods)
	return []panel{
		{"One pod, " + short(s.Boot) + " boot: until it runs", awsRunning(true)}, {"One pod, no boot time: until it runs", awsRunning(false)},
		{burst + short(s.Boot) + " boot, until all run", awsBurst(true)}, {burst + "no boot time, until all run", awsBurst(false)},
		{burst + "cost an hour", awsBurstUSD(true)}, {burst + "calls to AWS", awsBurstCalls(true)},
	}
}

// awsConditions say how the figures on the simulated AWS came about, a sentence each.
func awsConditions(r *Results, kubernetes string) []string {
	return []string{
		"Medians of all runs, least and most in brackets. Less is better everywhere.",
		"Machine: " + r.Machine + ".",
		"Systems: " + strings.Join(names(r.Runs), "; ") + ".",
		fmt.Sprintf("Control plane: Kubernetes %s (etcd, kube-apiserver, kube-controller-manager, kube-scheduler) and the simulated AWS, fresh ones for each run and boot time; kwok simulates nodes and containers. No AWS account was used.", kubernetes),
		fmt.Sprintf("Instances register %s after their launch, more or less, as drawn from a seed that is the number of the run, or at once. A simulated Auto Scaling group launches an instance 1 s after its desired capacity was raised.", short(r.Settings.Boot)),
		"On EC2 Fleet: on-demand instances for amd64 of categories c, m and r, newer than generation 2. On Auto Scaling groups: one of c5a.large or c5.large, and one of c5.2xlarge, each of up to 80 instances.",
		"Pods: one of 900m CPU and 3100Mi, then the burst of 500m CPU and 512Mi. The nodes, the cost and the calls of the burst are those 3 s after all pods run, the first pod's node included.",
		"Karpenter runs with the defaults of its chart, and batches pods for 1 s of silence or 10 s at most.",
	}
}

// awsGroups is the file of Auto Scaling groups for dovetail-sandbox up --groups.
const awsGroups = `
- name: small
  max: 80
  instanceTypes: [c5a.large, c5.large]
  onDemandAbovePercent: 100
  suspendedProcesses: [AZRebalance]
  tags: &found
    - {key: k8s.io/cluster-autoscaler/enabled, value: "true"}
    - {key: k8s.io/cluster-autoscaler/sandbox, value: owned}
- name: large
  max: 80
  instanceTypes: [c5.2xlarge]
  suspendedProcesses: [AZRebalance]
  tags: *found
`

// onAWS reports whether results are of the comparison on the simulated AWS.
func (s Settings) onAWS() bool { return s.Boot > time.Duration(0) }
