// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// selector translates a label selector; nil stays nil and selects nothing. A selector that can't be read selects nothing either,
// and the class says so.
func selector(c *model.Class, where string, s *metav1.LabelSelector) *model.Requirements {
	if s == nil {
		return nil
	}
	rs, err := LabelSelector(s)
	if err != nil {
		if c != nil {
			c.Unsolved = append(c.Unsolved, where+": "+err.Error())
		}
		return nil
	}
	return &rs
}

// LabelSelector returns the requirements of a label selector.
func LabelSelector(s *metav1.LabelSelector) (model.Requirements, error) {
	rs := make(model.Requirements, 0, len(s.MatchLabels)+len(s.MatchExpressions))
	for k, v := range s.MatchLabels {
		rs = append(rs, model.Requirement{Key: k, Values: []string{v}, Min: math.MinInt64, Max: math.MaxInt64})
	}
	sort.Slice(rs, func(i, j int) bool { return rs[i].Key < rs[j].Key })
	more := make([]model.Requirement, len(s.MatchExpressions))
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		r, err := model.NewRequirement(e.Key, model.Operator(e.Operator), e.Values...)
		if err != nil {
			return nil, err
		}
		more[i] = r
	}
	return rs.With(more...), nil
}

// withLabels adds the rule that a selected pod has (or, negated, has not) the same value as this pod in each of the labels. A
// label that the pod lacks is no rule.
func withLabels(rs *model.Requirements, keys []string, labels map[string]string, negate bool) {
	if rs == nil {
		return
	}
	for _, k := range keys {
		v, ok := labels[k]
		if !ok {
			continue
		}
		r := model.OneOf(k, v)
		if negate {
			r.Complement, r.AllowAbsent = true, true
		}
		*rs = rs.With(r)
	}
}

func (t *Translator) spread(c *model.Class, s *corev1.TopologySpreadConstraint, labels map[string]string) model.SpreadConstraint {
	out := model.SpreadConstraint{
		TopologyKey: CanonicalLabel(s.TopologyKey), MaxSkew: s.MaxSkew, Hard: s.WhenUnsatisfiable != corev1.ScheduleAnyway,
		IgnoreAffinity: s.NodeAffinityPolicy != nil && *s.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore,
		HonorTaints:    s.NodeTaintsPolicy != nil && *s.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		Selector:       selector(c, "topologySpreadConstraints on "+s.TopologyKey, s.LabelSelector),
	}
	if s.MinDomains != nil {
		out.MinDomains = *s.MinDomains
	}
	withLabels(out.Selector, s.MatchLabelKeys, labels, false)
	return out
}

func (t *Translator) podTerms(c *model.Class, list []corev1.PodAffinityTerm) []model.PodTerm {
	var out []model.PodTerm
	for i := range list {
		out = append(out, t.podTerm(c, &list[i]))
	}
	return out
}

func (t *Translator) weightedTerms(c *model.Class, list []corev1.WeightedPodAffinityTerm) []model.WeightedPodTerm {
	var out []model.WeightedPodTerm
	for i := range list {
		out = append(out, model.WeightedPodTerm{Weight: list[i].Weight, Term: t.podTerm(c, &list[i].PodAffinityTerm)})
	}
	return out
}

func (t *Translator) podTerm(c *model.Class, a *corev1.PodAffinityTerm) model.PodTerm {
	out := model.PodTerm{TopologyKey: CanonicalLabel(a.TopologyKey)}
	out.Selector.Pods = selector(c, "pod affinity on "+a.TopologyKey, a.LabelSelector)
	withLabels(out.Selector.Pods, a.MatchLabelKeys, c.Labels, false)
	withLabels(out.Selector.Pods, a.MismatchLabelKeys, c.Labels, true)
	out.Selector.Namespaces = slices.Clone(a.Namespaces)
	sort.Strings(out.Selector.Namespaces)
	out.Selector.Namespaces = slices.Compact(out.Selector.Namespaces)
	if a.NamespaceSelector != nil {
		out.Selector.NamespaceL = selector(c, "namespaceSelector of pod affinity on "+a.TopologyKey, a.NamespaceSelector)
	} else if len(out.Selector.Namespaces) == 0 {
		out.Selector.Namespaces = []string{c.Namespace}
	}
	return out
}

// hostPorts are those of containers that run as long as the pod does.
func hostPorts(s *corev1.PodSpec) []model.HostPort {
	var out []model.HostPort
	add := func(ports []corev1.ContainerPort) {
		for i := range ports {
			if ports[i].HostPort > 0 {
				out = append(out, model.HostPort{
					IP: ports[i].HostIP, Port: ports[i].HostPort,
					Protocol: cmp.Or(string(ports[i].Protocol), string(corev1.ProtocolTCP)),
				})
			}
		}
	}
	for i := range s.InitContainers {
		if r := s.InitContainers[i].RestartPolicy; r != nil && *r == corev1.ContainerRestartPolicyAlways {
			add(s.InitContainers[i].Ports)
		}
	}
	for i := range s.Containers {
		add(s.Containers[i].Ports)
	}
	out = append(out, ownDisks(s)...)
	slices.SortFunc(out, func(a, b model.HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), strings.Compare(a.Protocol, b.Protocol), strings.Compare(a.IP, b.IP),
			strings.Compare(a.Disk, b.Disk), model.CompareBools(a.ReadOnly, b.ReadOnly))
	})
	return slices.Compact(out)
}

// ownDisks are the disks that a pod names itself and that kube-scheduler lets pods on one node share only to read from them. Images of
// Ceph are the same if any monitor is; an EBS volume is never shared.
func ownDisks(s *corev1.PodSpec) (out []model.HostPort) {
	for i := range s.Volumes {
		switch v := &s.Volumes[i]; {
		case v.GCEPersistentDisk != nil:
			out = append(out, model.HostPort{Disk: "gcePersistentDisk/" + v.GCEPersistentDisk.PDName, ReadOnly: v.GCEPersistentDisk.ReadOnly})
		case v.AWSElasticBlockStore != nil:
			out = append(out, model.HostPort{Disk: "awsElasticBlockStore/" + v.AWSElasticBlockStore.VolumeID})
		case v.ISCSI != nil:
			out = append(out, model.HostPort{Disk: "iscsi/" + v.ISCSI.IQN, ReadOnly: v.ISCSI.ReadOnly})
		case v.RBD != nil:
			for _, monitor := range v.RBD.CephMonitors {
				out = append(out, model.HostPort{Disk: "rbd/" + monitor + "/" + v.RBD.RBDPool + "/" + v.RBD.RBDImage, ReadOnly: v.RBD.ReadOnly})
			}
		}
	}
	return out
}
