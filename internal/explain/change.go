// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Apply returns the cluster as it would be after a change. It does not modify s. The result shares unchanged objects
// with s.
func Apply(s *model.Snapshot, ch plan.Change) (*model.Snapshot, error) {
	out := *s
	kind, name, _ := strings.Cut(ch.Object, "/")
	var err error
	switch kind {
	case "nodepool":
		out.Pools, err = replaceWhere(s.Pools, func(p *model.NodePool) bool { return p.Name == name }, func(p *model.NodePool) error { return applyPool(p, s.ResourceNames, ch) })
	case "pod":
		err = applyPod(&out, name, ch)
	case "deployment", "replicaset", "replicationcontroller", "statefulset", "job":
		err = applyTemplate(&out, ch)
	case "node":
		out.Nodes, err = replaceWhere(s.Nodes, func(n *model.Node) bool { return n.Name == name }, func(n *model.Node) error { return applyNode(n, ch) })
	case "nodeclaim":
		out.Claims, err = replaceWhere(s.Claims, func(c *model.Claim) bool { return c.Name == name }, func(c *model.Claim) error {
			key, ok := bracketKey(ch.Field, "metadata.annotations")
			if !ok {
				return errField
			}
			c.Annotations = withLabelChange(c.Annotations, key, ch)
			return nil
		})
	case "poddisruptionbudget":
		if ch.Op == plan.Remove && ch.Field == "" {
			out.PDBs = slices.DeleteFunc(slices.Clone(s.PDBs), func(b *model.PDB) bool { return b.Key() == name })
			if len(out.PDBs) == len(s.PDBs) {
				err = errAbsent
			}
			break
		}
		out.PDBs, err = replaceWhere(s.PDBs, func(b *model.PDB) bool { return b.Key() == name }, func(b *model.PDB) error { return applyPDB(b, ch) })
	case plan.Controller, "capacityquota":
		object := ch.Object
		if kind == plan.Controller {
			object = model.ClusterLimits
		}
		out.Limits, err = replaceWhere(s.Limits, func(l *model.CapacityLimit) bool { return l.Name == object }, func(l *model.CapacityLimit) error { return applyLimit(l, s.ResourceNames, ch) })
	case "persistentvolumeclaim", "persistentvolume", "storageclass":
		err = applyStorage(&out, ch)
	case "offering":
		err = applyOffering(&out, name, ch)
	case "nodegroup":
		in := func(p *model.NodePool) bool {
			return p.Scaling != nil && slices.ContainsFunc(p.Scaling.Groups, func(g model.NodeGroup) bool { return g.Name == name })
		}
		tag, _ := bracketKey(ch.Field, "tags")
		label, isLabel := strings.CutPrefix(tag, groupLabelTag)
		if ch.Field == "maxSize" || isLabel {
			in = func(p *model.NodePool) bool {
				return slices.ContainsFunc(p.Types, func(t *model.InstanceType) bool {
					return slices.ContainsFunc(t.Offerings, func(o model.Offering) bool { return o.Labels[model.LabelNodeGroup] == name })
				})
			}
		}
		out.Pools, err = replaceWhere(s.Pools, in, func(p *model.NodePool) error {
			if isLabel {
				return applyPool(p, s.ResourceNames, plan.Change{Object: "nodepool/" + p.Name, Field: "spec.template.metadata.labels[" + label + "]", Op: ch.Op, Value: ch.Value})
			}
			return applyGroup(p, name, ch)
		})
	default:
		err = fmt.Errorf("kind %q can't be changed", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("apply %s %s %s %q: %w", ch.Object, ch.Field, ch.Op, ch.Value, err)
	}
	return &out, nil
}

// bracketKey parses FIELD[KEY].
func bracketKey(field, name string) (string, bool) {
	rest, ok := strings.CutPrefix(field, name+"[")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "]")
}

// withLabelChange returns a copy of labels, or annotations, with one key set or removed.
func withLabelChange(l model.Labels, key string, ch plan.Change) model.Labels {
	out := make(model.Labels, len(l)+1)
	maps.Copy(out, l)
	if ch.Op == plan.Remove {
		delete(out, key)
	} else {
		out[key] = ch.Value
	}
	return out
}

