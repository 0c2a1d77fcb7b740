// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	podresources "k8s.io/component-helpers/resource"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Lookup finds the objects that others refer to. Each method answers nil for what isn't there.
type Lookup interface {
	Volumes() *volume.Index // never nil
	CSINode(node string) *storagev1.CSINode
	LimitRanges(namespace string) []*corev1.LimitRange
	RuntimeClass(name string) *nodev1.RuntimeClass
	PriorityClasses() []*schedulingv1.PriorityClass
	// Those of a namespace; asked for, as is OwnerSelector, only where a scheduler has default constraints.
	Services(namespace string) []*corev1.Service
	// OwnerSelector is what a ReplicaSet, StatefulSet or ReplicationController selects its pods by.
	OwnerSelector(kind, namespace, name string) *metav1.LabelSelector
}

// Translator turns API objects into the nouns of model. It holds no state of its own and may be used by several goroutines.
type Translator struct {
	Table  *state.ResourceTable
	Lookup Lookup // nil: nothing is found
	// Defaults are what schedulers spread pods by that bear no constraint of their own.
	Defaults SchedulerDefaults
}

// volumes returns what is known of volumes.
func (t *Translator) volumes() *volume.Index {
	if t.Lookup == nil {
		return volume.NewIndex()
	}
	return t.Lookup.Volumes()
}

// aliases are the old names of labels that pods may still use.
var aliases = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
}

func label(key string) string {
	if a, ok := aliases[key]; ok {
		return a
	}
	return key
}

// annotationSafeToEvict is Cluster Autoscaler's word for pods that may be moved, or may not.
const annotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// Pod translates a pod.
func (t *Translator) Pod(p *corev1.Pod) *model.Pod {
	out := &model.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Node: p.Spec.NodeName, Nominated: p.Status.NominatedNodeName, Created: p.CreationTimestamp.Time, Seen: version(p.ResourceVersion),
		Terminal: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Failed:   p.Status.Phase == corev1.PodFailed, Finalizers: p.Finalizers,
		Gated: len(p.Spec.SchedulingGates) > 0, GracePeriod: 30 * time.Second,
	}
	if o := metav1.GetControllerOfNoCopy(p); o != nil {
		out.Owner = model.Owner{Kind: bounded(o.Kind), Name: bounded(o.Name), UID: bounded(string(o.UID))}
		if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" && o.Kind == "ReplicaSet" {
			if name, ok := strings.CutSuffix(o.Name, "-"+hash); ok {
				out.Deployment = name
			}
		}
	}
	if p.DeletionTimestamp != nil {
		out.Deleting = p.DeletionTimestamp.Time
	}
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		out.GracePeriod = time.Duration(*g) * time.Second
	}
	for i := range p.Status.Conditions {
		switch c := &p.Status.Conditions[i]; c.Type {
		case corev1.PodReady:
			if out.Ready = c.Status == corev1.ConditionTrue; out.Ready {
				out.ReadySince = c.LastTransitionTime.Time
			}
		case corev1.PodScheduled:
			switch {
			case c.Status == corev1.ConditionTrue:
				out.Bound = c.LastTransitionTime.Time
			case c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable:
				out.Unschedulable, out.Refusal = c.LastTransitionTime.Time, shortened(c.Message)
			}
		}
	}
	if out.Node == "" {
		out.Bound = time.Time{}
	} else {
		out.Unschedulable, out.Refusal = time.Time{}, ""
		if out.Bound.IsZero() {
			// Bound without kube-scheduler (spec.nodeName was given): no condition says when.
			out.Bound = p.CreationTimestamp.Time
		}
	}
	if len(p.Annotations) > 0 {
		_, out.Mirror = p.Annotations[corev1.MirrorPodAnnotationKey]
		out.DoNotDisrupt = p.Annotations[karpv1.AnnotationDoNotDisrupt]
		if out.DoNotDisrupt == "" && p.Annotations[karpv1alpha5.AnnotationDoNotEvict] == "true" {
			out.DoNotDisrupt = "true"
		}
		out.SafeToEvict, out.RestartCost = p.Annotations[annotationSafeToEvict], p.Annotations[model.AnnotationRestartCost]
		out.RestartedAt, out.Surge = p.Annotations[model.AnnotationRestartedAt], p.Annotations[model.AnnotationSurge]
		if s, ok := p.Annotations[corev1.PodDeletionCost]; ok {
			if n, err := strconv.ParseInt(s, 10, 32); err == nil {
				out.DeletionCost = int32(n)
			}
		}
	}
	out.Mirror = out.Mirror || out.Owner.Kind == "Node"
	for i := range p.Spec.Tolerations {
		if p.Spec.Tolerations[i].Key == model.TaintReserved && p.Spec.Tolerations[i].Value != "" {
			v := p.Spec.Tolerations[i].Value
			if !slices.Contains(out.Reservations, v) {
				out.Reservations = append(out.Reservations, v)
			}
			out.ReservedFor = v
		}
	}
	podRuleFacts(out, p)
	out.Class = t.class(p, out.Mirror || out.Owner.Kind == "DaemonSet")
	return out
}

