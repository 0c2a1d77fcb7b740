// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// These flags are rules about pods, and delays: each has a field of NodeGroupClass spec.options, and has no effect there
// where it is off.

const whyMoved = "such pods are evicted like others; to prevent it, annotate a pod with cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\" or give it a PodDisruptionBudget"

// inOptions is the outcome of a flag that is in the options of the class.
func inOptions(field, value string) fate {
	return fate{outcome: InObjects, what: "NodeGroupClass spec.options." + field + ": " + value}
}

// keepRule sets a rule about pods on or off.
func keepRule(field, v string, rule **bool) (fate, error) {
	*rule = nil
	if v != "true" {
		return fate{outcome: SameHere, what: whyMoved}, nil
	}
	yes := true
	*rule = &yes
	return inOptions("eviction."+field, "true"), nil
}

func convertLocalStorage(c *Conversion, v string) (fate, error) {
	return keepRule("keepLocalStorage", v, &c.Settings.Eviction.KeepLocalStorage)
}

func convertCustomControllers(c *Conversion, v string) (fate, error) {
	return keepRule("keepCustomControllers", v, &c.Settings.Eviction.KeepCustomControllers)
}

func convertSystemPods(c *Conversion, v string) (fate, error) {
	if v != "true" {
		c.Settings.Eviction.KeepSystemPods = nil
		return fate{outcome: SameHere, what: whyMoved}, nil
	}
	return inOptions("eviction.keepSystemPods", c.Settings.Eviction.KeepSystemPods.Duration.String()), nil
}

func convertSystemPodAge(c *Conversion, v string) (fate, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return fate{}, fmt.Errorf("--blocking-system-pod-distruption-timeout=%s: %w", v, err)
	}
	if c.Settings.Eviction.KeepSystemPods == nil {
		return fate{outcome: NoEffect, what: "--skip-nodes-with-system-pods is off"}, nil
	}
	c.Settings.Eviction.KeepSystemPods = &metav1.Duration{Duration: d}
	return inOptions("eviction.keepSystemPods", d.String()), nil
}

func convertMinReplicas(c *Conversion, v string) (fate, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return fate{}, fmt.Errorf("--min-replica-count=%s: need a count of 0 or more", v)
	}
	switch {
	case n == 0:
		return fate{outcome: SameHere, what: "no minimum"}, nil
	case c.Settings.Eviction.KeepCustomControllers == nil:
		return fate{outcome: NoEffect, what: "--skip-nodes-with-custom-controller-pods is off, so Cluster Autoscaler ignores the flag"}, nil
	}
	count := int32(n)
	c.Settings.Eviction.KeepBelowReplicas = &count
	return inOptions("eviction.keepBelowReplicas", v), nil
}

func convertGracePeriod(c *Conversion, v string) (fate, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return fate{}, fmt.Errorf("--max-graceful-termination-sec=%s: need a number of seconds, 0 or more", v)
	}
	if c.given["drain-priority-config"] {
		c.Settings.Eviction.MaxGracePeriod = nil
		if c.given["max-graceful-termination-sec"] {
			return fate{}, errors.New("--max-graceful-termination-sec and --drain-priority-config: Cluster Autoscaler does not start with both; leave one of them out")
		}
		return fate{outcome: NoEffect, what: "--drain-priority-config sets the grace periods"}, nil
	}
	c.Settings.Eviction.MaxGracePeriod = &metav1.Duration{Duration: gracePeriod(n)}
	x := inOptions("eviction.maxGracePeriod", c.Settings.Eviction.MaxGracePeriod.Duration.String())
	if n == 0 {
		x.what += whyOneSecond
	}
	return x, nil
}

const whyOneSecond = "; an eviction with 0s would remove the pod from the API server while its containers still run"

// gracePeriod is so many seconds, 1 at least.
func gracePeriod(seconds int64) time.Duration { return time.Duration(max(seconds, 1)) * time.Second }

// convertDrainPriorities reads pairs of a priority and a number of seconds, such as 0:60,1000:120.
func convertDrainPriorities(c *Conversion, v string) (fate, error) {
	c.Settings.Eviction.DrainPriorities = nil
	if v == "" {
		return fate{outcome: SameHere, what: "empty: pods of all priorities are evicted together"}, nil
	}
	seen, zero := map[int64]bool{}, false
	for pair := range strings.SplitSeq(v, ",") {
		left, right, ok := strings.Cut(strings.TrimSpace(pair), ":")
		priority, err1 := strconv.ParseInt(left, 10, 32)
		seconds, err2 := strconv.ParseInt(right, 10, 32)
		switch {
		case !ok || err1 != nil || err2 != nil || seconds < 0:
			return fate{}, fmt.Errorf("--drain-priority-config=%s: %q: need <priority>:<seconds>, such as 0:60,1000:120", v, pair)
		case seen[priority]:
			return fate{}, fmt.Errorf("--drain-priority-config=%s: duplicate priority %d", v, priority)
		}
		seen[priority], zero = true, zero || seconds == 0
		c.Settings.Eviction.DrainPriorities = append(c.Settings.Eviction.DrainPriorities,
			dovetailv1alpha1.NodeGroupDrainPriority{Priority: int32(priority), GracePeriod: metav1.Duration{Duration: gracePeriod(seconds)}})
	}
	list := c.Settings.Eviction.DrainPriorities
	slices.SortFunc(list, func(a, b dovetailv1alpha1.NodeGroupDrainPriority) int { return cmp.Compare(a.Priority, b.Priority) })
	var text []string
	for _, p := range list {
		text = append(text, fmt.Sprintf("%d for %s", p.Priority, p.GracePeriod.Duration))
	}
	x := inOptions("eviction.drainPriorities", strings.Join(text, ", "))
	if zero {
		x.what += whyOneSecond
	}
	return x, nil
}

