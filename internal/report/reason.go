// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Sentence says a reason to a person, without naming the pool: whoever prints it has that already.
func Sentence(r plan.Reason) string {
	if s := sentence(r); s != "" {
		return s
	}
	if s := kept(r); s != "" {
		return s
	}
	// A code without words of its own: all that the reason holds.
	s := string(r.Code)
	for _, part := range []struct{ before, text string }{{" ", r.Key}, {" on ", r.Subject}, {"; want ", r.Want}, {"; have ", r.Have}} {
		if part.text != "" {
			s += part.before + part.text
		}
	}
	return s
}

// mostReasons is how many pools' reasons an event names.
const mostReasons = 3

// Refusal says in one line why a pod can't be placed, with the codes for programs: what an event and a log line say.
func Refusal(reasons []plan.Reason) string {
	var parts []string
	for i, r := range reasons {
		if i == mostReasons {
			parts = append(parts, "and "+strconv.Itoa(len(reasons)-i)+" more")
			break
		}
		parts = append(parts, with("nodepool ", r.Pool, ": ")+string(r.Code)+": "+Sentence(r))
	}
	return "no NodePool can hold the pod: " + strings.Join(parts, "; ")
}

func sentence(r plan.Reason) string {
	switch r.Code {
	case plan.NoPools:
		return "there is no NodePool or Provisioner that could buy a machine: add one"
	case plan.PoolNotReady:
		return "the pool is not ready: " + or(r.Have, "it does not say why")
	case plan.Taint:
		return "the pod does not tolerate the pool's taint " + or(r.Have, r.Key)
	case plan.Requirement:
		if strings.Contains(r.Have, "does not define") {
			return "the pod wants " + r.Want + "; " + r.Have + ", so its nodes do not bear it"
		}
		return "the pod wants " + r.Want + "; the pool has " + r.Have
	case plan.NoInstanceType:
		if r.Key == "" {
			return or(r.Have, "the pool is offered no instance type")
		}
		return "no instance type left has " + r.Want + "; those that pod and pool allow have " + or(brief(r.Have), "no such label")
	case plan.Resource:
		need := "the pod needs " + amount(r.Key, r.Want) + " for itself and the DaemonSets"
		if r.Have == "0" {
			return need + "; no type that pod and pool allow has any"
		}
		return need + "; the nearest type" + with(", ", r.Subject, ",") + " has " + amount(r.Key, r.Have)
	case plan.CameShort:
		return "nodes of type " + r.Subject + " came with " + amount(r.Key, r.Have) + ", less than the type is said to have, more than once; the pod needs " + amount(r.Key, r.Want) +
			" for itself and the DaemonSets. The type is believed again when its catalogue entry, its image or the pool changes"
	case plan.ShortAgain:
		said := "two machines were bought for the pod, and neither had as much as its type is said to have"
		if r.Key != "" {
			said += "; the last, a " + r.Subject + ", came with " + amount(r.Key, r.Have) + " for the pod's " + amount(r.Key, r.Want)
		}
		return said + ". No third is bought until the pod, its pool or the pool's node class changes"
	case plan.Offering:
		if r.Want == "" {
			return or(r.Have, "no type that fits is offered where the pod may run") + with(" (", r.Key, ")")
		}
		return "the types that fit are not to be had with " + r.Want + ", only with " + or(brief(r.Have), "nothing")
	case plan.GroupMaximum:
		return r.Subject + " has, or is getting, its maximum of " + r.Have + " (MaxSize, or maxSize of the class that selects it); nothing else that fits is to be had"
	case plan.OutOfCapacity:
		return "every offering that fits is without capacity for now: " + r.Have
	case plan.Limit:
		switch {
		case r.Key == "":
			return or(r.Have, "the pool's limits leave nothing")
		case r.Key == "nodes":
			return "the pool's limit on nodes is reached"
		}
		return "the pool's limits leave " + amount(r.Key, r.Have) + "; the smallest machine that fits" + with(", ", r.Subject, ",") + " has " + amount(r.Key, r.Want)
	case plan.MinValues:
		return "the pool asks for a choice of " + r.Want + " values of " + r.Key + "; " + r.Have + " would do for the pod"
	case plan.TopologySpread:
		return "the pod's spread over " + r.Key + " asks for " + r.Want + "; " + r.Have
	case plan.PodAffinity:
		return "the pod's affinity over " + r.Key + " needs " + r.Want + "; " + r.Have
	case plan.PodAntiAffinity:
		s := "anti-affinity over " + r.Key + " needs " + r.Want + "; " + r.Have
		if r.Subject != "" {
			s += "; in the way is " + r.Subject
		}
		return s
	case plan.HostPortConflict:
		return "host port " + r.Key + ": " + r.Have + with(" (", r.Subject, ")")
	case plan.VolumeTopology:
		return "the volume of claim " + r.Key + " is to be had with " + r.Want + "; " + r.Have
	case plan.VolumeLimit:
		return "the pod attaches " + r.Want + " volumes of driver " + r.Key + "; a node of type " + r.Subject + " takes " + r.Have
	case plan.VolumeExclusive:
		return "claim " + r.Key + " is ReadWriteOncePod; " + r.Have
	case plan.Unsupported:
		return r.Have
	case plan.NodeName:
		return "the pod wants " + r.Want + ", the name of one node; a new node has another"
	case plan.Mismatch:
		return "kube-scheduler refused the pod on " + r.Subject + ", which holds it by every check made here"
	case plan.BindingUnfit:
		return r.Subject + " does not take the pod: kube-scheduler's filter " + r.Key + with(" wants ", r.Want, ",") + " has " + r.Have
	case plan.BindingRefused:
		return "the API server refused to have the pod bound by Dovetail, so kube-scheduler binds it" + with(": ", r.Have, "")
	case plan.NotBindable:
		return "kube-scheduler binds the pod, because of " + r.Key + with(" (", r.Have, ")")
	case plan.NotSchedulable:
		return notSchedulable(r)
	}
	return ""
}

func notSchedulable(r plan.Reason) string {
	switch r.Key {
	case "nominatedNodeName":
		return "kube-scheduler has nominated node " + r.Have + " for it"
	case "schedulerName":
		return "it is for scheduler " + r.Have + ", which has not said that it fits nowhere"
	}
	return or(r.Have, "it is not to be scheduled now")
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

// amount writes an amount of a resource with its name, cpu in cores.
func amount(resource, text string) string {
	if milli, ok := strings.CutSuffix(text, "m"); ok && resource == "cpu" {
		if n, err := strconv.ParseInt(milli, 10, 64); err == nil {
			text = strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
		}
	}
	return text + with(" ", resource, "")
}

// brief cuts a list of values that nobody would read to its end.
func brief(values string) string {
	list := strings.Fields(values)
	if len(list) <= 8 {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:8], ", ") + " and " + count(len(list)-8, "other")
}
