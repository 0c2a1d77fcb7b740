// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	awsv1alpha1 "github.com/dovetail-sh/dovetail/api/aws/v1alpha1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/volume"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// New returns an empty set. Read fills it.
func New() *Set {
	return &Set{
		at: map[string]int{}, generated: map[string]int{},
		volumes: volume.NewIndex(), devices: translate.NewDevices(), csi: map[string]*storagev1.CSINode{},
		deviceObjects: map[string]bool{}, limits: map[string]*corev1.LimitRange{}, priorities: map[string]*schedulingv1.PriorityClass{},
		runtimes: map[string]*nodev1.RuntimeClass{}, horizontal: map[string]horizontal{},
		gangs: map[string]*translate.GangObject{}, requests: map[string]*unstructured.Unstructured{}, gangKinds: map[*translate.GangKind]bool{},
		services: map[string]*corev1.Service{}, resourceQuotas: map[string]*corev1.ResourceQuota{}, podQuotas: map[string]*translate.PodQuotas{},
	}
}

// Read reads a stream of YAML or JSON documents into a new set. name is the name of the stream, for messages.
func Read(name string, data []byte) (*Set, error) {
	m := New()
	if err := m.Read(name, data); err != nil {
		return nil, err
	}
	return m, nil
}

// Keep adds an object.
func (m *Set) Keep(kind string, x metav1.Object) {
	switch o := x.(type) {
	case *unstructured.Unstructured:
		k := translate.GangKindOf(o.GroupVersionKind())
		if k == translate.ProvisioningRequests() {
			if o.GetUID() == "" {
				o.SetUID(types.UID("file:ProvisioningRequest/" + translate.Key(o)))
			}
			m.requests[translate.Key(o)] = o
		}
		said := k.Read(o)
		m.gangs[k.Gang(translate.Key(o))], m.gangKinds[k] = &said, true
	case *corev1.PersistentVolumeClaim:
		m.volumes.SetClaim(translate.Key(o), o)
	case *corev1.PersistentVolume:
		m.volumes.SetVolume(o.Name, o)
	case *storagev1.StorageClass:
		m.volumes.SetClass(o.Name, o)
	case *storagev1.CSIDriver:
		m.volumes.SetDriver(o.Name, o)
	case *storagev1.CSIStorageCapacity:
		m.volumes.SetCapacity(translate.Key(o), o)
	case *resourceapi.DeviceClass:
		m.devices.SetDeviceClass(o.Name, o)
		m.deviceObjects[kind+" "+o.Name] = true
	case *resourceapi.ResourceSlice:
		m.devices.SetSlice(o.Name, o)
		m.deviceObjects[kind+" "+o.Name] = true
	case *resourceapi.DeviceTaintRule:
		m.devices.SetDeviceTaintRule(o.Name, o)
		m.deviceObjects[kind+" "+o.Name] = true
	case *resourceapi.ResourceClaim:
		defaultDeviceRequests(&o.Spec)
		m.devices.SetResourceClaim(translate.Key(o), o)
		m.deviceObjects[kind+" "+translate.Key(o)] = true
	case *resourceapi.ResourceClaimTemplate:
		defaultDeviceRequests(&o.Spec.Spec)
		m.devices.SetResourceClaimTemplate(translate.Key(o), o)
		m.deviceObjects[kind+" "+translate.Key(o)] = true
	case *storagev1.CSINode:
		volume.DefaultCSINode(o)
		m.csi[o.Name] = o
	case *corev1.LimitRange:
		defaultLimits(o)
		m.limits[translate.Key(o)] = o
	case *corev1.ResourceQuota:
		m.resourceQuotas[translate.Key(o)] = o
	case *autoscalingv1.HorizontalPodAutoscaler:
		m.scale(o, o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name, o.Spec.MinReplicas, o.Spec.MaxReplicas)
	case *autoscalingv2.HorizontalPodAutoscaler:
		m.scale(o, o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name, o.Spec.MinReplicas, o.Spec.MaxReplicas)
	case *schedulingv1.PriorityClass:
		m.priorities[o.Name] = o
	case *nodev1.RuntimeClass:
		m.runtimes[o.Name] = o
	case *corev1.Service:
		if m.services[translate.Key(o)] = o; len(m.Scheduler) == 0 {
			m.Skipped = append(m.Skipped, kind+" "+o.Name)
		}
	case *corev1.Pod, *corev1.Node, *corev1.Namespace, *corev1.ReplicationController, *appsv1.DaemonSet, *appsv1.Deployment, *appsv1.ReplicaSet,
		*appsv1.StatefulSet, *batchv1.Job, *batchv1.CronJob, *policyv1.PodDisruptionBudget, *karpv1.NodePool, *karpv1.NodeClaim, *karpv1alpha1.NodeOverlay,
		*kwokv1alpha1.KWOKNodeClass, *awsv1.EC2NodeClass, *dovetailv1alpha1.NodeGroupClass, *clusterapiv1alpha1.ClusterAPINodeClass, *dovetailv1alpha1.Headroom,
		*corev1.PodTemplate, *bufferv1beta1.CapacityBuffer, *bufferv1beta1.CapacityQuota, *karpv1alpha5.Provisioner,
		*awsv1alpha1.AWSNodeTemplate, *storagev1.VolumeAttachment:
		if overlay, ok := x.(*karpv1alpha1.NodeOverlay); ok {
			m.devices.SetOverlay(overlay.Name, translate.DevicesOf(overlay))
		}
		k := kind + " " + translate.Key(x)
		if i, ok := m.at[k]; ok {
			m.objects[i] = object{kind, x}
			return
		}
		m.at[k] = len(m.objects)
		m.objects = append(m.objects, object{kind, x})
	default:
		m.Skipped = append(m.Skipped, kind+" "+x.GetName())
	}
}

