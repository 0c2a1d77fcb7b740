// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Why says how an object stands now, what is in the way of what might become of it, what the alternatives would cost,
// and what would have to change. The subject is pod/NAMESPACE/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME. It decides nothing and
// changes nothing: what it says of a change it knows from making it in thought (Apply) and looking again.
func Why(s *model.Snapshot, mem Memory, now time.Time, pol Policy, subject string) (plan.Answer, error) {
	st := newExplanation(s, mem, now, pol)
	a := plan.Answer{Subject: subject, At: now, Facts: []plan.Fact{}, Findings: []plan.Finding{}, Alternatives: []plan.Alternative{}, Ways: []plan.Way{}}
	kind, name, _ := strings.Cut(subject, "/")
	var ok bool
	switch kind {
	case "pod":
		ok = st.explainPod(&a, name)
	case "node":
		ok = st.explainNode(&a, name)
	case "nodeclaim":
		ok = st.explainClaim(&a, name)
	case "nodepool":
		ok = st.explainPool(&a, name)
	default:
		return a, fmt.Errorf("subject %q: use pod/NAMESPACE/NAME, node/NAME, nodeclaim/NAME or nodepool/NAME", subject)
	}
	if !ok {
		return a, &plan.NoSuchObject{Kind: kind, Subject: subject, Near: NearestName(s, subject)}
	}
	slices.SortStableFunc(a.Ways, func(x, y plan.Way) int {
		return cmp.Or(cmp.Compare(st.wayDistance(x), st.wayDistance(y)), cmp.Compare(x.Then.NewMicro, y.Then.NewMicro))
	})
	for i := range a.Findings {
		if ch := a.Findings[i].Change; ch != nil {
			a.Findings[i].Change = &st.atSource(*ch)[0]
		}
	}
	for i := range a.Ways {
		var changes []plan.Change
		for _, ch := range a.Ways[i].Changes {
			changes = append(changes, st.atSource(ch)...)
		}
		a.Ways[i].Changes = changes
	}
	return a, nil
}

// withTemplate are the kinds whose pods come from a template.
var withTemplate = []string{"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"}

// atSource is a change of a pod as people make it: of the field that the pod says it in, and of what is fixed once the pod is there in the
// template that the pod comes from. Any other change is as it was.
func (ex *explanation) atSource(ch plan.Change) []plan.Change {
	key, ok := strings.CutPrefix(ch.Object, "pod/")
	p := findPod(ex.s, key)
	if !ok || p == nil {
		return []plan.Change{ch}
	}
	fields := []string{ch.Field}
	if label, ok := bracketKey(ch.Field, "spec.affinity.nodeAffinity"); ok {
		fields = p.Class.NodeFields(label)
	}
	var out []plan.Change
	for _, field := range fields {
		own := ch
		own.Field = field
		if w, ok := templateOf(p, field); ok {
			own.Object, own.Field = w.String(), templateField+field
		}
		out = append(out, own)
	}
	return out
}

// wayDistance orders ways: fewer changes are nearer, and waiting is near for an hour.
func (ex *explanation) wayDistance(w plan.Way) int {
	n := 2 * len(w.Changes)
	if w.After.After(ex.now.Add(time.Hour)) {
		n += 7
	}
	return n
}
