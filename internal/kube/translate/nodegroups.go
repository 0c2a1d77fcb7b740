// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// IsDiscovered reports whether an object was created for a discovered node group.
func IsDiscovered(o metav1.Object) bool {
	return o.GetLabels()[dovetailv1alpha1.LabelDiscovered] == karpv1.LabelValueTrue
}

// NodeGroup is a node group as described by its cloud and by Cluster Autoscaler's flags.
type NodeGroup struct {
	Name     string
	Min, Max *int32            // bounds that override those of the group; nil: those of the group
	Tags     map[string]string // nil: unknown
}

// GroupSettings are the settings of groups whose tags do not set them.
type GroupSettings struct {
	ScaleDown                              bool
	UtilizationPercent, GPUPercent         int32
	UnneededTime, UnreadyTime              time.Duration
	ProvisionTime                          time.Duration // maximum time from the launch of a machine until it is registered as a node
	IgnoreDaemonSets, IgnoreMirrorPods     bool
	MaxScaleDown, MaxDrain                 int // maximum number of nodes of a pool disrupted at once, and of those with pods; 0: all empty nodes, and 10 % of the pool with pods
	Expanders                              []dovetailv1alpha1.Expander
	Priorities                             []dovetailv1alpha1.NodeGroupPriority // for the expander priority
	Eviction                               dovetailv1alpha1.NodeGroupEviction
	NewPodDelay                            time.Duration
	DelayAfterAdd, DelayAfterDelete        time.Duration
	DelayAfterFailure, DelayAfterTaint     time.Duration
	DelaysPerGroup                         bool          // the first three delays are counted per group
	DeletionDelayTimeout                   time.Duration // timeout for annotations that delay the deletion of a node; 0: ignore them
	PriorityCutoff                         *int32
	FillToMinSize                          bool
	Balance                                bool
	BalancingIgnore                        []string
	StartupTaints, StartupPrefixes, Status []string // keys of taints that are removed automatically, and of informational taints
}

// DefaultGroupSettings returns Cluster Autoscaler's defaults, except for the expander: the cheapest group is used.
func DefaultGroupSettings() GroupSettings {
	yes, system, grace, cutoff := true, metav1.Duration{Duration: time.Hour}, metav1.Duration{Duration: 10 * time.Minute}, int32(-10)
	return GroupSettings{
		Eviction: dovetailv1alpha1.NodeGroupEviction{
			KeepLocalStorage: &yes, KeepSystemPods: &system, KeepCustomControllers: &yes, MaxGracePeriod: &grace, KeepDaemonSetsOfEmptyNodes: &yes,
		},
		DelayAfterAdd: 10 * time.Minute, DelayAfterFailure: 3 * time.Minute, DelayAfterTaint: 5 * time.Second, DeletionDelayTimeout: 2 * time.Minute,
		PriorityCutoff: &cutoff,
		ScaleDown:      true, UtilizationPercent: 50, GPUPercent: 50, UnneededTime: 10 * time.Minute, UnreadyTime: 20 * time.Minute, ProvisionTime: 15 * time.Minute,
		Expanders: []dovetailv1alpha1.Expander{dovetailv1alpha1.ExpanderPrice},
	}
}

// GroupObjects are the NodePool and the NodeGroupClass of a node group, or of several similar groups that are balanced.
type GroupObjects struct {
	Groups []string // sorted by name
	Pool   *karpv1.NodePool
	Class  *dovetailv1alpha1.NodeGroupClass
	// Fields list how each setting of each group was converted, tags first.
	Fields []GroupField
}

// GroupField is one setting of a group.
type GroupField struct {
	Group, Field, Value string
	Became              string // field that it was converted to; empty: none
	Why                 string // why it was not converted
	Needless            bool   // not converted because it holds anyway
}

// Taints that Cluster Autoscaler recognizes by key or prefix.
const (
	startupTaintPrefix = "startup-taint.cluster-autoscaler.kubernetes.io/"
	ignoreTaintPrefix  = "ignore-taint.cluster-autoscaler.kubernetes.io/"
	statusTaintPrefix  = "status-taint.cluster-autoscaler.kubernetes.io/"
)

