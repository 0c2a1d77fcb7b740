// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import "github.com/dovetail-sh/dovetail/internal/model"

// limitFlags are the controller's flags for limits over the whole cluster, by what they limit.
var limitFlags = map[string]string{"nodes": "--max-nodes-total", "cpu": "--cores-total", "memory": "--memory-total",
	model.DollarsPerHour: "--max-dollars-per-hour"}

// Controller is the object of a Change that is made to a flag of the controller.
const Controller = "controller"

// LimitField names where a limit over several pools is set: object and field, the latter a flag where the limit is over
// the whole cluster. What is of extended resources is given by one flag for each.
func LimitField(limit, key string) (object, field string) {
	if limit != model.ClusterLimits {
		return limit, "spec.limits.resources." + key
	}
	if flag, ok := limitFlags[key]; ok {
		return Controller, flag
	}
	return Controller, "--gpu-total=" + key
}

// ShortOfLimit returns the reason that a limit over several NodePools allows no more.
func ShortOfLimit(limit string, x model.LimitShortage) Reason {
	return Reason{Code: SharedLimit, Detail: OfSharedLimit{Limit: limit, Resource: ResourceName(x.Resource), Need: Amount(x.Need), Used: Amount(x.Used), Most: Amount(x.Most)}}
}
