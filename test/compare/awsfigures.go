// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"strings"
	"time"
)

// Figures on the simulated AWS that are also in the chart.
var (
	awsRunning     = awsStart("Running", func(s Start) float64 { return s.RunningMs })
	awsBurst       = awsOf("all Running", seconds, func(r AWSRun) float64 { return r.Burst.Seconds })
	awsBurstUSD    = awsOf("cost per hour", dollars, func(r AWSRun) float64 { return r.Burst.USD })
	awsBurstCalls  = awsOf("calls to AWS", number, func(r AWSRun) float64 { return float64(r.Burst.Calls) })
	awsDown        = figure{name: "stable after", of: func(r Run) float64 { return r.Booting.ScaleDown.Seconds }, format: seconds, beyond: func(r Run) bool { return r.Booting.ScaleDown.Unrested }}
	awsDownUSD     = awsScaleDown("cost per hour when stable", dollars, func(d AWSScaleDown) float64 { return d.USD })
	awsPodDown     = awsInterruption("longest wait of a pod for its new node", func(i AWSInterruption) float64 { return i.Down })
	awsStartStages = []func(bool) figure{
		awsStart("Pending", func(s Start) float64 { return s.PodMs }),
		awsStart("NodeClaim", func(s Start) float64 { return s.ClaimMs }, dovetailFleet, dovetailGroups, karpenterFleet),
		awsStart("desired capacity raised", func(s Start) float64 { return s.DesiredMs }, dovetailGroups, clusterAutoscalerGroups),
		awsStart("instance launched", func(s Start) float64 { return s.InstanceMs }),
		awsStart("Node (NotReady)", func(s Start) float64 { return s.NodeMs }),
		awsStart("Node Ready", func(s Start) float64 { return s.ReadyMs }),
		awsStart("pod bound", func(s Start) float64 { return s.BoundMs }),
		awsRunning,
		awsStart("Running, without the boot time", func(s Start) float64 { return s.RunningMs - (s.NodeMs - s.InstanceMs) }),
	}
)

// awsOf returns a figure of the part with boot time (true) or without.
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

func awsScaleDown(name string, format func(float64) string, of func(AWSScaleDown) float64) figure {
	return awsOf(name, format, func(r AWSRun) float64 { return of(r.ScaleDown) })(true)
}

func awsInterruption(name string, of func(AWSInterruption) float64) figure {
	return awsOf(name, seconds, func(r AWSRun) float64 { return of(r.Interruption) }, dovetailFleet, dovetailGroups, karpenterFleet)(true)
}

// awsSections returns all figures on the simulated AWS.
func awsSections(s Settings) (out []section) {
	for _, booting := range []bool{true, false} {
		first := section{title: "One pod that needs a node: time since its Deployment was created; instances " + bootText(s, booting)}
		for _, f := range awsStartStages {
			first.figures = append(first.figures, f(booting))
		}
		nodes := awsOf("nodes", number, func(r AWSRun) float64 { return float64(r.Burst.Nodes) })
		out = append(out, first, section{
			fmt.Sprintf("A burst of %d pods; instances %s", s.Pods, bootText(s, booting)),
			[]figure{awsBurst(booting), nodes(booting), awsBurstUSD(booting), awsBurstCalls(booting)},
		})
	}
	return append(out, section{
		fmt.Sprintf("The burst scaled down to %d pods; instances %s", s.Pods*3/10, bootText(s, true)),
		[]figure{
			awsDown,
			awsScaleDown("nodes when stable", number, func(d AWSScaleDown) float64 { return float64(d.Nodes) }),
			awsDownUSD,
			awsScaleDown("pods evicted", number, func(d AWSScaleDown) float64 { return float64(d.Evictions) }),
		},
	}, section{
		fmt.Sprintf("%d pods on spot instances, half of which are interrupted with a notice of 2m; instances %s", spotPods, bootText(s, true)),
		[]figure{
			awsInterruption("all Running on other instances, after the notice", func(i AWSInterruption) float64 { return i.Seconds }),
			awsPodDown,
		},
	})
}

func bootText(s Settings, booting bool) string {
	if booting {
		return "boot in " + short(s.Boot)
	}
	return "boot immediately"
}

