// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/top"
)

// Retry interval for kinds that cannot be watched, and timeout of each request.
const (
	pulseEvery    = 3 * time.Second // the API server's clock, which also tells that it answers
	pulseLimit    = 4 * time.Second
	pulsesMissed  = 2 // questions in a row without an answer before it is said
	useEvery      = 15 * time.Second
	useLimit      = 10 * time.Second
	denialPause   = 30 * time.Second // before a kind is asked for again that may not be read, or that the API server does not have
	skewTolerated = 5 * time.Second  // clocks that differ by less are taken as equal: the API server says whole seconds
)

// EventSource is the source component of Dovetail's events.
const EventSource = "dovetail"

// eventSources are the components whose events are decisions of an autoscaler.
var eventSources = map[string]string{EventSource: top.Dovetail, "karpenter": top.Karpenter, "cluster-autoscaler": top.ClusterAutoscaler}

// leaseHolders are the names of the leases by which autoscalers are known.
var leaseHolders = map[string]string{"dovetail-leader": top.Dovetail, "karpenter-leader-election": top.Karpenter, "cluster-autoscaler": top.ClusterAutoscaler}

// Overview passes every change to emit until the context ends. emit is called from several goroutines. Overview returns
// at once: the Board receives which kinds are still being read or cannot be read.
func Overview(ctx context.Context, c *client.Client, emit func(top.Change)) {
	ctx = c.Logging(ctx)
	o := &overview{c: c, emit: emit}
	for _, k := range o.kinds() {
		emit(func(b *top.Board) { b.SetReading(k.name, true) })
		go k.watch(ctx)
	}
	go o.every(ctx, useEvery, o.readUse)
	go func() {
		pulse := o.pulse()
		pulse(ctx)
		go o.every(ctx, client.LeaseInterval, o.leases())
		o.every(ctx, pulseEvery, pulse)
	}()
}

// ReadOverview passes all objects to emit once. It lists and does not watch. It returns an error if nodes cannot be
// listed, since then there is nothing to show. The Board receives which other kinds cannot be read.
func ReadOverview(ctx context.Context, c *client.Client, emit func(top.Change)) error {
	ctx = c.Logging(ctx)
	o := &overview{c: c, emit: emit}
	var wg sync.WaitGroup
	var failed error
	for _, k := range o.kinds() {
		wg.Go(func() {
			if err := k.read(ctx); err != nil && k.name == "nodes" {
				failed = err
			}
		})
	}
	wg.Go(func() { o.readUse(ctx) })
	wg.Go(func() {
		o.pulse()(ctx)
		o.leases()(ctx)
	})
	wg.Wait()
	return failed
}

// overviewKind is a kind of objects that is read or watched.
type overviewKind struct {
	name  string
	watch func(context.Context)
	read  func(context.Context) error
}

func (o *overview) kinds() []overviewKind {
	named := func(kind, name string) string { return kind + "/" + name }
	out := []overviewKind{
		overviewOf(o, "nodes", source{o.c.Core, "nodes", &corev1.Node{}}, "", func(_ string, n *corev1.Node) top.Change {
			x := o.node(n)
			return func(b *top.Board) { b.SetNode(x) }
		}, func(key string) top.Change { return func(b *top.Board) { b.DeleteNode(key) } }),
		overviewOf(o, "pods", source{o.c.Core, "pods", &corev1.Pod{}}, livePods, func(_ string, p *corev1.Pod) top.Change {
			x := o.pod(p)
			return func(b *top.Board) { b.SetPod(x) }
		}, func(key string) top.Change { return func(b *top.Board) { b.DeletePod(key) } }),
		overviewOf(o, "nodeclaims", source{o.c.Karpenter, "nodeclaims", &karpv1.NodeClaim{}}, "", func(_ string, n *karpv1.NodeClaim) top.Change {
			x := overviewClaim(n)
			return func(b *top.Board) { b.SetClaim(x) }
		}, func(key string) top.Change { return func(b *top.Board) { b.DeleteClaim(key) } }),
		overviewOf(o, "nodepools", source{o.c.Karpenter, "nodepools", &karpv1.NodePool{}}, "", func(_ string, p *karpv1.NodePool) top.Change {
			x := &top.Pool{Key: named("nodepool", p.Name), Deleting: p.DeletionTimestamp != nil, Limits: limitTexts(corev1.ResourceList(p.Spec.Limits)), NotReady: notReady(p.Status.Conditions),
				Manager: p.Annotations[translate.AnnotationManagedBy], Release: p.Annotations[translate.AnnotationRelease]}
			if r := p.Spec.Template.Spec.NodeClassRef; r != nil {
				_, x.Taken = translate.ClassGroup(r.Group)
				if x.Manager == translate.ManagedByDovetail {
					x.Manager, x.Taken = "", x.Taken || translate.IsGroupClass(r.Kind)
				}
			}
			for i := range p.Spec.Disruption.Budgets {
				budget, _ := translate.Budget(&p.Spec.Disruption.Budgets[i]) // one that can't be read allows nothing
				x.Budgets = append(x.Budgets, budget)
			}
			return func(b *top.Board) { b.SetPool(x) }
		}, func(key string) top.Change { return func(b *top.Board) { b.DeletePool(named("nodepool", key)) } }),
	}
	for _, component := range slices.Sorted(maps.Keys(eventSources)) {
		by := eventSources[component]
		out = append(out, overviewOf(o, "events of "+by, source{o.c.Core, "events", &corev1.Event{}}, "source="+component, func(key string, e *corev1.Event) top.Change {
			d := overviewEvent(e, by)
			return func(b *top.Board) { b.SetEvent(key, d) }
		}, func(key string) top.Change { return func(b *top.Board) { b.DeleteEvent(key) } }))
	}
	return out
}

