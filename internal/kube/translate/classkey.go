// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// classText writes all that a class holds as one line, the namespace and the requests first. Two classes have equal text exactly
// when they mean the same; resources stand by name, so that it is the same in every process. It is written for every pod event,
// hence by hand.
func classText(c *model.Class, resources []string) string {
	w := text{}
	w.b.Grow(256)
	w.str(c.Namespace)
	w.resources(c.Requests, resources)
	w.labels(" l", c.Labels)
	for i := range c.Terms {
		w.b.WriteString(" n")
		w.nodeTerm(&c.Terms[i])
	}
	for i := range c.Preferred {
		w.b.WriteString(" np")
		w.num(int64(c.Preferred[i].Weight))
		w.nodeTerm(&c.Preferred[i].Term)
	}
	for i := range c.Tolerations {
		t := &c.Tolerations[i]
		w.b.WriteString(" t(")
		w.str(t.Key)
		switch {
		case t.Exists:
			w.b.WriteByte('*')
		case t.Operator != "":
			w.str(t.Operator)
			w.str(t.Value)
		default:
			w.b.WriteByte('=')
			w.str(t.Value)
		}
		w.b.WriteByte(':')
		w.str(t.Effect)
		if t.For >= 0 {
			w.b.WriteByte(':')
			w.num(int64(t.For / time.Second))
		}
		w.b.WriteByte(')')
	}
	for i := range c.Spread {
		s := &c.Spread[i]
		w.b.WriteString(" s(")
		w.str(s.TopologyKey)
		w.b.WriteByte(' ')
		w.num(int64(s.MaxSkew))
		w.b.WriteByte(' ')
		w.num(int64(s.MinDomains))
		w.flag(s.Hard, " hard")
		w.flag(s.IgnoreAffinity, " ignoreaffinity")
		w.flag(s.HonorTaints, " honortaints")
		w.selector(s.Selector)
		w.b.WriteByte(')')
	}
	w.podTerms(" a", c.Affinity)
	w.podTerms(" aa", c.AntiAffinity)
	w.weighted(" pa", c.PreferredAffinity)
	w.weighted(" paa", c.PreferredAntiAffinity)
	for i := range c.HostPorts {
		p := &c.HostPorts[i]
		if p.Disk != "" {
			w.b.WriteString(" disk:")
			w.str(p.Disk)
			w.flag(p.ReadOnly, " readonly")
			continue
		}
		w.b.WriteString(" h(")
		w.str(p.IP)
		w.b.WriteByte(' ')
		w.str(p.Protocol)
		w.b.WriteByte(' ')
		w.num(int64(p.Port))
		w.b.WriteByte(')')
	}
	for i := range c.Volumes {
		v := &c.Volumes[i]
		w.b.WriteString(" v(")
		w.str(v.Claim)
		w.field(v.Driver)
		w.field(v.Handle)
		w.flag(v.Exclusive, " exclusive")
		w.flag(v.Unmade, " unmade")
		w.flag(v.Registers, " registers")
		if v.InTree != "" {
			w.b.WriteString(" intree:")
			w.str(v.InTree)
		}
		for j := range v.Topology {
			w.b.WriteByte('|')
			w.requirements(v.Topology[j])
		}
		for _, x := range []struct {
			name   string
			places []model.Requirements
		}{{" standing", v.Standing}, {" migrated", v.Migrated}} {
			if len(x.places) > 0 {
				w.b.WriteString(x.name)
			}
			for j := range x.places {
				w.b.WriteByte('|')
				w.requirements(x.places[j])
			}
		}
		if v.Reported != "" {
			w.b.WriteString(" reported:")
			w.str(v.Reported)
		}
		if v.Kept != "" {
			w.b.WriteString(" kept:")
			w.str(v.Kept)
		}
		if x := &v.Problem; x.Kind != "" {
			w.b.WriteString(" problem:")
			w.str(string(x.Kind))
			w.field(x.Object)
			w.field(x.Words)
		}
		w.b.WriteByte(')')
	}
	if c.Priority != 0 {
		w.b.WriteString(" priority:")
		w.num(int64(c.Priority))
	}
	w.flag(!c.Preempts, " nopreempt")
	w.flag(c.Critical, " critical")
	w.flag(c.Daemon, " daemon")
	for _, u := range c.Unsolved {
		w.b.WriteString(" u")
		w.str(u)
	}
	if c.Scheduler != model.DefaultScheduler {
		w.b.WriteString(" scheduler:")
		w.str(c.Scheduler)
	}
	w.flag(c.HasClaims, " claims")
	w.flag(c.OnlyExtended, " extended")
	if c.Request != "" {
		w.b.WriteString(" request:")
		w.str(c.Request)
	}
	if c.Excess.What != "" {
		w.b.WriteString(" excess:")
		w.str(c.Excess.What)
		w.b.WriteByte('=')
		w.num(c.Excess.Have)
	}
	return w.b.String()
}