// Len returns the number of objects read that affect an autoscaler.
func (m *Set) Len() int {
	return len(m.objects) + m.volumes.Len() + len(m.deviceObjects) + len(m.csi) + len(m.limits) + len(m.priorities) + len(m.runtimes) + len(m.resourceQuotas) + len(m.gangs) + len(m.horizontal)
}

// HasAny reports whether the set has an object of one of these kinds.
func (m *Set) HasAny(kinds ...string) bool {
	return slices.ContainsFunc(m.objects, func(o object) bool { return slices.Contains(kinds, o.kind) })
}

// Volumes implements Lookup.
func (m *Set) Volumes() *volume.Index { return m.volumes }

// Devices implements Lookup.
func (m *Set) Devices() *translate.Devices { return m.devices }

// CSINode implements Lookup.
func (m *Set) CSINode(node string) *storagev1.CSINode { return m.csi[node] }

// LimitRanges implements Lookup.
func (m *Set) LimitRanges(namespace string) []*corev1.LimitRange {
	var out []*corev1.LimitRange
	for _, k := range slices.Sorted(maps.Keys(m.limits)) {
		if m.limits[k].Namespace == namespace {
			out = append(out, m.limits[k])
		}
	}
	return out
}

// RuntimeClass implements Lookup.
func (m *Set) RuntimeClass(name string) *nodev1.RuntimeClass { return m.runtimes[name] }

// PriorityClasses implements Lookup.
func (m *Set) PriorityClasses() []*schedulingv1.PriorityClass {
	return slices.Collect(maps.Values(m.priorities))
}

// Services implements Lookup.
func (m *Set) Services(namespace string) []*corev1.Service {
	var out []*corev1.Service
	for _, k := range slices.Sorted(maps.Keys(m.services)) {
		if m.services[k].Namespace == namespace {
			out = append(out, m.services[k])
		}
	}
	return out
}

// OwnerSelector implements Lookup.
func (m *Set) OwnerSelector(kind, namespace, name string) *metav1.LabelSelector {
	i, ok := m.at[translate.OwnerKey(kind, namespace, name)]
	if !ok {
		return nil
	}
	switch o := m.objects[i].Object.(type) {
	case *appsv1.ReplicaSet:
		return o.Spec.Selector
	case *appsv1.StatefulSet:
		return o.Spec.Selector
	case *corev1.ReplicationController:
		return &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
	}
	return nil
}

// Gang implements Lookup.
func (m *Set) Gang(kind *translate.GangKind, key string) (*translate.GangObject, bool) {
	return m.gangs[kind.Gang(key)], m.gangKinds[kind]
}