// groupSays are labels whose values the group itself tells: its subnets, its launch template.
var groupSays = []string{
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable, corev1.LabelArchStable, corev1.LabelOSStable,
	corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
}

// balancingIgnored are labels in which similar groups of AWS may differ; Cluster Autoscaler's list.
var balancingIgnored = []string{
	"alpha.eksctl.io/instance-id", "alpha.eksctl.io/nodegroup-name", "eks.amazonaws.com/nodegroup", "k8s.amazonaws.com/eniConfig", "lifecycle",
	"topology.ebs.csi.aws.com/zone", "topology.k8s.aws/zone-id",
}

// NodeGroups returns the NodePools and NodeGroupClasses for groups, their tags and the settings, by name. All API server
// defaults are set, so that they can be compared with stored objects.
func NodeGroups(groups []NodeGroup, set GroupSettings) ([]GroupObjects, error) {
	var weights map[string]int32
	if slices.Contains(set.Expanders, dovetailv1alpha1.ExpanderPriority) {
		var err error
		if weights, err = GroupWeights(groups, set.Priorities); err != nil {
			return nil, err
		}
	}
	return WeightedNodeGroups(groups, set, weights)
}

// WeightedNodeGroups is like NodeGroups, with the weight of each group by name.
func WeightedNodeGroups(groups []NodeGroup, set GroupSettings, weights map[string]int32) ([]GroupObjects, error) {
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b NodeGroup) int { return strings.Compare(a.Name, b.Name) })
	var out []GroupObjects
	at := map[string]int{} // by what makes groups similar
	for _, g := range groups {
		one := translateNodeGroup(g, set, weights[g.Name])
		if !set.Balance {
			out = append(out, one)
			continue
		}
		key, err := similarity(one)
		if err != nil {
			return nil, fmt.Errorf("compare node group %q: %w", g.Name, err)
		}
		i, ok := at[key]
		if !ok {
			at[key] = len(out)
			out = append(out, one)
			continue
		}
		have := &out[i]
		have.Groups = append(have.Groups, g.Name)
		have.Class.Spec.SelectorTerms = append(have.Class.Spec.SelectorTerms, one.Class.Spec.SelectorTerms...)
		have.Fields = append(have.Fields, one.Fields...)
		labels := have.Pool.Spec.Template.Labels
		for k, v := range labels {
			if one.Pool.Spec.Template.Labels[k] != v {
				delete(labels, k) // each group's own tags say it
			}
		}
		if len(labels) == 0 {
			have.Pool.Spec.Template.Labels = nil
		}
	}
	slices.SortFunc(out, func(a, b GroupObjects) int { return strings.Compare(a.Pool.Name, b.Pool.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Pool.Name == out[i-1].Pool.Name {
			return nil, fmt.Errorf("node groups %q and %q would both be NodePool %q; name each group once", out[i-1].Groups[0], out[i].Groups[0], out[i].Pool.Name)
		}
	}
	return out, nil
}

func translateNodeGroup(g NodeGroup, set GroupSettings, weight int32) GroupObjects {
	name := GroupPoolName(g.Name)
	tags := dovetailv1alpha1.ReadTags(g.Tags)
	out := GroupObjects{Groups: []string{g.Name}}
	came := func(field, value, became string) {
		out.Fields = append(out.Fields, GroupField{Group: g.Name, Field: field, Value: value, Became: became})
	}
	lost := func(field, value, why string) {
		out.Fields = append(out.Fields, GroupField{Group: g.Name, Field: field, Value: value, Why: why})
	}
	pool := &karpv1.NodePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: karpv1.GroupVersion.String(), Kind: "NodePool"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	class := &dovetailv1alpha1.NodeGroupClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: dovetailv1alpha1.GroupVersion.String(), Kind: dovetailv1alpha1.KindNodeGroupClass},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: dovetailv1alpha1.NodeGroupClassSpec{
			SelectorTerms: []dovetailv1alpha1.NodeGroupSelectorTerm{{Name: g.Name, MinSize: g.Min, MaxSize: g.Max}},
		},
	}
	out.Pool, out.Class = pool, class

	spec := &pool.Spec.Template.Spec
	spec.Requirements = []karpv1.Requirement{}
	spec.NodeClassRef = &karpv1.NodeClassReference{Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass, Name: name}
	// ExpireAfter stays Never: Cluster Autoscaler knows no age of nodes.

	for _, k := range slices.Sorted(maps.Keys(tags.Labels)) {
		tag, v := dovetailv1alpha1.TagNodeTemplateLabel+k, tags.Labels[k]
		switch why := restricted(k); {
		case slices.Contains(groupSays, k):
			out.Fields = append(out.Fields, GroupField{Group: g.Name, Field: tag, Value: v, Why: "taken from the group's launch template and subnets", Needless: true})
		case why != "":
			lost(tag, v, why)
		case len(validation.IsQualifiedName(k)) > 0 || len(validation.IsValidLabelValue(v)) > 0:
			lost(tag, v, "not a valid label: "+strings.Join(append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...), "; "))
		default:
			if pool.Spec.Template.Labels == nil {
				pool.Spec.Template.Labels = map[string]string{}
			}
			pool.Spec.Template.Labels[k] = v
			came(tag, v, "NodePool spec.template.metadata.labels")
		}
	}
	for _, t := range tags.Taints {
		tag := dovetailv1alpha1.TagNodeTemplateTaint + t.Key
		value := t.Value + ":" + string(t.Effect)
		prefixed := func(prefixes []string) bool {
			return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(t.Key, p) })
		}
		switch {
		case slices.Contains(set.Status, t.Key) || strings.HasPrefix(t.Key, statusTaintPrefix):
			lost(tag, value, "a status taint: nodes are launched for pods that don't tolerate it")
		case slices.Contains(set.StartupTaints, t.Key) || prefixed(set.StartupPrefixes) || prefixed([]string{startupTaintPrefix, ignoreTaintPrefix}):
			spec.StartupTaints = append(spec.StartupTaints, t)
			came(tag, value, "NodePool spec.template.spec.startupTaints")
		default:
			spec.Taints = append(spec.Taints, t)
			came(tag, value, "NodePool spec.template.spec.taints")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(tags.Resources)) {
		q := tags.Resources[k]
		came(dovetailv1alpha1.TagNodeTemplateResource+string(k), q.String(), "read from the group by the NodeGroupClass")
	}

	options := &dovetailv1alpha1.NodeGroupOptions{}
	class.Spec.Options = options
	percent := func(tag string, said *int32, otherwise int32, field string) *int32 {
		if said == nil {
			return &otherwise
		}
		came(dovetailv1alpha1.TagNodeTemplateOption+tag, strconv.Itoa(int(*said))+" %", "NodeGroupClass spec.options."+field)
		return said
	}
	duration := func(tag string, said *time.Duration, otherwise time.Duration, where string) time.Duration {
		if said == nil {
			return otherwise
		}
		came(dovetailv1alpha1.TagNodeTemplateOption+tag, said.String(), where)
		return *said
	}
	options.UtilizationThresholdPercent = percent(dovetailv1alpha1.OptionUtilizationThreshold, tags.UtilizationThresholdPercent, set.UtilizationPercent, "utilizationThresholdPercent")
	options.GPUUtilizationThresholdPercent = percent(dovetailv1alpha1.OptionGPUUtilizationThreshold, tags.GPUUtilizationThresholdPercent, set.GPUPercent, "gpuUtilizationThresholdPercent")
	unready := duration(dovetailv1alpha1.OptionUnreadyTime, tags.UnreadyTime, set.UnreadyTime, "NodeGroupClass spec.options.unreadyTime")
	options.UnreadyTime = &metav1.Duration{Duration: unready}
	ignore := set.IgnoreDaemonSets
	if tags.IgnoreDaemonSetsUtilization != nil {
		ignore = *tags.IgnoreDaemonSetsUtilization
		came(dovetailv1alpha1.TagNodeTemplateOption+dovetailv1alpha1.OptionIgnoreDaemonSets, strconv.FormatBool(ignore), "NodeGroupClass spec.options.ignoreDaemonSetsUtilization")
	}
	if ignore {
		options.IgnoreDaemonSetsUtilization = &ignore
	}
	if set.IgnoreMirrorPods {
		yes := true
		options.IgnoreMirrorPodsUtilization = &yes
	}
	set.addRules(options)
	if set.Balance {
		yes := true
		options.BalanceSimilarGroups = &yes
		options.BalancingIgnoreLabels = slices.Clone(set.BalancingIgnore)
	}
	for _, e := range set.Expanders { // priority is the pool's weight
		if e != dovetailv1alpha1.ExpanderPriority {
			options.Expanders = append(options.Expanders, e)
		}
	}
	if len(options.Expanders) == 0 {
		options.Expanders = []dovetailv1alpha1.Expander{dovetailv1alpha1.ExpanderPrice}
	}
	if d := duration(dovetailv1alpha1.OptionProvisionTime, tags.ProvisionTime, set.ProvisionTime, "NodeGroupClass spec.options.maxNodeProvisionTime"); d != DefaultGroupSettings().ProvisionTime {
		options.MaxNodeProvisionTime = &metav1.Duration{Duration: d}
	}
	if tags.StartupTime != nil {
		lost(dovetailv1alpha1.TagNodeTemplateOption+dovetailv1alpha1.OptionStartupTime, tags.StartupTime.String(), "registered nodes are kept, and repaired based on their conditions")
	}
	for _, p := range tags.Problems {
		lost(p.Key, p.Value, p.Reason)
	}

	d := &pool.Spec.Disruption
	d.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized
	unneeded := duration(dovetailv1alpha1.OptionUnneededTime, tags.UnneededTime, set.UnneededTime, "NodePool spec.disruption.consolidateAfter")
	if set.ScaleDown {
		unneeded = unneeded.Round(time.Second) // the API takes no less
		d.ConsolidateAfter = karpv1.NillableDurationOf(unneeded)
		d.ConsolidateAfter.Text = wireDuration(unneeded)
	}
	withPods := "10%"
	if set.MaxScaleDown > 0 {
		d.Budgets, withPods = append(d.Budgets, karpv1.Budget{Nodes: strconv.Itoa(set.MaxScaleDown)}), ""
	}
	if set.MaxDrain > 0 {
		withPods = strconv.Itoa(set.MaxDrain)
	}
	if withPods != "" { // the removal of an empty node disrupts nothing
		d.Budgets = append(d.Budgets, karpv1.Budget{Nodes: withPods, Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonUnderutilized, karpv1.DisruptionReasonUnhealthy}})
	}
	// Cluster Autoscaler replaces no machine because its group's description has changed.
	d.Budgets = append(d.Budgets, karpv1.Budget{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonDrifted}})
	if weight > 0 {
		pool.Spec.Weight = &weight
		came("priority", strconv.Itoa(int(weight)), "NodePool spec.weight")
	}
	return out
}

