// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"math"
	"time"
)

// Buffer is a CapacityBuffer as a decision needs it: how many pods of which kind capacity is to be held free for.
type Buffer struct {
	Namespace, Name, UID string
	Created              time.Time

	// Like is a pod of the buffer as it would be made, of the lowest priority there is (VirtualPriority). nil: what the pods look
	// like is not known, and Ready says why.
	Like     *Pod
	Replicas int // of Like, with percentage, limits and quotas already applied

	// Total is for how many pods there is to be capacity, those of Workload included that have a node or are about to get one:
	// the buffer gives way to them one by one. Negative: Replicas alone says how many.
	Total    int
	Workload Workload

	// MaxHourMicro is the most in micro-dollars that an hour of the capacity may cost; negative: whatever it costs.
	MaxHourMicro int64
	// Group names buffers of all namespaces that are never needed at the same time, and so share capacity; empty: it shares none.
	Group string

	Ready   Condition // whether Like and Replicas are known, with the reason and message for people
	Limited Condition // whether ResourceQuotas lower Replicas; an empty Status: nothing is to be said of it

	TemplateName       string // of the PodTemplate that Like is made from; empty: it is made from a workload's template
	TemplateGeneration int64

	Status BufferStatus // as the API server has it
}

// BufferStatus is the status of a CapacityBuffer in the API server.
type BufferStatus struct {
	TemplateName       string
	TemplateGeneration int64
	Replicas           int // negative: not set
	Strategy           string
	Conditions         map[string]Condition
}

// Key is namespace/name.
func (b *Buffer) Key() string { return b.Namespace + "/" + b.Name }

// VirtualPriority is the priority of virtual pods: every real pod comes before them.
const VirtualPriority = math.MinInt32

// Annotations of a CapacityBuffer.
const (
	// AnnotationMaxHour is what an hour without the buffer's capacity costs, in dollars: capacity is held for no more pods than can
	// be had for that. See ParseDollars.
	AnnotationMaxHour = "dovetail.sh/max-price-per-hour"
	// AnnotationTotalReplicas is for how many replicas of the workload of spec.scalableRef there is to be room, its own pods included:
	// the buffer gives way to them as they come, and is not refilled.
	AnnotationTotalReplicas = "dovetail.sh/total-replicas"
	// AnnotationShareGroup names the group of buffers that share capacity.
	AnnotationShareGroup = "dovetail.sh/share-group"
)
