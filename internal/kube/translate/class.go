// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"

	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/model"
)

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

// class compiles the properties that equal pods share. For a pod over a limit, it ignores the excess.
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
		UseStatusResources: HasStatusResources(p), InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	if unknown := t.dropUnknown(requests); c.Excess.What == "" {
		c.Excess = unknown
	}
	c.Requests = t.Resources(requests, 1)
	t.nodeSelection(c, s, daemon && s.NodeName != "")
	requireFormerKeys(c, s)
	c.Tolerations = tolerations(s.Tolerations)
	spread := s.TopologySpreadConstraints
	if t.TakesDefaults(p) {
		spread = t.DefaultSpread(p, t.selectorOfOwner(p))
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
	bare := slices.Clone(c.Requests) // without devices: how these are counted depends on the other pods and on the nodes that there are
	need := t.resourceClaims(c, p)
	bare, c.Requests = t.withoutExtended(bare, need), t.withoutExtended(c.Requests, need)
	claims := need.Claims
	if gang, why := t.gangOf(p); why != "" {
		c.Unsolved = append(c.Unsolved, why)
	} else {
		c.StayTogether(gang)
	}
	c.Unsolved = append(c.Unsolved, undeclaredFeatures(s)...)
	c.Volumes = volume.OfPod(p, t.volumes())
	c.Request = t.consumed(p).Request
	anywhere, labels, anti := c.Terms, c.Labels, c.AntiAffinity // but for where its devices are, and who else has some
	c.Terms = within(c.Terms, need.NodeTerms)
	c.KeepApart(need.Mark, need.Apart)
	c.Key = classText(c, t.Table.Names())
	if _, hashed := c.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hashed || len(c.Volumes) > 0 || c.HasClaims {
		slot := *c
		slot.Terms, slot.Requests, slot.Labels, slot.AntiAffinity = anywhere, bare, labels, anti
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
		c.SlotKey = withClaims(classText(&slot, t.Table.Names()), claims)
	}
	if c.Request != "" {
		c.SlotKey = withClaims(t.requestSlot(c, bare, anywhere), claims)
		return c
	}
	if isOfTemplate(c.Labels) {
		alike := *c
		alike.Labels, alike.AntiAffinity = maps.Clone(labels), anti
		maps.DeleteFunc(alike.Labels, func(k, _ string) bool { return slices.Contains(ownLabels, k) })
		alike.Terms, alike.Requests = anywhere, bare
		alike.Volumes = make([]model.Volume, len(c.Volumes))
		for i, v := range c.Volumes {
			alike.Volumes[i] = model.Volume{Driver: v.Driver, Exclusive: v.Exclusive, OneNode: v.OneNode}
		}
		withoutHash(&alike)
		c.TemplateKey = withClaims(classText(&alike, t.Table.Names()), claims)
	}
	return c
}

// ownLabels are the labels that controllers add to each pod, or to all pods of one Job, in addition to those of the
// template.
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

// HasStatusResources reports whether a pod's status has the resources allocated to its containers.
func HasStatusResources(p *corev1.Pod) bool {
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
	var base model.NodeTerm
	if len(s.NodeSelector) > 0 || s.OS != nil {
		rules := make([]model.Requirement, 0, len(s.NodeSelector)+1)
		for k, v := range s.NodeSelector {
			rules = append(rules, model.OneOf(k, v))
			c.SelectorKeys = append(c.SelectorKeys, CanonicalLabel(k))
		}
		slices.Sort(c.SelectorKeys)
		if s.OS != nil && s.OS.Name != "" {
			rules = append(rules, model.OneOf(corev1.LabelOSStable, string(s.OS.Name)))
			c.OS = string(s.OS.Name)
		}
		require(&base, rules...)
	}
	var required *corev1.NodeSelector
	if s.Affinity != nil && s.Affinity.NodeAffinity != nil {
		a := s.Affinity.NodeAffinity
		required = a.RequiredDuringSchedulingIgnoredDuringExecution
		for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			p := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
			term, ok, err := nodeTerm(&p.Preference, model.NodeTerm{}, false)
			if err == nil && ok && p.Weight > 0 {
				c.Preferred = append(c.Preferred, model.WeightedNodeTerm{Weight: p.Weight, Term: term})
			}
		}
	}
	if required == nil {
		if base.Requirements != nil {
			c.Terms = []model.NodeTerm{base}
		}
		return
	}
	var broken error
	open := false
	for i := range required.NodeSelectorTerms {
		for _, r := range required.NodeSelectorTerms[i].MatchExpressions {
			c.AffinityKeys = append(c.AffinityKeys, CanonicalLabel(r.Key))
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
		base.Names = never()
		c.Terms = []model.NodeTerm{base}
		if broken != nil {
			c.Unsolved = append(c.Unsolved, "nodeAffinity: "+broken.Error())
		}
	}
}

// require adds requirements as a pod writes them to a term.
func require(t *model.NodeTerm, rules ...model.Requirement) {
	if len(t.Standing) > 0 || slices.ContainsFunc(rules, func(r model.Requirement) bool { return CanonicalLabel(r.Key) != r.Key }) {
		t.Standing = t.OnStanding().With(rules...)
		rules = slices.Clone(rules)
		for i := range rules {
			rules[i].Key = CanonicalLabel(rules[i].Key)
		}
	}
	t.Requirements = t.Requirements.With(rules...)
}

// requireFormerKeys makes standing nodes have the labels of before Kubernetes 1.17 by which the class is spread or kept near other pods:
// kube-scheduler places such pods on no node without them.
func requireFormerKeys(c *model.Class, s *corev1.PodSpec) {
	var rules []model.Requirement
	add := func(key string) {
		if CanonicalLabel(key) != key {
			rules = append(rules, model.Requirement{Key: key, Complement: true, Min: math.MinInt64, Max: math.MaxInt64})
		}
	}
	for i := range s.TopologySpreadConstraints {
		if t := &s.TopologySpreadConstraints[i]; t.WhenUnsatisfiable == corev1.DoNotSchedule {
			add(t.TopologyKey)
		}
	}
	if a := s.Affinity; a != nil && a.PodAffinity != nil {
		for i := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			add(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i].TopologyKey)
		}
	}
	if len(rules) == 0 {
		return
	}
	if len(c.Terms) == 0 {
		c.Terms = make([]model.NodeTerm, 1)
	}
	for i := range c.Terms {
		require(&c.Terms[i], rules...)
	}
}

// nodeTerm answers false for a term without rules, which matches no node.
func nodeTerm(n *corev1.NodeSelectorTerm, base model.NodeTerm, dropNames bool) (model.NodeTerm, bool, error) {
	out := base
	if len(n.MatchExpressions)+len(n.MatchFields) == 0 {
		return out, false, nil
	}
	rules := make([]model.Requirement, len(n.MatchExpressions))
	for i := range n.MatchExpressions {
		e := &n.MatchExpressions[i]
		r, err := model.NewRequirement(e.Key, model.Operator(e.Operator), e.Values...)
		if err != nil {
			return out, false, err
		}
		rules[i] = r
	}
	require(&out, rules...)
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

// tolerations omits Dovetail's own tolerations, which depend on the pod's placement and not on its requirements. They
// are sorted, because their order is irrelevant.
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
			strings.Compare(a.Operator, b.Operator), model.CompareBools(a.Exists, b.Exists), cmp.Compare(a.For, b.For))
	})
	return slices.Compact(out)
}
