// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rules are what the options of a class keep nodes and pods from, a sentence each, in the order of the fields. None:
// the options say nothing of that kind.
func (o *NodeGroupOptions) Rules() (out []string) {
	if o == nil {
		return nil
	}
	add := func(format string, values ...any) { out = append(out, fmt.Sprintf(format, values...)) }
	if e := o.Eviction; e != nil {
		if isTrue(e.KeepLocalStorage) {
			add("Pods with local storage keep their node (eviction.keepLocalStorage).")
		}
		if d := e.KeepSystemPods; d != nil && d.Duration > 0 {
			add("Pods of kube-system without a PodDisruptionBudget keep their node until they are %s old (eviction.keepSystemPods).", d.Duration)
		}
		if isTrue(e.KeepCustomControllers) {
			add("Pods of controllers that are not Kubernetes' own keep their node (eviction.keepCustomControllers).")
		}
		if n := e.KeepBelowReplicas; n != nil && *n > 0 {
			add("Pods whose controller has fewer than %s pods keep their node (eviction.keepBelowReplicas).", strconv.Itoa(int(*n)))
		}
		if d := e.MaxGracePeriod; d != nil && d.Duration > 0 {
			add("Evicted pods have at most %s to end (eviction.maxGracePeriod).", d.Duration)
		}
		if len(e.DrainPriorities) > 0 {
			add("Pods are evicted by priority, the lowest first, with %s to end at most (eviction.drainPriorities).", e.drainPriorityText())
		}
		if isTrue(e.KeepDaemonSetsOfEmptyNodes) {
			add("Pods of DaemonSets are not evicted from empty nodes (eviction.keepDaemonSetsOfEmptyNodes).")
		}
		if isTrue(e.KeepDaemonSetsOfOccupiedNodes) {
			add("Pods of DaemonSets are not evicted from nodes with other pods (eviction.keepDaemonSetsOfOccupiedNodes).")
		}
	}
	of := "of any group"
	if isTrue(o.DelaysPerGroup) {
		of = "of the same group"
	}
	for _, x := range []struct {
		delay       *metav1.Duration
		what, field string
	}{
		{o.DelayAfterAdd, "a node %s was launched", "delayAfterAdd"},
		{o.DelayAfterDelete, "the removal of a node %s began", "delayAfterDelete"},
		{o.DelayAfterFailure, "the removal of a node %s failed", "delayAfterFailure"},
	} {
		if d := x.delay; d != nil && d.Duration > 0 {
			add("No node is removed for its cost or for being empty for %s after "+x.what+" (%s).", d.Duration, of, x.field)
		}
	}
	if d := o.DelayAfterTaint; d != nil && d.Duration > 0 {
		add("The pods of a node that is to be removed are evicted %s after it was tainted (delayAfterTaint).", d.Duration)
	}
	if d := o.DeletionDelayTimeout; d != nil && d.Duration > 0 {
		add("An empty node is deleted only when it has no annotation delay-deletion.cluster-autoscaler.kubernetes.io/… any more, or %s later (deletionDelayTimeout).", d.Duration)
	} else if d != nil {
		add("Annotations delay-deletion.cluster-autoscaler.kubernetes.io/… are not waited for (deletionDelayTimeout).")
	}
	if d := o.NewPodDelay; d != nil && d.Duration > 0 {
		add("No node is launched for pods younger than %s, unless another NodePool has no such delay (newPodDelay).", d.Duration)
	}
	if n := o.PriorityCutoff; n != nil {
		add("No node is launched or kept for pods of a priority below %s, unless another NodePool has no such limit (priorityCutoff).", strconv.Itoa(int(*n)))
	}
	if isTrue(o.FillToMinSize) {
		add("Groups below minSize are filled up to it (fillToMinSize).")
	}
	return out
}

// drainPriorityText lists the groups of pods and how long each has, the lowest priority first.
func (e *NodeGroupEviction) drainPriorityText() string {
	list := slices.SortedFunc(slices.Values(e.DrainPriorities), func(a, b NodeGroupDrainPriority) int { return cmp.Compare(a.Priority, b.Priority) })
	var out []string
	for i, p := range list {
		text := p.GracePeriod.Duration.String() + " from priority " + strconv.Itoa(int(p.Priority))
		if i == 0 {
			text = p.GracePeriod.Duration.String() + " from the lowest"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func isTrue(b *bool) bool { return b != nil && *b }