// Feed passes all objects to a State, in an order that does not depend on the input order. Workloads become pods, unless
// the set already has them.
func (m *Set) Feed(s *state.State) {
	slices.SortFunc(m.objects, func(a, b object) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(translate.Key(a), translate.Key(b)))
	})
	for i, o := range m.objects {
		m.at[o.kind+" "+translate.Key(o)] = i
	}
	m.defaultClasses()
	m.volumes.Settle()
	t := &translate.Translator{Table: s.Resources(), Lookup: m, Defaults: m.Scheduler}
	w := newWorkloads(m)
	s.Pools.SetDevices(t.DevicesOfTypes(m.devices))
	m.claimants = map[string]claimant{}
	for uid, made := range m.Templates {
		s.SetTemplate(uid, made)
	}
	for _, o := range m.objects {
		m.namespaceOf(s, o)
		if made := translate.Template(o.Object); made != nil {
			s.SetTemplate(string(o.GetUID()), made)
		}
		switch o := o.Object.(type) {
		case *corev1.Pod:
			q := o.DeepCopy()
			if m.stored(q) || m.admit(t, q, "Pod "+translate.Key(q), 1) == 1 {
				m.setPod(s, t, q, model.Owner{})
			}
		case *corev1.Node:
			if len(o.Status.Allocatable) == 0 {
				o.Status.Allocatable = o.Status.Capacity // as the API server has it
			}
			m.devices.Learn(o)
			s.SetNode(t.Node(o), translate.ResourceVersion(o.ResourceVersion))
		case *storagev1.VolumeAttachment:
			s.SetAttachment(t.VolumeAttachment(o))
		case *appsv1.DaemonSet:
			s.SetDaemon(t.DaemonSet(o))
		case *policyv1.PodDisruptionBudget:
			s.SetPDB(t.PDB(o))
		case *karpv1.NodePool:
			s.Pools.SetPool(t.NodePool(o))
		case *karpv1.NodeClaim:
			s.SetClaim(t.NodeClaim(o), translate.ResourceVersion(o.ResourceVersion))
		case *karpv1alpha1.NodeOverlay:
			s.Pools.SetNodeOverlay(t.NodeOverlay(o))
		case *kwokv1alpha1.KWOKNodeClass:
			s.Pools.SetNodeClass(t.KWOKNodeClass(o))
		case *awsv1.EC2NodeClass:
			s.Pools.SetNodeClass(t.EC2NodeClass(o))
		case *dovetailv1alpha1.NodeGroupClass:
			s.Pools.SetNodeClass(t.NodeGroupClass(o))
		case *clusterapiv1alpha1.ClusterAPINodeClass:
			s.Pools.SetNodeClass(t.ClusterAPINodeClass(o))
		case *awsv1alpha1.AWSNodeTemplate:
			if _, ok := m.at[awsv1.KindEC2NodeClass+" "+o.Name]; ok {
				continue // its EC2NodeClass is there, as the API server has it
			}
			if class, _, err := translate.NodeTemplate(o, offlineDefaults); err == nil {
				class.UID = "file:EC2NodeClass/" + types.UID(o.Name)
				s.Pools.SetNodeClass(t.EC2NodeClass(class))
			}
		case *karpv1alpha5.Provisioner:
			if _, ok := m.at["NodePool "+o.Name]; ok {
				continue // its NodePool is there, as the API server has it
			}
			pool, class, _ := translate.Provisioner(o, m.provisionerDefaults(o))
			if class != nil {
				class.UID = "file:EC2NodeClass/" + types.UID(o.Name)
				s.Pools.SetNodeClass(t.EC2NodeClass(class))
			}
			pool.UID = "file:NodePool/" + types.UID(o.Name)
			s.Pools.SetPool(t.NodePool(pool))
			if r := pool.Spec.Template.Spec.NodeClassRef; r.Group == kwokv1alpha1.Group && s.Pools.FindNodeClass(r.Group, r.Kind, r.Name) == nil {
				s.Pools.SetNodeClass(t.KWOKNodeClass(&kwokv1alpha1.KWOKNodeClass{ObjectMeta: metav1.ObjectMeta{Name: r.Name}}))
			}
		case *bufferv1beta1.CapacityBuffer: // when all pods are known: see setBuffers
		case *bufferv1beta1.CapacityQuota:
			s.SetLimit(t.CapacityQuota(o))
		default:
			w.expand(s, t, o)
		}
	}
	m.setBuffers(s, t)
	m.settleDevices(s, t)
	for _, u := range m.requests {
		m.namespaceOf(s, object{"ProvisioningRequest", u})
		r := t.ProvisioningRequest(u, func(name string) *corev1.PodTemplate {
			if i, ok := m.at[translate.OwnerKey("PodTemplate", u.GetNamespace(), name)]; ok {
				pt, _ := m.objects[i].Object.(*corev1.PodTemplate)
				return pt
			}
			return nil
		})
		if r != nil {
			s.SetRequest(r, translate.ResourceVersion(u.GetResourceVersion()))
		}
	}
}

