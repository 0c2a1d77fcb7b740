// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/top"
)

// Survey is the readable state of a cluster.
type Survey struct {
	Denied      []Denied       // kinds that could not be listed, by group and resource
	Autoscalers []LeasedScaler // running node autoscalers with a lease, by name
	Refusals    []top.Decision // warnings of node autoscalers, read from events
	Writes      []Write        // writes of Dovetail that the API server refused, or accepted after a refusal
	Skew        time.Duration  // how far the local clock is ahead of the API server; 0: less than a few seconds
}

// Write is an event about a write of Dovetail.
type Write struct {
	Subject string // kind/NAME or kind/NAMESPACE/NAME of the written object
	At      time.Time
	plan.WriteReport
}

// Denied is a kind that could not be listed.
type Denied struct{ Group, Resource, Why string }

// LeasedScaler is a running node autoscaler, identified by its leader election Lease.
type LeasedScaler struct{ Name, Lease string }

// ReadSurvey lists once the objects that affect an autoscaler and adds them to m. It neither watches nor writes. A kind
// that the API server does not have has no objects. A kind that may not be listed is added to Survey.Denied, and the
// others are still read, but without nodes or pods it returns an error.
func ReadSurvey(ctx context.Context, c *client.Client, m *manifests.Set) (*Survey, error) {
	ctx = c.Logging(ctx)
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := &Survey{}
	m.Templates = map[string]*model.Template{}
	var failed error
	for _, k := range kindsFor(c, surveyed) {
		wg.Go(func() {
			selector := ""
			if k.kind == "Pod" {
				selector = livePods
			}
			err := k.list(ctx, selector, func(x metav1.Object) {
				mu.Lock()
				defer mu.Unlock()
				m.Keep(k.kind, x)
			})
			mu.Lock()
			defer mu.Unlock()
			group := k.src.client.APIVersion().Group
			switch {
			case err == nil || apierrors.IsNotFound(err):
			case apierrors.IsForbidden(err) && k.kind != "Node" && k.kind != "Pod":
				out.Denied = append(out.Denied, Denied{group, k.src.resource, "permission to list them in all namespaces is missing"})
			case apierrors.IsForbidden(err):
				failed = errors.Join(failed, fmt.Errorf("list %s of API server %s: %w; without nodes and pods there is nothing to look at: bind a ClusterRole with more than view, "+
					"as of kubectl create clusterrole dovetail-reader --verb=get,list,watch --resource=nodes,pods", k.src.resource, c.Address, err))
			default:
				failed = errors.Join(failed, fmt.Errorf("list %s of API server %s: %w", k.src.resource, c.Address, err))
			}
		})
	}
	readTemplates(ctx, c, &wg, func(x metav1.Object) {
		mu.Lock()
		defer mu.Unlock()
		if t := translate.Template(x); t != nil {
			m.Templates[string(x.GetUID())] = t
		}
	}, func(d Denied) {
		mu.Lock()
		defer mu.Unlock()
		out.Denied = append(out.Denied, d)
	})
	var deniedEvents error
	readEvents := func(selector, by string) {
		wg.Go(func() {
			err := readAll(ctx, source{c.Core, "events", &corev1.Event{}}, selector, func(e *corev1.Event) {
				mu.Lock()
				defer mu.Unlock()
				of := overviewEvent(e, by)
				if w, ok := plan.ReadWriteReport(e.Annotations); ok {
					out.Writes = append(out.Writes, Write{of.Subject, of.LastAt(), w})
				}
				if of.Warning {
					out.Refusals = append(out.Refusals, of)
				}
			})
			mu.Lock()
			defer mu.Unlock()
			deniedEvents = cmp.Or(deniedEvents, err)
		})
	}
	for component, by := range eventSources {
		readEvents("type=Warning,source="+component, by)
	}
	readEvents("reason="+plan.EventWriteAccepted+",source="+EventSource, top.Dovetail)
	wg.Wait()
	switch {
	case apierrors.IsForbidden(deniedEvents):
		out.Denied = append(out.Denied, Denied{"", "events", "permission to list them in all namespaces is missing"})
	case deniedEvents != nil: // the rest can be said without
		out.Denied = append(out.Denied, Denied{"", "events", deniedEvents.Error()})
	}
	if failed != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, failed
	}
	slices.SortFunc(out.Denied, func(a, b Denied) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
	})
	sent := time.Now()
	if _, date, err := c.VersionAndDate(ctx); err == nil { // else the clocks are taken as equal: what matters was read
		out.Skew = clockSkew(date, sent, time.Now())
	}
	surveyLeases(ctx, c, out)
	return out, nil
}

// readTemplates hands over the ReplicaSets and StatefulSets, whose pods are known without them: only advice depends on their templates. The function denied is
// told which of the two can't be listed, and why.
func readTemplates(ctx context.Context, c *client.Client, wg *sync.WaitGroup, keep func(metav1.Object), denied func(Denied)) {
	tell := func(resource string, err error) {
		switch {
		case apierrors.IsForbidden(err):
			denied(Denied{"apps", resource, "permission to list them in all namespaces is missing"})
		case err != nil && !apierrors.IsNotFound(err):
			denied(Denied{"apps", resource, err.Error()})
		}
	}
	wg.Go(func() {
		tell("replicasets", readAll(ctx, source{c.Apps, "replicasets", &appsv1.ReplicaSet{}}, "", func(x *appsv1.ReplicaSet) { keep(x) }))
	})
	wg.Go(func() {
		tell("statefulsets", readAll(ctx, source{c.Apps, "statefulsets", &appsv1.StatefulSet{}}, "", func(x *appsv1.StatefulSet) { keep(x) }))
	})
}

// surveyLeases finds the autoscalers that hold their lease.
func surveyLeases(ctx context.Context, c *client.Client, out *Survey) {
	seen := client.Sightings{}
	for _, name := range slices.Sorted(maps.Keys(leaseHolders)) {
		list, err := c.LeasesNamed(ctx, []string{name})
		if err != nil {
			out.Denied = append(out.Denied, Denied{"coordination.k8s.io", "leases", err.Error()})
			return
		}
		for i := range list {
			if len(seen.Live(list[i:i+1], client.Lease{}, time.Now().Add(-out.Skew))) > 0 {
				out.Autoscalers = append(out.Autoscalers, LeasedScaler{leaseHolders[name], list[i].Namespace + "/" + list[i].Name})
			}
		}
	}
	slices.SortFunc(out.Autoscalers, func(a, b LeasedScaler) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Lease, b.Lease))
	})
}
