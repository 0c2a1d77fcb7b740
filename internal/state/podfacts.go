// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// PodFacts are measured properties of a pod that influence no decision. They include daemon pods, static pods and completed pods.
type PodFacts struct {
	Namespace, Name, UID string
	OwnerVersion         string // apiVersion of its first owner; empty: no owner
	OwnerKind, OwnerName string
	Node                 string // empty: not bound
	Phase                string
	Scheduled            bool // condition PodScheduled is True
	Ready                bool
	Daemon               bool // created by a DaemonSet
	ClaimsResources      bool // uses devices of dynamic resource allocation
	Created              time.Time
	ScheduledAt, ReadyAt time.Time // transition times of those conditions; zero: not True
	Limits               model.Resources
}

// PodFactsTable contains the facts of all pods. It is safe for concurrent use.
type PodFactsTable struct {
	mu      sync.Mutex
	pods    map[podKey]*PodFacts
	changed func(was, is *PodFacts)
}

type podKey struct{ namespace, name string }

func newPodFactsTable() *PodFactsTable { return &PodFactsTable{pods: map[podKey]*PodFacts{}} }

// OnChange calls changed for each existing pod and for each later change. Argument was is nil for a new pod, argument is for a
// removed pod. Passed facts are never modified. OnChange may be called once; changed must not call the table.
func (t *PodFactsTable) OnChange(changed func(was, is *PodFacts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = changed
	for _, p := range t.pods {
		changed(nil, p)
	}
}

// Set adds or updates a pod.
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

// Delete removes a pod.
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

// List returns all pods, in no particular order.
func (t *PodFactsTable) List() []*PodFacts {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*PodFacts, 0, len(t.pods))
	for _, p := range t.pods {
		out = append(out, p)
	}
	return out
}
