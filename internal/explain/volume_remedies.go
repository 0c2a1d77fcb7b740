// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// volumeRemedies returns changes that make the pool allow the location of the pod's volume, or that remove the pod's
// requirement for another location.
func volumeRemedies(c *model.Class, pool *model.NodePool, pod, name string, d plan.OfVolumeTopology) (out []plan.Change) {
	if label, _, _, _ := d.Pod.Split(); label != "" {
		return []plan.Change{{Object: pod, Field: "spec.affinity.nodeAffinity[" + label + "]", Op: plan.Remove}}
	}
	for _, v := range c.Volumes {
		if v.Claim != d.Name || pool == nil {
			continue
		}
		for _, at := range v.Topology {
			for _, q := range at {
				if have := pool.Requirements.Get(q.Key); have != nil && len(q.Values) > 0 && !q.Complement {
					out = append(out, plan.Change{Object: name, Field: "spec.template.spec.requirements[" + q.Key + "]", Op: plan.Add, Value: q.Values[0]})
				}
			}
		}
	}
	return out
}

// claimRemedies returns changes that make a PersistentVolumeClaim usable: missing objects are created, and conflicting
// objects are avoided. They never remove a volume from the pod, because the pod needs it.
func claimRemedies(pod string, r plan.OfVolumeClaim) []plan.Change {
	claim := "persistentvolumeclaim/" + r.Claim
	switch r.Problem {
	case model.ClaimMissing, model.ClaimDeleting:
		return []plan.Change{{Object: claim, Op: plan.Add}}
	case model.ClassMissing, model.VolumeMissing, model.VolumeDeleting, model.ClaimLost:
		return []plan.Change{{Object: string(r.Object), Op: plan.Add}}
	case model.ClaimNotOwned:
		return []plan.Change{{Object: pod, Field: "spec.volumes[" + r.Claim + "].name", Op: plan.Set, Value: "another name"}}
	case model.ClaimNoClass:
		return []plan.Change{{Object: claim, Field: "spec.storageClassName", Op: plan.Set, Value: "a StorageClass"}}
	case model.ClaimUnbound, model.ClaimPrebound, model.VolumeNotFound, model.VolumeKept:
		return []plan.Change{{Object: claim, Field: "status.phase", Op: plan.Set, Value: "Bound"}}
	}
	return nil
}

// applyStorage makes the claims usable that the changed object blocked.
func applyStorage(s *model.Snapshot, ch plan.Change) error {
	cleared := map[*model.Class]*model.Class{}
	clear := func(c *model.Class) *model.Class {
		is := func(v model.Volume) bool {
			return v.Problem.Kind != "" && (ch.Object == "persistentvolumeclaim/"+v.Claim || ch.Object == v.Problem.Object)
		}
		if !slices.ContainsFunc(c.Volumes, is) {
			return c
		}
		if out, ok := cleared[c]; ok {
			return out
		}
		out := *c
		out.Volumes = slices.Clone(c.Volumes)
		for i := range out.Volumes {
			if is(out.Volumes[i]) {
				out.Volumes[i].Problem = model.VolumeProblem{}
			}
		}
		cleared[c] = &out
		return &out
	}
	pending, err := replaceWhere(s.Pending, func(p *model.Pod) bool { return clear(p.Class) != p.Class }, func(p *model.Pod) error {
		p.Class = clear(p.Class)
		return nil
	})
	if err != nil {
		return err
	}
	s.Pending = pending
	return nil
}

// replaceWhere replaces the items for which is returns true by changed copies.
func replaceWhere[T any](list []*T, is func(*T) bool, change func(*T) error) ([]*T, error) {
	out := slices.Clone(list)
	found := false
	for i, x := range list {
		if !is(x) {
			continue
		}
		found = true
		y := *x
		if err := change(&y); err != nil {
			return nil, err
		}
		out[i] = &y
	}
	if !found {
		return nil, errAbsent
	}
	return out, nil
}
