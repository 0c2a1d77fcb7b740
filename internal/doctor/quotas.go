// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/explain"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// QuotaCosts is the code of a CapacityQuota without which the same pods would run on cheaper nodes.
const QuotaCosts Code = "QuotaCosts"

// ResourceQuotaFull is the code of a ResourceQuota that leaves pods nothing of a resource.
const ResourceQuotaFull Code = "ResourceQuotaFull"

// CloudQuotaReached is the code of a quota of the cloud's account for which launches are refused.
const CloudQuotaReached Code = "CloudQuotaReached" // Key: whose launch was the last, Have: the quota's size

// findFullQuotas finds the ResourceQuotas that refuse pods.
func (x *exam) findFullQuotas() (out []Finding) {
	for _, q := range x.FullQuotas {
		subject, field := "resourcequota/"+q.Namespace+"/"+q.Name, "spec.hard."+q.Resource
		out = append(out, Finding{Code: ResourceQuotaFull, Severity: Risky, Subject: subject, Key: field, Have: q.Used + " of " + q.Hard,
			Changes: []plan.Change{{Object: subject, Field: field, Op: plan.Set, Value: q.Twice}}})
	}
	return out
}

// quotaUse is what nodes take of a limit.
type quotaUse struct {
	nodes    int64
	capacity model.Resources
}

func (u *quotaUse) add(capacity model.Resources) {
	u.nodes++
	u.capacity = u.capacity.AddInto(capacity, 1)
}

// addNew counts those of some new nodes that a limit selects.
func (u *quotaUse) addNew(x *exam, l *model.CapacityLimit, fresh []solve.NewNode) {
	for i := range fresh {
		n := &fresh[i]
		labels := model.Labels{}
		if p := x.byName[n.Pool]; p != nil {
			maps.Copy(labels, p.Labels)
		}
		maps.Copy(labels, n.Type.Labels)
		maps.Copy(labels, n.Offering.Labels)
		labels[model.LabelNodePool], labels[model.LabelInstanceType] = n.Pool, n.Type.Name
		labels[model.LabelZone], labels[model.LabelCapacityType] = n.Offering.Zone, n.Offering.CapacityType
		if l.Matches(labels) {
			u.add(n.Type.Capacity)
		}
	}
}

// useOf counts the nodes that a limit selects and that are not gone, and the NodeClaims that have none yet.
func (x *exam) useOf(l *model.CapacityLimit, gone []*model.Node) (u quotaUse) {
	for _, n := range x.Snapshot.Nodes {
		if l.Matches(n.Labels) && !slices.Contains(gone, n) {
			u.add(n.Capacity)
		}
	}
	for _, c := range x.Snapshot.Claims {
		if c.NodeName == "" && c.Deleting.IsZero() && !x.hasNode[c.Name] && l.Matches(c.Labels) {
			u.add(c.Capacity)
		}
	}
	return u
}

// quotaField is the field of a CapacityQuota that limits a resource, or nodes.
func quotaField(resource string) string { return "spec.limits.resources." + resource }

// raisedTo is a limit that allows at least some use, and the changes that make it so.
func (x *exam) raisedTo(l *model.CapacityLimit, use quotaUse) (*model.CapacityLimit, []plan.Change) {
	raised := *l
	var changes []plan.Change
	set := func(resource string, d model.Dim, v int64) {
		changes = append(changes, plan.Change{Object: l.Name, Field: quotaField(resource), Op: plan.Set, Value: amount(d, v)})
	}
	for d, limited := range l.HasMost {
		d := model.Dim(d)
		if need := explain.RoundUpLimit(d, use.capacity.At(d)); limited && use.capacity.At(d) > l.Most.At(d) {
			raised.Most = raised.Most.With(d, need)
			set(x.Snapshot.ResourceNames[d], d, need)
		}
	}
	if l.Nodes >= 0 && use.nodes > l.Nodes {
		raised.Nodes = use.nodes
		set("nodes", -1, use.nodes)
	}
	return &raised, changes
}

