// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	podresources "k8s.io/component-helpers/resource"

	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// check checks an object that no API server has seen for what an API server would reject and what would change a plan.
// It returns the path of the first invalid field, and why. For built-in kinds, it does not replace an API server's
// validation. Custom kinds are also validated by their schemas (see checkSchema), so check only covers what a schema
// cannot express, or expresses as a regular expression.
func check(obj runtime.Object) (field, why string) {
	c := &checker{}
	switch o := obj.(type) {
	case *corev1.Pod:
		c.pod("spec", &o.Spec)
	case *corev1.PodTemplate:
		c.template("template", &o.Template, nil)
	case *corev1.ReplicationController:
		c.count("spec.replicas", o.Spec.Replicas)
		if o.Spec.Template != nil {
			c.template("spec.template", o.Spec.Template, nil)
		}
	case *appsv1.Deployment:
		c.count("spec.replicas", o.Spec.Replicas)
		c.template("spec.template", &o.Spec.Template, o.Spec.Selector)
	case *appsv1.ReplicaSet:
		c.count("spec.replicas", o.Spec.Replicas)
		c.template("spec.template", &o.Spec.Template, o.Spec.Selector)
	case *appsv1.StatefulSet:
		c.count("spec.replicas", o.Spec.Replicas)
		c.template("spec.template", &o.Spec.Template, o.Spec.Selector)
	case *appsv1.DaemonSet:
		c.template("spec.template", &o.Spec.Template, o.Spec.Selector)
	case *batchv1.Job:
		c.job("spec", &o.Spec)
	case *batchv1.CronJob:
		c.job("spec.jobTemplate.spec", &o.Spec.JobTemplate.Spec)
	case *corev1.PersistentVolumeClaim:
		c.amounts("spec.resources.requests", o.Spec.Resources.Requests)
	case *storagev1.StorageClass:
		if m := o.VolumeBindingMode; m != nil {
			oneOf(c, "volumeBindingMode", *m, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
		}
	case *corev1.Node:
		for i := range o.Spec.Taints {
			oneOf(c, fmt.Sprintf("spec.taints[%d].effect", i), o.Spec.Taints[i].Effect, taintEffects...)
		}
		c.amounts("status.allocatable", o.Status.Allocatable)
		c.amounts("status.capacity", o.Status.Capacity)
	case *karpv1.NodePool:
		c.pool(o)
	case *karpv1.NodeClaim:
		c.amounts("spec.resources.requests", o.Spec.Resources.Requests)
	case *karpv1alpha1.NodeOverlay:
		c.field, c.why = translate.CheckNodeOverlay(o)
	case *awsv1alpha1.AWSNodeTemplate:
		if _, _, err := translate.NodeTemplate(o, offlineDefaults); err != nil {
			c.fail("spec", "%v", err)
		}
	case *karpv1alpha5.Provisioner:
		pool, _, _ := translate.Provisioner(o, translate.ProvisionerDefaults{})
		c.pool(pool)
		c.field = strings.ReplaceAll(strings.ReplaceAll(c.field, "spec.template.spec.", "spec."), "spec.template.metadata.", "spec.")
	}
	return c.field, c.why
}

// checker keeps the first mistake.
type checker struct{ field, why string }

func (c *checker) fail(field, format string, args ...any) {
	if c.why == "" {
		c.field, c.why = field, fmt.Sprintf(format, args...)
	}
}

// taintEffects are the effects of taints.
var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

// oneOf checks a value of which there are only some.
func oneOf[T ~string](c *checker, field string, v T, known ...T) {
	if slices.Contains(known, v) {
		return
	}
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	last := len(words) - 1
	c.fail(field, "use %s or %s", strings.Join(words[:last], ", "), words[last])
}

// mostPods is the maximum number of pods of one workload: several times the size of the largest clusters, so more is a
// typing error.
const mostPods = 1_000_000

func (c *checker) count(field string, n *int32) {
	switch {
	case n == nil:
	case *n < 0:
		c.fail(field, "must not be negative")
	case *n > mostPods:
		c.fail(field, "more than %d pods of one workload can't be planned for", mostPods)
	}
}

func (c *checker) job(at string, s *batchv1.JobSpec) {
	c.count(at+".parallelism", s.Parallelism)
	c.count(at+".completions", s.Completions)
	c.template(at+".template", &s.Template, nil)
}

func (c *checker) template(at string, t *corev1.PodTemplateSpec, selector *metav1.LabelSelector) {
	if selector != nil {
		sel, err := translate.LabelSelector(selector)
		switch {
		case err != nil:
			c.fail("spec.selector", "%v", err)
		case !sel.Matches(t.Labels):
			c.fail("spec.selector", "does not select the pods of spec.template.metadata.labels; make them agree")
		}
	}
	c.pod(at+".spec", &t.Spec)
}

func (c *checker) pod(at string, s *corev1.PodSpec) {
	if len(s.Containers) == 0 {
		c.fail(at+".containers", "missing; a pod has at least one container")
	}
	for _, l := range []struct {
		name string
		list []corev1.Container
	}{{"initContainers", s.InitContainers}, {"containers", s.Containers}} {
		for i := range l.list {
			field := fmt.Sprintf("%s.%s[%d]", at, l.name, i)
			c.resources(field+".resources", &l.list[i].Resources)
			for j := range l.list[i].Ports {
				if p := l.list[i].Ports[j].HostPort; p < 0 || p > 65535 {
					c.fail(fmt.Sprintf("%s.ports[%d].hostPort", field, j), "must be between 1 and 65535")
				}
			}
		}
	}
	if s.Resources != nil {
		c.resources(at+".resources", s.Resources)
		c.podLevel(at+".resources", s)
	}
	c.amounts(at+".overhead", s.Overhead)
	for i := range s.Tolerations {
		c.toleration(fmt.Sprintf("%s.tolerations[%d]", at, i), &s.Tolerations[i])
	}
	for i := range s.TopologySpreadConstraints {
		c.spread(fmt.Sprintf("%s.topologySpreadConstraints[%d]", at, i), &s.TopologySpreadConstraints[i])
	}
	if s.Affinity != nil {
		c.affinity(at+".affinity", s.Affinity)
	}
}

// podLevel checks a pod's own resources, which hold those of its containers.
func (c *checker) podLevel(at string, s *corev1.PodSpec) {
	opts, pod := podresources.PodResourcesOptions{}, &corev1.Pod{Spec: *s}
	sum := podresources.AggregateContainerRequests(pod, opts)
	for _, name := range slices.Sorted(maps.Keys(s.Resources.Requests)) {
		if has, q := sum[name], s.Resources.Requests[name]; has.Cmp(q) > 0 {
			c.fail(at+".requests["+string(name)+"]", "less than the %s that the containers request; request as much, or more", has.String())
		}
	}
	sum = podresources.AggregateContainerLimits(pod, opts)
	for _, name := range slices.Sorted(maps.Keys(s.Resources.Limits)) {
		l := s.Resources.Limits[name]
		if has := sum[name]; strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) && has.Cmp(l) > 0 {
			c.fail(at+".limits["+string(name)+"]", "less than the %s of the containers' limits; set as much, or more", has.String())
		}
		for i := range s.Containers {
			if has := s.Containers[i].Resources.Limits[name]; has.Cmp(l) > 0 {
				c.fail(at+".limits["+string(name)+"]", "less than the limit of %s of container %s; set as much, or more", has.String(), s.Containers[i].Name)
			}
		}
	}
}

