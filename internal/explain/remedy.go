// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// podRemedies returns edits that may remove a reason for refusing a pod, smallest first. They are candidates: the
// caller applies each to a copy of the Snapshot and checks the result.
func (ex *explanation) podRemedies(p *model.Pod, r plan.Reason) []plan.Change {
	return ex.withSource(ex.podRemedyCandidates(p, r))
}

func (ex *explanation) podRemedyCandidates(p *model.Pod, r plan.Reason) []plan.Change {
	c, pod := p.Class, "pod/"+p.Key()
	pool, name := ex.Pool(r.Pool), "nodepool/"+r.Pool
	one := func(object, field string, op plan.Op, value string) []plan.Change {
		return []plan.Change{{Object: object, Field: field, Op: op, Value: value}}
	}
	switch r.Code {
	case plan.Taint:
		if pool != nil && model.HaveUnusedDevice(allowedTypes(pool), c.Requests, ex.s.ResourceNames) {
			return nil // the taint keeps away pods that do not use the devices
		}
		return one(pod, "spec.tolerations", plan.Add, plan.DetailOf[plan.OfTaint](r).String())
	case plan.Requirement:
		return labelRemedies(c, pool, pod, name, plan.DetailOf[plan.OfRequirement](r).Label)
	case plan.NoInstanceType:
		d := plan.DetailOf[plan.OfNoInstanceType](r)
		if label, _, _, _ := d.ExcludedBy.Split(); label != "" && !pool.ImpliesLabel(label) {
			return append(one(name, "spec.template.spec.requirements["+label+"]", plan.Remove, ""), labelRemedies(c, pool, pod, name, d.Label)...)
		}
		if d.Label != "" {
			return labelRemedies(c, pool, pod, name, d.Label)
		}
	case plan.Offering:
		if label := plan.DetailOf[plan.OfOffering](r).Label; label != "" {
			return labelRemedies(c, pool, pod, name, label)
		}
		return append(labelRemedies(c, pool, pod, name, model.LabelZone), labelRemedies(c, pool, pod, name, model.LabelCapacityType)...)
	case plan.PoolNotReady:
		if pool != nil && !pool.Deleting && !pool.IsUnread() {
			return one(name, "status.conditions[Ready]", plan.Set, trueText)
		}
	case plan.Resource, plan.CameShort, plan.ShortAgain:
		return ex.requestRemedy(c, pod, plan.DetailOf[plan.OfSize](r))
	case plan.OutOfCapacity:
		return slices.Concat(shortageRemedies(c, pod), offeringRemedies(pool, name), marketRemedies(pool))
	case plan.GroupMaximum:
		full := plan.DetailOf[plan.OfGroupMaximum](r)
		return one(string(full.Group), "maxSize", plan.Set, strconv.FormatInt(full.Most+1, 10))
	case plan.SharedLimit:
		return ex.sharedLimitRemedies(r)
	case plan.Limit:
		return ex.limitRemedies(pool, name, r)
	case plan.MinValues:
		lacks := plan.DetailOf[plan.OfMinValues](r)
		field := "spec.template.spec.requirements[" + lacks.Label + "].minValues"
		if lacks.Have > 0 {
			return one(name, field, plan.Set, strconv.Itoa(lacks.Have))
		}
		return one(name, field, plan.Remove, "")
	case plan.TopologySpread:
		return spreadRemedies(c, pool, pod, name, plan.DetailOf[plan.OfTopologySpread](r))
	case plan.PodAffinity:
		if plan.DetailOf[plan.OfPodAffinity](r).OfGang {
			return nil
		}
		return one(pod, "spec.affinity.podAffinity["+plan.DetailOf[plan.OfPodAffinity](r).TopologyKey+"]", plan.Remove, "")
	case plan.PodAntiAffinity:
		if plan.DetailOf[plan.OfPodAntiAffinity](r).OfDevices {
			return nil
		}
		var out []plan.Change
		key := plan.DetailOf[plan.OfPodAntiAffinity](r).TopologyKey
		if slices.ContainsFunc(c.AntiAffinity, func(t model.PodTerm) bool { return t.TopologyKey == key }) {
			out = one(pod, "spec.affinity.podAntiAffinity["+key+"]", plan.Remove, "")
		}
		return append(out, ex.unselectRemedies(p, key)...)
	case plan.HostPortConflict:
		if port := plan.DetailOf[plan.OfHostPort](r).Port; !port.IsDisk() {
			return one(pod, "spec.containers[*].ports["+string(port)+"]", plan.Remove, "")
		}
	case plan.VolumeTopology:
		return volumeRemedies(c, pool, pod, name, plan.DetailOf[plan.OfVolumeTopology](r))
	case plan.VolumeClaim:
		return claimRemedies(pod, plan.DetailOf[plan.OfVolumeClaim](r))
	case plan.Unsupported:
		if strings.HasPrefix(plan.DetailOf[plan.OfUnsupported](r).Field, c.ClaimsField()+": ") {
			return nil // the error is in another object, which the reason names
		}
		return one(pod, "spec["+plan.DetailOf[plan.OfUnsupported](r).Field+"]", plan.Remove, "")
	case plan.NodeName:
		return one(pod, "spec.affinity.nodeAffinity["+plan.DetailOf[plan.OfNodeName](r).Label+"]", plan.Remove, "")
	case plan.NotSchedulable:
		switch plan.DetailOf[plan.OfNotSchedulable](r).Because {
		case plan.GatesCause:
			return one(pod, "spec.schedulingGates", plan.Remove, "")
		case plan.SchedulerCause:
			return one(pod, "spec.schedulerName", plan.Set, model.DefaultScheduler)
		}
	}
	return nil
}