// classLabels leaves out the labels that the API server copies from the node when it binds a pod (KEP-4742): a pod must be of the
// same class before and after, or its slot on the node would never be seen as taken.
func classLabels(l map[string]string) model.Labels {
	_, zone := l[corev1.LabelTopologyZone]
	_, region := l[corev1.LabelTopologyRegion]
	if !zone && !region {
		return l
	}
	out := make(model.Labels, len(l))
	for k, v := range l {
		if k != corev1.LabelTopologyZone && k != corev1.LabelTopologyRegion {
			out[k] = v
		}
	}
	return out
}

// class compiles what all pods alike share. Of a pod that asks for more than is looked at it is what the rest says.
func (t *Translator) class(p *corev1.Pod, daemon bool) *model.Class {
	looked, excess := withinLimits(p)
	c := t.classWithin(looked, daemon, excess)
	if n := max(len(c.Key), len(c.SlotKey)); n > mostClassBytes {
		c = t.classWithin(without(p, everything), daemon, model.Excess{What: "bytes of scheduling constraints", Have: int64(n), Most: mostClassBytes})
	}
	return c
}

// classWithin is class for a pod that is within the limits, once the excess was left out. It reads status only for the
// sizes of containers resized in place.
func (t *Translator) classWithin(p *corev1.Pod, daemon bool, excess model.Excess) *model.Class {
	s := &p.Spec
	c := &model.Class{
		Namespace: p.Namespace, Labels: classLabels(p.Labels), Daemon: daemon, Scheduler: cmp.Or(s.SchedulerName, corev1.DefaultSchedulerName), Excess: excess,
		Preempts: s.PreemptionPolicy == nil || *s.PreemptionPolicy != corev1.PreemptNever,
		Critical: s.PriorityClassName == "system-cluster-critical" || s.PriorityClassName == "system-node-critical",
	}
	switch {
	case s.Priority != nil:
		c.Priority = *s.Priority
	case s.PriorityClassName == "system-cluster-critical":
		c.Priority = 2_000_000_000
	case s.PriorityClassName == "system-node-critical":
		c.Priority = 2_000_001_000
	}
	requests := podresources.PodRequests(p, podresources.PodResourcesOptions{
		UseStatusResources: hasStatusResources(p), InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	if unknown := t.dropUnknown(requests); c.Excess.What == "" {
		c.Excess = unknown
	}
	c.Requests = t.resources(requests, 1)
	t.nodeSelection(c, s, daemon && s.NodeName != "")
	c.Tolerations = tolerations(s.Tolerations)
	spread := s.TopologySpreadConstraints
	if t.takesDefaults(p) {
		spread = t.defaultSpread(p, t.selectorOfOwner(p))
	}
	for i := range spread {
		c.Spread = append(c.Spread, t.spread(c, &spread[i], p.Labels))
	}
	if a := s.Affinity; a != nil && a.PodAffinity != nil {
		c.Affinity = t.podTerms(c, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		c.PreferredAffinity = t.weightedTerms(c, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := s.Affinity; a != nil && a.PodAntiAffinity != nil {
		c.AntiAffinity = t.podTerms(c, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		c.PreferredAntiAffinity = t.weightedTerms(c, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	c.HostPorts = hostPorts(s)
	for i := range s.ResourceClaims {
		c.Unsolved = append(c.Unsolved, "resourceClaims "+s.ResourceClaims[i].Name+": dynamic resource allocation is not supported")
	}
	if g := s.SchedulingGroup; g != nil && g.PodGroupName != nil {
		c.Unsolved = append(c.Unsolved, "schedulingGroup "+*g.PodGroupName+": gang scheduling is not supported")
	}
	c.Unsolved = append(c.Unsolved, undeclaredFeatures(s)...)
	c.Volumes = volume.OfPod(p, t.volumes())
	c.Key = classText(c, t.Table.Names())
	if _, hashed := c.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hashed || len(c.Volumes) > 0 {
		slot := *c
		slot.Volumes = make([]model.Volume, len(c.Volumes))
		for i, v := range c.Volumes {
			slot.Volumes[i] = model.Volume{Claim: v.Claim}
			if v.Claim == "" {
				slot.Volumes[i] = v // no claim tells it from others
			}
		}
		if hashed {
			withoutHash(&slot)
		}
		c.SlotKey = classText(&slot, t.Table.Names())
	}
	if isOfTemplate(c.Labels) {
		alike := *c
		alike.Labels = maps.Clone(c.Labels)
		maps.DeleteFunc(alike.Labels, func(k, _ string) bool { return slices.Contains(ownLabels, k) })
		alike.Volumes = make([]model.Volume, len(c.Volumes))
		for i, v := range c.Volumes {
			alike.Volumes[i] = model.Volume{Driver: v.Driver, Exclusive: v.Exclusive, OneNode: v.OneNode}
		}
		withoutHash(&alike)
		c.TemplateKey = classText(&alike, t.Table.Names())
	}
	return c
}

// ownLabels are those that controllers give to each pod, or to all of one Job, beside the labels of its template.
var ownLabels = []string{appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel, batchv1.JobNameLabel, batchv1.ControllerUidLabel, "job-name", "controller-uid", batchv1.JobCompletionIndexAnnotation}

// isOfTemplate reports whether labels tell apart pods that are made from one template.
func isOfTemplate(l model.Labels) bool {
	for _, k := range ownLabels {
		if _, ok := l[k]; ok {
			return true
		}
	}
	return false
}

// mostMessageBytes is how much of what another component says is kept.
const mostMessageBytes = 512

// shortened returns the beginning of a message.
func shortened(s string) string {
	if len(s) <= mostMessageBytes {
		return s
	}
	return strings.ToValidUTF8(s[:mostMessageBytes], "") + "…"
}

// withoutHash takes out what tells pods of one ReplicaSet from those of the next that the same Deployment makes: a restarted one's pod takes
// the slot of the pod before it.
func withoutHash(c *model.Class) {
	const key = appsv1.DefaultDeploymentUniqueLabelKey
	l := make(model.Labels, len(c.Labels))
	for k, v := range c.Labels {
		if k != key {
			l[k] = v
		}
	}
	c.Labels = l
	selects := func(rs *model.Requirements) *model.Requirements {
		if rs == nil || rs.Get(key) == nil {
			return rs
		}
		out := slices.DeleteFunc(slices.Clone(*rs), func(r model.Requirement) bool { return r.Key == key })
		return &out
	}
	c.Spread = slices.Clone(c.Spread)
	for i := range c.Spread {
		c.Spread[i].Selector = selects(c.Spread[i].Selector)
	}
	for _, list := range []*[]model.PodTerm{&c.Affinity, &c.AntiAffinity} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Selector.Pods = selects((*list)[i].Selector.Pods)
		}
	}
	for _, list := range []*[]model.WeightedPodTerm{&c.PreferredAffinity, &c.PreferredAntiAffinity} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Term.Selector.Pods = selects((*list)[i].Term.Selector.Pods)
		}
	}
}

func hasStatusResources(p *corev1.Pod) bool {
	for i := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[i].Resources != nil {
			return true
		}
	}
	for i := range p.Status.InitContainerStatuses {
		if p.Status.InitContainerStatuses[i].Resources != nil {
			return true
		}
	}
	return p.Status.Resources != nil
}

// resources turns a list into a vector; pods is what to write in the dimension Pods when the list doesn't say.
func (t *Translator) resources(list corev1.ResourceList, pods int64) model.Resources {
	out := make(model.Resources, model.FirstExtended, int(model.FirstExtended)+len(list))
	out[model.Pods] = pods
	for _, name := range sortedNames(list) { // new names get their dimensions in an order that doesn't change from run to run
		q := list[name]
		switch name {
		case corev1.ResourceCPU:
			out[model.CPU] = milliOf(q)
		case corev1.ResourceMemory:
			out[model.Memory] = amountOf(q)
		case corev1.ResourceEphemeralStorage:
			out[model.EphemeralStorage] = amountOf(q)
		case corev1.ResourcePods:
			out[model.Pods] = amountOf(q)
		default:
			v := amountOf(q)
			if v == 0 {
				continue
			}
			d := t.Table.Dim(string(name))
			for len(out) <= int(d) {
				out = append(out, 0)
			}
			out[d] = v
		}
	}
	return out
}

// resourceList is the way back; amounts of zero are left out unless they are of a fixed dimension other than Pods.
func (t *Translator) resourceList(r model.Resources) corev1.ResourceList {
	names := t.Table.Names()
	out := corev1.ResourceList{}
	for i, v := range r {
		if v == 0 || i >= len(names) {
			continue
		}
		switch model.Dim(i) {
		case model.CPU:
			out[corev1.ResourceCPU] = *resource.NewMilliQuantity(v, resource.DecimalSI)
		case model.Memory, model.EphemeralStorage:
			out[corev1.ResourceName(names[i])] = *resource.NewQuantity(v, resource.BinarySI)
		default:
			out[corev1.ResourceName(names[i])] = *resource.NewQuantity(v, resource.DecimalSI)
		}
	}
	return out
}

// never is a rule on a node's name that no node meets.
func never() *model.Requirement {
	return &model.Requirement{Key: metav1.ObjectNameField, Min: math.MinInt64, Max: math.MaxInt64}
}

// nodeSelection fills in Terms and Preferred. The pods of a DaemonSet are each bound to their node by name; once they are there
// the name says nothing more, and leaving it out gives them one class.
//
// A pod's spec.os selects nodes too: kube-scheduler does not look at it, and the kubelet of another operating system rejects the
// pod.
func (t *Translator) nodeSelection(c *model.Class, s *corev1.PodSpec, dropNames bool) {
	var base model.Requirements
	if len(s.NodeSelector) > 0 || s.OS != nil {
		rules := make([]model.Requirement, 0, len(s.NodeSelector)+1)
		for k, v := range s.NodeSelector {
			rules = append(rules, model.OneOf(label(k), v))
			c.SelectorKeys = append(c.SelectorKeys, label(k))
		}
		slices.Sort(c.SelectorKeys)
		if s.OS != nil && s.OS.Name != "" {
			rules = append(rules, model.OneOf(corev1.LabelOSStable, string(s.OS.Name)))
			c.OS = string(s.OS.Name)
		}
		base = model.NewRequirements(rules...)
	}
	var required *corev1.NodeSelector
	if s.Affinity != nil && s.Affinity.NodeAffinity != nil {
		a := s.Affinity.NodeAffinity
		required = a.RequiredDuringSchedulingIgnoredDuringExecution
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			p := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
			term, ok, err := nodeTerm(&p.Preference, nil, false)
			if err == nil && ok && p.Weight > 0 {
				c.Preferred = append(c.Preferred, model.WeightedNodeTerm{Weight: p.Weight, Term: term})
			}
		}
	}
	if required == nil {
		if base != nil {
			c.Terms = []model.NodeTerm{{Requirements: base}}
		}
		return
	}
	var broken error
	open := false
	for i := range required.NodeSelectorTerms {
		for _, r := range required.NodeSelectorTerms[i].MatchExpressions {
			c.AffinityKeys = append(c.AffinityKeys, label(r.Key))
		}
		term, ok, err := nodeTerm(&required.NodeSelectorTerms[i], base, dropNames)
		switch {
		case err != nil:
			broken = err
		case ok:
			c.Terms = append(c.Terms, term)
			open = open || len(term.Requirements) == 0 && term.Names == nil
		}
	}
	slices.Sort(c.AffinityKeys)
	c.AffinityKeys = slices.Compact(c.AffinityKeys)
	switch {
	case open:
		c.Terms = nil // a term without rules is left only where names were dropped, and matches every node
	case len(c.Terms) == 0:
		c.Terms = []model.NodeTerm{{Requirements: base, Names: never()}}
		if broken != nil {
			c.Unsolved = append(c.Unsolved, "nodeAffinity: "+broken.Error())
		}
	}
}

// nodeTerm answers false for a term without rules, which matches no node.
func nodeTerm(n *corev1.NodeSelectorTerm, base model.Requirements, dropNames bool) (model.NodeTerm, bool, error) {
	out := model.NodeTerm{Requirements: base}
	if len(n.MatchExpressions)+len(n.MatchFields) == 0 {
		return out, false, nil
	}
	rules := make([]model.Requirement, len(n.MatchExpressions))
	for i := range n.MatchExpressions {
		e := &n.MatchExpressions[i]
		r, err := model.NewRequirement(label(e.Key), model.Operator(e.Operator), e.Values...)
		if err != nil {
			return out, false, err
		}
		rules[i] = r
	}
	out.Requirements = out.Requirements.With(rules...)
	for i := range n.MatchFields {
		e := &n.MatchFields[i]
		r, err := model.NewRequirement(e.Key, model.Operator(e.Operator), e.Values...)
		if err != nil {
			return out, false, err
		}
		if e.Key != metav1.ObjectNameField {
			out.Names = never()
			continue
		}
		if dropNames {
			continue
		}
		if out.Names != nil {
			r = out.Names.Intersect(r)
		}
		out.Names = &r
	}
	return out, true, nil
}

// tolerations leaves out our own, which say where a pod will land and not what it is like. Their order means nothing, so they are
// sorted.
func tolerations(list []corev1.Toleration) []model.Toleration {
	out := make([]model.Toleration, 0, len(list))
	for i := range list {
		x := &list[i]
		if x.Key == model.TaintReserved {
			continue
		}
		m := model.Toleration{Key: x.Key, Value: x.Value, Effect: string(x.Effect), For: -1}
		switch x.Operator {
		case "", corev1.TolerationOpEqual:
		case corev1.TolerationOpExists:
			m.Exists = true
		default:
			m.Operator = string(x.Operator)
		}
		if x.TolerationSeconds != nil {
			m.For = max(0, time.Duration(*x.TolerationSeconds)*time.Second)
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil
	}
	slices.SortFunc(out, func(a, b model.Toleration) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Effect, b.Effect), strings.Compare(a.Value, b.Value),
			strings.Compare(a.Operator, b.Operator), compareBool(a.Exists, b.Exists), cmp.Compare(a.For, b.For))
	})
	return slices.Compact(out)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// selector translates a label selector; nil stays nil and selects nothing. A selector that can't be read selects nothing either,
// and the class says so.
func selector(c *model.Class, where string, s *metav1.LabelSelector) *model.Requirements {
	if s == nil {
		return nil
	}
	rs, err := labelSelector(s)
	if err != nil {
		if c != nil {
			c.Unsolved = append(c.Unsolved, where+": "+err.Error())
		}
		return nil
	}
	return &rs
}

func labelSelector(s *metav1.LabelSelector) (model.Requirements, error) {
	rs := make(model.Requirements, 0, len(s.MatchLabels)+len(s.MatchExpressions))
	for k, v := range s.MatchLabels {
		rs = append(rs, model.Requirement{Key: k, Values: []string{v}, Min: math.MinInt64, Max: math.MaxInt64})
	}
	sort.Slice(rs, func(i, j int) bool { return rs[i].Key < rs[j].Key })
	more := make([]model.Requirement, len(s.MatchExpressions))
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		r, err := model.NewRequirement(e.Key, model.Operator(e.Operator), e.Values...)
		if err != nil {
			return nil, err
		}
		more[i] = r
	}
	return rs.With(more...), nil
}