// applyGroup changes the settings of a node group in a pool.
func applyGroup(p *model.NodePool, name string, ch plan.Change) error {
	if ch.Field == "maxSize" {
		n, err := strconv.ParseInt(ch.Value, 10, 64)
		p.Types = slices.Clone(p.Types)
		for i, t := range p.Types {
			d := *t
			d.Offerings = slices.Clone(t.Offerings)
			for j := range d.Offerings {
				if o := &d.Offerings[j]; o.Labels[model.LabelNodeGroup] == name {
					o.Remaining, o.Most = max(0, o.Remaining+n-o.Most), n
					o.Available = o.Remaining > 0
				}
			}
			p.Types[i] = &d
		}
		return err
	}
	how := *p.Scaling
	how.Groups = slices.Clone(how.Groups)
	p.Scaling = &how
	g := &how.Groups[slices.IndexFunc(how.Groups, func(g model.NodeGroup) bool { return g.Name == name })]
	switch ch.Field {
	case "minSize":
		n, err := strconv.ParseInt(ch.Value, 10, 64)
		g.Min = n
		return err
	case "instanceRefresh":
		g.Refresh = ""
		return nil
	}
	return errField
}

// applyPool changes a field of a NodePool.
func applyPool(p *model.NodePool, names []string, ch plan.Change) error {
	number := func() (int64, error) { return strconv.ParseInt(ch.Value, 10, 64) }
	field, sub, _ := strings.Cut(ch.Field, "].")
	if sub != "" {
		field += "]"
	}
	var err error
	switch field {
	case "spec.disruption.consolidationPolicy":
		p.ConsolidationPolicy = ch.Value
		return nil
	case "spec.disruption.consolidateAfter":
		p.ConsolidateAfter, err = time.ParseDuration(ch.Value)
		return err
	case "spec.limits.nodes":
		p.NodeLimit, err = number()
		return err
	case "status.conditions[Ready]":
		p.Ready, p.NotReady = true, model.Condition{}
		return nil
	}
	if key, ok := strings.CutPrefix(field, "spec.limits."); ok {
		d := slices.Index(names, key)
		if d < 0 {
			return errField
		}
		v, err := model.ParseAmount(model.Dim(d), ch.Value)
		p.Limits = p.Limits.With(model.Dim(d), v)
		return err
	}
	if key, ok := bracketKey(field, "spec.template.metadata.labels"); ok {
		p.Labels = withLabelChange(p.Labels, key, ch)
		p.Requirements = slices.DeleteFunc(slices.Clone(p.Requirements), func(q model.Requirement) bool { return q.Key == key })
		if ch.Op != plan.Remove {
			p.Requirements = p.Requirements.With(model.OneOf(key, ch.Value))
		}
		changeHash(p, ch)
		return nil
	}
	if key, ok := bracketKey(field, "spec.template.metadata.annotations"); ok {
		p.Annotations = withLabelChange(p.Annotations, key, ch)
		changeHash(p, ch)
		return nil
	}
	if i, ok := bracketKey(field, "spec.disruption.budgets"); ok {
		at, err := strconv.Atoi(i)
		if err != nil || at < 0 || at >= len(p.Budgets) {
			return errField
		}
		p.Budgets = slices.Clone(p.Budgets)
		switch b := &p.Budgets[at]; {
		case sub == "nodes":
			b.Percent = false
			b.Nodes, err = number()
		case sub == "" && ch.Op == plan.Remove:
			p.Budgets = slices.Delete(p.Budgets, at, at+1)
		default:
			return errField
		}
		return err
	}
	if key, ok := bracketKey(field, "spec.template.spec.requirements"); ok {
		return applyRequirement(p, key, sub, ch)
	}
	return errField
}

// changeHash changes the template hash of a NodePool to a text that is not the hash of any template. The hash does not
// include requirements.
func changeHash(p *model.NodePool, ch plan.Change) {
	if p.Hash != "" {
		p.Hash += " " + ch.Field + " " + string(ch.Op) + " " + ch.Value
	}
}

