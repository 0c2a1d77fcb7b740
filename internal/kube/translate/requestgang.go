// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Names of the ProvisioningRequest API: k8s.io/autoscaler/cluster-autoscaler/apis,
// provisioningrequest/autoscaling.x-k8s.io/v1.
const (
	classCheckCapacity = "check-capacity.autoscaling.x-k8s.io"
	classAtomicScaleUp = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

	consumesRequest       = "autoscaling.x-k8s.io/consume-provisioning-request"
	formerConsumesRequest = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"

	// requestValidity is how long capacity is looked for if a request does not say.
	requestValidity = 7 * 24 * time.Hour
)

// provisioningRequests is the kind of ProvisioningRequests: their pods are a gang while capacity is looked for or held, and afterwards
// those that run are disrupted as one.
var provisioningRequests = &GangKind{
	Version: schema.GroupVersion{Group: "autoscaling.x-k8s.io", Version: "v1"}, Former: schema.GroupVersion{Group: "autoscaling.x-k8s.io", Version: "v1beta1"},
	Kind: "ProvisioningRequest", Resource: "provisioningrequests", prefix: model.RequestGang(""), field: consumesRequest, nameIn: requestNamed, read: readRequest, exists: true,
}

// ProvisioningRequests returns the gang kind of ProvisioningRequests.
func ProvisioningRequests() *GangKind { return provisioningRequests }

// requestNamed returns the name of the ProvisioningRequest whose capacity a pod is for; empty: none.
func requestNamed(p *corev1.Pod) string {
	if name := p.Annotations[consumesRequest]; name != "" {
		return name
	}
	return p.Annotations[formerConsumesRequest]
}

// readRequest returns the gang declared by a ProvisioningRequest.
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
			out.Kept = true
			return out
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
