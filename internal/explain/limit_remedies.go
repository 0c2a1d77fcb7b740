// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// sharedLimitRemedies returns changes that raise a limit over several pools by the missing amount. If the limit is used
// up by other launches, each limit is raised by a node of the largest type of the pool.
func (ex *explanation) sharedLimitRemedies(r plan.Reason) (out []plan.Change) {
	pool, short := ex.Pool(r.Pool), plan.DetailOf[plan.OfSharedLimit](r)
	for _, u := range ex.LimitUses() {
		if u.Name != short.Limit || pool == nil {
			continue
		}
		raise := func(key, value string) {
			object, field := plan.LimitField(u.Name, key)
			out = append(out, plan.Change{Object: object, Field: field, Op: plan.Set, Value: value})
		}
		// The plan for the pod may already use more of the limit than the cluster does now.
		all := short.Resource == ""
		is := func(name string) bool { return all || short.Resource == plan.ResourceName(name) }
		need, used := int64(short.Need), int64(short.Used)
		size, dearest := ex.LargestNode(pool)
		if is("nodes") && (!all || u.Nodes >= 0) {
			raise("nodes", strconv.FormatInt(max(used, u.UsedNodes)+1, 10))
		}
		for d, limited := range u.HasMost {
			dim, name := model.Dim(d), ex.s.ResourceNames[d]
			if !limited || !is(name) {
				continue
			}
			if all {
				need = size.At(dim)
			}
			most := RoundUpLimit(dim, max(used, u.Used.At(dim))+need)
			if u.Name == model.ClusterLimits {
				raise(name, formatRange(dim, u.Least.At(dim), most))
			} else {
				raise(name, model.FormatAmount(dim, most))
			}
		}
		if is(model.DollarsPerHour) && (!all || u.MicroPerHour >= 0) {
			if all {
				need = dearest
			}
			raise(model.DollarsPerHour, model.FormatMicro(max(used, u.UsedMicro)+need))
		}
	}
	return out
}

// limitUnit returns the unit of a limit: 1 core, 1 GiB of memory or storage, or 1 for counted resources.
func limitUnit(d model.Dim) int64 {
	switch d {
	case model.CPU:
		return 1000
	case model.Memory, model.EphemeralStorage:
		return 1 << 30
	}
	return 1
}

// RoundUpLimit returns the smallest amount, at least v, that is a multiple of the limit's unit. All changes that raise a
// limit use it.
func RoundUpLimit(d model.Dim, v int64) int64 {
	unit := limitUnit(d)
	return (v + unit - 1) / unit * unit
}

// roundDownRequest returns an amount, at most v, that a person would write in a pod's requests: from 1 core on, a
// multiple of 100m; from 1 GiB on, a multiple of 100 MiB; from 8 GiB on, whole GiB.
func roundDownRequest(d model.Dim, v int64) int64 {
	unit := int64(1)
	switch isBytes := d == model.Memory || d == model.EphemeralStorage; {
	case d == model.CPU && v >= 1000:
		unit = 100
	case isBytes && v >= 8<<30:
		unit = 1 << 30
	case isBytes && v >= 1<<30 && v%(1<<30) != 0:
		unit = 100 << 20
	case isBytes && v >= 1<<20:
		unit = 1 << 20
	}
	return v / unit * unit
}

// formatRange formats a minimum and a maximum as in the flags for cluster-wide limits: MIN:MAX.
func formatRange(d model.Dim, least, most int64) string {
	unit := limitUnit(d)
	return strconv.FormatInt(least/unit, 10) + ":" + strconv.FormatInt(most/unit, 10)
}

// parseRange parses the format of formatRange.
func parseRange(d model.Dim, text string) (least, most int64, err error) {
	lo, hi, _ := strings.Cut(text, ":")
	if least, err = strconv.ParseInt(lo, 10, 64); err == nil {
		most, err = strconv.ParseInt(hi, 10, 64)
	}
	return least * limitUnit(d), most * limitUnit(d), err
}

// dropMinimum returns the change that removes the cluster-wide minimum of a resource.
func (ex *explanation) dropMinimum(resource string) *plan.Change {
	i := slices.IndexFunc(ex.s.Limits, func(l *model.CapacityLimit) bool { return l.Name == model.ClusterLimits })
	d := model.Dim(slices.Index(ex.s.ResourceNames, resource))
	if i < 0 || d < 0 {
		return nil
	}
	object, field := plan.LimitField(model.ClusterLimits, resource)
	return &plan.Change{Object: object, Field: field, Op: plan.Set, Value: formatRange(d, 0, ex.s.Limits[i].Most.At(d))}
}

// applyLimit changes a limit over several pools.
func applyLimit(l *model.CapacityLimit, names []string, ch plan.Change) error {
	for i, name := range append(slices.Clone(names), "nodes", model.DollarsPerHour) {
		if _, field := plan.LimitField(l.Name, name); field != ch.Field {
			continue
		}
		d := model.Dim(i)
		switch {
		case name == "nodes":
			n, err := strconv.ParseInt(ch.Value, 10, 64)
			l.Nodes = n
			return err
		case name == model.DollarsPerHour:
			micro, ok := model.ParseDollars(ch.Value)
			l.MicroPerHour = micro
			if !ok {
				return errField
			}
			return nil
		case l.Name == model.ClusterLimits:
			least, most, err := parseRange(d, ch.Value)
			l.Least, l.Most = l.Least.With(d, least), l.Most.With(d, most)
			return err
		}
		v, err := model.ParseAmount(d, ch.Value)
		l.Most = l.Most.With(d, v)
		return err
	}
	return errField
}

var (
	errAbsent = fmt.Errorf("the cluster has no such object")
	errField  = fmt.Errorf("the object has no such field")
)