// withLabels adds the rule that a selected pod has (or, negated, has not) the same value as this pod in each of the labels. A
// label that the pod lacks is no rule.
func withLabels(rs *model.Requirements, keys []string, labels map[string]string, negate bool) {
	if rs == nil {
		return
	}
	for _, k := range keys {
		v, ok := labels[k]
		if !ok {
			continue
		}
		r := model.OneOf(k, v)
		if negate {
			r.Complement, r.AllowAbsent = true, true
		}
		*rs = rs.With(r)
	}
}

func (t *Translator) spread(c *model.Class, s *corev1.TopologySpreadConstraint, labels map[string]string) model.SpreadConstraint {
	out := model.SpreadConstraint{
		TopologyKey: label(s.TopologyKey), MaxSkew: s.MaxSkew, Hard: s.WhenUnsatisfiable != corev1.ScheduleAnyway,
		IgnoreAffinity: s.NodeAffinityPolicy != nil && *s.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore,
		HonorTaints:    s.NodeTaintsPolicy != nil && *s.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		Selector:       selector(c, "topologySpreadConstraints on "+s.TopologyKey, s.LabelSelector),
	}
	if s.MinDomains != nil {
		out.MinDomains = *s.MinDomains
	}
	withLabels(out.Selector, s.MatchLabelKeys, labels, false)
	return out
}