// setBuffers passes all CapacityBuffers to a State, within what the ResourceQuotas of their namespaces leave after all
// other pods.
func (m *Set) setBuffers(s *state.State, t *translate.Translator) {
	byNamespace := map[string][]translate.SizedBuffer{}
	for _, o := range m.objects {
		if b, ok := o.Object.(*bufferv1beta1.CapacityBuffer); ok {
			byNamespace[b.Namespace] = append(byNamespace[b.Namespace], t.CapacityBuffer(b, m.shapeOf(b)))
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		list := byNamespace[namespace]
		translate.ApplyQuotas(list, m.quotasOf(namespace).Quotas())
		for _, b := range list {
			s.SetBuffer(b.Buffer, b.Version)
		}
	}
}

// shapeOf returns the pod shape of a buffer from the objects of the set.
func (m *Set) shapeOf(b *bufferv1beta1.CapacityBuffer) translate.PodShape {
	find := func(kind, name string) metav1.Object {
		if i, ok := m.at[translate.OwnerKey(kind, b.Namespace, name)]; ok {
			return m.objects[i].Object
		}
		return nil
	}
	ref := b.Spec.ScalableRef
	if b.Spec.PodTemplateRef != nil {
		t, _ := find("PodTemplate", b.Spec.PodTemplateRef.Name).(*corev1.PodTemplate)
		return translate.ShapeOfTemplate(b, t)
	}
	if ref == nil {
		return translate.ShapeWithoutReference()
	}
	switch o := find(ref.Kind, ref.Name).(type) {
	case *appsv1.Deployment:
		return translate.ShapeOfWorkload(&o.Spec.Template, o.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return translate.ShapeOfWorkload(&o.Spec.Template, o.Spec.Replicas)
	case *appsv1.StatefulSet:
		return translate.ShapeOfWorkload(&o.Spec.Template, o.Spec.Replicas)
	case *corev1.ReplicationController:
		return translate.ShapeOfWorkload(o.Spec.Template, o.Spec.Replicas)
	}
	return translate.ShapeOfMissing(b)
}

// provisionerDefaults returns the defaults of a controller on AWS if the Provisioner's AWSNodeTemplate is in the set.
func (m *Set) provisionerDefaults(p *karpv1alpha5.Provisioner) translate.ProvisionerDefaults {
	if ref := p.Spec.ProviderRef; ref != nil && (ref.Kind == "" || ref.Kind == awsv1alpha1.KindAWSNodeTemplate) {
		if _, ok := m.at[awsv1alpha1.KindAWSNodeTemplate+" "+ref.Name]; ok {
			return offlineDefaults
		}
	}
	return translate.ProvisionerDefaults{}
}

// NamespaceOf makes known the namespace that an object is in or is; every namespace bears its name as a label.
func (m *Set) namespaceOf(s *state.State, o object) {
	name, labels, deleting := o.GetNamespace(), map[string]string(nil), time.Time{}
	if n, ok := o.Object.(*corev1.Namespace); ok {
		name, labels, deleting = n.Name, n.Labels, translate.DeletionTime(n)
	} else if _, there := m.at["Namespace "+name]; there || name == "" {
		return
	}
	with := map[string]string{corev1.LabelMetadataName: name}
	maps.Copy(with, labels)
	s.SetNamespace(name, with, deleting)
}

var _ translate.Lookup = (*Set)(nil)
