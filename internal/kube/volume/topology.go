// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package volume

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// topologyKeys are the labels by which CSI drivers say where a volume is, beside the label of Kubernetes that has the
// same value on every node. The driver's agent sets its label once it runs on a node, so a node that is still to come
// is judged by the label of Kubernetes.
var topologyKeys = map[string]string{
	// AWS EBS: github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/faq.md
	"topology.ebs.csi.aws.com/zone": corev1.LabelTopologyZone,
	// Google Compute Engine persistent disks and Filestore: github.com/kubernetes-sigs/gcp-compute-persistent-disk-csi-driver, "Topology"
	"topology.gke.io/zone": corev1.LabelTopologyZone,
	// Azure disks: github.com/kubernetes-sigs/azuredisk-csi-driver/tree/master/deploy/example/topology
	"topology.disk.csi.azure.com/zone": corev1.LabelTopologyZone,
	// OpenStack Cinder: github.com/kubernetes/cloud-provider-openstack/blob/master/docs/cinder-csi-plugin/features.md
	"topology.cinder.csi.openstack.org/zone": corev1.LabelTopologyZone,
	// Alibaba Cloud disks: github.com/kubernetes-sigs/alibaba-cloud-csi-driver/blob/master/docs/disk.md
	"topology.diskplugin.csi.alibabacloud.com/zone": corev1.LabelTopologyZone,
	// VMware vSphere: docs.vmware.com, "Deploying vSphere Container Storage Plug-in with Topology"
	"topology.csi.vmware.com/k8s-zone":   corev1.LabelTopologyZone,
	"topology.csi.vmware.com/k8s-region": corev1.LabelTopologyRegion,
	// Scaleway block storage: github.com/scaleway/scaleway-csi
	"topology.csi.scaleway.com/zone": corev1.LabelTopologyZone,
	// Hetzner Cloud volumes, whose location is the region: github.com/hetznercloud/csi-driver
	"csi.hetzner.cloud/location": corev1.LabelTopologyRegion,
	// Kubernetes' own labels of before version 1.17, which the cloud's controller manager still sets: k8s.io/cloud-provider/controllers/node
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
}

// commonKey returns the Kubernetes label that stands for a topology key on new nodes.
func commonKey(key string) string {
	if k, ok := topologyKeys[key]; ok {
		return k
	}
	return key
}

// places are alternative requirements on a node's labels: nil allows any node, an empty list none.
type places []model.Requirements

// anywhere reports whether every node is allowed.
func (p places) anywhere() bool { return p == nil }

// nowhere reports whether no node is allowed.
func (p places) nowhere() bool { return p != nil && len(p) == 0 }

// mostPlaces is the maximum number of alternatives considered for one volume.
const mostPlaces = 2000

// and returns the places that are in both.
func (p places) and(q places) places {
	switch {
	case p.anywhere():
		return q
	case q.anywhere():
		return p
	}
	out := places{}
	for _, a := range p {
		for _, b := range q {
			if both := a.With(b...); !impossible(both) && len(out) < mostPlaces {
				out = append(out, both)
			}
		}
	}
	return out
}

// or returns the places that are in either.
func (p places) or(q places) places {
	if p.anywhere() || q.anywhere() {
		return nil
	}
	out := append(places{}, p...)
	for _, a := range q {
		if !out.has(a) && len(out) < mostPlaces {
			out = append(out, a)
		}
	}
	return out
}

// within reports whether every node of p is in q, as far as a comparison of single alternatives shows.
func (p places) within(q places) bool {
	if q.anywhere() {
		return true
	}
	return !p.anywhere() && !slices.ContainsFunc(p, func(a model.Requirements) bool {
		key := a.Key()
		return !slices.ContainsFunc(q, func(b model.Requirements) bool { return a.With(b...).Key() == key })
	})
}

// has reports whether an alternative is among the places.
func (p places) has(rs model.Requirements) bool {
	key := rs.Key()
	for i := range p {
		if p[i].Key() == key {
			return true
		}
	}
	return false
}

// common returns the places with Kubernetes labels, as for new nodes.
func (p places) common() places {
	if p == nil {
		return nil
	}
	out := places{}
	for _, rs := range p {
		var mapped model.Requirements
		for _, r := range rs {
			r.Key = commonKey(r.Key)
			mapped = mapped.With(r)
		}
		if !impossible(mapped) && !out.has(mapped) {
			out = append(out, mapped)
		}
	}
	return out
}

