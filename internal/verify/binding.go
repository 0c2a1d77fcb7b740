// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TaintNotReady is the key of the taints (NoSchedule and NoExecute) that kube-controller-manager keeps on a node
// while it is not Ready.
const TaintNotReady = "node.kubernetes.io/not-ready"

// BindingCheck checks whether a pod may be bound to a node now: whether every filter of kube-scheduler would pass. It reads the
// nodes of one Snapshot, and counts pods that are bound later (Bind). The reservation taint of a node is ignored, because the pod
// is bound to use the reservation; all other properties of the node count. Like kube-scheduler, it does not count future pods:
// decide reserves the capacity for DaemonSet pods.
//
// It supports only pods whose constraints concern only their own node. It refuses all other pods on every node: see
// checkRulesElsewhere.
type BindingCheck struct {
	resources  []string      // names by model.Dim
	nodes      []*model.Node // by name
	namespaces map[string]model.Labels

	bound       map[string][]*model.Pod // by node: bound after the Snapshot, in order
	ports       map[portOnNode][]takenPort
	portsRead   map[string]bool // by node: whether all host ports on it are in ports
	indexed     bool
	repelling   map[*model.PodTerm]map[string]int // once indexed: pods on nodes with this required anti-affinity term, by domain of its topology key
	against     map[*model.Class][]*model.PodTerm // which of these select a class
	spreads     map[spreadKey]*spread
	nodesByHost map[string][]*model.Node // by host: nodes that bear its name as their label, where they are several; nil: not looked for yet
}

type spreadKey struct {
	class *model.Class
	index int // in Class.Spread
}

// spread is a topology spread constraint over hosts, with the pods that it selects. certain are the nodes that count
// for kube-scheduler now. all are these and the nodes that will count once they are rid of a taint, of their
// reservation or not-ready, that does not keep pods from being bound to them; the two are the same where the
// constraint does not honour taints.
type spread struct {
	constraint   *model.SpreadConstraint
	namespace    string
	all, certain *hosts
}

// hosts are nodes that count for a topology spread constraint.
type hosts struct {
	nodes  map[string]bool // by name
	counts map[string]int  // pods that the constraint selects on them, by value of the host's label
}

// NewBindingCheck returns a BindingCheck. resources are the resource names by dimension; nodes are sorted by name and contain all
// their pods; namespaces are the labels of namespaces by name.
func NewBindingCheck(resources []string, nodes []*model.Node, namespaces map[string]model.Labels) *BindingCheck {
	return &BindingCheck{resources: resources, nodes: nodes, namespaces: namespaces, bound: map[string][]*model.Pod{}, ports: map[portOnNode][]takenPort{}, portsRead: map[string]bool{}, repelling: map[*model.PodTerm]map[string]int{}, against: map[*model.Class][]*model.PodTerm{}, spreads: map[spreadKey]*spread{}}
}

// Bind counts a pod as bound to a node from now on.
func (b *BindingCheck) Bind(p *model.Pod, node string) {
	b.bound[node] = append(b.bound[node], p)
	if b.portsRead[node] {
		b.takePorts(p, node)
	}
	n := b.nodeNamed(node)
	if n == nil {
		return
	}
	if b.indexed {
		b.countAntiAffinity(p, n)
	}
	for _, s := range b.spreads {
		b.countInSpread(s, p, n)
	}
}

// Refusal returns the first filter of kube-scheduler that would refuse the pod on the node; an empty code if none would. Its
// Subject is the node.
func (b *BindingCheck) Refusal(p *model.Pod, node string) plan.Reason {
	n := b.nodeNamed(node)
	if n == nil || !n.Deleting.IsZero() {
		return plan.Reason{Code: plan.BindingUnfit, Subject: plan.ObjectOf("node", node), Detail: plan.OfBindingUnfit{Filter: plan.FilterNodeName}}
	}
	for _, check := range []func(*model.Pod, *model.Node) plan.Reason{
		checkRulesElsewhere, checkReady, b.checkTaints, checkNodeAffinity, b.checkResources, b.checkHostPorts, b.checkVolumes, b.checkAntiAffinity, b.checkSpread,
	} {
		if why := check(p, n); why.Code != "" {
			why.Subject = plan.ObjectOf("node", node)
			return why
		}
	}
	return plan.Reason{}
}

