// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// workloads knows which pods and which middlemen (ReplicaSets of a Deployment, Jobs of a CronJob) each workload has already, so that
// only the rest of its pods is made. Owners are known by kind, namespace and name: a file that a person wrote has no uids.
type workloads struct {
	m      *Set
	pods   map[string][]*corev1.Pod // that are neither over nor going, by their controller
	loose  map[string][]*corev1.Pod // of those, the ones whose controller is not among the objects, by its kind and namespace
	middle map[string][]metav1.Object
}

func newWorkloads(m *Set) *workloads {
	w := &workloads{m: m, pods: map[string][]*corev1.Pod{}, loose: map[string][]*corev1.Pod{}, middle: map[string][]metav1.Object{}}
	for _, x := range m.objects {
		o := metav1.GetControllerOfNoCopy(x)
		if o == nil {
			continue
		}
		by := translate.OwnerKey(o.Kind, x.GetNamespace(), o.Name)
		p, ok := x.Object.(*corev1.Pod)
		if !ok {
			w.middle[by] = append(w.middle[by], x.Object)
			continue
		}
		if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		w.pods[by] = append(w.pods[by], p)
		if _, there := m.at[by]; !there {
			k := o.Kind + " " + p.Namespace
			w.loose[k] = append(w.loose[k], p)
		}
	}
	return w
}

// has is how many pods the workload has.
func (w *workloads) has(kind string, o metav1.Object) int {
	return len(w.pods[translate.OwnerKey(kind, o.GetNamespace(), o.GetName())])
}

// expand makes the pods of a workload as its controller would; other objects mean nothing here.
func (w *workloads) expand(s *state.State, t *translate.Translator, x metav1.Object) {
	switch o := x.(type) {
	case *appsv1.Deployment:
		covered, hash := 0, "new"
		for _, r := range w.middle[translate.OwnerKey("Deployment", o.Namespace, o.Name)] {
			if r, ok := r.(*appsv1.ReplicaSet); ok {
				covered += max(translate.Replicas(r.Spec.Replicas), w.has("ReplicaSet", r))
			}
		}
		if sel, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil && o.Spec.Selector != nil {
			for _, p := range w.loose["ReplicaSet "+o.Namespace] {
				if sel.Matches(labels.Set(p.Labels)) {
					covered++
					if h := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; h != "" {
						hash = h
					}
				}
			}
		}
		template := o.Spec.Template.DeepCopy()
		template.Labels = maps.Clone(template.Labels)
		metav1.SetMetaDataLabel(&template.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, hash)
		sel := o.Spec.Selector.DeepCopy()
		if sel != nil { // as that of the ReplicaSet
			metav1.AddLabelToSelector(sel, appsv1.DefaultDeploymentUniqueLabelKey, hash)
		}
		w.make(s, t, o, model.Owner{Kind: "ReplicaSet", Name: o.Name + "-" + hash, UID: string(o.UID)}, template, sel, w.m.replicas("Deployment", o, o.Spec.Replicas)-covered)
	case *appsv1.ReplicaSet:
		w.make(s, t, o, model.Owner{Kind: "ReplicaSet", Name: o.Name, UID: string(o.UID)}, &o.Spec.Template, o.Spec.Selector, w.m.replicas("ReplicaSet", o, o.Spec.Replicas)-w.has("ReplicaSet", o))
	case *corev1.ReplicationController:
		if o.Spec.Template != nil {
			w.make(s, t, o, model.Owner{Kind: "ReplicationController", Name: o.Name, UID: string(o.UID)}, o.Spec.Template,
				&metav1.LabelSelector{MatchLabels: o.Spec.Selector}, w.m.replicas("ReplicationController", o, o.Spec.Replicas)-w.has("ReplicationController", o))
		}
	case *appsv1.StatefulSet:
		w.stateful(s, t, o)
	case *batchv1.Job:
		w.make(s, t, o, model.Owner{Kind: "Job", Name: o.Name, UID: string(o.UID)}, jobTemplate(&o.Spec.Template, o), nil, jobPods(&o.Spec, &o.Status)-w.has("Job", o))
	case *batchv1.CronJob:
		if o.Spec.Suspend != nil && *o.Spec.Suspend {
			return
		}
		for _, j := range w.middle[translate.OwnerKey("CronJob", o.Namespace, o.Name)] {
			if j, ok := j.(*batchv1.Job); ok && jobPods(&j.Spec, &j.Status) > 0 {
				return // it runs
			}
		}
		covered := 0
		for _, p := range w.loose["Job "+o.Namespace] {
			run, ok := strings.CutPrefix(metav1.GetControllerOfNoCopy(p).Name, o.Name+"-")
			if _, err := strconv.ParseUint(run, 10, 64); ok && err == nil {
				covered++
			}
		}
		w.make(s, t, o, model.Owner{Kind: "Job", Name: o.Name, UID: string(o.UID)}, jobTemplate(&o.Spec.JobTemplate.Spec.Template, o), nil,
			jobPods(&o.Spec.JobTemplate.Spec, &batchv1.JobStatus{})-covered)
	}
}

