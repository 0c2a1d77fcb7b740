// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package refusals

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Watch fills a record from an API server until the context ends, however often the server goes away meanwhile.
func Watch(ctx context.Context, config *rest.Config, r *Record) error {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	objects := informers.NewSharedInformerFactory(core, 0)
	told := informers.NewSharedInformerFactoryWithOptions(core, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.Set{"reportingComponent": "dovetail", "type": corev1.EventTypeWarning}.String()
	}))
	claims := metadatainformer.NewSharedInformerFactory(meta, 0)
	errs := []error{
		handle(objects.Core().V1().Pods().Informer(), func(p *corev1.Pod) { r.SetPod(time.Now(), p) }, func(p *corev1.Pod) { r.DeletePod(time.Now(), p.UID) }),
		handle(objects.Core().V1().Nodes().Informer(), func(n *corev1.Node) { r.SetNode(time.Now(), n) }, func(n *corev1.Node) { r.DeleteNode(time.Now(), n.Name) }),
		handle(told.Core().V1().Events().Informer(), func(e *corev1.Event) {
			if e.InvolvedObject.Kind == "Pod" {
				r.SetTold(time.Now(), e.InvolvedObject.UID)
			}
		}, nil),
		handle(claims.ForResource(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}).Informer(), func(c *metav1.PartialObjectMetadata) { r.SetClaim(c) }, func(c *metav1.PartialObjectMetadata) { r.DeleteClaim(time.Now(), c.Name) }),
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	objects.Start(ctx.Done())
	told.Start(ctx.Done())
	claims.Start(ctx.Done())
	return nil
}

// handle has changes of one resource noted, in order.
func handle[T any](informer cache.SharedIndexInformer, set, gone func(*T)) error {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { set(o.(*T)) },
		UpdateFunc: func(_, o any) { set(o.(*T)) },
		DeleteFunc: func(o any) {
			if x, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = x.Obj
			}
			if gone != nil {
				gone(o.(*T))
			}
		},
	})
	return err
}
