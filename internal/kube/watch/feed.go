// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// feed is the store of one reflector. It keeps of each object only that it is there, and hands on what happens.
type feed[T metav1.Object] struct {
	mu     *sync.Mutex // held while a change is handed on, so that changes keep their order; feeds that touch the same thing share one
	known  map[string]types.UID
	set    func(key string, x T)
	gone   func(key string)
	synced func()
}

// Add implements cache.ReflectorStore.
func (f *feed[T]) Add(obj any) error {
	x, ok := obj.(T)
	if !ok {
		return fmt.Errorf("watch: got a %T, want a %T", obj, x)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(x)
	return nil
}

func (f *feed[T]) put(x T) {
	k := translate.Key(x)
	if uid, ok := f.known[k]; ok && uid != x.GetUID() {
		f.gone(k) // its end was missed while the watch was down
	}
	f.known[k] = x.GetUID()
	client.Trim(x)
	f.set(k, x)
}

// Update implements cache.ReflectorStore.
func (f *feed[T]) Update(obj any) error { return f.Add(obj) }

// Delete implements cache.ReflectorStore.
func (f *feed[T]) Delete(obj any) error {
	x, ok := obj.(T)
	if !ok {
		return fmt.Errorf("watch: got a %T, want a %T", obj, x)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k := translate.Key(x)
	if _, ok := f.known[k]; ok {
		delete(f.known, k)
		f.gone(k)
	}
	return nil
}

// Replace implements cache.ReflectorStore: the first list, and lists after a watch that could not be resumed.
func (f *feed[T]) Replace(list []any, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := make(map[string]struct{}, len(list))
	for _, obj := range list {
		x, ok := obj.(T)
		if !ok {
			return fmt.Errorf("watch: got a %T, want a %T", obj, x)
		}
		there[translate.Key(x)] = struct{}{}
	}
	for k := range f.known {
		if _, ok := there[k]; !ok {
			delete(f.known, k)
			f.gone(k)
		}
	}
	for _, obj := range list {
		f.put(obj.(T))
	}
	if f.synced != nil {
		f.synced()
		f.synced = nil
	}
	return nil
}

// Resync implements cache.ReflectorStore. It does nothing.
func (f *feed[T]) Resync() error { return nil }

// Transformer implements cache.TransformingStore: unused fields are dropped before the whole list is in memory.
func (f *feed[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		client.Trim(obj)
		return obj, nil
	}
}

// source is the API of a kind.
type source struct {
	client   rest.Interface
	resource string
	example  runtime.Object
}

// id names a kind.
func (s source) id() string { return s.client.APIVersion().String() + "/" + s.resource }

// follow watches all objects of a kind until the context ends.
func follow[T metav1.Object](ctx context.Context, w *watcher, wg *sync.WaitGroup, src source, mu *sync.Mutex, set func(string, T), gone func(string)) {
	followList(ctx, w, wg, src, cache.NewListWatchFromClient(src.client, src.resource, metav1.NamespaceAll, fields.Everything()), mu, set, gone)
}

// followList runs a reflector until the context ends. A broken watch is resumed. The kind is listed again only if the
// server no longer has the resource version.
func followList[T metav1.Object](ctx context.Context, w *watcher, wg *sync.WaitGroup, src source, lw *cache.ListWatch, mu *sync.Mutex, set func(string, T), gone func(string)) {
	wg.Add(1)
	set, gone = recording(w, src, set, gone)
	f := &feed[T]{mu: mu, known: map[string]types.UID{}, set: set, gone: gone, synced: wg.Done}
	c := w.c
	if w.once != nil {
		go func() {
			if err := f.fill(ctx, lw); err != nil {
				w.once(fmt.Errorf("list %s of API server %s: %w", src.resource, c.Address, err))
			}
		}()
		return
	}
	r := cache.NewReflectorWithOptions(lw, src.example, f, cache.ReflectorOptions{Name: src.resource})
	go func() {
		backoff := client.Backoff(100*time.Millisecond, 10*time.Second)
		for ctx.Err() == nil {
			began := time.Now()
			err := r.ListAndWatchWithContext(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil && !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				c.Log.Warn("watch failed, trying again", "resource", src.resource, "server", c.Address, "error", err)
			}
			if time.Since(began) > time.Minute {
				backoff = client.Backoff(100*time.Millisecond, 10*time.Second)
			}
			select {
			case <-ctx.Done():
			case <-time.After(backoff.Step()):
			}
		}
	}()
}

// fill passes all current objects.
func (f *feed[T]) fill(ctx context.Context, lw *cache.ListWatch) error {
	list, err := lw.ListWithContext(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	items := make([]any, len(objects))
	for i, o := range objects {
		items[i] = o
	}
	return f.Replace(items, "")
}

// waitFor waits for a group or the end of the context; it reports whether the group was done.
func waitFor(ctx context.Context, wg *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
