// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// form is a way to ask for much: how many pods at most, and how pod i of n is changed. A draw takes part of the pods
// and of what each asks for.
type form struct {
	name string
	pods int
	ask  func(p *corev1.Pod, i, n int, r *rand.Rand)
}

// drawn are the forty forms, each with as many pods as the seed draws between half of the most and the most.
func drawn() []shape {
	var out []shape
	for k, f := range forms() {
		out = append(out, shape{"drawn: " + f.name, func(seed uint64) []*corev1.Pod {
			r := rand.New(rand.NewPCG(seed, uint64(k)))
			n := f.pods - r.IntN(f.pods/2+1)
			return pods(n, func(i int, p *corev1.Pod) { f.ask(p, i, n, r) })
		}})
	}
	return out
}

func forms() []form {
	return append(append(append(formsOfNodes(), formsOfPods()...), formsOfAmounts()...), formsOfText()...)
}

const instanceCPU = "karpenter.k8s.aws/instance-cpu"

func prefix(i int) string { return "example.com/p" + strconv.Itoa(i) }

// values returns n texts, of which those of two numbers differ.
func values(of string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = of + "-" + strconv.Itoa(i)
	}
	return out
}

// formsOfNodes ask about nodes: their labels, names and taints.
func formsOfNodes() []form {
	return []form{
		{"selector keys at the limit, of each pod its own", 500, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			p.Spec.NodeSelector = map[string]string{}
			for k := range 1500 {
				p.Spec.NodeSelector[prefix(i)+"-"+strconv.Itoa(k)] = "v"
			}
		}},
		{"terms that no type meets", 200, func(p *corev1.Pod, i, _ int, r *rand.Rand) {
			for n := range 400 + r.IntN(600) {
				addTerm(p, nodeRule(instanceCPU, corev1.NodeSelectorOpGt, strconv.Itoa(1_000_000+i*1000+n)))
			}
		}},
		{"terms of a key each", 200, func(p *corev1.Pod, i, _ int, r *rand.Rand) {
			for n := range 400 + r.IntN(600) {
				addTerm(p, nodeRule(prefix(i)+"-"+strconv.Itoa(n), corev1.NodeSelectorOpExists))
			}
		}},
		{"terms that differ in two keys", 300, func(p *corev1.Pod, i, _ int, r *rand.Rand) {
			for n := range 300 + r.IntN(300) {
				addTerm(p, nodeRule(instanceCPU, corev1.NodeSelectorOpGt, strconv.Itoa(n%90)), nodeRule("karpenter.k8s.aws/instance-memory", corev1.NodeSelectorOpLt, strconv.Itoa(4096+i*64+n)))
			}
		}},
		{"values of NotIn, below the limit", 300, func(p *corev1.Pod, i, _ int, r *rand.Rand) {
			addTerm(p, nodeRule("node.kubernetes.io/instance-type", corev1.NodeSelectorOpNotIn, values(strconv.Itoa(i), 1000+r.IntN(2000))...))
		}},
		{"values of NotIn, beyond the limit", 50, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			addTerm(p, nodeRule("node.kubernetes.io/instance-type", corev1.NodeSelectorOpNotIn, values(strconv.Itoa(i), 20_000)...))
		}},
		{"rules on one key", 200, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			var rules []corev1.NodeSelectorRequirement
			for n := range 1500 {
				rules = append(rules, nodeRule("karpenter.k8s.aws/instance-family", corev1.NodeSelectorOpNotIn, "x"+strconv.Itoa(i), strconv.Itoa(n)))
			}
			addTerm(p, rules...)
		}},
		{"names of nodes", 200, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			addTerm(p)
			s := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			s.NodeSelectorTerms = nil
			for n := range 800 {
				s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{nodeRule("metadata.name", corev1.NodeSelectorOpIn, fmt.Sprint("node-", i, "-", n))}})
			}
		}},
		{"preferred terms", 200, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			a := &corev1.NodeAffinity{}
			for n := range 900 {
				a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
					Weight: int32(1 + n%100), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{nodeRule(instanceCPU, corev1.NodeSelectorOpGt, strconv.Itoa(i+n))}}})
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: a}
		}},
		{"tolerations of each pod's own", 1000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			for n := range 450 {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: prefix(i) + strconv.Itoa(n), Operator: corev1.TolerationOpExists})
			}
		}},
		{"toleration of everything", 5000, func(p *corev1.Pod, _, _ int, _ *rand.Rand) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}},
	}
}

const zone, host = corev1.LabelTopologyZone, corev1.LabelHostname