func (t *Translator) podTerms(c *model.Class, list []corev1.PodAffinityTerm) []model.PodTerm {
	var out []model.PodTerm
	for i := range list {
		out = append(out, t.podTerm(c, &list[i]))
	}
	return out
}

func (t *Translator) weightedTerms(c *model.Class, list []corev1.WeightedPodAffinityTerm) []model.WeightedPodTerm {
	var out []model.WeightedPodTerm
	for i := range list {
		out = append(out, model.WeightedPodTerm{Weight: list[i].Weight, Term: t.podTerm(c, &list[i].PodAffinityTerm)})
	}
	return out
}

func (t *Translator) podTerm(c *model.Class, a *corev1.PodAffinityTerm) model.PodTerm {
	out := model.PodTerm{TopologyKey: label(a.TopologyKey)}
	out.Selector.Pods = selector(c, "pod affinity on "+a.TopologyKey, a.LabelSelector)
	withLabels(out.Selector.Pods, a.MatchLabelKeys, c.Labels, false)
	withLabels(out.Selector.Pods, a.MismatchLabelKeys, c.Labels, true)
	out.Selector.Namespaces = slices.Clone(a.Namespaces)
	sort.Strings(out.Selector.Namespaces)
	out.Selector.Namespaces = slices.Compact(out.Selector.Namespaces)
	if a.NamespaceSelector != nil {
		out.Selector.NamespaceL = selector(c, "namespaceSelector of pod affinity on "+a.TopologyKey, a.NamespaceSelector)
	} else if len(out.Selector.Namespaces) == 0 {
		out.Selector.Namespaces = []string{c.Namespace}
	}
	return out
}

