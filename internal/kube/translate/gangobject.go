// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// GangKind is a kind of API object that declares gangs. Pods refer to objects in their namespace by name.
type GangKind struct {
	Version  schema.GroupVersion
	Former   schema.GroupVersion // version in older API servers; empty: none
	Kind     string
	Resource string

	prefix    string                   // of the names of its gangs
	field     string                   // where a pod names an object
	nameIn    func(*corev1.Pod) string // the name of the object that a pod names; empty: none
	read      func(object) GangObject  // what an object of it says
	scheduler bool                     // see model.Gang.LeftToScheduler
	exists    bool                     // a pod that names an object waits until there is one
	required  bool                     // a pod that names an object is not scheduled without it, even if the API server does not serve the kind
}

// GangObject are the properties of a gang declared by an object.
type GangObject struct {
	Least  int    // minimum number of pods that must be placed; 0: each pod is independent
	Staged bool   // see model.Gang
	Domain string // see model.Gang
	Refuse string // why no node is launched for its pods, as a clause about the object; empty: nothing prevents it
	Over   bool   // no minimum number of pods applies any more, unless another object that the pods name is a gang
	Kept   bool   // with Over: running pods are still disrupted only together
	UID    string // for a ProvisioningRequest
}

// gangKinds are the kinds of objects that declare gangs: if a pod names several, the first counts. Kueue's and LeaderWorkerSet's gangs, which
// no object declares, come after the first firstGangKinds.
var gangKinds = []*GangKind{
	provisioningRequests,
	{
		// k8s.io/api v0.37.2, scheduling/v1beta1, with feature gate GenericWorkload. kube-scheduler binds the pods of a group together.
		Version: schema.GroupVersion{Group: "scheduling.k8s.io", Version: "v1beta1"}, Kind: "PodGroup", Resource: "podgroups",
		prefix: "podgroup.scheduling.k8s.io/", field: "schedulingGroup", scheduler: true, required: true,
		nameIn: func(p *corev1.Pod) string {
			if g := p.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
				return *g.PodGroupName
			}
			return ""
		},
		read: func(o object) GangObject {
			if parent := o.text("spec", "parentCompositePodGroupName"); parent != "" {
				return GangObject{Refuse: "is part of CompositePodGroup " + parent + ", which is not supported"}
			}
			out := GangObject{Least: o.count(0, "spec", "schedulingPolicy", "gang", "minCount")}
			for _, c := range o.list("spec", "schedulingConstraints", "topology") {
				out.Domain = CanonicalLabel(bounded(c.text("key")))
			}
			return out
		},
	},
	{
		// sigs.k8s.io/jobset v0.11.1, api/jobset/v1alpha2. With an order or dependencies among the jobs, and with exclusive placement, for which
		// followers wait for their leader to be scheduled, pods are created one after the other.
		Version: schema.GroupVersion{Group: "jobset.x-k8s.io", Version: "v1alpha2"}, Kind: "JobSet", Resource: "jobsets",
		prefix: "jobset/", field: "jobset.sigs.k8s.io/jobset-name",
		nameIn: func(p *corev1.Pod) string { return p.Labels["jobset.sigs.k8s.io/jobset-name"] },
		read:   readJobSet,
	},
	{
		// volcano.sh/apis v1.13.0, scheduling/v1beta1. Volcano's scheduler binds the pods of a group together.
		Version: schema.GroupVersion{Group: "scheduling.volcano.sh", Version: "v1beta1"}, Kind: "PodGroup", Resource: "podgroups",
		prefix: "podgroup.scheduling.volcano.sh/", field: "scheduling.volcano.sh/group-name", scheduler: true,
		nameIn: func(p *corev1.Pod) string {
			if name := p.Annotations["scheduling.volcano.sh/group-name"]; name != "" {
				return name
			}
			return p.Annotations["scheduling.k8s.io/group-name"]
		},
		read: func(o object) GangObject { return GangObject{Least: o.count(0, "spec", "minMember")} },
	},
	{
		// The coscheduling plugin: sigs.k8s.io/scheduler-plugins v0.33.5, apis/scheduling/v1alpha1. It lets pods of a group start together.
		Version: schema.GroupVersion{Group: "scheduling.x-k8s.io", Version: "v1alpha1"}, Kind: "PodGroup", Resource: "podgroups",
		prefix: "podgroup.scheduling.x-k8s.io/", field: "scheduling.x-k8s.io/pod-group", scheduler: true,
		nameIn: func(p *corev1.Pod) string { return p.Labels["scheduling.x-k8s.io/pod-group"] },
		read:   func(o object) GangObject { return GangObject{Least: o.count(0, "spec", "minMember")} },
	},
}