// workloadKind is the kind of a workload whose pods are alike.
func workloadKind(o metav1.Object) string {
	switch o.(type) {
	case *appsv1.Deployment:
		return "Deployment"
	case *appsv1.ReplicaSet:
		return "ReplicaSet"
	case *batchv1.Job:
		return "Job"
	case *batchv1.CronJob:
		return "CronJob"
	}
	return "ReplicationController"
}

// jobTemplate is the template of a Job's pods with the labels that the Job controller adds. The Job of a CronJob is taken to bear the
// CronJob's name.
func jobTemplate(template *corev1.PodTemplateSpec, o metav1.Object) *corev1.PodTemplateSpec {
	out := template.DeepCopy()
	for k, v := range map[string]string{
		batchv1.JobNameLabel: o.GetName(), "job-name": o.GetName(), batchv1.ControllerUidLabel: string(o.GetUID()), "controller-uid": string(o.GetUID()),
	} {
		metav1.SetMetaDataLabel(&out.ObjectMeta, k, v)
	}
	return out
}

// jobPods is how many pods of a Job run at once from now on.
func jobPods(spec *batchv1.JobSpec, status *batchv1.JobStatus) int {
	if spec.Suspend != nil && *spec.Suspend {
		return 0
	}
	for _, c := range status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return 0
		}
	}
	n := translate.Replicas(spec.Parallelism)
	if spec.Completions != nil {
		n = min(n, int(*spec.Completions-status.Succeeded))
	}
	return n
}

// make adds n pods of a template. They are alike but for their names, so one is translated and the others are copies of it. sel is what their
// controller selects them by.
func (w *workloads) make(s *state.State, t *translate.Translator, o metav1.Object, owner model.Owner, template *corev1.PodTemplateSpec, sel *metav1.LabelSelector, n int) {
	if n <= 0 {
		return
	}
	p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	p.Namespace, p.CreationTimestamp = o.GetNamespace(), o.GetCreationTimestamp()
	ephemeral := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
	if n = w.m.admit(t, p, workloadKind(o)+" "+translate.Key(o), n); n == 0 {
		return
	}
	if spread := t.DefaultSpread(p, sel); spread != nil {
		p.Spec.TopologySpreadConstraints = spread
	}
	if asksForDevices(p) {
		for i, made := 0, 0; made < n; i++ {
			q := p.DeepCopy() // each is a claimant of its own
			q.Name = o.GetName() + "-" + strconv.Itoa(i)
			if w.taken(q.Namespace, q.Name) {
				continue
			}
			made++
			q.UID = types.UID("file:Pod/" + q.Namespace + "/" + q.Name)
			w.m.setPod(s, t, q, owner)
		}
		return
	}
	var first *model.Pod
	for i, made := 0, 0; made < n; i++ {
		name := o.GetName() + "-" + strconv.Itoa(i)
		if w.taken(p.Namespace, name) {
			continue
		}
		made++
		if first == nil || ephemeral { // an ephemeral volume's claim bears the pod's name
			p.Name, p.UID = name, types.UID("file:Pod/"+p.Namespace+"/"+name)
			first = demand(t.Pod(p))
		}
		q := *first
		q.Name, q.UID, q.Owner = name, "file:Pod/"+p.Namespace+"/"+name, owner
		s.SetPod(&q)
	}
}

func (w *workloads) taken(namespace, name string) bool {
	_, ok := w.m.at["Pod "+namespace+"/"+name]
	return ok
}

// stateful creates the missing pods of a StatefulSet, by name, and the claims of their volumes.
func (w *workloads) stateful(s *state.State, t *translate.Translator, o *appsv1.StatefulSet) {
	start := 0
	if o.Spec.Ordinals != nil {
		start = int(o.Spec.Ordinals.Start)
	}
	end := start + w.m.replicas("StatefulSet", o, o.Spec.Replicas)
	for i := start; i < end; i++ {
		name := o.Name + "-" + strconv.Itoa(i)
		if w.taken(o.Namespace, name) {
			continue
		}
		p := &corev1.Pod{ObjectMeta: *o.Spec.Template.ObjectMeta.DeepCopy(), Spec: *o.Spec.Template.Spec.DeepCopy()}
		p.Name, p.Namespace, p.UID, p.CreationTimestamp = name, o.Namespace, types.UID("file:Pod/"+o.Namespace+"/"+name), o.CreationTimestamp
		metav1.SetMetaDataLabel(&p.ObjectMeta, appsv1.StatefulSetPodNameLabel, name)
		metav1.SetMetaDataLabel(&p.ObjectMeta, appsv1.PodIndexLabel, strconv.Itoa(i))
		for j := range o.Spec.VolumeClaimTemplates {
			c := o.Spec.VolumeClaimTemplates[j].DeepCopy()
			volume := corev1.Volume{Name: c.Name}
			c.Name, c.Namespace = c.Name+"-"+name, o.Namespace
			volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}
			p.Spec.Volumes = append(slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name }), volume)
			if w.m.volumes.Claim(translate.Key(c)) == nil {
				w.m.defaultClass(&c.Spec)
				w.m.volumes.SetClaim(translate.Key(c), c)
			}
		}
		if w.m.admit(t, p, "StatefulSet "+translate.Key(o), 1) == 0 {
			continue
		}
		if spread := t.DefaultSpread(p, o.Spec.Selector); spread != nil {
			p.Spec.TopologySpreadConstraints = spread
		}
		w.m.setPod(s, t, p, model.Owner{Kind: "StatefulSet", Name: o.Name, UID: string(o.UID)})
	}
}