// applyRequirement changes one requirement of a NodePool: its minValues, or the allowed values.
func applyRequirement(p *model.NodePool, key, sub string, ch plan.Change) error {
	p.Requirements = slices.Clone(p.Requirements)
	i := slices.IndexFunc(p.Requirements, func(q model.Requirement) bool { return q.Key == key })
	switch {
	case i < 0 && ch.Op == plan.Add:
		p.Requirements = p.Requirements.With(model.OneOf(key, ch.Value))
		return nil
	case i < 0:
		return errField
	case sub == "minValues":
		n := 0
		var err error
		if ch.Op == plan.Set {
			n, err = strconv.Atoi(ch.Value)
		}
		p.Requirements[i].MinValues = n
		return err
	case ch.Op == plan.Remove:
		p.Requirements = slices.Delete(p.Requirements, i, i+1)
		return nil
	case p.Requirements[i].Complement:
		p.Requirements[i].Values = slices.DeleteFunc(slices.Clone(p.Requirements[i].Values), func(v string) bool { return v == ch.Value })
		return nil
	}
	q := model.OneOf(key, append(slices.Clone(p.Requirements[i].Values), ch.Value)...)
	q.MinValues = p.Requirements[i].MinValues
	p.Requirements[i] = q
	return nil
}

// applyNode changes an annotation of a node, or removes a taint.
func applyNode(n *model.Node, ch plan.Change) error {
	if key, ok := bracketKey(ch.Field, "metadata.annotations"); ok {
		n.Annotations = withLabelChange(n.Annotations, key, ch)
		return nil
	}
	if key, ok := bracketKey(ch.Field, "spec.taints"); ok && ch.Op == plan.Remove {
		n.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t.Key+":"+t.Effect == key })
		return nil
	}
	return errField
}

// applyPDB changes a PodDisruptionBudget, and recomputes the number of allowed disruptions.
func applyPDB(b *model.PDB, ch plan.Change) error {
	if ch.Field == "spec.unhealthyPodEvictionPolicy" {
		b.AlwaysAllowUnready = ch.Value == "AlwaysAllow"
		return nil
	}
	n, err := strconv.ParseInt(ch.Value, 10, 32)
	if err != nil {
		return err
	}
	switch ch.Field {
	case "spec.minAvailable":
		b.MinAvailable, b.Desired = ch.Value, int32(n)
	case "spec.maxUnavailable":
		b.MaxUnavailable, b.Desired = ch.Value, max(0, b.Expected-int32(n))
	default:
		return errField
	}
	b.DisruptionsAllowed = max(0, b.Healthy-b.Desired)
	return nil
}

// applyOffering changes the price of an offering, or makes it available. name is TYPE/ZONE/CAPACITYTYPE.
func applyOffering(s *model.Snapshot, name string, ch plan.Change) error {
	part := strings.Split(name, "/")
	if len(part) != 3 {
		return errAbsent
	}
	done := map[*model.InstanceType]*model.InstanceType{}
	s.Pools = slices.Clone(s.Pools)
	for i, p := range s.Pools {
		at := slices.IndexFunc(p.Types, func(t *model.InstanceType) bool { return t.Name == part[0] })
		if at < 0 {
			continue
		}
		old := p.Types[at]
		if done[old] == nil {
			t := *old
			t.Offerings = slices.Clone(t.Offerings)
			for j := range t.Offerings {
				o := &t.Offerings[j]
				if o.Zone != part[1] || o.CapacityType != part[2] {
					continue
				}
				done[old] = &t
				switch ch.Field {
				case "price":
					micro, ok := model.ParseDollars(ch.Value)
					if !ok {
						return fmt.Errorf("price %q: use a number of dollars", ch.Value)
					}
					o.PriceMicro = micro
				case "available":
					o.Available = true
				default:
					return errField
				}
			}
		}
		if done[old] != nil {
			q := *p
			q.Types = slices.Clone(p.Types)
			q.Types[at] = done[old]
			s.Pools[i] = &q
		}
	}
	if len(done) == 0 {
		return errAbsent
	}
	return nil
}

// templateField is the prefix of a pod's field in the template of its workload.
const templateField = "spec.template."

// templateOf returns the workload in whose template a field of a pod is changed. ok is false if the field is changed on
// the pod itself.
func templateOf(p *model.Pod, field string) (w model.Workload, ok bool) {
	w, ok = p.Workload()
	return w, ok && slices.Contains(withTemplate, w.Kind) && strings.HasPrefix(field, "spec.") && field != "spec.schedulingGates"
}