// overviewOf reads and watches the objects of a kind that a field selector accepts.
func overviewOf[T metav1.Object](o *overview, name string, src source, selector string, set func(string, T) top.Change, gone func(string) top.Change) overviewKind {
	lw := cache.NewFilteredListWatchFromClient(src.client, src.resource, metav1.NamespaceAll, func(opts *metav1.ListOptions) { opts.FieldSelector = selector })
	known := func() {
		o.emit(func(b *top.Board) { b.SetReading(name, false); b.SetProblem(name, "") })
	}
	// denied tells why a kind can't be read. A kind that the API server does not have is no problem: there are just none of it.
	denied := func(err error) {
		text := ""
		switch {
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		case apierrors.IsForbidden(err):
			text = "not allowed: permission to list and watch " + src.resource + " in all namespaces is needed"
		case apierrors.IsUnauthorized(err):
			text = "the API server does not accept these credentials"
		default:
			text = err.Error()
		}
		o.emit(func(b *top.Board) { b.SetReading(name, false); b.SetProblem(name, text) })
	}
	return overviewKind{
		name: name,
		watch: func(ctx context.Context) {
			f := &feed[T]{mu: &sync.Mutex{}, known: map[string]types.UID{},
				set: func(key string, x T) { o.emit(set(key, x)) }, gone: func(key string) { o.emit(gone(key)) }}
			r := cache.NewReflectorWithOptions(lw, src.example, &overviewFeed[T]{f, known}, cache.ReflectorOptions{Name: src.resource})
			pause := client.Backoff(100*time.Millisecond, 10*time.Second)
			for ctx.Err() == nil {
				began := time.Now()
				err := r.ListAndWatchWithContext(ctx)
				if ctx.Err() != nil {
					return
				}
				wait := pause.Step()
				switch {
				case err == nil || errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
				case apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err):
					denied(err)
					wait = denialPause
				case !isUnreachable(err): // that the API server does not answer is told once, by pulse
					denied(err)
				}
				if time.Since(began) > time.Minute {
					pause = client.Backoff(100*time.Millisecond, 10*time.Second)
				}
				select {
				case <-ctx.Done():
				case <-time.After(wait):
				}
			}
		},
		read: func(ctx context.Context) error {
			each := func(x T) { o.emit(set(translate.Key(x), x)) }
			if err := readAll(ctx, src, selector, each); err != nil {
				denied(err)
				return fmt.Errorf("list %s of API server %s: %w", src.resource, o.c.Address, err)
			}
			known()
			return nil
		},
	}
}

// overviewFeed tells when all that there is has been handed over, after each list and not only the first.
type overviewFeed[T metav1.Object] struct {
	*feed[T]
	known func()
}

// Replace implements cache.ReflectorStore.
func (f *overviewFeed[T]) Replace(list []any, version string) error {
	err := f.feed.Replace(list, version)
	if err == nil {
		f.known()
	}
	return err
}

// isUnreachable reports whether there was no response, as opposed to an error response.
func isUnreachable(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}

