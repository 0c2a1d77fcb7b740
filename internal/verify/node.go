// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// checkPlacement checks the pods that the plan places on an existing or in-flight node.
func (c *checker) checkPlacement(a *Placement) {
	r, at := c.nodes[a.Node], Site{Node: a.Node}
	switch {
	case r == nil:
		c.addViolation(Place, nil, at, "there is no such node")
		return
	case r.Closed || r.Drained:
		c.addViolation(Place, nil, at, "takes no pods")
	}
	for _, p := range a.Pods {
		if why := cmp.Or(whyNotPlaced(p.Class), whyNotAdmitted(p.Class, r.Labels, r.Open, r.Taints, r.Name, standing(r))); why != "" {
			c.addViolation(Admission, p, at, "%s", why)
		}
	}
	coming := c.daemonsToCome(r)
	c.checkCapacity(at, r.Free, append(classesOf(r.Pods), coming...), coming, a.Pods, attachLimits{r.CSILimits, r.Attached})
}

// standing returns a node if its labels are what they will be, nil otherwise.
func standing(r *ExistingNode) *ExistingNode {
	if r.InFlight || r.Fresh {
		return nil
	}
	return r
}

// daemonsToCome are the DaemonSets whose pod is not on a node yet, is admitted there and fits.
func (c *checker) daemonsToCome(r *ExistingNode) (out []*model.Class) {
	free := r.Free.Clone()
	for _, d := range c.in.Daemons {
		there := slices.ContainsFunc(r.Pods, func(p *model.Pod) bool {
			return d.Runs(p)
		})
		if !there && whyNotAdmitted(d.Class, r.Labels, r.Open, r.Taints, r.Name, standing(r)) == "" && d.Pod().Requests.Fits(free) {
			free = free.Sub(d.Pod().Requests)
			out = append(out, d.Pod())
		}
	}
	return out
}

// classesOf are the classes of pods, one for each pod.
func classesOf(pods []*model.Pod) []*model.Class {
	out := make([]*model.Class, len(pods))
	for i, p := range pods {
		out[i] = p.Class
	}
	return out
}

// checkCapacity checks that a node with this much free holds the pods beside those of DaemonSets that are to come:
// resources, host ports and attached volumes. there are the classes on the node, those to come included.
func (c *checker) checkCapacity(where Site, free model.Resources, there, coming []*model.Class, pods []*model.Pod, limits attachLimits) {
	var sum model.Resources
	for _, d := range coming {
		sum = sum.AddInto(d.Requests, 1)
	}
	var asked model.Resources // by pods: what only DaemonSets overfill is not the plan's doing
	for _, p := range pods {
		sum = sum.AddInto(p.Class.Requests, 1)
		asked = asked.AddInto(p.Class.Requests, 1)
	}
	for d, v := range sum {
		d := model.Dim(d)
		if asked.At(d) > 0 && v > free.At(d) {
			c.addViolation(Capacity, nil, where, "pods request %s of %s, %s is free", model.FormatAmount(d, v), c.in.resourceName(d), model.FormatAmount(d, free.At(d)))
		}
	}
	attached := map[string]map[string]bool{}
	attachOne := func(driver, handle string) {
		if attached[driver] == nil {
			attached[driver] = map[string]bool{}
		}
		attached[driver][handle] = true
	}
	attach := func(class *model.Class) {
		for i := range class.Volumes {
			if v := &class.Volumes[i]; v.Driver != "" {
				attachOne(v.Driver, v.Handle)
			}
		}
	}
	for _, class := range there {
		attach(class)
	}
	before, leaving := map[string]int{}, map[string]int{}
	for driver, handles := range attached {
		before[driver] = len(handles)
	}
	for _, a := range limits.attached {
		if !attached[a.Driver][a.Handle] {
			leaving[a.Driver]++
		}
	}
	for _, p := range pods {
		attach(p.Class)
	}
	c.checkPorts(where, there, pods)
	for driver, limit := range limits.most {
		if n := len(attached[driver]); int64(n+leaving[driver]) > limit && n > before[driver] {
			c.addViolation(Capacity, nil, where, "attaches %d volumes of %s, at most %d", n+leaving[driver], driver, limit)
		}
	}
}

// attachLimits are how many volumes of each driver a node can attach, and those that it has.
type attachLimits struct {
	most     map[string]int64
	attached []model.Attachment
}

// checkPorts checks that pods take no host port twice, nor one of those that are there. A machine is asked about for
// each of its offerings: one beside the same classes is not asked about twice.
func (c *checker) checkPorts(where Site, there []*model.Class, pods []*model.Pod) {
	if !slices.ContainsFunc(pods, func(p *model.Pod) bool { return len(p.Class.HostPorts) > 0 }) {
		return
	}
	if last := &c.lastPorts; last.where == where.String() && slices.Equal(last.pods, pods) && slices.Equal(last.there, there) {
		return
	}
	c.lastPorts = portsAsked{where.String(), there, pods}
	taken := map[int32][]model.HostPort{} // by number
	take := func(class *model.Class) {
		for _, p := range class.HostPorts {
			taken[p.Port] = append(taken[p.Port], p)
		}
	}
	for _, class := range there {
		take(class)
	}
	for _, p := range pods {
		for _, mine := range p.Class.HostPorts {
			if slices.ContainsFunc(taken[mine.Port], mine.Conflicts) {
				what := mine.Disk
				if what == "" {
					what = "port " + strconv.Itoa(int(mine.Port))
				}
				c.addViolation(Capacity, p, where, "%s is taken", what)
			}
		}
		take(p.Class)
	}
}

