// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// annotationRevision is the revision of a Deployment that a ReplicaSet is for.
const annotationRevision = "deployment.kubernetes.io/revision"

// Template translates the pod template of a Deployment, ReplicaSet, StatefulSet, ReplicationController or Job. It returns nil for other objects, and for
// a ReplicaSet that has no pods and is to have none.
func Template(x metav1.Object) *model.Template {
	switch x := x.(type) {
	case *appsv1.ReplicaSet:
		if Replicas(x.Spec.Replicas) == 0 && x.Status.Replicas == 0 {
			return nil
		}
		t := templateOf(&x.Spec.Template)
		if o := metav1.GetControllerOfNoCopy(x); o != nil && o.Kind == "Deployment" {
			t.Deployment = bounded(string(o.UID))
			t.Revision, _ = strconv.ParseInt(x.Annotations[annotationRevision], 10, 64)
		}
		return t
	case *appsv1.Deployment: // of pods made in thought, which have it as their owner
		return templateOf(&x.Spec.Template)
	case *appsv1.StatefulSet:
		return templateOf(&x.Spec.Template)
	case *batchv1.Job:
		return templateOf(&x.Spec.Template)
	case *corev1.ReplicationController:
		if x.Spec.Template != nil {
			return templateOf(x.Spec.Template)
		}
	}
	return nil
}

func templateOf(t *corev1.PodTemplateSpec) *model.Template {
	out := &model.Template{}
	kept := model.Labels(maps.Clone(t.Annotations))
	maps.DeleteFunc(kept, func(k, _ string) bool {
		return k != karpv1.AnnotationDoNotDisrupt && k != karpv1alpha5.AnnotationDoNotEvict && k != annotationSafeToEvict
	})
	if len(kept) > 0 {
		out.Annotations = kept
	}
	return out
}