// hostPorts are those of containers that run as long as the pod does.
func hostPorts(s *corev1.PodSpec) []model.HostPort {
	var out []model.HostPort
	add := func(ports []corev1.ContainerPort) {
		for i := range ports {
			if ports[i].HostPort > 0 {
				out = append(out, model.HostPort{
					IP: ports[i].HostIP, Port: ports[i].HostPort,
					Protocol: cmp.Or(string(ports[i].Protocol), string(corev1.ProtocolTCP)),
				})
			}
		}
	}
	for i := range s.InitContainers {
		if r := s.InitContainers[i].RestartPolicy; r != nil && *r == corev1.ContainerRestartPolicyAlways {
			add(s.InitContainers[i].Ports)
		}
	}
	for i := range s.Containers {
		add(s.Containers[i].Ports)
	}
	out = append(out, ownDisks(s)...)
	slices.SortFunc(out, func(a, b model.HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), strings.Compare(a.Protocol, b.Protocol), strings.Compare(a.IP, b.IP),
			strings.Compare(a.Disk, b.Disk), compareBool(a.ReadOnly, b.ReadOnly))
	})
	return slices.Compact(out)
}

// ownDisks are the disks that a pod names itself and that kube-scheduler lets pods on one node share only to read from them. Images of
// Ceph are the same if any monitor is; an EBS volume is never shared.
func ownDisks(s *corev1.PodSpec) (out []model.HostPort) {
	for i := range s.Volumes {
		switch v := &s.Volumes[i]; {
		case v.GCEPersistentDisk != nil:
			out = append(out, model.HostPort{Disk: "gcePersistentDisk/" + v.GCEPersistentDisk.PDName, ReadOnly: v.GCEPersistentDisk.ReadOnly})
		case v.AWSElasticBlockStore != nil:
			out = append(out, model.HostPort{Disk: "awsElasticBlockStore/" + v.AWSElasticBlockStore.VolumeID})
		case v.ISCSI != nil:
			out = append(out, model.HostPort{Disk: "iscsi/" + v.ISCSI.IQN, ReadOnly: v.ISCSI.ReadOnly})
		case v.RBD != nil:
			for _, monitor := range v.RBD.CephMonitors {
				out = append(out, model.HostPort{Disk: "rbd/" + monitor + "/" + v.RBD.RBDPool + "/" + v.RBD.RBDImage, ReadOnly: v.RBD.ReadOnly})
			}
		}
	}
	return out
}

