// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"math"
	"time"
)

// Buffer is a CapacityBuffer: the number and kind of pods to hold free capacity for.
type Buffer struct {
	Namespace, Name, UID string
	Created              time.Time

	// Like is a virtual pod of the buffer, with the lowest priority (VirtualPriority). nil: its spec is unknown, for the
	// reason in Ready.
	Like     *Pod
	Replicas int // of Like, with percentage, limits and quotas already applied

	// Total is the number of pods to have capacity for, including pods of Workload that have a node or will get one: each of
	// them replaces one pod of the buffer. Negative: Replicas alone counts.
	Total    int
	Workload Workload

	// MaxHourMicro is the maximum cost of the capacity in micro-dollars per hour. Negative: no maximum.
	MaxHourMicro int64
	// Group names buffers in any namespaces that are never needed at the same time and share capacity. Empty: none is shared.
	Group string

	Ready   Condition // whether Like and Replicas are known, with reason and message
	Limited Condition // whether ResourceQuotas reduce Replicas; an empty Status: the condition is not set

	TemplateName       string // the PodTemplate of Like; empty: a workload's template
	TemplateGeneration int64

	Status BufferStatus // as stored in the API server
}

// BufferStatus is the status of a CapacityBuffer in the API server.
type BufferStatus struct {
	TemplateName       string
	TemplateGeneration int64
	Replicas           int // negative: not set
	Strategy           string
	Conditions         map[string]Condition
}

// Key returns namespace/name.
func (b *Buffer) Key() string { return b.Namespace + "/" + b.Name }

// VirtualPriority is the priority of virtual pods, below that of every real pod.
const VirtualPriority = math.MinInt32

// Annotations of a CapacityBuffer.
const (
	// AnnotationMaxHour is the maximum cost of the buffer's capacity in dollars per hour, which limits the number of pods.
	// See ParseDollars.
	AnnotationMaxHour = "dovetail.sh/max-price-per-hour"
	// AnnotationTotalReplicas is the total number of replicas of the workload in spec.scalableRef to have capacity for,
	// including existing ones: the buffer shrinks as they are created, and is not refilled.
	AnnotationTotalReplicas = "dovetail.sh/total-replicas"
	// AnnotationShareGroup names the group of buffers that share capacity.
	AnnotationShareGroup = "dovetail.sh/share-group"
)