func (c *checker) amounts(at string, list corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q := list[name]; q.Sign() < 0 {
			c.fail(at+"["+string(name)+"]", "must not be negative")
		}
	}
}

func (c *checker) resources(at string, r *corev1.ResourceRequirements) {
	c.amounts(at+".requests", r.Requests)
	c.amounts(at+".limits", r.Limits)
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		if q, l := r.Requests[name], r.Limits[name]; q.Cmp(l) > 0 {
			c.fail(at+".requests["+string(name)+"]", "more than the limit of %s", l.String())
		}
	}
	c.units(at+".requests", r.Requests, r.Limits)
	c.units(at+".limits", r.Limits, nil)
}

// units checks what only containers' resources are bound by. Whether a limit is missing is known only with the namespace's LimitRanges.
func (c *checker) units(at string, list, limits corev1.ResourceList) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		field, q := at+"["+string(name)+"]", list[name]
		l, limited := limits[name]
		huge, extended := strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix), strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
		switch {
		case name == corev1.ResourceCPU, name == corev1.ResourceMemory, name == corev1.ResourceEphemeralStorage:
		case !strings.Contains(string(name), "/") && !huge:
			c.fail(field, "unknown resource; use cpu, memory, ephemeral-storage, hugepages-<size>, or an extended resource with its domain, such as nvidia.com/gpu")
		case extended && resource.NewQuantity(q.Value(), resource.DecimalSI).Cmp(q) != 0:
			c.fail(field, "must be a whole number")
		case (extended || huge) && limited && q.Cmp(l) != 0:
			c.fail(field, "must equal the limit of %s, because %s can't be overcommitted", l.String(), name)
		}
	}
}

func (c *checker) toleration(at string, t *corev1.Toleration) {
	switch t.Operator {
	case "", corev1.TolerationOpEqual, "Gt", "Lt":
		if t.Key == "" {
			c.fail(at+".operator", "without a key the operator must be Exists")
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			c.fail(at+".value", "operator Exists takes no value")
		}
	default:
		c.fail(at+".operator", "unknown; use Exists or Equal")
	}
	if t.Effect != "" {
		oneOf(c, at+".effect", t.Effect, taintEffects...)
	}
}