// daemonTolerations are what the DaemonSet controller adds to every pod that it makes.
func daemonTolerations(hostNetwork bool) []corev1.Toleration {
	out := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}
	if hostNetwork {
		out = append(out, corev1.Toleration{
			Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	return out
}

// DaemonSet translates a DaemonSet into what each of its pods will be, admission's defaults included. Only the tolerations are those
// of the template and of the DaemonSet controller: it asks no admission plugin before it decides whether a node gets a pod.
func (t *Translator) DaemonSet(d *appsv1.DaemonSet) *model.Daemon {
	pod := &corev1.Pod{Spec: *d.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Labels = d.Namespace, d.Spec.Template.Labels
	onlyNamedNode(&pod.Spec)
	tolerations := append(slices.Clone(pod.Spec.Tolerations), daemonTolerations(pod.Spec.HostNetwork)...)
	t.Admit(pod)
	pod.Spec.Tolerations = tolerations
	return &model.Daemon{Namespace: d.Namespace, Name: d.Name, UID: string(d.UID), Class: t.class(pod, true),
		Generation: d.Annotations[appsv1.DeprecatedTemplateGeneration]}
}

// onlyNamedNode has a template that names a node say so by node affinity: the DaemonSet controller makes a pod for that node alone, if
// the rest of the template allows it.
func onlyNamedNode(s *corev1.PodSpec) {
	if s.NodeName == "" {
		return
	}
	is := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{s.NodeName}}
	s.NodeName = ""
	if s.Affinity == nil {
		s.Affinity = &corev1.Affinity{}
	}
	if s.Affinity.NodeAffinity == nil {
		s.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	a := s.Affinity.NodeAffinity
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{is}}}}
		return
	}
	terms := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 { // an empty term matches no node
			terms[i].MatchFields = append(terms[i].MatchFields, is)
		}
	}
}