const trueText = "True"

// allowedTypes returns the instance types that a pool's requirements allow.
func allowedTypes(pool *model.NodePool) (out []*model.InstanceType) {
	for _, t := range pool.Types {
		if pool.MayBuyType(t) {
			out = append(out, t)
		}
	}
	return out
}

// labelRemedies returns changes that make the pool allow the label values that the pod requires, if possible, or that
// remove the requirement from the pod.
func labelRemedies(c *model.Class, pool *model.NodePool, pod, name, key string) []plan.Change {
	if pool == nil {
		return nil
	}
	var out []plan.Change
	wanted := false
	have := pool.Requirements.Get(key)
	field := "spec.template.spec.requirements[" + key + "]"
	for i := range c.Terms {
		q := c.Terms[i].Requirements.Get(key)
		if q == nil {
			continue
		}
		wanted = true
		values := q.Values
		if q.Complement {
			values = []string{"true", strconv.FormatInt(max(q.Min, 0), 10)} // the pod does not list values: try values that match
		}
		for j, v := range values {
			const tried = 4
			if j == tried || !q.Matches(v, true) {
				continue
			}
			_, labelled := pool.Labels[key]
			switch {
			case pool.ImpliesLabel(key) || key == model.LabelHostname:
			case labelled || have == nil && !isWellKnownLabel(key):
				out = append(out, plan.Change{Object: name, Field: "spec.template.metadata.labels[" + key + "]", Op: plan.Set, Value: v})
			case have != nil:
				out = append(out, plan.Change{Object: name, Field: field, Op: plan.Add, Value: v})
			}
		}
	}
	if wanted {
		out = append(out, plan.Change{Object: pod, Field: "spec.affinity.nodeAffinity[" + key + "]", Op: plan.Remove})
	}
	if _, labelled := pool.Labels[key]; have != nil && !labelled && !pool.ImpliesLabel(key) {
		out = append(out, plan.Change{Object: name, Field: field, Op: plan.Remove})
	}
	return out
}

// spreadRemedies returns changes that make the pool launch nodes in the domain with the fewest pods, reduce the number
// of domains that the pod requires, or make the spread optional.
func spreadRemedies(c *model.Class, pool *model.NodePool, pod, name string, d plan.OfTopologySpread) (out []plan.Change) {
	if !slices.ContainsFunc(c.Spread, func(x model.SpreadConstraint) bool { return x.TopologyKey == d.TopologyKey && x.Hard }) {
		return nil // it is the spread of other pods, which are about to be scheduled
	}
	if pool != nil && pool.Requirements.Get(d.TopologyKey) != nil && !pool.ImpliesLabel(d.TopologyKey) {
		for _, v := range d.Fewest.Names() {
			out = append(out, plan.Change{Object: name, Field: "spec.template.spec.requirements[" + d.TopologyKey + "]", Op: plan.Add, Value: v})
		}
	}
	field := "spec.topologySpreadConstraints[" + d.TopologyKey + "]"
	if d.Domains > 0 {
		out = append(out, plan.Change{Object: pod, Field: field + ".minDomains", Op: plan.Set, Value: strconv.Itoa(d.Domains)})
	}
	return append(out, plan.Change{Object: pod, Field: field + ".whenUnsatisfiable", Op: plan.Set, Value: "ScheduleAnyway"})
}