func (c *checker) spread(at string, s *corev1.TopologySpreadConstraint) {
	if s.MaxSkew < 1 {
		c.fail(at+".maxSkew", "must be at least 1")
	}
	if s.TopologyKey == "" {
		c.fail(at+".topologyKey", "missing")
	}
	oneOf(c, at+".whenUnsatisfiable", s.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
	if p := s.NodeAffinityPolicy; p != nil {
		oneOf(c, at+".nodeAffinityPolicy", *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
	}
	if p := s.NodeTaintsPolicy; p != nil {
		oneOf(c, at+".nodeTaintsPolicy", *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
	}
	if s.MinDomains != nil && (*s.MinDomains < 1 || s.WhenUnsatisfiable != corev1.DoNotSchedule) {
		c.fail(at+".minDomains", "must be at least 1, and only with DoNotSchedule")
	}
	c.selector(at+".labelSelector", s.LabelSelector)
}

func (c *checker) selector(at string, s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		switch e.Operator {
		case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
			if len(e.Values) == 0 {
				c.fail(fmt.Sprintf("%s.matchExpressions[%d].values", at, i), "operator %s needs at least one value", e.Operator)
			}
		case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		default:
			c.fail(fmt.Sprintf("%s.matchExpressions[%d].operator", at, i), "unknown; use In, NotIn, Exists or DoesNotExist")
		}
	}
}

func (c *checker) affinity(at string, a *corev1.Affinity) {
	if n := a.NodeAffinity; n != nil {
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			if len(r.NodeSelectorTerms) == 0 {
				c.fail(at+".nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", "needs at least one term")
			}
			for i := range r.NodeSelectorTerms {
				c.term(fmt.Sprintf("%s.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[%d]", at, i), &r.NodeSelectorTerms[i])
			}
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			p, field := &n.PreferredDuringSchedulingIgnoredDuringExecution[i], fmt.Sprintf("%s.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[%d]", at, i)
			c.weight(field+".weight", p.Weight)
			c.term(field+".preference", &p.Preference)
		}
	}
	both := func(name string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
		for i := range required {
			c.podTerm(fmt.Sprintf("%s.%s.requiredDuringSchedulingIgnoredDuringExecution[%d]", at, name, i), &required[i])
		}
		for i := range preferred {
			field := fmt.Sprintf("%s.%s.preferredDuringSchedulingIgnoredDuringExecution[%d]", at, name, i)
			c.weight(field+".weight", preferred[i].Weight)
			c.podTerm(field+".podAffinityTerm", &preferred[i].PodAffinityTerm)
		}
	}
	if p := a.PodAffinity; p != nil {
		both("podAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		both("podAntiAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (c *checker) weight(at string, w int32) {
	if w < 1 || w > 100 {
		c.fail(at, "must be between 1 and 100")
	}
}

func (c *checker) term(at string, t *corev1.NodeSelectorTerm) {
	for _, l := range []struct {
		name string
		list []corev1.NodeSelectorRequirement
	}{{"matchExpressions", t.MatchExpressions}, {"matchFields", t.MatchFields}} {
		for i := range l.list {
			field := fmt.Sprintf("%s.%s[%d]", at, l.name, i)
			switch e := &l.list[i]; e.Operator {
			case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
				corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
				if _, err := model.NewRequirement(e.Key, model.Operator(e.Operator), e.Values...); err != nil {
					c.fail(field+".values", "%s", short(err, e.Key))
				}
			default:
				c.fail(field+".operator", "unknown; use In, NotIn, Exists, DoesNotExist, Gt or Lt")
			}
		}
	}
}

// short is a requirement's error without the key, which the field's path has led to.
func short(err error, key string) string {
	return strings.TrimPrefix(err.Error(), "requirement "+key+": ")
}

func (c *checker) podTerm(at string, t *corev1.PodAffinityTerm) {
	if t.TopologyKey == "" {
		c.fail(at+".topologyKey", "missing")
	}
	c.selector(at+".labelSelector", t.LabelSelector)
	c.selector(at+".namespaceSelector", t.NamespaceSelector)
}

// pool checks a NodePool with the translation, which has the rules for NodePools.
func (c *checker) pool(p *karpv1.NodePool) {
	c.amounts("spec.limits", corev1.ResourceList(p.Spec.Limits))
	m := (&translate.Translator{Table: state.NewResourceTable()}).NodePool(p)
	if m.Ready {
		return
	}
	field, why, ok := strings.Cut(strings.TrimPrefix(m.NotReady.Message, "nodepool "+p.Name+": "), ": ")
	if !ok {
		field, why = "spec", m.NotReady.Message
	}
	c.fail(field, "%s", why)
}

// offlineDefaults replace the AWSNodeTemplate settings of a controller on AWS. The name of the instance profile changes
// no plan.
var offlineDefaults = translate.ProvisionerDefaults{OnAWS: true, InstanceProfile: translate.DefaultNodeClass}
