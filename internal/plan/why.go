// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"strconv"
	"strings"
	"time"
)

// Answer is what there is to say about one object now: how it stands, and what is in the way of each thing that might become of it.
type Answer struct {
	Subject  string    `json:"subject"` // pod/NAMESPACE/NAME, node/NAME, nodepool/NAME
	At       time.Time `json:"at"`
	Facts    []Fact    `json:"facts"`
	Findings []Finding `json:"findings"`
}

// Fact is one thing about the object.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Finding is one obstacle: of what, and the smallest change that takes it away.
type Finding struct {
	Of     Code    `json:"of"` // Demand: of a machine for a pod; else the reason for which a node would go
	Reason Reason  `json:"reason"`
	Change *Change `json:"change,omitempty"` // nil: only time or the market changes it
}

// Change is one edit of one object.
type Change struct {
	Object string `json:"object"` // nodepool/NAME, pod/NAMESPACE/NAME, poddisruptionbudget/NAMESPACE/NAME …
	Field  string `json:"field"`
	To     string `json:"to"`
}

// Remedy is the smallest change that makes the check behind a reason pass; nil where there is none but waiting. pod names the pod that was
// refused, where the reason is of one.
func Remedy(r Reason, pod string) *Change {
	pool := "nodepool/" + r.Pool
	annotation := func(key string) string { return "metadata.annotations[" + key + "]" }
	switch r.Code {
	case NodeDoNotDisrupt, PodDoNotDisrupt:
		return &Change{r.Subject, annotation(r.Key), "removed"}
	case SafeToEvict:
		return &Change{r.Subject, annotation(r.Key), "true"}
	case NoController:
		return &Change{r.Subject, annotation("cluster-autoscaler.kubernetes.io/safe-to-evict"), "true"}
	case DisruptionBudgetPDB:
		return &Change{"poddisruptionbudget/" + r.Key, "spec.maxUnavailable", "one more than are unavailable now"}
	case SeveralPDBs:
		_, others, _ := strings.Cut(r.Key, " ")
		return &Change{"poddisruptionbudget/" + strings.Join(strings.Fields(others), " poddisruptionbudget/"), "spec.selector", "not to select " + r.Subject}
	case Quiet:
		if r.Have == "Never" {
			return &Change{pool, r.Key, "a duration"}
		}
		return &Change{pool, r.Key, "at most " + r.Have}
	case ConsolidationOff:
		return &Change{pool, r.Key, r.Want}
	case Budget:
		if strings.Contains(r.Key, "budgets[") {
			words := strings.Fields(strings.ReplaceAll(r.Have, ",", ""))
			for i := 1; i < len(words); i++ {
				if n, err := strconv.Atoi(words[i-1]); err == nil && words[i] == "down" {
					return &Change{pool, r.Key + ".nodes", strconv.Itoa(n + 1)}
				}
			}
			return &Change{pool, r.Key + ".nodes", "more"}
		}
	case Payback:
		return &Change{r.Subject, annotation(r.Key) + " of its NodeClaim", "removed"}
	case Taint:
		return &Change{pod, "spec.tolerations", "with one of " + r.Key}
	case Requirement, NoInstanceType:
		if r.Key != "" && r.Want != "" {
			return &Change{pool, "spec.template.spec.requirements[" + r.Key + "]", "allowing " + r.Want}
		}
	case Resource:
		if r.Have != "" {
			return &Change{pod, "spec.containers[*].resources.requests." + r.Key, "less: the largest machine allowed has " + r.Have + " for it and the DaemonSets"}
		}
	case Limit:
		return &Change{pool, "spec.limits." + r.Key, "more by what is missing of " + r.Want}
	case MinValues:
		return &Change{pool, "spec.template.spec.requirements[" + r.Key + "].minValues", "at most " + r.Have}
	case Offering:
		return &Change{pod, "spec.nodeSelector or affinity", "allowing where the types that fit are offered"}
	case TopologySpread:
		return &Change{pod, "spec.topologySpreadConstraints[" + r.Key + "].whenUnsatisfiable", "ScheduleAnyway"}
	case PodAffinity:
		return &Change{pod, "spec.affinity.podAffinity[" + r.Key + "]", "preferred"}
	case PodAntiAffinity:
		return &Change{pod, "spec.affinity.podAntiAffinity[" + r.Key + "]", "preferred"}
	case HostPortConflict:
		return &Change{pod, "spec.containers[*].ports.hostPort " + r.Key, "another"}
	case VolumeTopology:
		return &Change{pool, "spec.template.spec.requirements", "allowing where volume " + r.Key + " is"}
	case VolumeExclusive:
		return &Change{"persistentvolumeclaim/" + r.Key, "spec.accessModes", "ReadWriteOnce"}
	case NoHome:
		return &Change{r.Subject, "what keeps it: " + strings.TrimSpace(r.Key), r.Want}
	case NodeName:
		return &Change{pod, "spec.affinity.nodeAffinity matchFields", "removed"}
	case Unsupported:
		return &Change{pod, r.Have, "removed"}
	}
	return nil
}
