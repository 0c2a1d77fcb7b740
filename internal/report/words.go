// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// objectKinds are the kinds of objects as people write them.
var objectKinds = map[string]string{
	"pod": "pod", "node": "node", "namespace": "namespace", "nodegroup": "node group", "nodepool": "NodePool", "provisioner": "Provisioner",
	"nodeclaim": "NodeClaim", "instance": "instance", "poddisruptionbudget": "PodDisruptionBudget", "daemonset": "DaemonSet", "deployment": "Deployment", "replicaset": "ReplicaSet",
	"configmap": "ConfigMap", "lease": "Lease", "capacityquota": "CapacityQuota", "resourcequota": "ResourceQuota", "capacitybuffer": "CapacityBuffer", "provisioningrequest": "ProvisioningRequest",
	"podgroup.kueue.x-k8s.io": "Kueue pod group", "leaderworkerset": "LeaderWorkerSet group", "jobset": "JobSet",
	"podgroup.scheduling.k8s.io": "PodGroup", "podgroup.scheduling.volcano.sh": "Volcano PodGroup", "podgroup.scheduling.x-k8s.io": "coscheduling PodGroup",
}

// objectName writes an object as kind/name as people say it: "NodePool default", "pod web/a-1", "node ip-10-0-0-1".
// What is no kind and name is returned as it is.
func objectName(o plan.Object) string {
	if kind := objectKinds[o.Kind()]; kind != "" && strings.Contains(string(o), "/") {
		return kind + " " + o.Name()
	}
	return string(o)
}

// labelNames are the labels that people have a word for.
var labelNames = map[string]string{
	model.LabelZone:                 "zone",
	model.LabelCapacityType:         "capacity type",
	model.LabelInstanceType:         "instance type",
	model.LabelHostname:             "node",
	"kubernetes.io/arch":            "architecture",
	"kubernetes.io/os":              "operating system",
	model.LabelNodePool:             "NodePool",
	"topology.kubernetes.io/region": "region",
}

// labelName is a label's name in a sentence: its word, or its key.
func labelName(key string) string { return or(labelNames[key], key) }

// ruleText writes a requirement of a label: "zone us-east-1a or us-east-1b" where it lists values, otherwise as Kubernetes
// writes it.
func ruleText(r plan.Rule) string {
	key, in, values, rest := r.Split()
	switch {
	case in:
		return labelName(key) + " " + oneOf(values)
	case rest != "":
		return labelName(key) + " " + rest
	}
	return key
}

// isContradiction reports whether no value of a label meets a requirement, as that of zone a and of zone b.
func isContradiction(r plan.Rule) bool {
	_, in, values, _ := r.Split()
	return in && len(values) == 0
}

// contradiction says that no value of a label meets what a pod requires of it.
func contradiction(r plan.Rule) string {
	key, _, _, _ := r.Split()
	return "the pod's nodeSelector, node affinity and volumes require conflicting values of " + labelName(key)
}

// rulesText writes requirements of several labels.
func rulesText(rs plan.Rules) string {
	var out []string
	for _, r := range rs.All() {
		out = append(out, ruleText(r))
	}
	return strings.Join(out, " and ")
}

// mostValues is how many values of a list a sentence names.
const mostValues = 8

// oneOf writes a choice of values, the first few of many.
func oneOf(values []string) string {
	switch n := len(values); {
	case n == 0:
		return "nothing"
	case n == 1:
		return values[0]
	case n <= mostValues:
		return strings.Join(values[:n-1], ", ") + " or " + values[n-1]
	}
	return strings.Join(values[:mostValues], ", ") + " or " + model.Count(len(values)-mostValues, "other")
}

// listText writes values and how many more there are, the first few of many.
func listText(values []string, more int) string {
	if n := len(values) - mostValues; n > 0 {
		values, more = values[:mostValues], more+n
	}
	s := strings.Join(values, ", ")
	if more > 0 {
		s += " and " + model.Count(more, "other")
	}
	return s
}

// amountPair writes two amounts of a resource with as many decimals as tell them apart, the first with the resource's
// name.
func amountPair(resource plan.ResourceName, a, b plan.Amount) (string, string) {
	dim := model.DimOf(string(resource))
	if model.IsHugePages(string(resource)) {
		dim = model.Memory // bytes, too
	}
	for decimals := 1; ; decimals++ {
		x, y := model.ShortAmount(dim, int64(a), decimals), model.ShortAmount(dim, int64(b), decimals)
		if x != y || decimals == 6 {
			if model.IsDevice(string(resource)) {
				return deviceCount(int64(a), string(resource)), y
			}
			if dim == model.Pods {
				return model.Count(int64(a), "pod"), y
			}
			return x + with(" ", string(resource), ""), y
		}
	}
}

// deviceCount writes a number of devices that a resource counts.
func deviceCount(n int64, resource string) string {
	class, some, _ := strings.Cut(strings.TrimPrefix(resource, model.DevicePrefix), "#")
	if strings.Contains(class, "/") {
		return strconv.FormatInt(n, 10) + " " + class // an extended resource
	}
	out := model.Count(n, "device") + " of class " + class
	if some != "" {
		out += " that the claim's selectors match"
	}
	return out
}

// instant writes a point in time; empty if there is none.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// shiftText names a zonal shift by its id and when it expires.
func shiftText(id string, until time.Time) string {
	if id == "" {
		return "zonal autoshift until the cloud ends it"
	}
	return "zonal shift " + id + " until " + instant(until)
}

// durationText writes a duration without its zero units: 15m for 15m0s. It is empty for 0.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// lengthText writes a duration as durationText does, and 0 as 0s.
func lengthText(d time.Duration) string { return or(durationText(d), "0s") }

// shortUSD writes micro-dollars without empty decimals, two at least.
func shortUSD(micro int64) string {
	s := usd(micro)
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = s[:len(s)-1]
	}
	return s
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func with(before, s, after string) string {
	if s == "" {
		return ""
	}
	return before + s + after
}

// money writes an amount of money with a dollar sign.
func money(micro plan.Micro) string { return "$" + model.Dollars(int64(micro)) }

// said returns what somebody else said of it.
func said(r plan.Reason) string { return string(plan.DetailOf[plan.OfSaid](r).Said) }
