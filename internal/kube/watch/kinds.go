// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// objectKind is a kind of objects that is surveyed, recorded, or both.
type objectKind struct {
	kind   string
	uses   kindUse
	src    source
	list   func(ctx context.Context, selector string, keep func(metav1.Object)) error
	follow func(context.Context, *watcher, *sync.WaitGroup, Recorder)
}

// kindUse is how a kind is used.
type kindUse uint8

const (
	recorded kindUse = 1 << iota
	surveyed
	custom // of a CustomResourceDefinition, which need not be there; a recording asks whether it is
)

func kindOf[T metav1.Object](kind string, uses kindUse, src source) objectKind {
	version := src.client.APIVersion().String()
	return objectKind{kind, uses, src,
		func(ctx context.Context, selector string, keep func(metav1.Object)) error {
			return readAll(ctx, src, selector, func(x T) { keep(x) })
		},
		func(ctx context.Context, w *watcher, wg *sync.WaitGroup, to Recorder) {
			follow(ctx, w, wg, src, &sync.Mutex{},
				func(key string, x T) { to.Set(version, kind, key, x) },
				func(key string) { to.Delete(kind, key) })
		}}
}

// kindsFor returns the kinds with a use.
func kindsFor(c *client.Client, use kindUse) []objectKind {
	return slices.DeleteFunc([]objectKind{
		kindOf[*corev1.Node]("Node", recorded|surveyed, source{c.Core, "nodes", &corev1.Node{}}),
		kindOf[*corev1.Pod]("Pod", recorded|surveyed, source{c.Core, "pods", &corev1.Pod{}}),
		kindOf[*corev1.Namespace]("Namespace", recorded|surveyed, source{c.Core, "namespaces", &corev1.Namespace{}}),
		kindOf[*corev1.LimitRange]("LimitRange", recorded, source{c.Core, "limitranges", &corev1.LimitRange{}}),
		kindOf[*corev1.PersistentVolumeClaim]("PersistentVolumeClaim", recorded|surveyed, source{c.Core, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{}}),
		kindOf[*corev1.PersistentVolume]("PersistentVolume", recorded|surveyed, source{c.Core, "persistentvolumes", &corev1.PersistentVolume{}}),
		kindOf[*storagev1.StorageClass]("StorageClass", recorded|surveyed, source{c.Storage, "storageclasses", &storagev1.StorageClass{}}),
		kindOf[*storagev1.CSINode]("CSINode", recorded|surveyed, source{c.Storage, "csinodes", &storagev1.CSINode{}}),
		kindOf[*storagev1.CSIDriver]("CSIDriver", recorded|surveyed, source{c.Storage, "csidrivers", &storagev1.CSIDriver{}}),
		kindOf[*storagev1.CSIStorageCapacity]("CSIStorageCapacity", recorded|surveyed, source{c.Storage, "csistoragecapacities", &storagev1.CSIStorageCapacity{}}),
		kindOf[*storagev1.VolumeAttachment]("VolumeAttachment", recorded, source{c.Storage, "volumeattachments", &storagev1.VolumeAttachment{}}),
		kindOf[*appsv1.Deployment]("Deployment", recorded, source{c.Apps, "deployments", &appsv1.Deployment{}}),
		kindOf[*appsv1.ReplicaSet]("ReplicaSet", recorded, source{c.Apps, "replicasets", &appsv1.ReplicaSet{}}),
		kindOf[*appsv1.StatefulSet]("StatefulSet", recorded, source{c.Apps, "statefulsets", &appsv1.StatefulSet{}}),
		kindOf[*appsv1.DaemonSet]("DaemonSet", recorded|surveyed, source{c.Apps, "daemonsets", &appsv1.DaemonSet{}}),
		kindOf[*policyv1.PodDisruptionBudget]("PodDisruptionBudget", recorded|surveyed, source{c.Policy, "poddisruptionbudgets", &policyv1.PodDisruptionBudget{}}),
		kindOf[*schedulingv1.PriorityClass]("PriorityClass", recorded, source{c.Scheduling, "priorityclasses", &schedulingv1.PriorityClass{}}),
		kindOf[*nodev1.RuntimeClass]("RuntimeClass", recorded, source{c.Node, "runtimeclasses", &nodev1.RuntimeClass{}}),
		kindOf[*karpv1.NodePool]("NodePool", recorded|surveyed|custom, source{c.Karpenter, "nodepools", &karpv1.NodePool{}}),
		kindOf[*karpv1.NodeClaim]("NodeClaim", recorded|surveyed|custom, source{c.Karpenter, "nodeclaims", &karpv1.NodeClaim{}}),
		kindOf[*karpv1alpha1.NodeOverlay]("NodeOverlay", recorded|surveyed|custom, source{c.KarpenterAlpha, "nodeoverlays", &karpv1alpha1.NodeOverlay{}}),
		kindOf[*bufferv1beta1.CapacityQuota]("CapacityQuota", recorded|surveyed|custom, source{c.Buffers, "capacityquotas", &bufferv1beta1.CapacityQuota{}}),
		kindOf[*kwokv1alpha1.KWOKNodeClass]("KWOKNodeClass", recorded|surveyed|custom, source{c.KWOK, "kwoknodeclasses", &kwokv1alpha1.KWOKNodeClass{}}),
		kindOf[*awsv1.EC2NodeClass]("EC2NodeClass", recorded|surveyed|custom, source{c.AWS, "ec2nodeclasses", &awsv1.EC2NodeClass{}}),
		kindOf[*dovetailv1alpha1.NodeGroupClass]("NodeGroupClass", recorded|surveyed|custom, source{c.Dovetail, "nodegroupclasses", &dovetailv1alpha1.NodeGroupClass{}}),
		kindOf[*clusterapiv1alpha1.ClusterAPINodeClass]("ClusterAPINodeClass", recorded|surveyed|custom, source{c.ClusterAPI, "clusterapinodeclasses", &clusterapiv1alpha1.ClusterAPINodeClass{}}),
		kindOf[*corev1.ResourceQuota]("ResourceQuota", surveyed, source{c.Core, "resourcequotas", &corev1.ResourceQuota{}}),
		kindOf[*resourceapi.DeviceClass]("DeviceClass", surveyed, source{c.Resource, "deviceclasses", &resourceapi.DeviceClass{}}),
		kindOf[*resourceapi.ResourceSlice]("ResourceSlice", surveyed, source{c.Resource, "resourceslices", &resourceapi.ResourceSlice{}}),
		kindOf[*resourceapi.DeviceTaintRule]("DeviceTaintRule", surveyed, source{c.Resource, "devicetaintrules", &resourceapi.DeviceTaintRule{}}),
		kindOf[*resourceapi.ResourceClaim]("ResourceClaim", surveyed, source{c.Resource, "resourceclaims", &resourceapi.ResourceClaim{}}),
		kindOf[*resourceapi.ResourceClaimTemplate]("ResourceClaimTemplate", surveyed, source{c.Resource, "resourceclaimtemplates", &resourceapi.ResourceClaimTemplate{}}),
		kindOf[*karpv1alpha5.Provisioner]("Provisioner", surveyed, source{c.Provisioner, "provisioners", &karpv1alpha5.Provisioner{}}),
	}, func(k objectKind) bool { return k.uses&use == 0 })
}