// checkMachine checks a machine to be bought, as each instance type and offering that it may become.
func (c *checker) checkMachine(i int, m *Machine) {
	where := siteOf(i, m)
	p := c.pools[m.Pool]
	switch {
	case p == nil:
		c.addViolation(Place, nil, where, "there is no such pool")
		return
	case !p.Ready || p.Deleting || p.Replicas >= 0:
		c.addViolation(Place, nil, where, "nothing may be bought from the pool")
	case len(m.Pods) == 0:
		c.addViolation(Place, nil, where, "is for no pod")
	}
	if !slices.Contains(m.Choices, m.Type) {
		c.addViolation(Choice, nil, where, "type %s is not among its choices", m.Type.Name)
	}
	c.checkRequirements(where, m)
	cheapest := int64(-1)
	prices := c.checkChoices(where, p, m)
	for _, t := range m.Choices {
		if !c.offered[p.Name][t] {
			c.addViolation(Choice, nil, where, "type %s is not one of the pool's", t.Name)
		}
		least, ok := prices[t]
		if !ok {
			c.addViolation(Choice, nil, where, "type %s has no offering where the machine may be", t.Name)
		} else if cheapest < 0 || least < cheapest {
			cheapest = least
		}
	}
	if cheapest != m.PriceMicro {
		c.addViolation(Choice, nil, where, "price is %d, the cheapest choice costs %d", m.PriceMicro, cheapest)
	}
	for _, r := range p.Requirements {
		if r.MinValues == 0 {
			continue
		}
		want := r.MinValues
		if own := m.Requirements.Get(r.Key); p.RelaxMinValues && own != nil {
			want = own.MinValues
		}
		if n := c.countValues(p, m, &r); want > n {
			c.addViolation(Choice, nil, where, "%d values of %s are left, %d are wanted", n, r.Key, want)
		}
	}
}

// checkRequirements checks that the requirements of a machine allow all that it may become.
func (c *checker) checkRequirements(where Site, m *Machine) {
	allows := func(key, value string) {
		if r := m.Requirements.Get(key); r != nil && value != "" && !r.Matches(value, true) {
			c.addViolation(Choice, nil, where, "its requirements don't allow %s %s", key, value)
		}
	}
	for _, t := range m.Choices {
		allows(model.LabelInstanceType, t.Name)
	}
	for _, z := range m.Zones {
		allows(model.LabelZone, z)
	}
	for _, x := range m.CapacityTypes {
		allows(model.LabelCapacityType, x)
	}
}

// countValues returns how many distinct values that a requirement allows a label has among the offerings that a machine
// may become. A label of the pool's own has none: there is nothing that the cloud could choose.
func (c *checker) countValues(p *Pool, m *Machine, r *model.Requirement) int {
	values := map[string]bool{}
	c.forEachOffering(p, m, func(t *model.InstanceType, o *model.Offering, _ *variant) {
		if v, ok := offeringLabels(t, o)[r.Key]; ok && r.Matches(v, true) {
			values[v] = true
		}
	})
	return len(values)
}

// offeringLabels are the labels of a node of an instance type and offering, without those of its pool.
func offeringLabels(t *model.InstanceType, o *model.Offering) model.Labels {
	labels := model.Labels{model.LabelInstanceType: t.Name}
	maps.Copy(labels, t.Labels)
	maps.Copy(labels, o.Labels)
	if o.Zone != "" {
		labels[model.LabelZone] = o.Zone
	}
	if o.CapacityType != "" {
		labels[model.LabelCapacityType] = o.CapacityType
	}
	return labels
}

// fixedRequirements are a machine's requirements but for type, zone and capacity type, which its choices and zones
// say too.
func fixedRequirements(m *Machine) model.Requirements {
	var out model.Requirements
	for _, r := range m.Requirements {
		if r.Key != model.LabelInstanceType && r.Key != model.LabelZone && r.Key != model.LabelCapacityType {
			out = append(out, r)
		}
	}
	return out
}

