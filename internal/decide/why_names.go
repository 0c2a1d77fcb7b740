// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// NearestName is the object of the same kind whose name is most like that of a subject that the cluster doesn't have, by how many letters
// would have to be typed otherwise: a third of the name at most. It is empty where there is none; of several it is the first.
func NearestName(s *model.Snapshot, subject string) string {
	kind, _, _ := strings.Cut(subject, "/")
	best, least := "", len(subject[len(kind):])/3
	look := func(other string) {
		if d := typingDistance(subject, other, least); d < least || d == least && (best == "" || other < best) {
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
		pod(p)
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

// typingDistance is how many letters of a have to be added, left out or replaced for it to be b; more than most where it is more than that.
func typingDistance(a, b string, most int) int {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return most + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
