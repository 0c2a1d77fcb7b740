// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// barsOf returns the bars of the pools that apply to a class.
func (s *problemCompiler) barsOf(c *model.Class) (out map[barredSite]plan.Reason) {
	for i := range s.in.Given.Pools {
		for _, b := range s.in.Given.Pools[i].Barred {
			if b.Class.Key != c.Key {
				continue
			}
			if out == nil {
				out = map[barredSite]plan.Reason{}
			}
			out[barredSite{s.in.Given.Pools[i].Name, b.Group}] = b.Why
		}
	}
	return out
}

// filterFor returns the filter of a class, the same for classes that ask the same. rules are those between it and DaemonSets.
func (s *problemCompiler) filterFor(c *model.Class, rules *daemonRules) *nodeFilter {
	var b strings.Builder
	for i := range c.Terms {
		b.WriteString(c.Terms[i].Requirements.Key())
		if former := c.Terms[i].Standing; len(former) > 0 {
			b.WriteString("!" + former.Key())
		}
		if n := c.Terms[i].Names; n != nil {
			b.WriteString("@" + model.Requirements{*n}.Key())
		}
		b.WriteByte('|')
	}
	for i := range c.Volumes {
		v := &c.Volumes[i]
		b.WriteString("\x03" + v.InTree)
		if v.Registers {
			b.WriteString("\x04" + v.Driver)
		}
		for _, list := range [][]model.Requirements{v.Topology, v.Standing, v.Migrated} {
			b.WriteByte('&')
			for _, t := range list {
				b.WriteString(t.Key())
				b.WriteByte('|')
			}
		}
	}
	for _, t := range c.Tolerations {
		b.WriteString("\x00" + t.Key + "\x01" + t.Value + "\x01" + t.Effect + "\x01" + t.Operator)
		if t.Exists {
			b.WriteByte('*')
		}
	}
	bars := s.barsOf(c)
	if len(bars) > 0 {
		fmt.Fprintf(&b, "\x02%v", bars) // maps are printed in the order of their keys
	}
	if rules != nil {
		b.WriteString("\x00beside " + c.Key) // what keeps a class apart, and what it wants to be near, is its own
	}
	key := b.String()
	f := s.filters[key]
	if f != nil {
		return f
	}
	f = &nodeFilter{id: len(s.filters), Tolerations: c.Tolerations, bars: bars, daemons: rules}
	for i := range c.Terms {
		t := s.in.compileTerm(c.Terms[i].Requirements)
		t.Names = c.Terms[i].Names
		t.MatchesNothing = len(t.Requirements) == 0 && t.Names == nil
		f.looksAtNames = f.looksAtNames || t.Names != nil
		f.Terms = append(f.Terms, t)
		t.Requirements = s.in.compileTerm(c.Terms[i].OnStanding()).Requirements
		f.standingTerms = append(f.standingTerms, t)
	}
	for i := range c.Volumes {
		v := &c.Volumes[i]
		if len(v.Topology) > 0 {
			f.volumes = append(f.volumes, s.in.compileTerms(v.Topology))
		}
		s.registers = s.registers || v.Registers
		if at := (standingVolume{v, s.in.compileTerms(v.OnStanding(false)), s.in.compileTerms(v.OnStanding(true))}); len(at.places)+len(at.migrated) > 0 || v.Registers {
			f.standing = append(f.standing, at)
		}
	}
	s.filters[key] = f
	return f
}

// compileTerms compiles a term for each alternative.
func (s *Input) compileTerms(list []model.Requirements) (out []term) {
	for _, rs := range list {
		out = append(out, s.compileTerm(rs))
	}
	return out
}

// compileTerm makes a term of requirements.
func (s *Input) compileTerm(rs model.Requirements) (t term) {
	for i := range rs {
		t.Requirements = append(t.Requirements, requirement{Key: s.Keys.Ids[rs[i].Key], Spec: &rs[i]})
	}
	return t
}

// IsNear reports whether a volume can be used on machines of an offer.
func (s *Instance) IsNear(v *model.Volume, o *Offer) bool {
	return len(v.Topology) == 0 || AnyTermMatches(s.in.compileTerms(v.Topology), &s.in.Keys, o.Labels, nil, "")
}

// mayReach reports whether a class with this filter could be on a machine of the pool, according to the pool's taints
// and labels.
func (f *nodeFilter) mayReach(keys []string, p *Pool, known map[string]bool) bool {
	if model.Untolerated(p.Taints, f.Tolerations) != nil {
		return false
	}
	if len(f.Terms) == 0 {
		return true
	}
	return slices.ContainsFunc(f.Terms, func(t term) bool {
		return !slices.ContainsFunc(t.Requirements, func(q requirement) bool {
			key := keys[q.Key]
			if known[key] {
				return false
			}
			v, ok := PoolLabel(p, key)
			return ok && !q.Spec.Matches(v, true)
		})
	})
}