// Deployment translates a Deployment.
func (t *Translator) Deployment(d *appsv1.Deployment) *model.Deployment {
	out := &model.Deployment{
		Namespace: d.Namespace, Name: d.Name, UID: string(d.UID), Surge: d.Annotations[model.AnnotationSurge], Replicas: 1, Paused: d.Spec.Paused,
		Recreate: d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType, RestartedAt: d.Spec.Template.Annotations[model.AnnotationRestartedAt],
	}
	if d.Spec.Replicas != nil {
		out.Replicas = *d.Spec.Replicas
	}
	if r := d.Spec.Strategy.RollingUpdate; r != nil && r.MaxSurge != nil && !out.Recreate {
		if n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, int(out.Replicas), true); err == nil {
			out.MaxSurge = int32(n)
		}
	}
	out.Rolling = d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < out.Replicas
	return out
}

// PDB translates a PodDisruptionBudget.
func (t *Translator) PDB(p *policyv1.PodDisruptionBudget) *model.PDB {
	out := &model.PDB{
		Namespace: p.Namespace, Name: p.Name, Selector: selector(nil, "", p.Spec.Selector),
		DisruptionsAllowed: p.Status.DisruptionsAllowed,
		AlwaysAllowUnready: p.Spec.UnhealthyPodEvictionPolicy != nil && *p.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow,
		Healthy:            p.Status.CurrentHealthy, Desired: p.Status.DesiredHealthy, Expected: p.Status.ExpectedPods,
	}
	if v := p.Spec.MinAvailable; v != nil {
		out.MinAvailable = v.String()
	}
	if v := p.Spec.MaxUnavailable; v != nil {
		out.MaxUnavailable = v.String()
	}
	return out
}