// addRules adds the rules about pods and delays to a class's options; those that say nothing are left out.
func (s *GroupSettings) addRules(o *dovetailv1alpha1.NodeGroupOptions) {
	if !equality.Semantic.DeepEqual(s.Eviction, dovetailv1alpha1.NodeGroupEviction{}) {
		o.Eviction = s.Eviction.DeepCopy()
	}
	for _, d := range []struct {
		of time.Duration
		to **metav1.Duration
	}{
		{s.DelayAfterAdd, &o.DelayAfterAdd}, {s.DelayAfterDelete, &o.DelayAfterDelete}, {s.DelayAfterFailure, &o.DelayAfterFailure},
		{s.DelayAfterTaint, &o.DelayAfterTaint}, {s.NewPodDelay, &o.NewPodDelay},
	} {
		if d.of > 0 {
			*d.to = &metav1.Duration{Duration: d.of.Round(time.Second)}
		}
	}
	o.DeletionDelayTimeout = &metav1.Duration{Duration: s.DeletionDelayTimeout.Round(time.Second)}
	if s.PriorityCutoff != nil {
		cutoff := *s.PriorityCutoff
		o.PriorityCutoff = &cutoff
	}
	if s.DelaysPerGroup {
		own := true
		o.DelaysPerGroup = &own
	}
	if s.FillToMinSize {
		fill := true
		o.FillToMinSize = &fill
	}
}

