// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// atLimit are pods that ask for n of one thing, each with the limit and what an excess calls it.
var atLimit = []struct {
	what string
	most int
	ask  func(p *corev1.Pod, n int)
}{
	{"node selector keys", mostSelectorKeys, func(p *corev1.Pod, n int) {
		p.Spec.NodeSelector = map[string]string{}
		for i := range n {
			p.Spec.NodeSelector[fmt.Sprint("k", i)] = ""
		}
	}},
	{"node affinity terms", mostSelectorTerms, func(p *corev1.Pod, n int) {
		s := &corev1.NodeSelector{}
		for i := range n {
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "k", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint(i)}}}})
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}
	}},
	{"values in selectors", mostSelectorValues, func(p *corev1.Pod, n int) {
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprint(i)
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: corev1.NodeSelectorOpNotIn, Values: values}}}}}}}
	}},
	{"pod affinity terms and topology spread constraints", mostPodTerms, func(p *corev1.Pod, n int) {
		a := &corev1.PodAntiAffinity{}
		for range n {
			a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{TopologyKey: "k"})
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: a}
	}},
	{"label selector rules", mostLabelRules, func(p *corev1.Pod, n int) {
		labels := map[string]string{}
		for i := range n {
			labels[fmt.Sprint("k", i)] = ""
		}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "k", MaxSkew: 1, LabelSelector: &metav1.LabelSelector{MatchLabels: labels}}}
	}},
	{"host ports", mostHostPorts, func(p *corev1.Pod, n int) {
		for i := range n {
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostPort: int32(i + 1)})
		}
	}},
	{"tolerations", mostTolerations, func(p *corev1.Pod, n int) {
		for i := range n {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprint("k", i), Operator: corev1.TolerationOpExists})
		}
	}},
	{"labels", mostLabels, func(p *corev1.Pod, n int) {
		for i := range n {
			p.Labels[fmt.Sprint("k", i)] = ""
		}
	}},
	{"volumes and resource claims", mostVolumes, func(p *corev1.Pod, n int) {
		for i := range n {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
		}
	}},
	{"resources", mostResourceNames, func(p *corev1.Pod, n int) {
		for i := range n - len(p.Spec.Containers[0].Resources.Requests) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprint("example.com/r", i))] = resource.MustParse("1")
		}
	}},
}

func smallPod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", Labels: map[string]string{}}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	return p
}

// A pod may ask for as much of one thing as is looked at, and not for one more. Beyond that its class says what is too
// much, is small, and keeps its requests.
func TestLimits(t *testing.T) {
	for _, x := range atLimit {
		t.Run(x.what, func(t *testing.T) {
			for _, n := range []int{x.most, x.most + 1, 3 * x.most} {
				p := smallPod()
				x.ask(p, n)
				c := (&Translator{Table: state.NewResourceTable()}).Pod(p).Class
				want := model.Excess{}
				if n > x.most {
					want = model.Excess{What: x.what, Have: int64(n), Most: int64(x.most)}
				}
				if c.Excess != want {
					t.Fatalf("%d %s: excess %v, want %v", n, x.what, c.Excess, want)
				}
				if len(c.Key) > mostClassBytes || n > x.most && len(c.Key) > 1000 {
					t.Errorf("%d %s: the class key has %d bytes", n, x.what, len(c.Key))
				}
				if c.Requests.At(model.CPU) != 1000 {
					t.Errorf("%d %s: requests %v", n, x.what, c.Requests)
				}
			}
		})
	}
}

// Pods that make names of resources up fill the table of resources to a bound; a pod of ordinary resources is looked at
// all the same, and one of resources that a node has.
func TestLimitOfResourceNames(t *testing.T) {
	tr := &Translator{Table: state.NewResourceTable()}
	beyond := 0
	for i := range 100 {
		p := smallPod()
		for n := range 50 {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprint("example.com/r", i, "-", n))] = resource.MustParse("1")
		}
		if c := tr.Pod(p).Class; c.Excess.What != "" {
			beyond++
			if want := fmt.Sprintf("resources that no node or instance type has, the first of them example.com/r%d-0", i); i == 99 && (c.Excess.What != want || c.Excess.Have != 50) {
				t.Errorf("excess %v, want 50 %s", c.Excess, want)
			}
		}
	}
	if n := len(tr.Table.Names()); n > 1100 || beyond < 50 {
		t.Errorf("%d names in the table, %d of 100 pods set aside", n, beyond)
	}
	node := &corev1.Node{}
	node.Status.Allocatable = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	tr.Node(node)
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, "example.com/gpu"} {
		p := smallPod()
		p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("1")
		if c := tr.Pod(p).Class; c.Excess.What != "" {
			t.Errorf("a pod that requests %s: %v", name, c.Excess)
		}
	}
}

// A pod within every limit whose text is long all the same is beyond the last of them.
func TestLimitOfClassBytes(t *testing.T) {
	p := smallPod()
	p.Spec.NodeSelector = map[string]string{}
	for i := range mostSelectorKeys {
		p.Spec.NodeSelector[fmt.Sprintf("%063d", i)] = strings.Repeat("v", 63)
	}
	c := (&Translator{Table: state.NewResourceTable()}).Pod(p).Class
	if c.Excess.What != "bytes of scheduling constraints" || c.Excess.Most != mostClassBytes || len(c.Key) > 1000 {
		t.Errorf("excess %v, %d bytes of key", c.Excess, len(c.Key))
	}
}

// An owner reference may be of any length; what is kept of it is as long as the name of an object at most, and still tells two apart.
func TestLimitOfOwner(t *testing.T) {
	owner := func(end string) model.Owner {
		p, yes, long := smallPod(), true, strings.Repeat("x", 1<<20)+end
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: long, Name: long, UID: types.UID(long), Controller: &yes}}
		return (&Translator{Table: state.NewResourceTable()}).Pod(p).Owner
	}
	a, b := owner("a"), owner("b")
	if n := len(a.Kind) + len(a.Name) + len(a.UID); n > 3*mostReferenceBytes || a == b || a.UID == "" {
		t.Errorf("of an owner %d bytes are kept: %v, %v", n, a, b)
	}
}