// formsOfPods ask about other pods.
func formsOfPods() []form {
	notIn, in := metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpIn
	own := func(p *corev1.Pod, i int) string {
		label(p, "id", strconv.Itoa(i))
		return strconv.Itoa(i)
	}
	return []form{
		{"mutually exclusive on hosts", 5000, func(p *corev1.Pod, _, _ int, _ *rand.Rand) { avoid(p, podTerm(host, "app", in, "a")) }},
		{"mutually exclusive, a class each", 2000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			own(p, i)
			avoid(p, podTerm(host, "app", in, "a"))
		}},
		{"clique over zones", 2000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) { avoid(p, podTerm(zone, "id", notIn, own(p, i))) }},
		{"clique that exempts a neighbour too", 2000, func(p *corev1.Pod, i, n int, _ *rand.Rand) {
			avoid(p, podTerm(host, "id", notIn, own(p, i), strconv.Itoa((i+1)%n)))
		}},
		{"clique by two labels", 2000, func(p *corev1.Pod, i, n int, _ *rand.Rand) {
			t := podTerm(host, "id", notIn, own(p, i))
			t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "no", Operator: notIn, Values: []string{strconv.Itoa(n - i)}})
			p.Labels["no"] = strconv.Itoa(n - i)
			avoid(p, t)
		}},
		{"clique by listing all others", 300, func(p *corev1.Pod, i, n int, _ *rand.Rand) {
			own(p, i)
			var others []string
			for o := range n {
				if o != i {
					others = append(others, strconv.Itoa(o))
				}
			}
			avoid(p, podTerm(host, "id", in, others...))
		}},
		{"chain of affinity over hosts", 1000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			own(p, i)
			if i > 0 {
				follow(p, podTerm(host, "id", in, strconv.Itoa(i-1)))
			}
		}},
		{"affinity to all but one's own", 1500, func(p *corev1.Pod, i, _ int, _ *rand.Rand) { follow(p, podTerm(zone, "id", notIn, own(p, i))) }},
		{"affinity over hosts to everyone, a class each", 1500, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			own(p, i)
			follow(p, podTerm(host, "app", in, "a"))
		}},
		{"a hundred anti-affinity terms each", 300, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			own(p, i)
			var terms []corev1.PodAffinityTerm
			for n := range 100 {
				terms = append(terms, podTerm(host, "id", in, strconv.Itoa((i+n+1)%300)))
			}
			avoid(p, terms...)
		}},
		{"selectors of many rules", 500, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			own(p, i)
			t := podTerm(host, "id", notIn, strconv.Itoa(i))
			for n := range 400 {
				t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "k" + strconv.Itoa(n), Operator: notIn, Values: []string{strconv.Itoa(i)}})
			}
			avoid(p, t)
		}},
		{"anti-affinity to all namespaces", 1000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			t := podTerm(host, "id", notIn, own(p, i))
			t.NamespaceSelector = &metav1.LabelSelector{}
			avoid(p, t)
		}},
		{"namespaces by name", 500, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			t := podTerm(host, "id", in, own(p, i))
			t.Namespaces = values(strconv.Itoa(i), 400)
			avoid(p, t)
		}},
		{"spread of each pod's own over zones", 2000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			spread(p, zone, 1, corev1.DoNotSchedule, map[string]string{"id": own(p, i)})
		}},
		{"spread over hosts, a class each", 2000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			own(p, i)
			spread(p, host, int32(1+i%50), corev1.DoNotSchedule, map[string]string{"app": "a"})
		}},
		{"spread over unknown keys", 1000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			for n := range 20 {
				spread(p, prefix(i)+strconv.Itoa(n), 1, corev1.DoNotSchedule, map[string]string{"app": "a"})
			}
		}},
		{"spread that wants a thousand zones", 2000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			own(p, i)
			spread(p, zone, 1, corev1.DoNotSchedule, map[string]string{"app": "a"})
			least := int32(1000)
			p.Spec.TopologySpreadConstraints[0].MinDomains = &least
		}},
		{"preferred anti-affinity over zones", 300, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			own(p, i)
			a := &corev1.PodAntiAffinity{}
			for n := range 100 {
				a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
					corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: podTerm(zone, "id", notIn, strconv.Itoa(i+n))})
			}
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: a}
		}},
	}
}

// formsOfAmounts ask for odd amounts, ports and volumes.
func formsOfAmounts() []form {
	request := func(p *corev1.Pod, name corev1.ResourceName, amount string) {
		p.Spec.Containers[0].Resources.Requests[name] = resource.MustParse(amount)
	}
	return []form{
		{"sizes of each pod's own", 10_000, func(p *corev1.Pod, i, _ int, r *rand.Rand) {
			request(p, corev1.ResourceCPU, strconv.Itoa(50+i%4000)+"m")
			request(p, corev1.ResourceMemory, strconv.Itoa(1_000_000+r.IntN(8_000_000_000)))
		}},
		{"huge amounts", 1000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			request(p, corev1.ResourceMemory, "9223372036854775807")
			request(p, corev1.ResourceCPU, strconv.Itoa(9_000_000+i))
		}},
		{"nothing at all", 10_000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			p.Spec.Containers[0].Resources.Requests = nil
			label(p, "id", strconv.Itoa(i))
		}},
		{"names of resources, beyond the limit", 20, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			for n := range 10_000 {
				request(p, corev1.ResourceName(fmt.Sprint("example.com/r", i, "-", n)), "1")
			}
		}},
		{"names of resources, of each pod its own", 2000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			for n := range 50 {
				request(p, corev1.ResourceName(fmt.Sprint("example.com/r", i, "-", n)), "1")
			}
		}},
		{"host ports on addresses", 300, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			takePorts(p, i*37, 500)
			for k := range p.Spec.Containers[0].Ports {
				p.Spec.Containers[0].Ports[k].HostIP = fmt.Sprintf("10.0.%d.%d", i%250, k%250)
			}
		}},
		{"volumes that are not there", 100, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			for n := range 250 {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v" + strconv.Itoa(n), VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("data-", i, "-", n)}}})
			}
		}},
	}
}

// formsOfText ask for nothing much, with many or long names.
func formsOfText() []form {
	return []form{
		{"labels of each pod's own", 10_000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) { label(p, "id", strconv.Itoa(i)) }},
		{"four hundred labels each", 1000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			for n := range 400 {
				p.Labels[prefix(n)+strings.Repeat("x", 40)] = strings.Repeat("v", 50) + strconv.Itoa(i)
			}
		}},
		{"priorities of each pod's own", 5000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) {
			v := int32(-i)
			p.Spec.Priority = &v
		}},
		{"schedulers of each pod's own", 10_000, func(p *corev1.Pod, i, _ int, _ *rand.Rand) { p.Spec.SchedulerName = "s" + strconv.Itoa(i) }},
	}
}
