// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// objectName writes an object as kind/name as people say it: "NodePool default", "pod web/a-1", "node ip-10-0-0-1".
// What is no kind and name is returned as it is.
func objectName(subject string) string {
	kind, name, ok := strings.Cut(subject, "/")
	if !ok {
		return subject
	}
	switch kind {
	case "pod", "node", "namespace":
		return kind + " " + name
	case "nodegroup":
		return "node group " + name
	case "nodepool":
		return "NodePool " + name
	case "provisioner":
		return "Provisioner " + name
	case "nodeclaim":
		return "NodeClaim " + name
	case "poddisruptionbudget":
		return "PodDisruptionBudget " + name
	case "daemonset":
		return "DaemonSet " + name
	case "deployment":
		return "Deployment " + name
	case "capacityquota":
		return "CapacityQuota " + name
	case "resourcequota":
		return "ResourceQuota " + name
	case "capacitybuffer":
		return "CapacityBuffer " + name
	}
	return subject
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

// requirementText writes a requirement of a label: "zone us-east-1a or us-east-1b" where it lists values, otherwise as
// Kubernetes writes it.
func requirementText(key, text string) string {
	if key == "" {
		return text
	}
	values, ok := strings.CutPrefix(text, key+" In [")
	if values, ok2 := strings.CutSuffix(values, "]"); ok && ok2 {
		return labelName(key) + " " + oneOf(strings.Fields(values))
	}
	if rest, ok := strings.CutPrefix(text, key+" "); ok {
		return labelName(key) + " " + rest
	}
	return text
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
	return strings.Join(values[:mostValues], ", ") + " or " + count(len(values)-mostValues, "other")
}

// listText writes values that are separated by spaces, the first few of many.
func listText(values string) string {
	list := strings.Fields(values)
	if len(list) <= mostValues {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:mostValues], ", ") + " and " + count(len(list)-mostValues, "other")
}

// binaryUnits are the suffixes of amounts of bytes, each 1,024 times the one before.
var binaryUnits = [...]string{"Ki", "Mi", "Gi", "Ti", "Pi"}

// quantity writes an amount of a resource with so many decimals at most: CPU in cores, bytes in the largest unit of
// which there is one.
func quantity(resource, text string, decimals int) string {
	if milli, ok := strings.CutSuffix(text, "m"); ok && resource == "cpu" {
		if n, err := strconv.ParseInt(milli, 10, 64); err == nil {
			return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
		}
	}
	for i, unit := range binaryUnits {
		digits, ok := strings.CutSuffix(text, unit)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return text
		}
		for v >= 1024 && i < len(binaryUnits)-1 {
			v, i = v/1024, i+1
		}
		s := strconv.FormatFloat(v, 'f', decimals, 64)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s + binaryUnits[i]
	}
	return text
}

// amountPair writes two amounts of a resource with as many decimals as tell them apart, the first with the resource's
// name.
func amountPair(resource, a, b string) (string, string) {
	for decimals := 1; ; decimals++ {
		x, y := quantity(resource, a, decimals), quantity(resource, b, decimals)
		if x != y || decimals == 6 {
			return x + with(" ", resource, ""), y
		}
	}
}

// durationText writes a duration without its zero units: 15m for 15m0s. What is no duration is returned as it is.
func durationText(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil {
		return text
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

// shortUSD writes micro-dollars without empty decimals, two at least.
func shortUSD(micro int64) string {
	s := usd(micro)
	for strings.HasSuffix(s, "0") && len(s)-strings.IndexByte(s, '.') > 3 {
		s = s[:len(s)-1]
	}
	return s
}
