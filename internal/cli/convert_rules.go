// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These flags are rules about pods, and delays: each has a field of NodeGroupClass spec.options, and has no effect there
// where it is off.

const whyMoved = "such pods are evicted like any other; to keep one, annotate it with cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\" or give it a PodDisruptionBudget"

// inOptions is the outcome of a flag that is in the options of the class.
func inOptions(field, value string) fate {
	return fate{outcome: inObjects, what: "NodeGroupClass spec.options." + field + ": " + value}
}

// keepRule sets a rule about pods on or off.
func keepRule(field, v string, rule **bool) (fate, error) {
	*rule = nil
	if v != "true" {
		return fate{outcome: sameHere, what: whyMoved}, nil
	}
	yes := true
	*rule = &yes
	return inOptions("eviction."+field, "true"), nil
}

func convertLocalStorage(c *conversion, v string) (fate, error) {
	return keepRule("keepLocalStorage", v, &c.settings.Eviction.KeepLocalStorage)
}

func convertCustomControllers(c *conversion, v string) (fate, error) {
	return keepRule("keepCustomControllers", v, &c.settings.Eviction.KeepCustomControllers)
}

func convertSystemPods(c *conversion, v string) (fate, error) {
	if v != "true" {
		c.settings.Eviction.KeepSystemPods = nil
		return fate{outcome: sameHere, what: whyMoved}, nil
	}
	return inOptions("eviction.keepSystemPods", c.settings.Eviction.KeepSystemPods.Duration.String()), nil
}

func convertSystemPodAge(c *conversion, v string) (fate, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return fate{}, fmt.Errorf("--blocking-system-pod-distruption-timeout=%s: %w", v, err)
	}
	if c.settings.Eviction.KeepSystemPods == nil {
		return fate{outcome: noEffect, what: "--skip-nodes-with-system-pods is off"}, nil
	}
	c.settings.Eviction.KeepSystemPods = &metav1.Duration{Duration: d}
	return inOptions("eviction.keepSystemPods", d.String()), nil
}

func convertMinReplicas(c *conversion, v string) (fate, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return fate{}, fmt.Errorf("--min-replica-count=%s: need a count of 0 or more", v)
	}
	switch {
	case n == 0:
		return fate{outcome: sameHere, what: "no minimum"}, nil
	case c.settings.Eviction.KeepCustomControllers == nil:
		return fate{outcome: noEffect, what: "--skip-nodes-with-custom-controller-pods is off, and Cluster Autoscaler asks for no replicas then"}, nil
	}
	count := int32(n)
	c.settings.Eviction.KeepBelowReplicas = &count
	return inOptions("eviction.keepBelowReplicas", v), nil
}

func convertGracePeriod(c *conversion, v string) (fate, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return fate{}, fmt.Errorf("--max-graceful-termination-sec=%s: need a number of seconds, 0 or more", v)
	}
	if n == 0 {
		c.settings.Eviction.MaxGracePeriod = nil
		return fate{outcome: noMatch, what: "each pod has its own grace period; give spec.options.eviction.maxGracePeriod of the NodeGroupClass, 1s or more, to shorten it", pace: paceLess}, nil
	}
	c.settings.Eviction.MaxGracePeriod = &metav1.Duration{Duration: time.Duration(n) * time.Second}
	return inOptions("eviction.maxGracePeriod", c.settings.Eviction.MaxGracePeriod.Duration.String()), nil
}

func convertEmptyDaemonSets(c *conversion, v string) (fate, error) {
	c.settings.Eviction.KeepDaemonSetsOfEmptyNodes = nil
	if v == "true" {
		return fate{outcome: sameHere, what: "pods of DaemonSets are evicted from empty nodes too, unless they tolerate karpenter.sh/disrupted"}, nil
	}
	yes := true
	c.settings.Eviction.KeepDaemonSetsOfEmptyNodes = &yes
	return inOptions("eviction.keepDaemonSetsOfEmptyNodes", "true"), nil
}

func convertDelayAfterAdd(c *conversion, v string) (fate, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return fate{}, fmt.Errorf("--scale-down-delay-after-add=%s: %w", v, err)
	}
	if c.settings.DelayAfterAdd = d; d == 0 {
		return fate{outcome: sameHere, what: "no delay"}, nil
	}
	return inOptions("delayAfterAdd", d.String()), nil
}

func convertPodDelay(c *conversion, v string) (fate, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return fate{}, fmt.Errorf("--new-pod-scale-up-delay=%s: %w", v, err)
	}
	if c.settings.NewPodDelay = d; d == 0 {
		return fate{outcome: sameHere, what: "no delay"}, nil
	}
	return inOptions("newPodDelay", d.String()), nil
}

func convertPriorityCutoff(c *conversion, v string) (fate, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return fate{}, fmt.Errorf("--expendable-pods-priority-cutoff=%s: need a priority", v)
	}
	cutoff := int32(n)
	c.settings.PriorityCutoff = &cutoff
	x := inOptions("priorityCutoff", v)
	x.what += ": no node is launched for pods below it; while they run they still keep their node, where Cluster Autoscaler takes no notice of them"
	x.pace = paceLess
	return x, nil
}

func convertMinSize(c *conversion, v string) (fate, error) {
	if c.settings.FillToMinSize = v == "true"; !c.settings.FillToMinSize {
		return fate{outcome: sameHere, what: "AWS itself keeps a group at its own minimum; a higher one of --nodes is kept when nodes go, and not filled up"}, nil
	}
	return inOptions("fillToMinSize", "true"), nil
}