// labelOwners are the domains whose labels Kubernetes, an autoscaler or a cloud sets on its own nodes, for example
// those of Fargate on EKS. If a NodePool sets such a label, its nodes are still not the nodes that a pod requires by
// it.
var labelOwners = []string{"kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "eks.amazonaws.com", "eksctl.io", "cloud.google.com", "azure.com"}

// isWellKnownLabel reports whether the domain of a label is one of labelOwners or a subdomain of one.
func isWellKnownLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && slices.ContainsFunc(labelOwners, func(owner string) bool { return domain == owner || strings.HasSuffix(domain, "."+owner) })
}

// requestRemedy returns the change to the largest request that fits, if there is one.
func (ex *explanation) requestRemedy(c *model.Class, pod string, short plan.OfSize) []plan.Change {
	if model.IsDevice(string(short.Resource)) {
		return nil // resource claims specify the number, and not only as a number
	}
	d := model.Dim(slices.Index(ex.s.ResourceNames, string(short.Resource)))
	if d < 0 || d == model.Pods {
		return nil
	}
	left := c.Requests.At(d) - int64(short.Need-short.Have)
	if left <= 0 {
		return nil // a pod that requests none of it is a different pod
	}
	return []plan.Change{{Object: pod, Field: "spec.containers[*].resources.requests[" + string(short.Resource) + "]", Op: plan.Set, Value: model.FormatAmount(d, roundDownRequest(d, left))}}
}

// shortageRemedies returns changes that make a pod accept other offerings than those without capacity.
func shortageRemedies(c *model.Class, pod string) (out []plan.Change) {
	for i := range c.Terms {
		for _, q := range c.Terms[i].Requirements {
			ch := plan.Change{Object: pod, Field: "spec.affinity.nodeAffinity[" + q.Key + "]", Op: plan.Remove}
			if !slices.Contains(out, ch) {
				out = append(out, ch)
			}
		}
	}
	return out
}