// applyTemplate changes the template of a workload, and thus all of its pods.
func applyTemplate(s *model.Snapshot, ch plan.Change) error {
	field, ok := strings.CutPrefix(ch.Field, templateField)
	if !ok {
		return errField
	}
	ch.Field = field
	kind, name, _ := strings.Cut(ch.Object, "/")
	is := func(p *model.Pod) bool {
		w, ok := p.Workload()
		return ok && w.Namespace+"/"+w.Name == name && strings.EqualFold(w.Kind, kind)
	}
	classes := map[*model.Class]*model.Class{}
	change := func(p *model.Pod) error {
		if classes[p.Class] == nil {
			c := *p.Class
			if err := changeClass(&c, s.ResourceNames, ch); err != nil {
				return err
			}
			classes[p.Class] = &c
		}
		p.Class = classes[p.Class]
		return nil
	}
	if slices.ContainsFunc(s.Pending, is) {
		var err error
		if s.Pending, err = replaceWhere(s.Pending, is, change); err != nil {
			return err
		}
	}
	if err := changeBound(s, is, change); err != nil {
		return err
	}
	if len(classes) == 0 {
		return errAbsent
	}
	return nil
}

// changeClass changes a class, and its key, so that it differs from all other classes.
func changeClass(c *model.Class, names []string, ch plan.Change) error {
	err := applyClass(c, names, ch)
	c.Key += "\n" + ch.Field + " " + string(ch.Op) + " " + ch.Value
	c.SlotKey = ""
	return err
}

// changeBound changes the bound pods for which is returns true.
func changeBound(s *model.Snapshot, is func(*model.Pod) bool, change func(*model.Pod) error) error {
	s.Nodes = slices.Clone(s.Nodes)
	for i, n := range s.Nodes {
		if !slices.ContainsFunc(n.Pods, is) {
			continue
		}
		m := *n
		var err error
		if m.Pods, err = replaceWhere(n.Pods, is, change); err != nil {
			return err
		}
		m.Used, m.NoAnti = nil, false
		for _, p := range m.Pods {
			m.Used = m.Used.AddInto(p.Class.Requests, 1)
		}
		s.Nodes[i] = &m
	}
	return nil
}

// findPod returns the pod with the given namespace/name, or nil if it does not exist.
func findPod(s *model.Snapshot, key string) *model.Pod {
	for _, p := range s.Pending {
		if p.Key() == key {
			return p
		}
	}
	for _, n := range s.Nodes {
		for _, p := range n.Pods {
			if p.Key() == key {
				return p
			}
		}
	}
	return nil
}

// applyPod changes a pod. A change of a template field applies to all pending pods of the same template.
func applyPod(s *model.Snapshot, key string, ch plan.Change) error {
	annotation, own := bracketKey(ch.Field, "metadata.annotations")
	was := findPod(s, key)
	if was == nil {
		return errAbsent
	}
	if w, ok := templateOf(was, ch.Field); ok {
		ch.Object, ch.Field = w.String(), templateField+ch.Field
		return applyTemplate(s, ch)
	}
	class := was.Class
	if !own && ch.Field != "spec.schedulingGates" {
		c := *was.Class
		if err := changeClass(&c, s.ResourceNames, ch); err != nil {
			return err
		}
		class = &c
	}
	is := func(p *model.Pod) bool {
		return p == was || !own && p.Class == was.Class && p.Owner.UID != "" && p.Owner == was.Owner
	}
	change := func(p *model.Pod) error {
		switch {
		case ch.Field == "spec.schedulingGates":
			p.Gated = false
		case !own:
			p.Class = class
		case annotation == p.HoldAnnotation():
			p.DoNotDisrupt = ch.Value
		case annotation == disrupt.SafeToEvict:
			p.SafeToEvict = ch.Value
		default:
			return errField
		}
		return nil
	}
	if was.Node == "" {
		var err error
		s.Pending, err = replaceWhere(s.Pending, is, change)
		return err
	}
	return changeBound(s, is, change)
}