// list returns the places as a Volume has them: where no node is allowed, an alternative that none meets, and where every
// node is, one that all do.
func (p places) list() []model.Requirements {
	switch {
	case p.nowhere():
		return []model.Requirements{{model.Requirement{Key: corev1.LabelHostname, Min: math.MinInt64, Max: math.MaxInt64}}}
	case p.anywhere():
		return []model.Requirements{{}}
	}
	return p
}

// equal reports whether both allow the same alternatives in the same order.
func (p places) equal(q places) bool {
	if len(p) != len(q) || p.anywhere() != q.anywhere() {
		return false
	}
	for i := range p {
		if p[i].Key() != q[i].Key() {
			return false
		}
	}
	return true
}

// impossible reports whether no labels meet the requirements.
func impossible(rs model.Requirements) bool {
	for i := range rs {
		if rs[i].Empty() {
			return true
		}
	}
	return false
}

// placesOfVolume returns where a PersistentVolume can be used by its node affinity. Only labels are looked at:
// kube-scheduler compares its terms with a node that has labels and no name, for which what a term says of names holds.
func placesOfVolume(pv *corev1.PersistentVolume) places {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	out := places{}
	for i := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		term := &pv.Spec.NodeAffinity.Required.NodeSelectorTerms[i]
		rs, ok := placesOfTerm(term)
		if !ok {
			continue
		}
		if len(rs) == 0 {
			return nil
		}
		out = append(out, rs)
	}
	return out
}

// placesOfTerm returns the label requirements of a term; false if no node satisfies it or it is invalid.
func placesOfTerm(term *corev1.NodeSelectorTerm) (model.Requirements, bool) {
	if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
		return nil, false
	}
	var out model.Requirements
	for i := range term.MatchExpressions {
		e := &term.MatchExpressions[i]
		r, err := model.NewRequirement(e.Key, model.Operator(e.Operator), e.Values...)
		if err != nil {
			return nil, false
		}
		out = out.With(r)
	}
	return out, !impossible(out)
}

// placesOfClass returns the places where a StorageClass allows volumes to be provisioned.
func placesOfClass(terms []corev1.TopologySelectorTerm) places {
	if len(terms) == 0 {
		return nil
	}
	out := places{}
	for i := range terms {
		var rs model.Requirements
		for _, e := range terms[i].MatchLabelExpressions {
			rs = rs.With(model.OneOf(e.Key, e.Values...))
		}
		if len(rs) > 0 && !impossible(rs) {
			out = append(out, rs)
		}
	}
	return out
}

// placesOfSelector returns the label requirements of a label selector; false if it is invalid.
func placesOfSelector(s *metav1.LabelSelector) (model.Requirements, bool) {
	out := model.Requirements{}
	for k, v := range s.MatchLabels {
		out = out.With(model.OneOf(k, v))
	}
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		r, err := model.NewRequirement(e.Key, model.Operator(e.Operator), e.Values...)
		if err != nil {
			return nil, false
		}
		out = out.With(r)
	}
	return out, true
}

// zoneLabels returns where the labels of a PersistentVolume itself say that it is, as kube-scheduler's VolumeZone reads
// them: several values of a label are separated by two underscores, a label that can't be read is none.
func zoneLabels(pv *corev1.PersistentVolume) (rs model.Requirements) {
	for _, key := range [...]string{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		text, ok := pv.Labels[key]
		if !ok {
			continue
		}
		values := strings.Split(text, "__")
		for i := range values {
			if values[i] = strings.TrimSpace(values[i]); values[i] == "" {
				ok = false
			}
		}
		if ok {
			rs = rs.With(model.OneOf(commonKey(key), values...))
		}
	}
	return rs
}

// withoutZones is the place of nodes that no label puts into a zone or region: VolumeZone lets every volume be used there.
func withoutZones() places {
	var rs model.Requirements
	for _, key := range [...]string{corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		r, err := model.NewRequirement(key, model.Operator(corev1.NodeSelectorOpDoesNotExist))
		if err != nil {
			panic(err) // of constants
		}
		rs = rs.With(r)
	}
	return places{rs}
}