// every does something at once and then again and again until the context ends.
func (o *overview) every(ctx context.Context, d time.Duration, do func(context.Context)) {
	for ctx.Err() == nil {
		do(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
}

// pulse asks the API server for its version. The answer tells that it is there, and what time it is by its clock.
func (o *overview) pulse() func(context.Context) {
	missed, said := 0, ""
	last := time.Now() // Connect has just had an answer
	return func(ctx context.Context) {
		limited, cancel := context.WithTimeout(ctx, pulseLimit)
		defer cancel()
		sent := time.Now()
		version, date, err := o.c.VersionAndDate(limited)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if missed++; missed >= pulsesMissed {
				since := last.UTC().Format("15:04:05")
				o.emit(func(b *top.Board) {
					b.SetProblem("API server", "no answer since "+since+" UTC (this machine's clock); the data shown is from then")
				})
			}
			return
		}
		now := time.Now()
		last, missed = now, 0
		skew := clockSkew(date, sent, now)
		o.skew.Store(int64(skew))
		if said != version {
			said = version
			o.emit(func(b *top.Board) { b.SetVersion(version) })
		}
		o.emit(func(b *top.Board) { b.SetSkew(skew); b.SetProblem("API server", "") })
	}
}

// clockSkew is how far this machine's clock is ahead of a server's that said date in its answer to a question; 0 where the difference may
// be how the answer was made, or date is zero.
func clockSkew(date, sent, received time.Time) time.Duration {
	if date.IsZero() {
		return 0
	}
	half := sent.Add(received.Sub(sent) / 2)
	d := half.Sub(date.Add(500 * time.Millisecond)) // the server leaves out parts of a second
	if d.Abs() < skewTolerated+received.Sub(sent)/2 {
		return 0
	}
	return d.Round(time.Second)
}

// readUse reads the resource usage of nodes from metrics-server, if installed.
func (o *overview) readUse(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, useLimit)
	defer cancel()
	raw, err := o.c.Core.Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").SetHeader("Accept", runtime.ContentTypeJSON).Do(limited).Raw()
	const what = "metrics"
	switch {
	case ctx.Err() != nil || err != nil && limited.Err() == nil && isUnreachable(err):
		return
	case apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err):
		o.emit(func(b *top.Board) { b.SetUse(nil); b.SetProblem(what, "") })
		return
	case apierrors.IsForbidden(err):
		o.emit(func(b *top.Board) {
			b.SetProblem(what, "not allowed: permission to list nodes.metrics.k8s.io is needed to show usage")
		})
		return
	case err != nil:
		text := err.Error()
		o.emit(func(b *top.Board) { b.SetProblem(what, text) })
		return
	}
	use, err := parseUse(raw)
	if err != nil {
		text := err.Error()
		o.emit(func(b *top.Board) { b.SetProblem(what, text) })
		return
	}
	o.emit(func(b *top.Board) { b.SetUse(use); b.SetProblem(what, "") })
}

// parseUse reads a NodeMetricsList.
func parseUse(raw []byte) (map[string]top.Amounts, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Usage    map[string]resource.Quantity
		}
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("decode the response of metrics-server: %w", err)
	}
	out := make(map[string]top.Amounts, len(list.Items))
	for _, n := range list.Items {
		cpu, memory := n.Usage["cpu"], n.Usage["memory"]
		out[n.Metadata.Name] = top.Amounts{CPU: translate.MilliOf(cpu), Memory: translate.AmountOf(memory)}
	}
	return out, nil
}

// leases tells which autoscalers hold their lease. It is asked after pulse, which knows the API server's clock.
func (o *overview) leases() func(context.Context) {
	seen := map[string]client.Sightings{}
	return func(ctx context.Context) {
		var found []top.Autoscaler
		for _, name := range slices.Sorted(maps.Keys(leaseHolders)) {
			list, err := o.c.LeasesNamed(ctx, []string{name})
			switch {
			case apierrors.IsForbidden(err):
				o.emit(func(b *top.Board) {
					b.SetProblem("leases", "not allowed: permission to list leases is needed to detect autoscalers")
				})
				return
			case err != nil:
				return // pulse tells of an API server that does not answer
			}
			if seen[name] == nil {
				seen[name] = client.Sightings{}
			}
			for _, sign := range seen[name].Live(list, client.Lease{}, time.Now().Add(-time.Duration(o.skew.Load()))) {
				found = append(found, top.Autoscaler{Name: leaseHolders[name], Sign: sign})
			}
		}
		o.emit(func(b *top.Board) { b.SetSigns("leases", found); b.SetProblem("leases", "") })
	}
}