// applyClass changes a field of a pod's template.
func applyClass(c *model.Class, names []string, ch plan.Change) error {
	switch ch.Field {
	case "spec.tolerations":
		kv, effect, _ := strings.Cut(ch.Value, ":")
		k, v, _ := strings.Cut(kv, "=")
		c.Tolerations = append(slices.Clip(c.Tolerations), model.Toleration{Key: k, Value: v, Exists: v == "", Effect: effect, For: -1})
		return nil
	case "spec.schedulerName":
		c.Scheduler = ch.Value
		return nil
	case "spec.affinity.nodeAffinity[metadata.name]":
		dropTerm(c, func(t *model.NodeTerm) { t.Names = nil })
		return nil
	}
	key, ok := bracketKey(ch.Field, "spec.affinity.nodeAffinity")
	if !ok {
		key, ok = bracketKey(ch.Field, "spec.nodeSelector")
	}
	if ok {
		dropTerm(c, func(t *model.NodeTerm) {
			t.Requirements = slices.DeleteFunc(slices.Clone(t.Requirements), func(q model.Requirement) bool { return q.Key == key })
		})
		return nil
	}
	if res, ok := bracketKey(ch.Field, "spec.containers[*].resources.requests"); ok {
		d := slices.Index(names, res)
		if d < 0 {
			return errField
		}
		v, err := model.ParseAmount(model.Dim(d), ch.Value)
		c.Requests = c.Requests.With(model.Dim(d), v)
		return err
	}
	if field, sub, _ := strings.Cut(ch.Field, "]."); sub == "whenUnsatisfiable" || sub == "minDomains" {
		if key, ok := bracketKey(field+"]", "spec.topologySpreadConstraints"); ok {
			return applySpread(c, key, sub, ch.Value)
		}
	}
	drop := func(list []model.PodTerm, key string) []model.PodTerm {
		return slices.DeleteFunc(slices.Clone(list), func(t model.PodTerm) bool { return t.TopologyKey == key && !t.Selector.IsOfDevices() })
	}
	if key, ok := bracketKey(ch.Field, "spec.affinity.podAffinity"); ok {
		c.Affinity = drop(c.Affinity, key)
		return nil
	}
	if key, ok := bracketKey(ch.Field, "spec.affinity.podAntiAffinity"); ok {
		c.AntiAffinity = drop(c.AntiAffinity, key)
		return nil
	}
	if key, ok := bracketKey(ch.Field, "metadata.labels"); ok {
		c.Labels = withLabelChange(c.Labels, key, ch)
		return nil
	}
	if port, ok := bracketKey(ch.Field, "spec.containers[*].ports"); ok {
		c.HostPorts = slices.DeleteFunc(slices.Clone(c.HostPorts), func(p model.HostPort) bool { return p.String() == port })
		return nil
	}
	if claim, ok := bracketKey(strings.TrimSuffix(ch.Field, ".name"), "spec.volumes"); ok && strings.HasSuffix(ch.Field, ".name") {
		c.Volumes = slices.Clone(c.Volumes)
		for i := range c.Volumes {
			if c.Volumes[i].Claim == claim {
				c.Volumes[i].Problem = model.VolumeProblem{} // the problem was that of another claim
			}
		}
		return nil
	}
	if what, ok := bracketKey(ch.Field, "spec"); ok { // fields that are not supported at all
		c.Unsolved = slices.DeleteFunc(slices.Clone(c.Unsolved), func(u string) bool { return u == what })
		return nil
	}
	return errField
}

// applySpread changes the topology spread constraints with the given topology key: they are no longer required, or
// minDomains is lowered.
func applySpread(c *model.Class, key, field, value string) error {
	n, err := 0, error(nil)
	if field == "minDomains" {
		n, err = strconv.Atoi(value)
	}
	c.Spread = slices.Clone(c.Spread)
	for i := range c.Spread {
		switch x := &c.Spread[i]; {
		case x.TopologyKey != key:
		case field == "minDomains":
			x.MinDomains = min(x.MinDomains, int32(n))
		default:
			x.Hard = false
		}
	}
	return err
}

// dropTerm removes a part of each alternative term. If an alternative then requires nothing, the pod may run anywhere.
func dropTerm(c *model.Class, drop func(*model.NodeTerm)) {
	c.Terms = slices.Clone(c.Terms)
	for i := range c.Terms {
		c.Terms[i].Standing = nil // it contains what the change removes, under another name
		drop(&c.Terms[i])
		if len(c.Terms[i].Requirements) == 0 && c.Terms[i].Names == nil {
			c.Terms = nil
			return
		}
	}
}

// withTemplate lists the kinds whose pods are created from a template.
var withTemplate = []string{"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"}

// groupLabelTag is the prefix of the tags of an Auto Scaling group that specify the labels of its nodes.
const groupLabelTag = "k8s.io/cluster-autoscaler/node-template/label/"
