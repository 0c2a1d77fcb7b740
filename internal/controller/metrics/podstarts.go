// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// podStarts measure how long pods take to be bound and to be ready. As in Karpenter all pods of the cluster count, those
// of DaemonSets included, if this process has seen them Pending.
type podStarts struct {
	startup prometheus.Observer
	bound   *prometheus.HistogramVec

	mu      sync.Mutex // for whoever collects
	acting  bool       // before, another replica measures
	waiting map[string]*podStart
}

// podStart is a pod that was seen Pending and is not ready.
type podStart struct {
	*state.PodFacts
	boundSeen bool
}

func newPodStarts(r registrar) *podStarts {
	out := &podStarts{
		startup: r.summary("karpenter_pods_startup_duration_seconds", "Time from the creation of a pod until it was ready.").WithLabelValues(),
		bound:   r.hist("karpenter_pods_bound_duration_seconds", "Time from a pod's creation until it was bound.", durationBuckets(), dynamicResources),
		waiting: map[string]*podStart{},
	}
	out.bound.WithLabelValues("false") // there from the beginning
	return out
}

// setActing says that this process acts now.
func (m *podStarts) setActing() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.acting = true
}

// observe takes in what a pod was and is; nil: not there.
func (m *podStarts) observe(was, is *state.PodFacts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if is == nil {
		delete(m.waiting, was.UID)
		return
	}
	w := m.waiting[is.UID]
	switch {
	case is.Phase == "Pending" && w == nil:
		m.waiting[is.UID] = &podStart{PodFacts: is}
		return
	case w == nil:
		return
	}
	w.PodFacts = is
	if is.Phase == "Pending" {
		return
	}
	if is.Scheduled && !w.boundSeen {
		w.boundSeen = true
		if m.acting {
			m.bound.WithLabelValues(strconv.FormatBool(is.ClaimsResources)).Observe(max(0, is.ScheduledAt.Sub(is.Created).Seconds()))
		}
	}
	if is.Ready && m.acting {
		m.startup.Observe(max(0, is.ReadyAt.Sub(is.Created).Seconds()))
	}
	if is.Ready || is.Phase == "Succeeded" || is.Phase == "Failed" {
		delete(m.waiting, is.UID)
	}
}

// collect says how old the pods are that are not bound, and those that are not ready.
func (m *podStarts) collect(now time.Time, put func(string, float64, ...string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.waiting {
		age := max(0, now.Sub(w.Created).Seconds())
		put("pods_unstarted_time_seconds", age, w.Name, w.Namespace)
		if !w.Scheduled && w.Node == "" && w.Phase == "Pending" {
			put("pods_unbound_time_seconds", age, w.Name, w.Namespace, strconv.FormatBool(w.ClaimsResources))
		}
	}
}

// dynamicResources is the label for whether a pod asks for devices of dynamic resource allocation.
const dynamicResources = "dynamic_resources"

var podLabels = []string{"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed"}

// podStateLabels are the values of podLabels for a pod; node is its node's labels.
func podStateLabels(p *state.PodFacts, node model.Labels) []string {
	owner := ""
	if p.OwnerKind != "" {
		owner = fmt.Sprintf("/apis/%s/namespaces/%s/%ss/%s", p.OwnerVersion, p.Namespace, strings.ToLower(p.OwnerKind), p.OwnerName)
	}
	pool := node[model.LabelNodePool]
	return []string{p.Name, p.Namespace, owner, p.Node, strconv.FormatBool(p.Node != ""), pool, node[model.LabelZone], node[model.LabelArch],
		node[model.LabelCapacityType], node[model.LabelInstanceType], p.Phase, strconv.FormatBool(p.Ready), strconv.FormatBool(pool != "")}
}

// limitsByNode sums the limits of the pods on each node that have not ended: of all of them, and of those of DaemonSets.
func limitsByNode(pods []*state.PodFacts) (all, daemons map[string]model.Resources) {
	all, daemons = map[string]model.Resources{}, map[string]model.Resources{}
	one := model.Resources{}.With(model.Pods, 1)
	for _, p := range pods {
		if p.Node == "" || p.Phase == "Succeeded" || p.Phase == "Failed" {
			continue
		}
		all[p.Node] = all[p.Node].AddInto(p.Limits, 1).AddInto(one, 1)
		if p.Daemon {
			daemons[p.Node] = daemons[p.Node].AddInto(p.Limits, 1).AddInto(one, 1)
		}
	}
	return all, daemons
}