type text struct {
	b    strings.Builder
	keys []string
	num_ [20]byte
}

func (w *text) num(v int64) { w.b.Write(strconv.AppendInt(w.num_[:0], v, 10)) }

// str writes a word unchanged if it cannot be confused with the text around it, otherwise quoted.
func (w *text) str(s string) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c == '.' || c == '-' || c == '/' || c == '_' {
			continue
		}
		w.b.WriteString(strconv.Quote(s))
		return
	}
	if s == "" {
		s = `""`
	}
	w.b.WriteString(s)
}

// Resources writes the fixed ones in their order and the extended ones by name: the order in which those were first seen differs
// from one process to the next.
func (w *text) resources(r model.Resources, names []string) {
	w.keys = w.keys[:0]
	for i, v := range r {
		switch {
		case v == 0 || i >= len(names):
		case i < int(model.FirstExtended):
			w.field(names[i])
			w.b.WriteByte('=')
			w.num(v)
		default:
			w.keys = append(w.keys, names[i])
		}
	}
	if len(w.keys) == 0 {
		return
	}
	sort.Strings(w.keys)
	for _, k := range w.keys {
		for i, v := range r {
			if v != 0 && i < len(names) && names[i] == k {
				w.field(k)
				w.b.WriteByte('=')
				w.num(v)
			}
		}
	}
}

func (w *text) field(s string) {
	w.b.WriteByte(' ')
	w.str(s)
}

func (w *text) flag(on bool, s string) {
	if on {
		w.b.WriteString(s)
	}
}

func (w *text) labels(lead string, l model.Labels) {
	if len(l) == 0 {
		return
	}
	w.keys = w.keys[:0]
	for k := range l {
		w.keys = append(w.keys, k)
	}
	sort.Strings(w.keys)
	w.b.WriteString(lead)
	w.b.WriteByte('{')
	for i, k := range w.keys {
		if i > 0 {
			w.b.WriteByte(',')
		}
		w.str(k)
		w.b.WriteByte('=')
		w.str(l[k])
	}
	w.b.WriteByte('}')
}

func (w *text) requirement(r *model.Requirement) {
	w.str(r.Key)
	if r.Complement {
		w.b.WriteByte('!')
	}
	if r.AllowAbsent {
		w.b.WriteByte('?')
	}
	w.b.WriteByte('[')
	for i, v := range r.Values {
		if i > 0 {
			w.b.WriteByte(',')
		}
		w.str(v)
	}
	w.b.WriteByte(']')
	if r.Min != math.MinInt64 {
		w.b.WriteByte('>')
		w.num(r.Min)
	}
	if r.Max != math.MaxInt64 {
		w.b.WriteByte('<')
		w.num(r.Max)
	}
	if r.MinValues != 0 {
		w.b.WriteByte('#')
		w.num(int64(r.MinValues))
	}
}

func (w *text) requirements(rs model.Requirements) {
	w.b.WriteByte('{')
	for i := range rs {
		if i > 0 {
			w.b.WriteByte(',')
		}
		w.requirement(&rs[i])
	}
	w.b.WriteByte('}')
}

func (w *text) nodeTerm(t *model.NodeTerm) {
	w.requirements(t.Requirements)
	if len(t.Standing) > 0 {
		w.b.WriteString(" standing|")
		w.requirements(t.Standing)
	}
	if t.Names != nil {
		w.b.WriteByte('@')
		w.requirement(t.Names)
	}
}

// selector tells a selector that selects nothing from one that selects everything.
func (w *text) selector(rs *model.Requirements) {
	if rs == nil {
		w.b.WriteString("{none}")
		return
	}
	w.requirements(*rs)
}

func (w *text) podTerm(t *model.PodTerm) {
	w.b.WriteByte('(')
	w.str(t.TopologyKey)
	w.selector(t.Selector.Pods)
	for _, n := range t.Selector.Namespaces {
		w.field(n)
	}
	if t.Selector.NamespaceL != nil {
		w.b.WriteString(" in")
		w.requirements(*t.Selector.NamespaceL)
	}
	w.b.WriteByte(')')
}

func (w *text) podTerms(lead string, list []model.PodTerm) {
	for i := range list {
		w.b.WriteString(lead)
		w.podTerm(&list[i])
	}
}

func (w *text) weighted(lead string, list []model.WeightedPodTerm) {
	for i := range list {
		w.b.WriteString(lead)
		w.num(int64(list[i].Weight))
		w.podTerm(&list[i].Term)
	}
}

// requestSlot returns what tells apart the pods of the pod sets of one ProvisioningRequest, whose labels and tolerations may be others than
// those of the template.
func (t *Translator) requestSlot(c *model.Class, requests model.Resources, terms []model.NodeTerm) string {
	return "request " + c.Request + classText(&model.Class{Namespace: c.Namespace, Requests: requests, Terms: terms, Preempts: true, Scheduler: model.DefaultScheduler}, t.Table.Names())
}
