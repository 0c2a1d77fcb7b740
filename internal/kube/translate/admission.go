// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
)

// Admission is the expected response of the API server to the creation of a pod, according to the known objects.
type Admission struct {
	// Refused is why the API server refuses the pod; empty: it accepts it.
	Refused string
	// Unknown names objects that the pod refers to and that are not known. Their effect on the pod is missing.
	Unknown []string
}

// Admit changes a pod created from a template to what the API server would store: its defaults, then those of the
// default admission plugins that affect scheduling, in their order (LimitRanger, Priority, DefaultTolerationSeconds,
// RuntimeClass). Only Admit implements these defaults, so the pods of workloads in files, of DaemonSets, of
// CapacityBuffers and of Headrooms all pass through it. Pods read from an API server must not.
func (t *Translator) Admit(p *corev1.Pod) Admission {
	var out Admission
	defaultPod(p)
	ranges := t.limitRanges(p.Namespace)
	for _, r := range ranges {
		defaultByLimitRange(p, r)
	}
	t.admitPriority(p, &out)
	defaultTolerations(p)
	t.admitRuntimeClass(p, &out)
	for _, r := range ranges {
		if out.Refused == "" {
			out.Refused = refusalByLimitRange(p, r)
		}
	}
	return out
}

// limitRanges returns the LimitRanges of a namespace, by name.
func (t *Translator) limitRanges(namespace string) []*corev1.LimitRange {
	if t.Lookup == nil {
		return nil
	}
	return slices.SortedFunc(slices.Values(t.Lookup.LimitRanges(namespace)), func(a, b *corev1.LimitRange) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// defaultPod fills in the API server's own defaults of pods that scheduling depends on.
func defaultPod(p *corev1.Pod) {
	s := &p.Spec
	s.SchedulerName = cmp.Or(s.SchedulerName, corev1.DefaultSchedulerName)
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			c := &list[i]
			addMissing(&c.Resources.Requests, c.Resources.Limits)
			for j := range c.Ports {
				port := &c.Ports[j]
				port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
				if s.HostNetwork && port.HostPort == 0 {
					port.HostPort = port.ContainerPort
				}
			}
		}
	}
	defaultPodResources(p)
}

// defaultPodResources fills in the requests of a pod as a whole: where it has limits as a whole, what its containers request, and
// for what none of them requests its limits. Huge pages can't be overcommitted: the limits of the containers are the pod's.
func defaultPodResources(p *corev1.Pod) {
	whole := p.Spec.Resources
	if whole == nil {
		return
	}
	none := podresources.PodResourcesOptions{}
	if len(whole.Limits)+len(whole.Requests) > 0 {
		for name, q := range podresources.AggregateContainerLimits(p, none) {
			if _, asked := whole.Requests[name]; !asked && isHugePages(name) {
				addMissing(&whole.Limits, corev1.ResourceList{name: q})
			}
		}
	}
	if len(whole.Limits) == 0 {
		return
	}
	for name, q := range podresources.AggregateContainerRequests(p, none) {
		if podresources.IsSupportedPodLevelResource(name) && !isHugePages(name) {
			addMissing(&whole.Requests, corev1.ResourceList{name: q})
		}
	}
	for name, q := range whole.Limits {
		if podresources.IsSupportedPodLevelResource(name) {
			addMissing(&whole.Requests, corev1.ResourceList{name: q})
		}
	}
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// addMissing copies the amounts of one list into another that has none of that name.
func addMissing(into *corev1.ResourceList, from corev1.ResourceList) {
	for name, q := range from {
		if _, ok := (*into)[name]; ok {
			continue
		}
		if *into == nil {
			*into = corev1.ResourceList{}
		}
		(*into)[name] = q.DeepCopy()
	}
}

// defaultByLimitRange gives containers the limits and requests that a LimitRange has for those without.
func defaultByLimitRange(p *corev1.Pod, r *corev1.LimitRange) {
	limits, requests := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range r.Spec.Limits {
		if x := &r.Spec.Limits[i]; x.Type == corev1.LimitTypeContainer {
			maps.Copy(limits, x.Default)
			maps.Copy(requests, x.DefaultRequest)
		}
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			addMissing(&list[i].Resources.Limits, limits)
			addMissing(&list[i].Resources.Requests, requests)
		}
	}
}

// refusalByLimitRange returns why a LimitRange forbids a pod; empty if it does not.
func refusalByLimitRange(p *corev1.Pod, r *corev1.LimitRange) string {
	none := podresources.PodResourcesOptions{}
	for i := range r.Spec.Limits {
		x := &r.Spec.Limits[i]
		why, of := "", ""
		switch x.Type {
		case corev1.LimitTypePod:
			why, of = outsideRange(x, podresources.PodRequests(p, none), podresources.PodLimits(p, none)), "the pod's"
		case corev1.LimitTypeContainer:
			for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
				for j := range list {
					if why == "" {
						why, of = outsideRange(x, list[j].Resources.Requests, list[j].Resources.Limits), "container "+list[j].Name+"'s"
					}
				}
			}
		}
		if why != "" {
			return fmt.Sprintf("LimitRange %s: %s %s", r.Name, of, why)
		}
	}
	return ""
}

