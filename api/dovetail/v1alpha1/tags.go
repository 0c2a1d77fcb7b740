// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1alpha1

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Tags that Cluster Autoscaler discovers a group by. The second one has the cluster's name behind it.
const (
	TagEnabled = "k8s.io/cluster-autoscaler/enabled"
	TagCluster = "k8s.io/cluster-autoscaler/"
)

// LabelDiscovered is "true" on a NodePool and a NodeGroupClass that were made for groups that were found by their tags or names, and
// AnnotationGroups says which groups.
const (
	LabelDiscovered  = Group + "/discovered"
	AnnotationGroups = Group + "/node-groups"
	// AnnotationLetGo is "true" on such a NodePool whose groups are not found any more: its machines are left alone.
	AnnotationLetGo = Group + "/let-go"
)

// The autoscaling options that a group's tags may set, behind TagNodeTemplateOption.
const (
	OptionUtilizationThreshold    = "scaledownutilizationthreshold"
	OptionGPUUtilizationThreshold = "scaledowngpuutilizationthreshold"
	OptionUnneededTime            = "scaledownunneededtime"
	OptionUnreadyTime             = "scaledownunreadytime"
	OptionProvisionTime           = "maxnodeprovisiontime"
	OptionStartupTime             = "maxnodestartuptime"
	OptionIgnoreDaemonSets        = "ignoredaemonsetsutilization"
)

// GroupTags is what the tags of a node group say of its machines and of how it is scaled. Nil: the tags do not say.
//
// +kubebuilder:object:generate=false
type GroupTags struct {
	Labels    map[string]string
	Taints    []corev1.Taint // by key and effect
	Resources corev1.ResourceList

	UtilizationThresholdPercent    *int32
	GPUUtilizationThresholdPercent *int32
	UnneededTime, UnreadyTime      *time.Duration
	ProvisionTime, StartupTime     *time.Duration
	IgnoreDaemonSetsUtilization    *bool

	// Problems are tags that can't be read, by key: they count as absent.
	Problems []TagProblem
}

// TagProblem is a tag that can't be read: why, and what would be valid.
//
// +kubebuilder:object:generate=false
type TagProblem struct {
	Key, Value, Reason string
	OfNodes            bool // it was to say how the group's nodes look; else it is an option
}

// String implements fmt.Stringer.
func (p TagProblem) String() string { return fmt.Sprintf("tag %s=%q: %s", p.Key, p.Value, p.Reason) }

// mostResource is more than any machine has of a resource: 1Pi. In thousandths it still fits an int64.
const mostResource = 1 << 50

// ReadTags reads the tags of a node group as Cluster Autoscaler does. Other tags are passed over.
func ReadTags(tags map[string]string) GroupTags {
	var t GroupTags
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if reason := t.read(key, tags[key]); reason != "" {
			t.Problems = append(t.Problems, TagProblem{key, tags[key], reason, !strings.HasPrefix(key, TagNodeTemplateOption)})
		}
	}
	slices.SortFunc(t.Taints, func(a, b corev1.Taint) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Effect), string(b.Effect)))
	})
	return t
}

func (t *GroupTags) read(key, value string) (problem string) {
	if name, ok := strings.CutPrefix(key, TagNodeTemplateLabel); ok {
		if name == "" {
			return "need the label's key behind " + TagNodeTemplateLabel
		}
		if t.Labels == nil {
			t.Labels = map[string]string{}
		}
		t.Labels[name] = value
		return ""
	}
	if name, ok := strings.CutPrefix(key, TagNodeTemplateTaint); ok {
		at := strings.LastIndexByte(value, ':')
		effect := corev1.TaintEffect(value[at+1:])
		known := effect == corev1.TaintEffectNoSchedule || effect == corev1.TaintEffectNoExecute || effect == corev1.TaintEffectPreferNoSchedule
		switch {
		case len(validation.IsQualifiedName(name)) > 0:
			return "need a taint's key behind " + TagNodeTemplateTaint + ", such as dedicated or example.com/dedicated"
		case at < 0 || !known:
			return "need value:effect with the effect NoSchedule, NoExecute or PreferNoSchedule, such as true:NoSchedule"
		case len(validation.IsValidLabelValue(value[:at])) > 0:
			return "need value:effect with a value of letters, digits, '-', '_' and '.', such as true:NoSchedule"
		}
		t.Taints = append(t.Taints, corev1.Taint{Key: name, Value: value[:at], Effect: effect})
		return ""
	}
	if name, ok := strings.CutPrefix(key, TagNodeTemplateResource); ok {
		q, err := resource.ParseQuantity(value)
		switch {
		case name == "":
			return "need the resource's name behind " + TagNodeTemplateResource
		case err != nil || q.Sign() < 0:
			return "need a quantity such as 4 or 100Gi"
		case q.CmpInt64(mostResource) > 0:
			return "need a quantity of at most 1Pi, such as 4 or 100Gi"
		}
		if t.Resources == nil {
			t.Resources = corev1.ResourceList{}
		}
		t.Resources[corev1.ResourceName(name)] = q
		return ""
	}
	if name, ok := strings.CutPrefix(key, TagNodeTemplateOption); ok {
		return t.option(name, value)
	}
	return ""
}

func (t *GroupTags) option(name, value string) (problem string) {
	percent := func(into **int32) string {
		n, err := SharePercent(value)
		if err == nil {
			*into = &n
			return ""
		}
		return err.Error()
	}
	duration := func(into **time.Duration) string {
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return "need a duration such as 10m"
		}
		*into = &d
		return ""
	}
	switch name {
	case OptionUtilizationThreshold:
		return percent(&t.UtilizationThresholdPercent)
	case OptionGPUUtilizationThreshold:
		return percent(&t.GPUUtilizationThresholdPercent)
	case OptionUnneededTime:
		return duration(&t.UnneededTime)
	case OptionUnreadyTime:
		return duration(&t.UnreadyTime)
	case OptionProvisionTime:
		return duration(&t.ProvisionTime)
	case OptionStartupTime:
		return duration(&t.StartupTime)
	case OptionIgnoreDaemonSets:
		b, err := strconv.ParseBool(value)
		if err != nil {
			return "need true or false"
		}
		t.IgnoreDaemonSetsUtilization = &b
		return ""
	}
	return "there is no such option; it has no effect"
}

// SharePercent reads a share as Cluster Autoscaler writes it, such as 0.5, as percent.
func SharePercent(text string) (int32, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > 1 {
		return 0, errors.New("need a share between 0 and 1 such as 0.5")
	}
	return int32(math.Round(v * 100)), nil
}