// unfit is what a filter of kube-scheduler has against a node.
func unfit(d plan.OfBindingUnfit) plan.Reason {
	return plan.Reason{Code: plan.BindingUnfit, Detail: d}
}

// resourceName is the name of a resource by its dimension.
func (b *BindingCheck) resourceName(d model.Dim) string {
	if int(d) < len(b.resources) {
		return b.resources[d]
	}
	return "resource " + strconv.Itoa(int(d))
}

// nodeNamed is the node of this name; nil where there is none.
func (b *BindingCheck) nodeNamed(name string) *model.Node {
	i, ok := slices.BinarySearchFunc(b.nodes, name, func(n *model.Node, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return nil
	}
	return b.nodes[i]
}

// checkRulesElsewhere refuses pods some of whose rules ask about more than the node: only kube-scheduler, which binds
// one pod after the other with the whole cluster in view, can place those.
func checkRulesElsewhere(p *model.Pod, _ *model.Node) plan.Reason {
	c := p.Class
	refuse := func(key string) plan.Reason {
		return plan.Reason{Code: plan.NotBindable, Detail: plan.OfNotBindable{Field: key, Elsewhere: true}}
	}
	switch {
	case p.Node != "":
		return refuse("spec.nodeName")
	case p.Gated:
		return refuse("spec.schedulingGates")
	case !p.Deleting.IsZero():
		return refuse("metadata.deletionTimestamp")
	case p.Gang.LeftToScheduler:
		return refuse("gang " + p.Gang.Name)
	case len(c.Unsolved) > 0:
		return refuse(c.Unsolved[0])
	case c.HasClaims:
		return refuse(c.ClaimsField()) // nobody else allocates their devices
	case c.VolumeProblem() != nil:
		return refuse("spec.volumes[" + c.VolumeProblem().Claim + "]")
	case c.Excess.What != "":
		return plan.Reason{Code: plan.NotBindable, Detail: plan.OfNotBindable{Field: "spec", TooMany: c.Excess.What}}
	}
	for i := range c.Affinity {
		if !c.Affinity[i].IsOfGang() {
			return refuse("spec.affinity.podAffinity")
		}
	}
	for i := range c.AntiAffinity {
		if c.AntiAffinity[i].TopologyKey != model.LabelHostname {
			return refuse("spec.affinity.podAntiAffinity[" + c.AntiAffinity[i].TopologyKey + "]")
		}
	}
	for i := range c.Spread {
		if c.Spread[i].Hard && c.Spread[i].TopologyKey != model.LabelHostname {
			return refuse("spec.topologySpreadConstraints[" + c.Spread[i].TopologyKey + "]")
		}
	}
	for i := range c.Volumes {
		if c.Volumes[i].Unmade || c.Volumes[i].Exclusive {
			return refuse("spec.volumes[" + c.Volumes[i].Claim + "]")
		}
	}
	return plan.Reason{}
}

// checkReady checks that the node is Ready.
func checkReady(_ *model.Pod, n *model.Node) plan.Reason {
	if n.Ready {
		return plan.Reason{}
	}
	return unfit(plan.OfBindingUnfit{Filter: plan.FilterTaints, Cause: plan.UnfitNotReady})
}

// checkTaints checks taints. The node's own reservation is for the pods that are bound to it. The taint not-ready
// stays on a node for a moment after it is Ready; a pod that may run on a node with the NoExecute form of it may be
// bound meanwhile.
func (b *BindingCheck) checkTaints(p *model.Pod, n *model.Node) plan.Reason {
	for _, t := range n.Taints {
		switch {
		case t.Effect == model.PreferNoSchedule, model.Tolerated(t, p.Class.Tolerations):
		case t.Key == model.TaintReserved && n.Claim != "" && t.Value == n.Claim:
		case t.Key == TaintNotReady && model.Tolerated(model.Taint{Key: TaintNotReady, Effect: model.NoExecute}, p.Class.Tolerations):
		default:
			return unfit(plan.OfBindingUnfit{Filter: plan.FilterTaints, Cause: plan.UnfitTaint, What: t.Key + "=" + t.Value + ":" + t.Effect})
		}
	}
	return plan.Reason{}
}

// checkNodeAffinity checks the pod's node selector and node affinity.
func checkNodeAffinity(p *model.Pod, n *model.Node) plan.Reason {
	if termsAllow(p.Class, n.Labels, nil, n.Name, true) {
		return plan.Reason{}
	}
	return unfit(plan.OfBindingUnfit{Filter: plan.FilterNodeAffinity, Cause: plan.UnfitLabels})
}

// checkResources checks the pod's requests against the node's own allocatable, the number of pods included.
func (b *BindingCheck) checkResources(p *model.Pod, n *model.Node) plan.Reason {
	for d, want := range p.Class.Requests {
		if want <= 0 {
			continue
		}
		d := model.Dim(d)
		free := n.Allocatable.At(d) - n.Used.At(d)
		for _, q := range b.bound[n.Name] {
			free -= q.Class.Requests.At(d)
		}
		if want > free {
			return unfit(plan.OfBindingUnfit{Filter: plan.FilterResources, Cause: plan.UnfitResource, What: b.resourceName(d), Need: want, Have: max(0, free)})
		}
	}
	return plan.Reason{}
}

// portOnNode is a host port without its address.
type portOnNode struct {
	node     string
	port     int32
	protocol string
}

// takenPort is one that a pod on the node has.
type takenPort struct {
	port model.HostPort
	pod  *model.Pod
}

// checkHostPorts checks that no pod on the node has a host port of the pod.
func (b *BindingCheck) checkHostPorts(p *model.Pod, n *model.Node) plan.Reason {
	if len(p.Class.HostPorts) == 0 {
		return plan.Reason{}
	}
	if !b.portsRead[n.Name] {
		b.portsRead[n.Name] = true
		for _, pods := range [][]*model.Pod{n.Pods, b.bound[n.Name]} {
			for _, q := range pods {
				b.takePorts(q, n.Name)
			}
		}
	}
	for _, mine := range p.Class.HostPorts {
		for _, taken := range b.ports[portOnNode{n.Name, mine.Port, mine.Protocol}] {
			if taken.port.Conflicts(mine) {
				filter, what := plan.FilterPorts, "host port "+strconv.Itoa(int(mine.Port))
				if mine.Disk != "" {
					filter, what = plan.FilterDisks, mine.Disk
				}
				return unfit(plan.OfBindingUnfit{Filter: filter, Cause: plan.UnfitPort, What: what, Pod: plan.ObjectOf("pod", taken.pod.Key())})
			}
		}
	}
	return plan.Reason{}
}

// takePorts notes that a pod has its host ports on a node.
func (b *BindingCheck) takePorts(p *model.Pod, node string) {
	for _, x := range p.Class.HostPorts {
		k := portOnNode{node, x.Port, x.Protocol}
		b.ports[k] = append(b.ports[k], takenPort{x, p})
	}
}

// checkVolumes checks where the pod's volumes can be attached, whether their drivers have to be registered on the node first, and how many
// volumes the node may have attached.
func (b *BindingCheck) checkVolumes(p *model.Pod, n *model.Node) plan.Reason {
	for i := range p.Class.Volumes {
		v := &p.Class.Volumes[i]
		places := placesOnNode(v, n.Migrated)
		if len(places) > 0 && !slices.ContainsFunc(places, func(rs model.Requirements) bool { return requirementsHold(rs, n.Labels, nil) }) {
			return unfit(plan.OfBindingUnfit{Filter: plan.FilterVolumes, Cause: plan.UnfitVolume, What: v.Claim})
		}
		if !hasDriverFor(v, n.CSIDrivers) {
			return unfit(plan.OfBindingUnfit{Filter: plan.FilterVolumeLimits, Cause: plan.UnfitDriver, What: v.Driver})
		}
	}
	for driver, limit := range n.CSILimits {
		used := map[string]bool{} // by pods
		attach := func(c *model.Class) {
			for i := range c.Volumes {
				if v := &c.Volumes[i]; v.Driver == driver {
					used[v.Handle] = true
				}
			}
		}
		for _, pods := range [][]*model.Pod{n.Pods, b.bound[n.Name]} {
			for _, q := range pods {
				attach(q.Class)
			}
		}
		leaving := 0 // attached, and used by no pod any more
		for _, a := range n.Attached {
			if a.Driver == driver && !used[a.Handle] {
				leaving++
			}
		}
		before := len(used)
		if attach(p.Class); len(used) > before && int64(len(used)+leaving) > limit {
			return unfit(plan.OfBindingUnfit{Filter: plan.FilterVolumeLimits, Cause: plan.UnfitVolumeLimit, What: driver, Need: int64(len(used) + leaving), Have: limit})
		}
	}
	return plan.Reason{}
}

// checkAntiAffinity checks required anti-affinity in both directions: what the pod has against pods on its host, and
// what any pod has against it wherever the topology key of the term reaches.
func (b *BindingCheck) checkAntiAffinity(p *model.Pod, n *model.Node) plan.Reason {
	for i := range p.Class.AntiAffinity {
		t := &p.Class.AntiAffinity[i] // over hosts: see checkRulesElsewhere
		for _, m := range b.nodesOnHost(n) {
			for _, pods := range [][]*model.Pod{m.Pods, b.bound[m.Name]} {
				for _, q := range pods {
					if selects(&t.Selector, q.Class, b.namespaces) {
						return unfit(plan.OfBindingUnfit{Filter: plan.FilterPodAffinity, Cause: plan.UnfitPod, Pod: plan.ObjectOf("pod", q.Key())})
					}
				}
			}
		}
	}
	b.indexAntiAffinity()
	selected, known := b.against[p.Class]
	if !known {
		for t := range b.repelling {
			if selects(&t.Selector, p.Class, b.namespaces) {
				selected = append(selected, t)
			}
		}
		b.against[p.Class] = selected
	}
	first := "" // of several the first by topology key is told, whatever the order of the map
	for _, t := range selected {
		if domain, ok := n.Labels[t.TopologyKey]; ok && b.repelling[t][domain] > 0 && (first == "" || t.TopologyKey < first) {
			first = t.TopologyKey
		}
	}
	if first == "" {
		return plan.Reason{}
	}
	return unfit(plan.OfBindingUnfit{Filter: plan.FilterPodAffinity, Cause: plan.UnfitRepelled, What: first})
}

// nodesOnHost are the nodes with the same host label as a node: as a rule the node alone.
func (b *BindingCheck) nodesOnHost(n *model.Node) []*model.Node {
	if b.nodesByHost == nil {
		b.nodesByHost = map[string][]*model.Node{}
		first := make(map[string]*model.Node, len(b.nodes))
		for _, m := range b.nodes {
			switch host, ok := m.Labels[model.LabelHostname]; {
			case !ok:
			case first[host] == nil:
				first[host] = m
			case b.nodesByHost[host] == nil:
				b.nodesByHost[host] = []*model.Node{first[host], m}
			default:
				b.nodesByHost[host] = append(b.nodesByHost[host], m)
			}
		}
	}
	if host, ok := n.Labels[model.LabelHostname]; ok && b.nodesByHost[host] != nil {
		return b.nodesByHost[host]
	}
	return []*model.Node{n}
}

// indexAntiAffinity counts, once, the pods on nodes that have required anti-affinity.
func (b *BindingCheck) indexAntiAffinity() {
	if b.indexed {
		return
	}
	b.indexed = true
	for _, n := range b.nodes {
		if !n.NoAnti {
			for _, p := range n.Pods {
				b.countAntiAffinity(p, n)
			}
		}
		for _, p := range b.bound[n.Name] {
			b.countAntiAffinity(p, n)
		}
	}
}

// countAntiAffinity counts a pod on a node for its own anti-affinity terms.
func (b *BindingCheck) countAntiAffinity(p *model.Pod, n *model.Node) {
	for i := range p.Class.AntiAffinity {
		t := &p.Class.AntiAffinity[i]
		domain, ok := n.Labels[t.TopologyKey]
		if !ok {
			continue
		}
		domains := b.repelling[t]
		if domains == nil {
			domains = map[string]int{}
			b.repelling[t] = domains
			clear(b.against)
		}
		domains[domain]++
	}
}

// checkSpread checks the pod's hard topology spread constraints over hosts.
func (b *BindingCheck) checkSpread(p *model.Pod, n *model.Node) plan.Reason {
	for i := range p.Class.Spread {
		c := &p.Class.Spread[i]
		if !c.Hard {
			continue
		}
		host, ok := n.Labels[c.TopologyKey]
		if !ok {
			return unfit(plan.OfBindingUnfit{Filter: plan.FilterSpread, Cause: plan.UnfitNoHost, What: c.TopologyKey})
		}
		s := b.spreadOf(p.Class, i)
		least := math.MaxInt
		for _, h := range []*hosts{s.all, s.certain} {
			for _, k := range h.counts {
				least = min(least, k)
			}
		}
		domains := len(s.certain.counts)
		if _, ok := s.certain.counts[host]; !ok {
			domains++ // the node's own, as if its taints were gone
		}
		if domains < int(c.MinDomains) || least == math.MaxInt {
			least = 0
		}
		have := s.all.counts[host]
		if c.Selector != nil && c.Selector.Matches(p.Class.Labels) {
			have++
		}
		if have-least > int(c.MaxSkew) {
			return unfit(plan.OfBindingUnfit{Filter: plan.FilterSpread, Cause: plan.UnfitSkew, Need: int64(have - least), Have: int64(c.MaxSkew)})
		}
	}
	return plan.Reason{}
}

// spreadOf counts, once, the pods that a constraint selects on the nodes that count for it: those that the pod's node
// affinity and, where the constraint honours them, its tolerations allow, and that bear the topology keys of all its
// hard constraints.
func (b *BindingCheck) spreadOf(class *model.Class, index int) *spread {
	key := spreadKey{class, index}
	if s := b.spreads[key]; s != nil {
		return s
	}
	c := &class.Spread[index]
	s := &spread{constraint: c, namespace: class.Namespace, all: newHosts()}
	if s.certain = s.all; c.HonorTaints {
		s.certain = newHosts()
	}
	for _, n := range b.nodes {
		ok := countsForSpread(class, c, n.Labels, n.Name, true, func(key string) bool { _, has := n.Labels[key]; return has })
		if ok && (!c.HonorTaints || b.checkTaints(&model.Pod{Class: class}, n).Code == "") {
			s.all.addNode(n, c.TopologyKey)
		}
		if ok && c.HonorTaints && model.Untolerated(n.Taints, class.Tolerations) == nil {
			s.certain.addNode(n, c.TopologyKey)
		}
	}
	for _, n := range b.nodes {
		for _, pods := range [][]*model.Pod{n.Pods, b.bound[n.Name]} {
			for _, p := range pods {
				b.countInSpread(s, p, n)
			}
		}
	}
	b.spreads[key] = s
	return s
}

func newHosts() *hosts { return &hosts{nodes: map[string]bool{}, counts: map[string]int{}} }

// addNode has a node count, with no pods so far.
func (h *hosts) addNode(n *model.Node, key string) {
	h.nodes[n.Name] = true
	h.counts[n.Labels[key]] += 0
}

// countInSpread adds a pod on a node to a spread. Pods that are being deleted do not count.
func (b *BindingCheck) countInSpread(s *spread, p *model.Pod, n *model.Node) {
	if !p.Deleting.IsZero() || p.Class.Namespace != s.namespace || s.constraint.Selector == nil || !s.constraint.Selector.Matches(p.Class.Labels) {
		return
	}
	if host := n.Labels[s.constraint.TopologyKey]; s.all.nodes[n.Name] {
		s.all.counts[host]++
		if s.certain != s.all && s.certain.nodes[n.Name] {
			s.certain.counts[host]++
		}
	}
}