const firstGangKinds = 2

// GangKinds returns the kinds of API objects that declare gangs.
func GangKinds() []*GangKind { return gangKinds }

// GangKindOf returns the gang kind with this group, version and kind; nil: none.
func GangKindOf(gvk schema.GroupVersionKind) *GangKind {
	if i := slices.IndexFunc(gangKinds, func(k *GangKind) bool { return k.Version.WithKind(k.Kind) == gvk || k.Former.WithKind(k.Kind) == gvk }); i >= 0 {
		return gangKinds[i]
	}
	return nil
}

// Versions returns the supported API versions of the kind, newest first.
func (k *GangKind) Versions() []schema.GroupVersion {
	if k.Former.Empty() {
		return []schema.GroupVersion{k.Version}
	}
	return []schema.GroupVersion{k.Version, k.Former}
}

// Gang returns the gang name of an object of the kind, by the key of the object.
func (k *GangKind) Gang(key string) string { return bounded(k.prefix + key) }

// Read returns the gang declared by an object of the kind. Unreadable fields are ignored.
func (k *GangKind) Read(u *unstructured.Unstructured) GangObject { return k.read(object(u.Object)) }

// GangNamed returns the gang name of the object that a pod names; empty: none.
func GangNamed(p *corev1.Pod) string {
	for _, k := range gangKinds {
		if name := k.nameIn(p); name != "" {
			return k.Gang(p.Namespace + "/" + name)
		}
	}
	return ""
}

// gangOfObject returns the gang of the object of some kinds that a pod names, or why no node is launched for the pod. is reports whether
// it names one that counts. A gang that is over does not, and is returned if its pods are still disrupted together.
func (t *Translator) gangOfObject(p *corev1.Pod, kinds []*GangKind) (g model.Gang, why string, is bool) {
	for _, k := range kinds {
		name := k.nameIn(p)
		if name == "" {
			continue
		}
		var o *GangObject
		served := false
		if t.Lookup != nil {
			o, served = t.Lookup.Gang(k, p.Namespace+"/"+name)
		}
		what := k.field + " " + name + ": " + k.Kind + " "
		switch {
		case o == nil && (k.required || served && (k.scheduler || k.exists)):
			return model.Gang{}, what + "not found", true
		case o == nil:
			continue
		case o.Over:
			if o.Kept {
				g = model.Gang{Name: k.Gang(p.Namespace + "/" + name)}
			}
			continue
		case o.Refuse != "":
			return model.Gang{}, what + o.Refuse, true
		case o.Least < 1:
			return model.Gang{}, "", true
		}
		return model.Gang{Name: k.Gang(p.Namespace + "/" + name), Least: o.Least, Staged: o.Staged, Domain: o.Domain, LeftToScheduler: k.scheduler}, "", true
	}
	return g, "", false
}

// readJobSet returns how many pods a JobSet has.
func readJobSet(o object) GangObject {
	const exclusive = "alpha.jobset.sigs.k8s.io/exclusive-topology"
	out := GangObject{Staged: o.text("spec", "startupPolicy", "startupPolicyOrder") == "InOrder" || o.text("metadata", "annotations", exclusive) != ""}
	for _, job := range o.list("spec", "replicatedJobs") {
		pods := job.count(1, "template", "spec", "parallelism")
		if n := job.count(pods, "template", "spec", "completions"); n > 0 {
			pods = min(pods, n)
		}
		out.Least = min(out.Least+job.count(1, "replicas")*pods, math.MaxInt32)
		out.Staged = out.Staged || len(job.list("dependsOn")) > 0 || job.text("template", "metadata", "annotations", exclusive) != ""
	}
	return out
}

// object is a decoded JSON object.
type object map[string]any

// at returns the value of a field; nil: there is none.
func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// text returns the text of a field; empty: it has none.
func (o object) text(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

// count returns the whole number from 0 of a field; without one, the number given.
func (o object) count(without int, path ...string) int {
	switch n := o.at(path...).(type) {
	case int64:
		return int(max(0, min(n, math.MaxInt32)))
	case float64:
		return int(max(0, min(n, math.MaxInt32)))
	}
	return without
}

// list returns the objects in a field.
func (o object) list(path ...string) (out []object) {
	items, _ := o.at(path...).([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
