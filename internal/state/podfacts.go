// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// PodFacts are what is measured of a pod, and decides nothing. Daemon pods, static pods and those that have ended are
// among them.
type PodFacts struct {
	Namespace, Name, UID string
	OwnerVersion         string // apiVersion of its first owner; empty: it has none
	OwnerKind, OwnerName string
	Node                 string // empty: not bound
	Phase                string
	Scheduled            bool // condition PodScheduled is True
	Ready                bool
	Daemon               bool // a DaemonSet made it
	ClaimsResources      bool // it asks for devices of dynamic resource allocation
	Created              time.Time
	ScheduledAt, ReadyAt time.Time // transitions of those conditions; zero: not True
	Limits               model.Resources
}

// PodFactsTable holds the facts of all pods. It may be used by several goroutines.
type PodFactsTable struct {
	mu      sync.Mutex
	pods    map[podKey]*PodFacts
	changed func(was, is *PodFacts)
}

type podKey struct{ namespace, name string }

func newPodFactsTable() *PodFactsTable { return &PodFactsTable{pods: map[podKey]*PodFacts{}} }

// OnChange has each change told from now on, and what there is at once: was is nil for a pod that came, is for one that
// went. Facts that were handed out are never changed. It is called once, and what is called must not call the table.
func (t *PodFactsTable) OnChange(changed func(was, is *PodFacts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = changed
	for _, p := range t.pods {
		changed(nil, p)
	}
}

// Set adds or changes a pod.
func (t *PodFactsTable) Set(p *PodFacts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := podKey{p.Namespace, p.Name}
	was := t.pods[k]
	t.pods[k] = p
	if t.changed == nil {
		return
	}
	if was != nil && was.UID != p.UID {
		t.changed(was, nil)
		was = nil
	}
	t.changed(was, p)
}

// Delete forgets a pod.
func (t *PodFactsTable) Delete(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := podKey{namespace, name}
	was := t.pods[k]
	delete(t.pods, k)
	if was != nil && t.changed != nil {
		t.changed(was, nil)
	}
}

// List returns all pods, in no order.
func (t *PodFactsTable) List() []*PodFacts {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*PodFacts, 0, len(t.pods))
	for _, p := range t.pods {
		out = append(out, p)
	}
	return out
}
