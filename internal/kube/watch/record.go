// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha1 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
)

// Recorder gets the objects of a cluster and their changes. For one object it is never called twice at once.
type Recorder interface {
	Set(apiVersion, kind, key string, x any)
	Delete(kind, key string)
}

// Recordable is what can be recorded of a cluster.
type Recordable struct {
	Cluster string   // uid of Namespace kube-system; the address of the API server if that may not be read
	Kinds   []string // that Follow follows
	Missing []string // that the API server does not have
	Denied  []string // that may not be listed and watched

	c     *client.Client
	kinds []recordKind
}

// recordKind is a kind of objects that is recorded.
type recordKind struct {
	kind   string
	src    source
	custom bool // of a CustomResourceDefinition, which need not be there
	follow func(context.Context, *watcher, *sync.WaitGroup, Recorder)
}

func recordOf[T metav1.Object](kind string, src source) recordKind {
	version := src.client.APIVersion().String()
	return recordKind{kind: kind, src: src, follow: func(ctx context.Context, w *watcher, wg *sync.WaitGroup, to Recorder) {
		follow(ctx, w, wg, src, &sync.Mutex{},
			func(key string, x T) { to.Set(version, kind, key, x) },
			func(key string) { to.Delete(kind, key) })
	}}
}

func customRecordOf[T metav1.Object](kind string, src source) recordKind {
	out := recordOf[T](kind, src)
	out.custom = true
	return out
}

func recordKinds(c *client.Client) []recordKind {
	return []recordKind{
		recordOf[*corev1.Node]("Node", source{c.Core, "nodes", &corev1.Node{}}),
		recordOf[*corev1.Pod]("Pod", source{c.Core, "pods", &corev1.Pod{}}),
		recordOf[*corev1.Namespace]("Namespace", source{c.Core, "namespaces", &corev1.Namespace{}}),
		recordOf[*corev1.LimitRange]("LimitRange", source{c.Core, "limitranges", &corev1.LimitRange{}}),
		recordOf[*corev1.PersistentVolumeClaim]("PersistentVolumeClaim", source{c.Core, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{}}),
		recordOf[*corev1.PersistentVolume]("PersistentVolume", source{c.Core, "persistentvolumes", &corev1.PersistentVolume{}}),
		recordOf[*storagev1.StorageClass]("StorageClass", source{c.Storage, "storageclasses", &storagev1.StorageClass{}}),
		recordOf[*storagev1.CSINode]("CSINode", source{c.Storage, "csinodes", &storagev1.CSINode{}}),
		recordOf[*storagev1.CSIDriver]("CSIDriver", source{c.Storage, "csidrivers", &storagev1.CSIDriver{}}),
		recordOf[*storagev1.CSIStorageCapacity]("CSIStorageCapacity", source{c.Storage, "csistoragecapacities", &storagev1.CSIStorageCapacity{}}),
		recordOf[*storagev1.VolumeAttachment]("VolumeAttachment", source{c.Storage, "volumeattachments", &storagev1.VolumeAttachment{}}),
		recordOf[*appsv1.Deployment]("Deployment", source{c.Apps, "deployments", &appsv1.Deployment{}}),
		recordOf[*appsv1.ReplicaSet]("ReplicaSet", source{c.Apps, "replicasets", &appsv1.ReplicaSet{}}),
		recordOf[*appsv1.StatefulSet]("StatefulSet", source{c.Apps, "statefulsets", &appsv1.StatefulSet{}}),
		recordOf[*appsv1.DaemonSet]("DaemonSet", source{c.Apps, "daemonsets", &appsv1.DaemonSet{}}),
		recordOf[*policyv1.PodDisruptionBudget]("PodDisruptionBudget", source{c.Policy, "poddisruptionbudgets", &policyv1.PodDisruptionBudget{}}),
		recordOf[*schedulingv1.PriorityClass]("PriorityClass", source{c.Scheduling, "priorityclasses", &schedulingv1.PriorityClass{}}),
		recordOf[*nodev1.RuntimeClass]("RuntimeClass", source{c.Node, "runtimeclasses", &nodev1.RuntimeClass{}}),
		customRecordOf[*karpv1.NodePool]("NodePool", source{c.Karpenter, "nodepools", &karpv1.NodePool{}}),
		customRecordOf[*karpv1.NodeClaim]("NodeClaim", source{c.Karpenter, "nodeclaims", &karpv1.NodeClaim{}}),
		customRecordOf[*karpv1alpha1.NodeOverlay]("NodeOverlay", source{c.KarpenterAlpha, "nodeoverlays", &karpv1alpha1.NodeOverlay{}}),
		customRecordOf[*bufferv1beta1.CapacityQuota]("CapacityQuota", source{c.Buffers, "capacityquotas", &bufferv1beta1.CapacityQuota{}}),
		customRecordOf[*kwokv1alpha1.KWOKNodeClass]("KWOKNodeClass", source{c.KWOK, "kwoknodeclasses", &kwokv1alpha1.KWOKNodeClass{}}),
		customRecordOf[*awsv1.EC2NodeClass]("EC2NodeClass", source{c.AWS, "ec2nodeclasses", &awsv1.EC2NodeClass{}}),
		customRecordOf[*dovetailv1alpha1.NodeGroupClass]("NodeGroupClass", source{c.Dovetail, "nodegroupclasses", &dovetailv1alpha1.NodeGroupClass{}}),
	}
}

// ReadRecordable asks which kinds an API server has and which of them may be recorded. Without nodes and pods there is nothing to
// record, and that is an error.
func ReadRecordable(ctx context.Context, c *client.Client) (*Recordable, error) {
	out := &Recordable{c: c, Cluster: c.Address}
	var system corev1.Namespace
	switch err := c.Core.Get().Resource("namespaces").Name(metav1.NamespaceSystem).Do(ctx).Into(&system); {
	case err == nil:
		out.Cluster = string(system.UID)
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("read Namespace %s of API server %s: %w", metav1.NamespaceSystem, c.Address, err)
	}
	for _, k := range recordKinds(c) {
		gv := k.src.client.APIVersion()
		if k.custom {
			served, err := c.Serves(ctx, gv, k.src.resource)
			if err != nil {
				return nil, err
			}
			if !served {
				out.Missing = append(out.Missing, k.kind)
				continue
			}
		}
		may := true
		for _, verb := range []string{"list", "watch"} {
			ok, err := c.May(ctx, &authorizationv1.ResourceAttributes{Group: gv.Group, Resource: k.src.resource, Verb: verb})
			if err != nil {
				return nil, err
			}
			may = may && ok
		}
		switch {
		case may:
			out.kinds, out.Kinds = append(out.kinds, k), append(out.Kinds, k.kind)
		case k.kind == "Node" || k.kind == "Pod":
			return nil, fmt.Errorf("API server %s: no right to list and watch %s in all namespaces; bind a ClusterRole with it, such as the one that 'dovetail manifests --mode shadow' prints",
				c.Address, k.src.resource)
		default:
			out.Denied = append(out.Denied, k.kind)
		}
	}
	return out, nil
}

// Follow hands all objects and every change of them to a Recorder, until the context ends. synced is closed when all that was there at
// the start has been handed over. It watches, and makes no other request.
func (r *Recordable) Follow(ctx context.Context, to Recorder) (synced <-chan struct{}) {
	ctx = r.c.Logging(ctx)
	w := &watcher{c: r.c}
	var wg sync.WaitGroup
	for _, k := range r.kinds {
		k.follow(ctx, w, &wg, to)
	}
	out := make(chan struct{})
	go func() {
		if waitFor(ctx, &wg) {
			close(out)
		}
	}()
	return out
}
