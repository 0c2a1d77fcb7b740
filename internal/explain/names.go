// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// nearestName is the object of the same kind whose name is most like that of a subject that the cluster doesn't have, by how many letters
// would have to be typed otherwise: a third of the name at most. It is empty where there is none; of several it is the first.
func nearestName(s *model.Snapshot, subject string) string {
	kind, _, _ := strings.Cut(subject, "/")
	best, least := "", len(subject[len(kind):])/3
	look := func(other string) {
		if d := model.EditDistance(subject, other, least); d < least || d == least && (best == "" || other < best) {
			best, least = other, d
		}
	}
	pod := func(p *model.Pod) {
		if kind == "deployment" && p.Deployment != "" {
			look("deployment/" + p.Namespace + "/" + p.Deployment)
		} else if kind == "pod" {
			look("pod/" + p.Key())
		}
	}
	for _, p := range s.Pending {
		if !p.Placeholder {
			pod(p)
		}
	}
	for _, f := range s.Failing {
		if kind == "deployment" && f.Deployment != "" {
			look("deployment/" + f.Namespace + "/" + f.Deployment)
		}
	}
	for _, n := range s.Nodes {
		if kind == "node" {
			look("node/" + n.Name)
		}
		for _, p := range n.Pods {
			pod(p)
		}
	}
	for _, p := range s.Pools {
		if kind == "nodepool" {
			look("nodepool/" + p.Name)
		}
	}
	for _, c := range s.Claims {
		if kind == "nodeclaim" {
			look("nodeclaim/" + c.Name)
		}
	}
	return best
}
