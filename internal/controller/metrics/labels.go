// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// durationBuckets are Karpenter's bounds for durations, so that an alert which names one finds it, with finer ones below.
func durationBuckets() []float64 {
	return []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .15, .2, .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5,
		5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60, 120, 150, 300, 450, 600}
}

// quantiles are those of Karpenter's summaries, each with its error.
func quantiles() map[float64]float64 {
	return map[float64]float64{0: .01, .5: .01, .9: .01, .99: .01, 1: .01}
}

// resourceLabel is a resource's name as the value of label resource_type.
func resourceLabel(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }

// labelName is what a Kubernetes label's key is called in Prometheus.
func labelName(key string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)
}

// wellKnownName is what a label that every node has is called on the metrics of nodes: its key's last part.
func wellKnownName(key string) string {
	return labelName(strings.ToLower(key[strings.LastIndexByte(key, '/')+1:]))
}

var wordEnds = regexp.MustCompile(`([a-z0-9])([A-Z])`)

func snakeCase(s string) string { return strings.ToLower(wordEnds.ReplaceAllString(s, "${1}_${2}")) }

// disruptionReason is the value of label reason for why a NodeClaim is deleted; empty: it is not counted, since a person
// deleted it.
func disruptionReason(why plan.Reason) string {
	switch why.Code {
	case plan.Deleted:
		return ""
	case plan.Interrupted:
		return messageType(cloud.Interruption{Kind: plan.DetailOf[plan.OfInterrupted](why).Kind})
	case plan.InstanceGone:
		return "garbage_collected"
	case plan.NodeClassNotReady:
		return "nodeclass_not_ready"
	}
	return snakeCase(string(why.Code))
}

// creationReason is the value of label reason for why a NodeClaim is made.
func creationReason(why plan.Reason) string {
	if why.Code == plan.Demand || why.Code == plan.Replicas {
		return "provisioned"
	}
	return strings.ToLower(string(why.Code))
}

// messageType is the value of label message_type for a notice.
func messageType(i cloud.Interruption) string {
	switch i.Kind {
	case cloud.SpotInterruption:
		return "spot_interrupted"
	case cloud.ReservationInterruption:
		return "capacity_reservation_interrupted"
	case cloud.Rebalance:
		return "rebalance_recommendation"
	case cloud.InstanceStatusFailed:
		return "instance_status"
	case cloud.SystemStatusFailed:
		return "system_status"
	case cloud.StateChange:
		if i.Stops {
			return "instance_stopped"
		}
		return "instance_terminated"
	}
	return snakeCase(i.Kind)
}

// drainReason is the value of label reason for pods that leave a node. Only a disruption command's has a name.
func drainReason(code plan.Code) string {
	if slices.Contains(disrupt.Budgeted, code) {
		return string(code)
	}
	return "Forceful Termination"
}

// consolidationType is the value of label consolidation_type for a command that takes this many nodes.
func consolidationType(cause plan.Code, nodes int) string {
	switch {
	case cause == plan.Empty:
		return "empty"
	case cause != plan.Underutilized:
		return ""
	case nodes > 1:
		return "multi"
	}
	return "single"
}

// cloudErrorLabel is the value of label error for a call to the cloud.
func cloudErrorLabel(kind cloud.Kind) string {
	switch kind {
	case cloud.NotFound:
		return "NodeClaimNotFoundError"
	case cloud.InsufficientCapacity:
		return "InsufficientCapacityError"
	case cloud.NotReady:
		return "NodeClassNotReadyError"
	}
	return ""
}