// outsideRange returns which amount is outside of a LimitRange's minimum, maximum or ratio; empty if none is.
func outsideRange(x *corev1.LimitRangeItem, requests, limits corev1.ResourceList) string {
	for _, name := range sortedNames(x.Min) {
		least := x.Min[name]
		if request, ok := requests[name]; !ok || request.Cmp(least) < 0 {
			return fmt.Sprintf("%s request of %s is below the minimum of %s", name, amountText(request, ok), least.String())
		}
		if limit, ok := limits[name]; ok && limit.Cmp(least) < 0 {
			return fmt.Sprintf("%s limit of %s is below the minimum of %s", name, limit.String(), least.String())
		}
	}
	for _, name := range sortedNames(x.Max) {
		most := x.Max[name]
		if limit, ok := limits[name]; !ok || limit.Cmp(most) > 0 {
			return fmt.Sprintf("%s limit of %s is above the maximum of %s", name, amountText(limit, ok), most.String())
		}
		if request, ok := requests[name]; ok && request.Cmp(most) > 0 {
			return fmt.Sprintf("%s request of %s is above the maximum of %s", name, request.String(), most.String())
		}
	}
	for _, name := range sortedNames(x.MaxLimitRequestRatio) {
		most := x.MaxLimitRequestRatio[name]
		request, asked := requests[name]
		limit, limited := limits[name]
		if !asked || !limited || request.IsZero() || limit.AsApproximateFloat64() > most.AsApproximateFloat64()*request.AsApproximateFloat64() {
			return fmt.Sprintf("%s limit of %s is above %s times the request of %s", name, amountText(limit, limited), most.String(), amountText(request, asked))
		}
	}
	return ""
}

// amountText writes an amount that may be missing.
func amountText(q resource.Quantity, there bool) string {
	if !there {
		return "none"
	}
	return q.String()
}

// admitPriority sets a pod's priority and preemption policy by its PriorityClass, or by the cluster's default one. A priority that
// is set already stays.
func (t *Translator) admitPriority(p *corev1.Pod, out *Admission) {
	s := &p.Spec
	if s.Priority != nil {
		return
	}
	class := t.priorityClass(s.PriorityClassName)
	switch {
	case class != nil:
		value := class.Value
		s.PriorityClassName, s.Priority = class.Name, &value
		if s.PreemptionPolicy == nil {
			s.PreemptionPolicy = class.PreemptionPolicy
		}
	case s.PriorityClassName != "" && !isSystemPriority(s.PriorityClassName):
		out.Unknown = append(out.Unknown, "PriorityClass "+s.PriorityClassName)
	}
}

// isSystemPriority reports whether every cluster has a PriorityClass of this name.
func isSystemPriority(name string) bool {
	return name == "system-cluster-critical" || name == "system-node-critical"
}

// priorityClass returns the PriorityClass of a name, and for an empty name the cluster's default: of several the one of the
// lowest value. It returns nil if there is none.
func (t *Translator) priorityClass(name string) *schedulingv1.PriorityClass {
	if t.Lookup == nil {
		return nil
	}
	var best *schedulingv1.PriorityClass
	for _, c := range t.Lookup.PriorityClasses() {
		if name != "" && c.Name == name {
			return c
		}
		if name == "" && c.GlobalDefault && (best == nil || c.Value < best.Value || c.Value == best.Value && c.Name < best.Name) {
			best = c
		}
	}
	return best
}

// defaultTolerations adds the tolerations of nodes that have just become unready or unreachable, for five minutes.
func defaultTolerations(p *corev1.Pod) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(p.Spec.Tolerations, func(x corev1.Toleration) bool {
			return (x.Key == key || x.Key == "") && (x.Effect == corev1.TaintEffectNoExecute || x.Effect == "")
		}) {
			seconds := int64(300)
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
			})
		}
	}
}

// admitRuntimeClass adds the overhead, node selector and tolerations of a pod's RuntimeClass.
func (t *Translator) admitRuntimeClass(p *corev1.Pod, out *Admission) {
	s := &p.Spec
	var class *nodev1.RuntimeClass
	if s.RuntimeClassName != nil {
		if t.Lookup != nil {
			class = t.Lookup.RuntimeClass(*s.RuntimeClassName)
		}
		if class == nil {
			out.Unknown = append(out.Unknown, "RuntimeClass "+*s.RuntimeClassName)
			return
		}
	}
	refuse := func(format string, args ...any) { out.Refused = cmp.Or(out.Refused, fmt.Sprintf(format, args...)) }
	switch {
	case class != nil && class.Overhead != nil:
		if len(s.Overhead) > 0 && !equality.Semantic.DeepEqual(s.Overhead, class.Overhead.PodFixed) {
			refuse("spec.overhead is not the overhead of RuntimeClass %s", class.Name)
		}
		s.Overhead = class.Overhead.PodFixed.DeepCopy()
	case len(s.Overhead) > 0:
		refuse("spec.overhead is set and no RuntimeClass of the pod has an overhead")
	}
	if class == nil || class.Scheduling == nil {
		return
	}
	selector := maps.Clone(s.NodeSelector)
	for _, key := range slices.Sorted(maps.Keys(class.Scheduling.NodeSelector)) {
		want := class.Scheduling.NodeSelector[key]
		if have, ok := selector[key]; ok && have != want {
			refuse("spec.nodeSelector[%s] is %s, and RuntimeClass %s requires %s", key, have, class.Name, want)
		}
		if selector == nil {
			selector = map[string]string{}
		}
		selector[key] = want
	}
	s.NodeSelector = selector
	for _, x := range class.Scheduling.Tolerations {
		if !slices.ContainsFunc(s.Tolerations, func(have corev1.Toleration) bool { return equality.Semantic.DeepEqual(have, x) }) {
			s.Tolerations = append(s.Tolerations, x)
		}
	}
}