// variantOf is the variant of an offering, made once. Its labels are the offering's, the pool's, and what the machine's
// requirements fix. The node's name is not known, but there will be one.
func (c *checker) variantOf(p *Pool, fixed model.Requirements, fixedKey string, t *model.InstanceType, o *model.Offering) *variant {
	k := variantKey{p.Name, o, fixedKey}
	if v := c.variants[k]; v != nil {
		return v
	}
	v := &variant{labels: offeringLabels(t, o)}
	for _, r := range fixed {
		if _, ok := v.labels[r.Key]; !ok && !r.Complement && len(r.Values) == 1 {
			v.labels[r.Key] = r.Values[0]
		}
	}
	maps.Copy(v.labels, p.Labels)
	v.labels[model.LabelNodePool] = p.Name
	if p.Provisioner != "" {
		v.labels[model.LabelProvisioner] = p.Provisioner
	}
	v.labels[model.LabelHostname] = "(new)"
	v.labels[model.LabelRegistered], v.labels[model.LabelInitialized] = "true", "true" // before any pod comes
	v.usable, v.fits = requirementsHold(decidedRequirements(fixed, v.labels), v.labels, nil), requirementsHold(decidedRequirements(p.Requirements, v.labels), v.labels, nil)
	for _, d := range c.in.Daemons {
		if whyNotAdmitted(d.Class, v.labels, nil, p.Taints, "", nil) == "" {
			v.coming = append(v.coming, d.Pod())
			v.daemon = v.daemon.AddInto(d.Pod().Requests, 1)
		}
	}
	c.variants[k] = v
	return v
}

// decidedRequirements leaves out requirements on labels that the pool leaves open and nobody fixed: whoever makes the
// node chooses a value that satisfies them.
func decidedRequirements(rs model.Requirements, labels model.Labels) model.Requirements {
	var out model.Requirements
	for _, r := range rs {
		if _, ok := labels[r.Key]; ok || !r.HasValue() || isWellKnownLabel(r.Key) {
			out = append(out, r)
		}
	}
	return out
}

// isWellKnownLabel reports whether the instance type and offering, and never the pool, give a label its value.
func isWellKnownLabel(key string) bool {
	switch key {
	case model.LabelArch, model.LabelOS, model.LabelZone, model.LabelCapacityType, model.LabelInstanceType, model.LabelRegion:
		return true
	}
	return false
}

// forEachOffering calls f for every offering that a machine may become.
func (c *checker) forEachOffering(p *Pool, m *Machine, f func(*model.InstanceType, *model.Offering, *variant)) {
	fixed := fixedRequirements(m)
	key := fixed.Key()
	for _, t := range m.Choices {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if !o.Available || !slices.Contains(m.Zones, o.Zone) || !slices.Contains(m.CapacityTypes, o.CapacityType) {
				continue
			}
			if v := c.variantOf(p, fixed, key, t, o); v.usable {
				f(t, o, v)
			}
		}
	}
}

// checkChoices checks every offering that a machine may become, and returns the least price of each type.
func (c *checker) checkChoices(where Site, p *Pool, m *Machine) map[*model.InstanceType]int64 {
	least := map[*model.InstanceType]int64{}
	var asked model.Resources
	var classes []*model.Class
	special := false
	for _, pod := range m.Pods {
		asked = asked.AddInto(pod.Class.Requests, 1)
		if !slices.Contains(classes, pod.Class) {
			classes = append(classes, pod.Class)
			special = special || len(pod.Class.HostPorts) > 0 || len(pod.Class.Volumes) > 0
		}
	}
	c.forEachOffering(p, m, func(t *model.InstanceType, o *model.Offering, v *variant) {
		if was, ok := least[t]; !ok || o.PriceMicro < was {
			least[t] = o.PriceMicro
		}
		if !v.fits {
			c.addViolation(Choice, nil, where, "%s in %s is not what the pool requires", t.Name, o.Zone)
		}
		for _, class := range classes {
			k := verdictKey{class, v}
			why, ok := c.verdicts[k]
			if !ok {
				why = cmp.Or(whyNotPlaced(class), whyNotAdmitted(class, v.labels, nil, p.Taints, "", nil))
				c.verdicts[k] = why
			}
			if why != "" {
				c.addViolation(Admission, m.Pods[slices.IndexFunc(m.Pods, func(x *model.Pod) bool { return x.Class == class })], where,
					"%s in %s: %s", t.Name, o.Zone, why)
			}
		}
		for d := range min(model.FirstExtended, model.Dim(len(v.daemon))) { // extended resources, and what a type doesn't say that it has, they may go without
			if q, have := v.daemon[d], t.Allocatable.At(d); q > have && have > 0 {
				c.addViolation(Capacity, nil, where, "DaemonSets request %s of %s, %s has %s", model.FormatAmount(d, q), c.in.resourceName(d), t.Name, model.FormatAmount(d, have))
			}
		}
		if special {
			c.checkCapacity(where, t.Allocatable, v.coming, v.coming, m.Pods, attachLimits{most: t.CSILimits})
			return
		}
		for d, q := range asked {
			d := model.Dim(d)
			if have := t.Allocatable.At(d) - v.daemon.At(d); q > 0 && q > have {
				c.addViolation(Capacity, nil, where, "pods request %s of %s, %s has %s without DaemonSets", model.FormatAmount(d, q), c.in.resourceName(d),
					t.Name, model.FormatAmount(d, have))
			}
		}
	})
	return least
}
