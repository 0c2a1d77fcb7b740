// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// nodeFilter are the requirements of a class on a node's labels, taints and name. Classes with equal requirements share
// one.
type nodeFilter struct {
	id            int
	Tolerations   []model.Toleration
	Terms         []term   // for new nodes; empty: any node
	volumes       [][]term // of each volume one must match, on nodes that are to come
	standingTerms []term   // Terms for nodes that are there
	standing      []standingVolume
	looksAtNames  bool         // some term looks at the node's name
	daemons       *daemonRules // nil: none
	Offers        *OfferSet    // offers that match
	NodeVerdicts  []int8       // by label shape of nodes: 0 unknown, 1 matches, 2 does not match

	bars map[barredSite]plan.Reason // what is not bought for the class; nil: nothing
}

// standingVolume says of which terms a node that is there must match one to use a volume; of none: any node will do, if it has the
// volume's driver.
type standingVolume struct {
	*model.Volume
	places   []term
	migrated []term // where the node's kubelet leaves the plugin's volumes to a CSI driver
}

// barredSite is a pool, or a node group of it, by name.
type barredSite struct{ pool, group string }

// BarOn returns why an offer is excluded for the class; false: it is not.
func (f *nodeFilter) BarOn(p *Pool, o *Offer) (plan.Reason, bool) {
	if f.bars == nil {
		return plan.Reason{}, false
	}
	if why, ok := f.bars[barredSite{p.Name, ""}]; ok {
		return why, true
	}
	group := o.Offering.Labels[model.LabelNodeGroup]
	if group == "" {
		return plan.Reason{}, false
	}
	why, ok := f.bars[barredSite{p.Name, group}]
	return why, ok
}

// term is one alternative of a node affinity: all of its requirements must match.
type term struct {
	Requirements   []requirement
	Names          *model.Requirement
	MatchesNothing bool // an empty term, which matches nothing
}

// requirement is one requirement of a term, with its verdict on every value seen so far.
type requirement struct {
	Key      int
	Spec     *model.Requirement
	verdicts []int8 // by value: 0 not known, 1 matches, 2 does not
}

// Matches reports whether the requirement allows a value. A value that is not certain yet does not match.
func (q *requirement) Matches(t *labelTable, v int32) bool {
	if v == OpenValue {
		return false // not certain
	}
	for int(v) >= len(q.verdicts) {
		q.verdicts = append(q.verdicts, 0)
	}
	if q.verdicts[v] == 0 {
		q.verdicts[v] = 2
		if q.Spec.Matches(t.ValueNames[q.Key][v], v != 0) {
			q.verdicts[v] = 1
		}
	}
	return q.verdicts[v] == 1
}

// passesAffinity reports whether node affinity allows the class on a new node with these label values and this name.
func (f *nodeFilter) passesAffinity(t *labelTable, vals []int32, open model.Requirements, name string) bool {
	return len(f.Terms) == 0 || AnyTermMatches(f.Terms, t, vals, open, name)
}

// passesAffinityOn is passesAffinity for a node of the problem.
func (f *nodeFilter) passesAffinityOn(t *labelTable, vals []int32, x *ExistingNode) bool {
	if x.IsStanding() {
		return len(f.standingTerms) == 0 || AnyTermMatches(f.standingTerms, t, vals, x.Open, x.Name)
	}
	return f.passesAffinity(t, vals, x.Open, x.Name)
}

// Passes reports whether node affinity and volumes allow the class on a new node with these label values and this name,
// ignoring taints.
func (f *nodeFilter) Passes(t *labelTable, vals []int32, open model.Requirements, name string) bool {
	return f.passesAffinity(t, vals, open, name) && !slices.ContainsFunc(f.volumes, func(alt []term) bool { return !AnyTermMatches(alt, t, vals, open, name) })
}

// passesStanding is Passes for a node that is there, whose kubelet leaves the volumes of some in-tree plugins to CSI drivers.
func (f *nodeFilter) passesStanding(t *labelTable, vals []int32, x *ExistingNode) bool {
	return f.passesAffinityOn(t, vals, x) && !slices.ContainsFunc(f.standing, func(v standingVolume) bool {
		places := v.places
		if v.InTree != "" && slices.Contains(x.Migrated, v.InTree) {
			places = v.migrated
		}
		return v.LacksDriver(x.CSIDrivers) || len(places) > 0 && !AnyTermMatches(places, t, vals, x.Open, x.Name)
	})
}

// AnyTermMatches reports whether one of the terms matches.
func AnyTermMatches(terms []term, t *labelTable, vals []int32, open model.Requirements, name string) bool {
	for i := range terms {
		if terms[i].matches(t, vals, open, name) {
			return true
		}
	}
	return false
}

// matches reports whether all requirements allow the label values; open are labels whose value is still to be decided,
// within these.
func (m *term) matches(t *labelTable, vals []int32, open model.Requirements, name string) bool {
	if m.MatchesNothing || m.Names != nil && !m.Names.Matches(name, name != "") {
		return false
	}
	for i := range m.Requirements {
		q := &m.Requirements[i]
		if open != nil {
			if o := open.Get(t.Keys[q.Key]); o != nil {
				if !isSubset(o, q.Spec) {
					return false
				}
				continue
			}
		}
		if !q.Matches(t, vals[q.Key]) {
			return false
		}
	}
	return true
}

// isSubset reports whether every value that o still allows satisfies r. When in doubt it says no.
func isSubset(o, r *model.Requirement) bool {
	if o.AllowAbsent && !r.AllowAbsent {
		return false
	}
	if !o.Complement {
		for _, v := range o.Values {
			if !r.Matches(v, true) {
				return false
			}
		}
		return len(o.Values) > 0 || o.AllowAbsent
	}
	if !r.Complement || o.Min < r.Min || o.Max > r.Max {
		return false
	}
	for _, v := range r.Values {
		if _, ok := slices.BinarySearch(o.Values, v); !ok {
			return false
		}
	}
	return true
}

// daemonRules is what required pod affinity and anti-affinity say between pods of a class and pods of DaemonSets. A DaemonSet's
// pod is on a new node before any other pod, so it decides which nodes the class may go to, as labels do.
type daemonRules struct {
	apart []*apartFrom // by DaemonSet: nil where nothing keeps pods of the class from being beside its pod

	// near says by DaemonSet whether its pods meet the required affinity of the class; nil: the class has none that pods of a
	// DaemonSet meet. Then affinity is a rule about nodes alone: pods of the demand that would meet it too are not counted on.
	near      []bool
	terms     []affinityTerm
	selectors []model.Selector
	nodes     []int8 // by existing node: 0 not known, 1 admitted, 2 not
}

// apartFrom is an anti-affinity term between pods of a class and the pod of a DaemonSet.
type apartFrom struct {
	topologyKey string
	own         bool // the term is the class's; otherwise the DaemonSet's
	ofDevices   bool // both request some of the same devices in different ways
}

// affinityTerm is the topology key of one term of required affinity, and the domains in which pods that meet it stand.
type affinityTerm struct {
	key     int // of labelTable, or HostKey
	name    string
	domains map[string]bool // by value; nil for hosts
}

// MeetsAffinity reports whether pods of DaemonSets satisfy the required affinity of the filter's classes. Then the
// filter determines the allowed nodes, and no rule is needed.
func (f *nodeFilter) MeetsAffinity() bool { return f.daemons != nil && f.daemons.near != nil }
