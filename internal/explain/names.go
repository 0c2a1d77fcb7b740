// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// nearestName returns the object of the same kind whose name is most similar to that of a subject that does not exist.
// At most a third of the letters may differ. A name in another namespace, and a node's name without its domain, count
// as equal. If there is no such object, the result is empty. If there are several, it is the first by name.
func nearestName(s *model.Snapshot, subject string) string {
	kind, _, _ := strings.Cut(subject, "/")
	best, least := "", len(subject[len(kind):])/3
	name := subject[strings.LastIndexByte(subject, '/')+1:]
	look := func(other string) {
		if other[strings.LastIndexByte(other, '/')+1:] == name || kind == "node" && strings.HasPrefix(other, subject+".") {
			if least > 0 || best == "" || other < best {
				best, least = other, 0
			}
			return
		}
		if d := model.EditDistance(subject, other, least); d < least || d == least && (best == "" || other < best) {
			best, least = other, d
		}
	}
	pod := func(p *model.Pod) {
		if of := workloadOf(p, kind); of != "" {
			look(kind + "/" + of)
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