// stored reports whether an API server has stored the object: it is as kubectl prints it.
func (m *Set) stored(o metav1.Object) bool {
	return m.unchecked || !strings.HasPrefix(string(o.GetUID()), fileUID)
}

// admit does to a pod that no API server has seen what one does when the pod is created. pods is how many like it owner has. It
// returns how many of them are created.
func (m *Set) admit(t *translate.Translator, p *corev1.Pod, owner string, pods int) (created int) {
	for i := range p.Spec.Volumes {
		if e := p.Spec.Volumes[i].Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			m.defaultClass(&e.VolumeClaimTemplate.Spec)
		}
	}
	a := t.Admit(p)
	if i, ok := m.at["Namespace "+p.Namespace]; ok && m.objects[i].GetDeletionTimestamp() != nil {
		a.Refused = "namespace " + p.Namespace + " is being deleted"
	}
	for _, what := range a.Unknown {
		if said := what + " of " + owner; !slices.Contains(m.Missing, said) {
			m.Missing = append(m.Missing, said)
		}
	}
	if a.Refused == "" {
		created, a.Refused = m.quotasOf(p.Namespace).Admit(p, pods)
	}
	if a.Refused == "" {
		return created
	}
	if n := len(m.NotMade); n > 0 && m.NotMade[n-1].Owner == owner {
		m.NotMade[n-1].Pods += pods - created
	} else {
		m.NotMade = append(m.NotMade, NotMade{owner, pods - created, a.Refused})
	}
	return created
}

// quotasOf returns what the ResourceQuotas of a namespace leave for pods. Pods that exist count first, then those that are created,
// in the order in which Feed makes them: which pods really come first is not known.
func (m *Set) quotasOf(namespace string) *translate.PodQuotas {
	if have := m.podQuotas[namespace]; have != nil {
		return have
	}
	var quotas []*corev1.ResourceQuota
	for _, q := range m.resourceQuotas {
		if q.Namespace == namespace {
			quotas = append(quotas, q)
		}
	}
	var pods []*corev1.Pod
	if len(quotas) > 0 {
		for _, o := range m.objects {
			if p, ok := o.Object.(*corev1.Pod); ok && p.Namespace == namespace && m.stored(p) {
				pods = append(pods, p)
			}
		}
	}
	m.podQuotas[namespace] = translate.NewPodQuotas(quotas, pods)
	return m.podQuotas[namespace]
}

// defaultClasses gives claims that name no StorageClass the default one.
func (m *Set) defaultClasses() {
	for _, c := range m.volumes.Claims() {
		if c.Spec.VolumeName == "" && c.Spec.StorageClassName == nil && c.Annotations[corev1.BetaStorageClassAnnotation] == "" {
			c = c.DeepCopy()
			m.defaultClass(&c.Spec)
			m.volumes.SetClaim(translate.Key(c), c)
		}
	}
}

func (m *Set) defaultClass(spec *corev1.PersistentVolumeClaimSpec) {
	if spec.StorageClassName != nil {
		return
	}
	var best *storagev1.StorageClass
	for _, c := range m.volumes.Classes() {
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" && (best == nil || best.CreationTimestamp.Before(&c.CreationTimestamp)) {
			best = c
		}
	}
	if best != nil {
		spec.StorageClassName = &best.Name
	}
}

// defaultLimits applies the defaults of the API server: a default limit defaults to the maximum, a default request to
// the default limit, otherwise to the minimum.
func defaultLimits(l *corev1.LimitRange) {
	fill := func(into *corev1.ResourceList, from corev1.ResourceList) {
		for k, v := range from {
			if _, ok := (*into)[k]; !ok {
				if *into == nil {
					*into = corev1.ResourceList{}
				}
				(*into)[k] = v
			}
		}
	}
	for i := range l.Spec.Limits {
		if x := &l.Spec.Limits[i]; x.Type == corev1.LimitTypeContainer {
			fill(&x.Default, x.Max)
			fill(&x.DefaultRequest, x.Default)
			fill(&x.DefaultRequest, x.Min)
		}
	}
}