// replaceLimit puts another limit in the place of the one of its name into the snapshot; nil: none.
func replaceLimit(name string, by *model.CapacityLimit) func(*model.Snapshot) {
	return func(s *model.Snapshot) {
		var limits []*model.CapacityLimit
		for _, l := range s.Limits {
			switch {
			case l.Name != name:
				limits = append(limits, l)
			case by != nil:
				limits = append(limits, by)
			}
		}
		s.Limits = limits
	}
}

// raiseUntil raises a limit to a use, and a quarter more for as long as that is not enough: where nodes are limited others
// may be chosen, which need more.
func (x *exam) raiseUntil(l *model.CapacityLimit, use quotaUse, enough func(*model.CapacityLimit) bool) []plan.Change {
	raised, changes := x.raisedTo(l, use)
	for range 4 {
		if len(changes) == 0 || enough(raised) {
			break
		}
		use.nodes += (use.nodes + 3) / 4
		use.capacity = use.capacity.Clone()
		for d, v := range use.capacity {
			use.capacity[d] = v + v/4
		}
		raised, changes = x.raisedTo(l, use)
	}
	return changes
}

// findQuotas finds CapacityQuotas that are nearly reached, and those without which the cluster would cost less.
func (x *exam) findQuotas() (out []Finding) {
	if x.assumed {
		return nil // nobody keeps them
	}
	const mostPriced = 4
	for i, l := range x.Snapshot.Limits {
		use := x.useOf(l, nil)
		near := func(resource string, d model.Dim, have, limit int64) {
			if limit > 0 && have*10 >= limit*9 && !x.waitedFor[l.Name+" "+quotaField(resource)] {
				out = append(out, Finding{Code: LimitNear, Severity: Risky, Subject: l.Name, Key: quotaField(resource), Have: amount(d, have) + " of " + amount(d, limit),
					Changes: []plan.Change{{Object: l.Name, Field: quotaField(resource), Op: plan.Set, Value: amount(d, explain.RoundUpLimit(d, 2*limit))}}})
			}
		}
		for d, limited := range l.HasMost {
			if limited && d < len(x.Snapshot.ResourceNames) {
				near(x.Snapshot.ResourceNames[d], model.Dim(d), use.capacity.At(model.Dim(d)), l.Most.At(model.Dim(d)))
			}
		}
		near("nodes", -1, use.nodes, l.Nodes)
		if i >= mostPriced {
			continue
		}
		held := func(n *model.Node) bool { return len(x.heldBy[n]) > 0 }
		free := x.repack(held, replaceLimit(l.Name, nil), x.whatIfPolicy())
		saving := x.baseline - free.micro
		if !x.worthwhile(saving) {
			continue
		}
		after := x.useOf(l, free.gone)
		after.addNew(x, l, free.fresh)
		changes := x.raiseUntil(l, after, func(raised *model.CapacityLimit) bool {
			return !x.worthwhile(x.repack(held, replaceLimit(l.Name, raised), x.whatIfPolicy()).micro - free.micro)
		})
		if len(changes) == 0 {
			continue // it leaves room for that
		}
		f := Finding{Code: QuotaCosts, Severity: Costly, Subject: l.Name, Key: changes[0].Field, SavingMicro: saving, Priced: true, Changes: changes}
		for i := range free.fresh {
			for _, p := range free.fresh[i].Pods {
				f.Pods = append(f.Pods, p.Key())
			}
		}
		slices.Sort(f.Pods)
		out = append(out, f)
	}
	return out
}

// quotaRecent is how long a refusal for want of quota counts as one that is still so: who launches tries again within minutes.
const quotaRecent = 10 * time.Minute

// findCloudQuotas finds the quotas of the cloud's account for which launches were refused lately.
func (x *exam) findCloudQuotas() (out []Finding) {
	last := map[string]CloudQuota{}
	for _, q := range x.CloudQuotas {
		have, ok := last[q.Name]
		if x.Now.Sub(q.At) <= quotaRecent && (!ok || cmp.Or(q.At.Compare(have.At), strings.Compare(q.Subject, have.Subject)) > 0) {
			last[q.Name] = q
		}
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		q, subject := last[name], "cloudquota/"+name
		out = append(out, Finding{Code: CloudQuotaReached, Severity: Broken, Subject: subject, Key: q.Subject, Have: q.Size,
			Changes: []plan.Change{{Object: subject, Op: plan.Set}}})
	}
	return out
}