// Node translates a node.
func (t *Translator) Node(n *corev1.Node) *model.Node {
	out := &model.Node{
		Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID, Labels: n.Labels, Annotations: n.Annotations,
		Taints: taints(n.Spec.Taints), Capacity: t.resources(n.Status.Capacity, 0), Allocatable: t.resources(n.Status.Allocatable, 0),
		Phase: string(n.Status.Phase), Created: n.CreationTimestamp.Time, HasFinalizer: slices.Contains(n.Finalizers, karpv1.FinalizerTermination),
		OtherFinalizers: otherFinalizers(n.Finalizers), Conditions: make(map[string]model.Condition, len(n.Status.Conditions)),
	}
	if n.DeletionTimestamp != nil {
		out.Deleting = n.DeletionTimestamp.Time
	}
	if n.Spec.Unschedulable {
		x := model.Taint{Key: corev1.TaintNodeUnschedulable, Effect: model.NoSchedule}
		if !slices.Contains(out.Taints, x) {
			out.Taints = append(out.Taints, x)
		}
	}
	readReservation(out, n.Spec.Taints)
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		out.Conditions[string(c.Type)] = model.Condition{
			Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		}
		if c.Type == corev1.NodeReady {
			out.Ready, out.ReadySince = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	if t.Lookup != nil {
		if csi := t.Lookup.CSINode(n.Name); csi != nil {
			out.CSILimits, out.Migrated = volume.NodeLimits(csi)
		}
	}
	return out
}

// otherFinalizers are the finalizers of an object that are not ours.
func otherFinalizers(list []string) (out []string) {
	for _, f := range list {
		if f != karpv1.FinalizerTermination {
			out = append(out, f)
		}
	}
	return out
}

func taints(list []corev1.Taint) []model.Taint {
	var out []model.Taint
	for i := range list {
		out = append(out, model.Taint{Key: list[i].Key, Value: list[i].Value, Effect: string(list[i].Effect)})
	}
	return out
}

func conditions(list []metav1.Condition) map[string]model.Condition {
	out := make(map[string]model.Condition, len(list))
	for i := range list {
		c := &list[i]
		out[c.Type] = model.Condition{Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
	}
	return out
}