func awsPanels(s Settings) []panel {
	burst := fmt.Sprintf("%d pods at once: ", s.Pods)
	return []panel{
		{"One pod, " + short(s.Boot) + " boot: until it runs", awsRunning(true)}, {"One pod, no boot time: until it runs", awsRunning(false)},
		{burst + short(s.Boot) + " boot, until all run", awsBurst(true)}, {burst + "no boot time, until all run", awsBurst(false)},
		{burst + "cost per hour", awsBurstUSD(true)}, {burst + "calls to AWS", awsBurstCalls(true)},
		{fmt.Sprintf("Down to %d pods: cost per hour when stable", s.Pods*3/10), awsDownUSD}, {"Spot interruptions: longest wait of a pod", awsPodDown},
	}
}

// awsConditions describes how the figures on the simulated AWS were measured, one sentence or more per item.
func awsConditions(r *Results, kubernetes string) []string {
	out := []string{
		"Medians of all runs, minimum and maximum in brackets. Lower is better.",
		"Machine: " + r.Machine + ".",
		"Systems: " + strings.Join(names(r.Runs), "; ") + ".",
		fmt.Sprintf("Control plane: Kubernetes %s (etcd, kube-apiserver, kube-controller-manager, kube-scheduler) and the simulated AWS, new for each run and boot time. kwok simulates nodes and containers. No AWS account was used.", kubernetes),
		fmt.Sprintf("Instances register about %s after their launch, with jitter from a seed (the number of the run), or immediately. A simulated Auto Scaling group launches an instance 1 s after its desired capacity was raised.", short(r.Settings.Boot)),
		"EC2 Fleet: on-demand amd64 instances of categories c, m and r above generation 2. Auto Scaling groups: c5a.large or c5.large, and c5.2xlarge, up to 80 instances each. Spot instances: the same with fewer than 9 CPUs on EC2 Fleet, and c5.2xlarge, c5a.2xlarge or m5.2xlarge in a group. Spot instances have a taint that only the pods of the interruption test tolerate.",
		"Pods: one with 900m CPU and 3100Mi; in the burst and on spot instances 500m CPU and 512Mi each. Nodes, cost and calls of the burst are measured 3 s after all pods run, and include the first pod's node.",
		fmt.Sprintf("Scale-down: consolidateAfter %s and a disruption budget of 100 %%; on groups --scale-down-unneeded-time=%[1]s and no limit on parallel removals. Stable: no pod and no node has changed for %s (longest wait: %s); the time is that of the last change, without spot instances. Nodes and cost are those of on-demand instances, which run the burst and the first pod.", short(r.Settings.ConsolidateAfter), short(r.Settings.Still), short(r.Settings.Longest)),
		"Interruptions: the pods on spot instances are created at the scale-down. When all of them run, half of their instances get an interruption notice. The longest wait is the time from the creation of an evicted pod's successor until it runs.",
		"Karpenter runs with the defaults of its chart (batch window 1 s idle, 10 s maximum).",
	}
	if count(r.Runs, clusterAutoscalerGroups) > 0 {
		out = append(out, "Cluster Autoscaler runs with --expander=least-waste and a scan interval of 10 s. It does not read interruption notices.")
	}
	return out
}

// awsGroups defines the Auto Scaling groups for dovetail-sandbox up --groups.
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
- name: spot
  max: 80
  instanceTypes: [c5.2xlarge, c5a.2xlarge, m5.2xlarge]
  onDemandAbovePercent: 0
  spotAllocationStrategy: price-capacity-optimized
  suspendedProcesses: [AZRebalance]
  tags:
    - {key: k8s.io/cluster-autoscaler/enabled, value: "true"}
    - {key: k8s.io/cluster-autoscaler/sandbox, value: owned}
    - {key: k8s.io/cluster-autoscaler/node-template/label/pool, value: spot}
    - {key: k8s.io/cluster-autoscaler/node-template/taint/pool, value: "spot:NoSchedule"}
`

// onAWS reports whether the comparison runs on the simulated AWS.
func (s Settings) onAWS() bool { return s.Boot > time.Duration(0) }