// wireDuration writes a duration in hours, minutes and seconds without those that are 0.
func wireDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// GroupWeights returns weights by group, from priorities: the priority itself if all of them are valid NodePool weights,
// otherwise its rank. Groups without a priority have no weight, and are used last.
func GroupWeights(groups []NodeGroup, list []dovetailv1alpha1.NodeGroupPriority) (map[string]int32, error) {
	ranked := slices.Clone(list)
	slices.SortFunc(ranked, func(a, b dovetailv1alpha1.NodeGroupPriority) int { return cmp.Compare(a.Priority, b.Priority) })
	fits := len(ranked) == 0 || ranked[0].Priority >= 1 && ranked[len(ranked)-1].Priority <= 100
	if !fits && len(ranked) > 100 {
		return nil, fmt.Errorf("priorities: there are %d of them, and a NodePool's weight goes from 1 to 100; use at most 100", len(ranked))
	}
	out := map[string]int32{}
	for i, p := range ranked { // the highest comes last and stays
		weight := p.Priority
		if !fits {
			weight = int32(i + 1)
		}
		for _, text := range p.Names {
			re, err := regexp.Compile(text)
			if err != nil {
				return nil, fmt.Errorf("priority %d: invalid regular expression %q: %w", p.Priority, text, err)
			}
			for _, g := range groups {
				if re.MatchString(g.Name) {
					out[g.Name] = weight
				}
			}
		}
	}
	return out, nil
}

