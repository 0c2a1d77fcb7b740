// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	clusterapiv1alpha1 "github.com/dovetail-sh/dovetail/api/clusterapi/v1alpha1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	kwokv1alpha1 "github.com/dovetail-sh/dovetail/api/kwok/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// followClass watches the node classes of one kind.
type followClass func(context.Context, *sync.WaitGroup)

// servedClasses are the kinds of node class that the API server has. One that is missing is said, and not waited for: it may not be
// wanted.
func (w *watcher) servedClasses(ctx context.Context) ([]followClass, error) {
	c := w.c
	var out []followClass
	for _, k := range []struct {
		gv       schema.GroupVersion
		resource string
		follow   followClass
	}{
		{kwokv1alpha1.GroupVersion, "kwoknodeclasses", func(ctx context.Context, wg *sync.WaitGroup) {
			followClasses(ctx, w, wg, source{c.KWOK, "kwoknodeclasses", &kwokv1alpha1.KWOKNodeClass{}}, kwokv1alpha1.KindKWOKNodeClass, &c.Seen.KWOKClasses, w.t.KWOKNodeClass)
		}},
		{awsv1.GroupVersion, "ec2nodeclasses", func(ctx context.Context, wg *sync.WaitGroup) {
			followClasses(ctx, w, wg, source{c.AWS, "ec2nodeclasses", &awsv1.EC2NodeClass{}}, awsv1.KindEC2NodeClass, &c.Seen.EC2Classes, w.t.EC2NodeClass)
		}},
		{dovetailv1alpha1.GroupVersion, "nodegroupclasses", func(ctx context.Context, wg *sync.WaitGroup) {
			followClasses(ctx, w, wg, source{c.Dovetail, "nodegroupclasses", &dovetailv1alpha1.NodeGroupClass{}}, dovetailv1alpha1.KindNodeGroupClass, &c.Seen.GroupClasses, w.t.NodeGroupClass)
		}},
		{clusterapiv1alpha1.GroupVersion, "clusterapinodeclasses", func(ctx context.Context, wg *sync.WaitGroup) {
			followClasses(ctx, w, wg, source{c.ClusterAPI, "clusterapinodeclasses", &clusterapiv1alpha1.ClusterAPINodeClass{}}, clusterapiv1alpha1.KindClusterAPINodeClass, &c.Seen.ClusterAPIClasses, w.t.ClusterAPINodeClass)
		}},
	} {
		ok, err := c.Serves(ctx, k.gv, k.resource)
		if err != nil {
			return nil, err
		}
		if !ok {
			c.Log.Warn("a node class kind is not installed and is not watched: to use it, apply its CustomResourceDefinition from charts/dovetail/crds and restart",
				"resource", k.resource+"."+k.gv.Group, "server", c.Address)
			continue
		}
		out = append(out, k.follow)
	}
	return out, nil
}

// followClasses watches the node classes of one type.
func followClasses[T metav1.Object](ctx context.Context, w *watcher, wg *sync.WaitGroup, src source, kind string, have *client.Objects[T], read func(T) state.NodeClass) {
	follow(ctx, w, wg, src, &sync.Mutex{},
		func(name string, x T) {
			client.KeepSeen(have, name, x)
			w.c.Seen.GroupsChanged.Raise()
			m := read(x)
			w.emit(func(s *state.State) { s.Pools.SetNodeClass(m) })
		},
		func(name string) {
			have.Delete(name)
			w.c.Seen.GroupsChanged.Raise()
			w.emit(func(s *state.State) { s.Pools.DeleteNodeClass(src.client.APIVersion().Group, kind, name) })
		})
}