// offeringRemedies returns changes that make a pool allow capacity types and zones that its requirements exclude, and
// in which its instance types have capacity.
func offeringRemedies(pool *model.NodePool, name string) (out []plan.Change) {
	if pool == nil {
		return nil
	}
	for _, key := range []string{model.LabelCapacityType, model.LabelZone} {
		have := pool.Requirements.Get(key)
		if have == nil || pool.ImpliesLabel(key) {
			continue
		}
		for _, t := range allowedTypes(pool) {
			for i := range t.Offerings {
				o := &t.Offerings[i]
				value := o.CapacityType
				if key == model.LabelZone {
					value = o.Zone
				}
				c := plan.Change{Object: name, Field: "spec.template.spec.requirements[" + key + "]", Op: plan.Add, Value: value}
				if !o.LacksCapacity() && value != model.Reserved && !have.Matches(value, true) && !slices.Contains(out, c) {
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// marketRemedies returns the offerings that must become available again, cheapest first.
func marketRemedies(pool *model.NodePool) []plan.Change {
	if pool == nil {
		return nil
	}
	type choice struct {
		m     plan.Machine
		price int64
	}
	var list []choice
	for _, t := range allowedTypes(pool) {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.LacksCapacity() && pool.MayBuyOffering(o) {
				list = append(list, choice{plan.Machine{Type: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}, o.PriceMicro})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b choice) int { return int(min(max(a.price-b.price, -1), 1)) })
	const tried = 8
	var out []plan.Change
	for _, c := range list[:min(len(list), tried)] {
		out = append(out, plan.Change{Object: c.m.Offering(), Field: "available", Op: plan.Set, Value: "true"})
	}
	return out
}

// limitRemedies returns changes that raise the limit by the missing amount. If the limit is used up by other launches,
// each limit is raised by a machine of the largest type.
func (ex *explanation) limitRemedies(pool *model.NodePool, name string, r plan.Reason) []plan.Change {
	if pool == nil {
		return nil
	}
	short := plan.DetailOf[plan.OfLimit](r)
	all := short.Resource == ""
	var out []plan.Change
	for _, b := range ex.Pools() {
		if b.Name != r.Pool {
			continue
		}
		var most model.Resources
		for _, t := range allowedTypes(pool) {
			if short.InstanceType == "" || t.Name == short.InstanceType {
				most = most.Max(t.Capacity)
			}
		}
		for d, limited := range pool.HasLimit {
			if dim := model.Dim(d); limited && (all || short.Resource == plan.ResourceName(ex.s.ResourceNames[d])) {
				need := pool.Limits.At(dim) - min(b.Left.At(dim), 0) + most.At(dim)
				if !all {
					need -= int64(short.Left)
				}
				out = append(out, plan.Change{Object: name, Field: "spec.limits." + ex.s.ResourceNames[d], Op: plan.Set, Value: model.FormatAmount(dim, RoundUpLimit(dim, need))})
			}
		}
		if pool.NodeLimit >= 0 && (all || short.Resource == "nodes") {
			need := max(ex.countClaims(r.Pool), pool.NodeLimit) + 1 // the limit may be exceeded
			out = append(out, plan.Change{Object: name, Field: "spec.limits.nodes", Op: plan.Set, Value: strconv.FormatInt(need, 10)})
		}
	}
	return out
}

// countClaims returns the number of NodeClaims of a pool.
func (ex *explanation) countClaims(pool string) int64 {
	n := int64(0)
	for _, c := range ex.s.Claims {
		if c.Pool == pool {
			n++
		}
	}
	return n
}

// unselectRemedies returns changes that remove the pod label because of which other pods exclude it.
func (ex *explanation) unselectRemedies(p *model.Pod, key string) []plan.Change {
	var out []plan.Change
	look := func(o *model.Pod) {
		for i := range o.Class.AntiAffinity {
			t := &o.Class.AntiAffinity[i]
			if o == p || t.TopologyKey != key || t.Selector.Pods == nil || t.Selector.IsOfDevices() || !t.Selector.Pods.Matches(p.Class.Labels) {
				continue
			}
			for _, q := range *t.Selector.Pods {
				ch := plan.Change{Object: "pod/" + p.Key(), Field: "metadata.labels[" + q.Key + "]", Op: plan.Remove}
				if !q.AllowAbsent && !slices.Contains(out, ch) {
					out = append(out, ch)
				}
			}
		}
	}
	for _, n := range ex.s.Nodes {
		for _, o := range n.Pods {
			look(o)
		}
	}
	for _, o := range ex.s.Pending {
		look(o)
	}
	for _, d := range ex.s.Daemons {
		look(&model.Pod{Class: d.Pod()})
	}
	return out
}

// nodeRemedy returns the edit that removes a reason for keeping a machine, or nil if none is known.
func (ex *explanation) nodeRemedy(u *disrupt.Candidate, r plan.Reason) *plan.Change {
	if ch := ex.nodeRemedyCandidate(u, r); ch != nil && len(atSource(ex.s, *ch)) > 0 {
		return ch
	}
	return nil
}

func (ex *explanation) nodeRemedyCandidate(u *disrupt.Candidate, r plan.Reason) *plan.Change {
	pool := "nodepool/" + u.Pool.Name
	annotation := func(key string) string { return "metadata.annotations[" + key + "]" }
	switch r.Code {
	case plan.NotInitialized:
		for _, t := range u.Node.Taints {
			if u.Claim.IsStartupTaint(t) {
				return &plan.Change{Object: "node/" + u.Node.Name, Field: "spec.taints[" + t.Key + ":" + t.Effect + "]", Op: plan.Remove}
			}
		}
	case plan.NodeDoNotDisrupt:
		return &plan.Change{Object: string(r.Subject), Field: annotation(plan.DetailOf[plan.OfNodeHeld](r).Annotation), Op: plan.Remove}
	case plan.PodDoNotDisrupt:
		return &plan.Change{Object: string(r.Subject), Field: annotation(plan.DetailOf[plan.OfPodHeld](r).Annotation), Op: plan.Remove}
	case plan.SafeToEvict, plan.NoController, plan.LocalStorage, plan.SystemPod, plan.CustomController:
		return &plan.Change{Object: string(r.Subject), Field: annotation(disrupt.SafeToEvict), Op: plan.Set, Value: "true"}
	case plan.Limit: // for a static pool: the limit prevents a replacement
		return &plan.Change{Object: pool, Field: "spec.limits.nodes", Op: plan.Set, Value: strconv.FormatInt(int64(plan.DetailOf[plan.OfLimit](r).Need), 10)}
	case plan.SharedLimit:
		if out := ex.sharedLimitRemedies(r); len(out) > 0 {
			return &out[0]
		}
	case plan.PoolNotReady:
		if !u.Pool.Deleting && !u.Pool.IsUnread() {
			return &plan.Change{Object: pool, Field: "status.conditions[Ready]", Op: plan.Set, Value: trueText}
		}
	case plan.ConsolidationOff:
		return &plan.Change{Object: pool, Field: "spec.disruption.consolidationPolicy", Op: plan.Set, Value: "WhenEmptyOrUnderutilized"}
	case plan.NotBalanced:
		return &plan.Change{Object: string(r.Subject), Field: "spec.disruption.consolidationPolicy", Op: plan.Set, Value: "WhenEmptyOrUnderutilized"}
	case plan.ClusterMinimum:
		return ex.dropMinimum(string(plan.DetailOf[plan.OfClusterMinimum](r).Resource))
	case plan.GroupMinimum:
		if x := ex.Eligibility().NodeGroups[u.NodeGroup()]; x != nil && x.Staying > 0 {
			return &plan.Change{Object: string(r.Subject), Field: "minSize", Op: plan.Set, Value: strconv.FormatInt(x.Staying-1, 10)}
		}
	case plan.GroupRefresh:
		return &plan.Change{Object: string(r.Subject), Field: "instanceRefresh", Op: plan.Remove}
	case plan.Quiet:
		quiet := time.Duration(0) // 0 for a node that is not initialized
		if !u.UnchangedSince.IsZero() {
			quiet = max(ex.now.Sub(u.UnchangedSince).Truncate(time.Second), 0)
		}
		return &plan.Change{Object: pool, Field: "spec.disruption.consolidateAfter", Op: plan.Set, Value: quiet.String()}
	case plan.Payback:
		return &plan.Change{Object: "nodeclaim/" + u.Claim.Name, Field: annotation(disrupt.KeepUntil), Op: plan.Remove}
	case plan.Budget:
		budget := plan.DetailOf[plan.OfBudget](r)
		switch field := budget.Field(); {
		case budget.Unreadable:
			return &plan.Change{Object: pool, Field: field, Op: plan.Remove}
		case field != "":
			return &plan.Change{Object: pool, Field: field + ".nodes", Op: plan.Set, Value: strconv.FormatInt(budget.Unavailable+1, 10)}
		}
	case plan.DisruptionBudgetPDB:
		for _, b := range ex.s.PDBs {
			if b.Key() == plan.DetailOf[plan.OfPDB](r).Name {
				return allowOneDisruption(b)
			}
		}
	case plan.SeveralPDBs:
		// One must be removed: the one that blocks the pod, or else the one that allows the fewest disruptions.
		_, key, _ := strings.Cut(string(r.Subject), "/")
		pod := findPod(ex.s, key)
		if pod == nil {
			return nil
		}
		compare := func(a, b *model.PDB) int {
			if x, y := disrupt.BlocksEviction(a, pod), disrupt.BlocksEviction(b, pod); x != y {
				if x {
					return -1
				}
				return 1
			}
			return cmp.Compare(a.DisruptionsAllowed, b.DisruptionsAllowed)
		}
		var worst *model.PDB
		names := plan.DetailOf[plan.OfSeveralPDBs](r).Names.Names()
		for _, b := range ex.s.PDBs {
			if slices.Contains(names, b.Key()) && (worst == nil || compare(b, worst) < 0) {
				worst = b
			}
		}
		if worst != nil {
			return &plan.Change{Object: "poddisruptionbudget/" + worst.Key(), Op: plan.Remove}
		}
	}
	return nil
}

// allowOneDisruption returns the edit of a PodDisruptionBudget after which it allows one disruption.
func allowOneDisruption(b *model.PDB) *plan.Change {
	object := "poddisruptionbudget/" + b.Key()
	switch {
	case b.Healthy < 1:
		return &plan.Change{Object: object, Field: "spec.unhealthyPodEvictionPolicy", Op: plan.Set, Value: "AlwaysAllow"}
	case b.MinAvailable != "":
		return &plan.Change{Object: object, Field: "spec.minAvailable", Op: plan.Set, Value: strconv.Itoa(int(b.Healthy) - 1)}
	}
	return &plan.Change{Object: object, Field: "spec.maxUnavailable", Op: plan.Set, Value: strconv.Itoa(int(b.Expected-b.Healthy) + 1)}
}