func convertDeletionDelay(c *Conversion, v string) (fate, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return fate{}, fmt.Errorf("--node-deletion-delay-timeout=%s: %w", v, err)
	}
	c.Settings.DeletionDelayTimeout = d
	return inOptions("deletionDelayTimeout", d.String()), nil
}

// convertDaemonEviction is the conversion of a flag that has pods of DaemonSets evicted from some nodes: off, they stay.
func convertDaemonEviction(nodes, field string, keep func(*dovetailv1alpha1.NodeGroupEviction) **bool) func(*Conversion, string) (fate, error) {
	return func(c *Conversion, v string) (fate, error) {
		rule := keep(&c.Settings.Eviction)
		if *rule = nil; v == "true" {
			return fate{outcome: SameHere, what: "pods of DaemonSets are evicted from " + nodes + ", unless they tolerate karpenter.sh/disrupted"}, nil
		}
		yes := true
		*rule = &yes
		return inOptions("eviction."+field, "true"), nil
	}
}

var (
	convertEmptyDaemonSets = convertDaemonEviction("empty nodes, too", "keepDaemonSetsOfEmptyNodes",
		func(e *dovetailv1alpha1.NodeGroupEviction) **bool { return &e.KeepDaemonSetsOfEmptyNodes })
	convertOccupiedDaemonSets = convertDaemonEviction("nodes with other pods, after the other pods", "keepDaemonSetsOfOccupiedNodes",
		func(e *dovetailv1alpha1.NodeGroupEviction) **bool { return &e.KeepDaemonSetsOfOccupiedNodes })
)

// convertDelay is the conversion of a flag that is a delay among the options: where it says to keep it, and the field.
func convertDelay(flag, field string, of func(*translate.GroupSettings) *time.Duration) func(*Conversion, string) (fate, error) {
	return func(c *Conversion, v string) (fate, error) {
		d, err := time.ParseDuration(v)
		if err != nil {
			return fate{}, fmt.Errorf("--%s=%s: %w", flag, v, err)
		}
		d = d.Round(time.Second) // the API takes no less
		if *of(&c.Settings) = d; d == 0 {
			return fate{outcome: SameHere, what: "no delay"}, nil
		}
		return inOptions(field, d.String()), nil
	}
}

func convertDelaysPerGroup(c *Conversion, v string) (fate, error) {
	if c.Settings.DelaysPerGroup = v == "true"; !c.Settings.DelaysPerGroup {
		return fate{outcome: SameHere, what: "the delays start after events in any group"}, nil
	}
	return inOptions("delaysPerGroup", "true"), nil
}

func convertTaintDelay(c *Conversion, v string) (fate, error) {
	x, err := convertDelay("node-delete-delay-after-taint", "delayAfterTaint", func(s *translate.GroupSettings) *time.Duration { return &s.DelayAfterTaint })(c, v)
	const most = 5 * time.Minute
	switch {
	case err != nil:
	case c.Settings.DelayAfterTaint > most:
		c.Settings.DelayAfterTaint = most
		x = inOptions("delayAfterTaint", most.String())
		x.what += ", the maximum: a removal that takes longer than 10m is cancelled"
		x.pace = PaceMore
	case c.Settings.DelayAfterTaint == 0:
		x.what = "500ms, so that pods being bound to the node are seen"
	}
	return x, err
}

func convertPriorityCutoff(c *Conversion, v string) (fate, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return fate{}, fmt.Errorf("--expendable-pods-priority-cutoff=%s: need a priority", v)
	}
	cutoff := int32(n)
	c.Settings.PriorityCutoff = &cutoff
	x := inOptions("priorityCutoff", v)
	x.what += ": no node is launched or kept for pods below it; unlike in Cluster Autoscaler, such a pod's PodDisruptionBudget and safe-to-evict: \"false\" still keep its node"
	return x, nil
}

func convertMinSize(c *Conversion, v string) (fate, error) {
	if c.Settings.FillToMinSize = v == "true"; !c.Settings.FillToMinSize {
		return fate{outcome: SameHere, what: "AWS keeps a group at its own minimum; a higher minimum in --nodes limits removals, but the group is not scaled up to it"}, nil
	}
	return inOptions("fillToMinSize", "true"), nil
}
