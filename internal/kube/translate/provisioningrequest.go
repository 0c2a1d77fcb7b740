// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// What ProvisioningRequests are read by: k8s.io/autoscaler/cluster-autoscaler/apis, provisioningrequest/autoscaling.x-k8s.io/v1.
const (
	classCheckCapacity = "check-capacity.autoscaling.x-k8s.io"
	classAtomicScaleUp = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

	consumesRequest       = "autoscaling.x-k8s.io/consume-provisioning-request"
	formerConsumesRequest = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"

	// requestValidity is how long capacity is looked for if a request does not say.
	requestValidity = 7 * 24 * time.Hour
)

// Status details of a ProvisioningRequest by which it is tried again across restarts.
const (
	DetailRetryAt  = "dovetail.sh/retry-at"
	DetailAttempts = "dovetail.sh/attempts"
)

// provisioningRequests is the kind of ProvisioningRequests: their pods are a gang while capacity is looked for or held.
var provisioningRequests = &GangKind{
	Version: schema.GroupVersion{Group: "autoscaling.x-k8s.io", Version: "v1"}, Former: schema.GroupVersion{Group: "autoscaling.x-k8s.io", Version: "v1beta1"},
	Kind: "ProvisioningRequest", Resource: "provisioningrequests", prefix: model.RequestGang(""), field: consumesRequest, nameIn: requestNamed, read: readRequest, exists: true,
}

// ProvisioningRequests returns the kind of ProvisioningRequests.
func ProvisioningRequests() *GangKind { return provisioningRequests }

// requestNamed returns the name of the ProvisioningRequest whose capacity a pod is for; empty: none.
func requestNamed(p *corev1.Pod) string {
	if name := p.Annotations[consumesRequest]; name != "" {
		return name
	}
	return p.Annotations[formerConsumesRequest]
}

// readRequest returns what a ProvisioningRequest says about the pods that are for it.
func readRequest(o object) GangObject {
	out := GangObject{UID: o.text("metadata", "uid"), Over: true}
	if !isOurRequest(o) {
		return out
	}
	for _, c := range o.list("status", "conditions") {
		if c.text("status") != "True" {
			continue
		}
		switch c.text("type") {
		case model.RequestFailed:
			out.Refuse, out.Over = "has failed: "+shortened(c.text("message")), false
			return out
		case model.RequestExpired, model.RequestRevoked:
			return out // its pods are pods like others from then on
		}
	}
	out.Over = false
	for _, s := range o.list("spec", "podSets") {
		out.Least += s.count(0, "count")
	}
	return out
}

// isOurRequest reports whether a ProvisioningRequest is of a class that is served, and for no particular autoscaler.
func isOurRequest(o object) bool {
	return slices.Contains([]string{classCheckCapacity, classAtomicScaleUp}, o.text("spec", "provisioningClassName")) && o.text("spec", "parameters", "processorInstance") == ""
}

// consumed returns the ProvisioningRequest whose capacity a pod is for.
func (t *Translator) consumed(p *corev1.Pod) (c model.Consumed) {
	name := requestNamed(p)
	if name == "" || t.Lookup == nil {
		return c
	}
	o, served := t.Lookup.Gang(provisioningRequests, p.Namespace+"/"+name)
	if !served {
		return c
	}
	c.Request = bounded(p.Namespace + "/" + name)
	if o != nil {
		c.UID = o.UID
	}
	return c
}

// requestSlot returns what tells apart the pods of the pod sets of one ProvisioningRequest, whose labels and tolerations may be others than
// those of the template.
func (t *Translator) requestSlot(c *model.Class) string {
	return "request " + c.Request + classText(&model.Class{Namespace: c.Namespace, Requests: c.Requests, Terms: c.Terms, Preempts: true, Scheduler: model.DefaultScheduler}, t.Table.Names())
}

// ProvisioningRequest translates a request with the PodTemplates of its namespace, by name; nil: it is another autoscaler's.
func (t *Translator) ProvisioningRequest(u *unstructured.Unstructured, template func(name string) *corev1.PodTemplate) *model.ProvisioningRequest {
	o := object(u.Object)
	if !isOurRequest(o) {
		return nil
	}
	r := &model.ProvisioningRequest{Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()), Created: u.GetCreationTimestamp().Time,
		CheckOnly: o.text("spec", "provisioningClassName") == classCheckCapacity, NoRetry: o.text("spec", "parameters", "noRetry") == "true",
		ValidFor: requestValidity, Status: requestConditions(o)}
	details := func(name string) string { return o.text("status", "provisioningClassDetails", name) }
	if at, err := time.Parse(time.RFC3339, details(DetailRetryAt)); err == nil {
		r.RetryAt = at
	}
	if n, err := strconv.ParseUint(details(DetailAttempts), 10, 16); err == nil {
		r.Attempts = int(n)
	}
	refuse := func(reason, why string) *model.ProvisioningRequest {
		r.Sets, r.Accepted = nil, model.Condition{Status: "False", Reason: reason, Message: why}
		return r
	}
	if s := o.text("spec", "parameters", "ValidUntilSeconds"); s != "" {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil || n == 0 {
			return refuse("InvalidParameter", fmt.Sprintf("spec.parameters[ValidUntilSeconds] %q is no number of seconds; give one such as \"3600\"", s))
		}
		r.ValidFor = time.Duration(n) * time.Second
	}
	total := 0
	for i, s := range o.list("spec", "podSets") {
		name, count := s.text("podTemplateRef", "name"), s.count(0, "count")
		if total += count; total > mostVirtual {
			return refuse("TooManyPods", fmt.Sprintf("capacity is provisioned for at most %d pods of one request", mostVirtual))
		}
		pt := template(name)
		if pt == nil {
			return refuse("PodTemplateNotFound", fmt.Sprintf("spec.podSets[%d].podTemplateRef: PodTemplate %s/%s not found; create it, or replace the request", i, r.Namespace, name))
		}
		pod := t.templatePod(r.Namespace, &pt.Template)
		pod.Annotations = map[string]string{consumesRequest: r.Name}
		for k, v := range pt.Template.Annotations {
			if k == kueueRequiredTopology || k == kueuePreferredTopology || k == kueuePodSetGroup {
				pod.Annotations[k] = v
			}
		}
		set := model.RequestedPods{Class: t.class(pod, false), Count: count}
		set.Gang, _ = t.gangOf(pod)
		r.Sets = append(r.Sets, set)
	}
	r.Accepted = model.Condition{Status: "True", Reason: "Accepted", Message: fmt.Sprintf("Capacity for %s is looked for.", model.Count(total, "pod"))}
	for i := range r.Sets {
		g := r.Gang()
		g.Domain, g.Prefers, g.PodSet = r.Sets[i].Gang.Domain, r.Sets[i].Gang.Prefers, r.Sets[i].Gang.PodSet
		r.Sets[i].Gang = g
	}
	return r
}

// requestConditions returns the conditions of a request as the API server has them.
func requestConditions(o object) map[string]model.Condition {
	var list []metav1.Condition
	for _, c := range o.list("status", "conditions") {
		x := metav1.Condition{Type: c.text("type"), Status: metav1.ConditionStatus(c.text("status")), Reason: c.text("reason"), Message: c.text("message"), ObservedGeneration: int64(c.count(0, "observedGeneration"))}
		if at, err := time.Parse(time.RFC3339, c.text("lastTransitionTime")); err == nil {
			x.LastTransitionTime = metav1.NewTime(at)
		}
		list = append(list, x)
	}
	return Conditions(list)
}