// similarity is equal for groups that may be balanced: their pools and classes differ in name, zone and labels to be ignored only.
func similarity(t GroupObjects) (string, error) {
	pool, class := t.Pool.DeepCopy(), t.Class.DeepCopy()
	pool.Name, class.Name, class.Spec.SelectorTerms, pool.Spec.Template.Spec.NodeClassRef = "", "", nil, nil
	for _, k := range slices.Concat(balancingIgnored, class.Spec.Options.BalancingIgnoreLabels) {
		delete(pool.Spec.Template.Labels, k)
	}
	b, err := json.Marshal([]any{pool, class})
	return string(b), err
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// GroupPoolName returns the name of the NodePool and the NodeGroupClass of a group: the name of the group if it is a
// valid object name, otherwise a name derived from it with a unique digest.
func GroupPoolName(group string) string {
	name := notInName.ReplaceAllStringFunc(strings.ToLower(group), func(s string) string {
		if s == "." {
			return s
		}
		return "-"
	})
	name = strings.Trim(name, "-.")
	if name == group && len(name) <= 50 {
		return name
	}
	sum := sha256.Sum256([]byte(group))
	name = strings.Trim(name[:min(len(name), 40)], "-.")
	if name == "" {
		name = "group"
	}
	return name + "-" + hex.EncodeToString(sum[:4])
}

// TaggedGroups returns one NodePool and one NodeGroupClass for all groups with these tags, if their names are unknown;
// without tags, for all groups.
func TaggedGroups(tags map[string]string, set GroupSettings) (GroupObjects, error) {
	out := translateNodeGroup(NodeGroup{Name: "discovered"}, set, 0)
	key, err := json.Marshal(tags) // in order of keys
	if err != nil {
		return out, fmt.Errorf("write tags: %w", err)
	}
	sum := sha256.Sum256(key)
	name := "discovered-" + hex.EncodeToString(sum[:4])
	out.Groups = nil
	term := dovetailv1alpha1.NodeGroupSelectorTerm{Tags: maps.Clone(tags)}
	if len(tags) == 0 {
		name, term = "groups", dovetailv1alpha1.NodeGroupSelectorTerm{Name: "*"}
	}
	out.Pool.Name, out.Class.Name, out.Pool.Spec.Template.Spec.NodeClassRef.Name = name, name, name
	out.Class.Spec.SelectorTerms = []dovetailv1alpha1.NodeGroupSelectorTerm{term}
	return out, nil
}
