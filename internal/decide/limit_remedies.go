// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// sharedLimitRemedies raise a limit over several pools by what is missing; where others took what was left, each by a
// node of the largest type of the pool.
func (ex *explanation) sharedLimitRemedies(r plan.Reason) (out []plan.Change) {
	pool := ex.poolByName[r.Pool]
	for _, u := range ex.purchases.limitUses() {
		if u.Name != r.Subject || pool == nil {
			continue
		}
		raise := func(key, value string) {
			object, field := plan.LimitField(u.Name, key)
			out = append(out, plan.Change{Object: object, Field: field, Op: plan.Set, Value: value})
		}
		// The pod's own plan may have used more by then than the cluster does now.
		used, _, _ := strings.Cut(r.Have, " of ")
		largest := comingNode{pool: pool, requirements: pool.Requirements, types: pool.Types}
		if r.Key == "nodes" || r.Key == "" && u.Nodes >= 0 {
			n, _ := strconv.ParseInt(used, 10, 64)
			raise("nodes", strconv.FormatInt(max(n, u.UsedNodes)+1, 10))
		}
		for d, limited := range u.HasMost {
			if name := ex.s.ResourceNames[d]; limited && (r.Key == name || r.Key == "") {
				need, err := parseAmount(model.Dim(d), r.Want)
				if err != nil || r.Key == "" {
					need = largest.size().At(model.Dim(d))
				}
				have, _ := parseAmount(model.Dim(d), used)
				raise(name, model.FormatAmount(model.Dim(d), roundUpLimit(model.Dim(d), max(have, u.Used.At(model.Dim(d)))+need)))
			}
		}
		if r.Key == model.DollarsPerHour || r.Key == "" && u.MicroPerHour >= 0 {
			need, ok := model.ParseDollars(r.Want)
			if !ok {
				need = largest.dearest()
			}
			have, _ := model.ParseDollars(used)
			raise(model.DollarsPerHour, model.FormatMicro(max(have, u.UsedMicro)+need))
		}
	}
	return out
}

// roundUpLimit is the least amount not below v that a limit can be given as: whole cores, and GiB of memory.
func roundUpLimit(d model.Dim, v int64) int64 {
	unit := int64(1)
	switch d {
	case model.CPU:
		unit = 1000
	case model.Memory:
		unit = 1 << 30
	}
	return (v + unit - 1) / unit * unit
}

// applyLimit changes a limit over several pools.
func applyLimit(l *model.CapacityLimit, names []string, ch plan.Change) error {
	if key, ok := strings.CutSuffix(ch.Field, " minimum"); ok {
		for d, name := range names {
			if _, field := plan.LimitField(l.Name, name); field == key {
				l.Least = l.Least.With(model.Dim(d), 0)
				return nil
			}
		}
		return errField
	}
	for d, name := range append(slices.Clone(names), "nodes", model.DollarsPerHour) {
		if _, field := plan.LimitField(l.Name, name); field != ch.Field {
			continue
		}
		switch name {
		case "nodes":
			n, err := strconv.ParseInt(ch.Value, 10, 64)
			l.Nodes = n
			return err
		case model.DollarsPerHour:
			micro, ok := model.ParseDollars(ch.Value)
			l.MicroPerHour = micro
			if !ok {
				return errField
			}
			return nil
		}
		v, err := parseAmount(model.Dim(d), ch.Value)
		l.Most = l.Most.With(model.Dim(d), v)
		return err
	}
	return errField
}

// minimumField names the minimum of a limit over the whole cluster.
func minimumField(key string) string {
	_, flag := plan.LimitField(model.ClusterLimits, key)
	return flag + " minimum"
}
