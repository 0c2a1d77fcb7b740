// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// daemonTable is the DaemonSets with their pods. What a DaemonSet's next pod will ask for is what the newest living pod
// of today's template asks for: it may be more than the template says.
type daemonTable struct {
	table[*model.Daemon]
	pods  map[string]map[string]*model.Pod // by DaemonSet and by pod, both by namespace/name: those not terminal and not being deleted
	stale map[string]bool                  // DaemonSets whose pods have changed since their newest was found

	counts *ChangeCounts
}

func newDaemonTable(counts *ChangeCounts) *daemonTable {
	return &daemonTable{
		table: newTable(func(a, b *model.Daemon) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		}),
		pods: map[string]map[string]*model.Pod{}, stale: map[string]bool{}, counts: counts,
	}
}

// setDaemon adds or changes a DaemonSet.
func (t *daemonTable) setDaemon(d *model.Daemon) {
	key := d.Namespace + "/" + d.Name
	t.set(key, d)
	t.stale[key] = true
	t.counts.Supply++
}

// setPod takes in a pod, if a DaemonSet made it.
func (t *daemonTable) setPod(p *model.Pod) {
	if p.Owner.Kind != "DaemonSet" {
		return
	}
	if p.Terminal || !p.Deleting.IsZero() {
		t.deletePod(p)
		return
	}
	key, pod := p.Namespace+"/"+p.Owner.Name, p.Key()
	if t.pods[key] == nil {
		t.pods[key] = map[string]*model.Pod{}
	}
	was := t.pods[key][pod]
	t.pods[key][pod] = p
	if was == nil || was.Class != p.Class || was.UID != p.UID {
		t.stale[key] = true
	}
}

// deletePod forgets a pod, if a DaemonSet made it.
func (t *daemonTable) deletePod(p *model.Pod) {
	if p.Owner.Kind != "DaemonSet" {
		return
	}
	key, pod := p.Namespace+"/"+p.Owner.Name, p.Key()
	if t.pods[key][pod] == nil {
		return
	}
	if delete(t.pods[key], pod); len(t.pods[key]) == 0 {
		delete(t.pods, key)
	}
	t.stale[key] = true
}

// refresh finds the newest pods of the DaemonSets whose pods have changed.
func (t *daemonTable) refresh() {
	for key := range t.stale {
		delete(t.stale, key)
		d := t.rows[key]
		if d == nil {
			continue
		}
		newest := t.newestOf(d, key)
		if newest == d.Newest || newest != nil && d.Newest != nil && asksTheSame(newest, d.Newest) {
			continue
		}
		next := *d
		next.Newest = newest
		t.set(key, &next)
		t.counts.Supply++
	}
}

// newestOf returns the class of the newest pod of a DaemonSet that was made from today's template; nil: there is none. A template
// that was taken back has the revision of the pods that were made from it before. Where nothing tells which template is today's,
// the newest of all pods is taken.
func (t *daemonTable) newestOf(d *model.Daemon, key string) *model.Class {
	pods := t.pods[key]
	revision := ""
	if d.Generation != "" {
		for _, p := range pods {
			if l := p.Class.Labels; l[model.LabelTemplateGeneration] == d.Generation {
				revision = max(revision, l[model.LabelRevisionHash])
			}
		}
	}
	isToday := func(l model.Labels) bool {
		return d.Generation == "" || l[model.LabelTemplateGeneration] == d.Generation || revision != "" && l[model.LabelRevisionHash] == revision
	}
	var newest *model.Pod
	for _, p := range pods {
		if !d.Runs(p) || !isToday(p.Class.Labels) {
			continue
		}
		if newest == nil || cmp.Or(p.Created.Compare(newest.Created), strings.Compare(p.Name, newest.Name)) > 0 {
			newest = p
		}
	}
	if newest == nil {
		return nil
	}
	return newest.Class
}

// asksTheSame reports whether pods of two classes are the same to the nodes that they are on: one that waits for its node is of
// another class than one that is there.
func asksTheSame(a, b *model.Class) bool {
	return a.Requests.Equal(b.Requests) && slices.Equal(a.HostPorts, b.HostPorts) && maps.Equal(a.Labels, b.Labels) &&
		reflect.DeepEqual(a.AntiAffinity, b.AntiAffinity)
}
