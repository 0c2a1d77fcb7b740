// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// driftConditions finds the machines that have drifted.
type driftConditions struct {
	*draft
	candidates *candidates
	backOff    *driftBackOff
}

// writeConditions keeps the condition Drifted of every machine: its pool's template has changed, it is not what its
// pool's requirements allow any more, or its type is no longer sold.
func (df *driftConditions) writeConditions() {
	for _, u := range df.candidates.dirty {
		c := u.Claim
		if df.IsUpdating(c) {
			continue // one write of a status at a time
		}
		found := df.candidates.machines[c].found.drift
		if found.oldHash {
			// Another version's number can't be compared: it is taken to be today's.
			df.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{hashAnnotation: u.Pool.Hash, hashVersionAnnotation: hashVersion},
				Why: plan.Reason{Code: plan.Drifted, Pool: c.Pool, Detail: plan.OfDrifted{Kind: hashVersionAnnotation, Want: hashVersion, Said: plan.Words(c.Annotations[hashVersionAnnotation])}}})
			continue
		}
		key, text := found.reason, found.message
		have := c.Conditions[lifecycle.Drifted]
		want := model.Condition{Status: "True", Reason: key, Message: text}
		if key == "" {
			if !have.True() {
				continue
			}
			want = model.Condition{Status: "False", Reason: "NotDrifted"}
		}
		if have.Status == want.Status && have.Reason == want.Reason {
			continue
		}
		if want.True() && !have.True() {
			df.backOff.count(u)
		}
		df.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Conditions: map[string]model.Condition{lifecycle.Drifted: want},
			Why: plan.Reason{Code: plan.Drifted, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name), Detail: plan.OfDrifted{Kind: key, Said: plan.Words(text)}}})
	}
}

// hasOldHash reports whether the hash on a claim was computed by another version's rules.
func hasOldHash(u *disrupt.Candidate) bool {
	a := u.Claim.Annotations
	return a[hashAnnotation] != "" && a[hashVersionAnnotation] != hashVersion && u.Pool.Hash != ""
}

// isNotOffered reports whether a machine's type and offering are not sold any more. It has drifted an hour after it was
// made. Those of a node group that can't be used at present are not offered either, which says nothing of its nodes.
func isNotOffered(u *disrupt.Candidate) bool {
	return len(u.Pool.Types) > 0 && u.PriceMicro < 0 && u.NodeGroup() == ""
}

// drift is what is found about a machine that has drifted, will with time, or says so.
type drift struct {
	reason, message string // why it has, as the condition says it; an empty reason: it has not
	oldHash         bool   // the hash on its claim was computed by another version's rules
	notOffered      bool   // its type and offering are not sold any more: it has drifted an hour after it was made
	marked          bool   // its claim has the condition
}

// findDrift returns what is found about a machine's drift.
func (ix *index) findDrift(u *disrupt.Candidate) drift {
	reason, message := ix.driftReason(u)
	return drift{reason, message, hasOldHash(u), isNotOffered(u), u.Claim.Is(lifecycle.Drifted)}
}

// driftReason returns the reason and message of the Drifted condition of a node: the NodePool hash or requirements have changed,
// its instance type is no longer offered, or the provider reports drift. Empty: the node has not drifted.
func (ix *index) driftReason(u *disrupt.Candidate) (reason, message string) {
	c, p := u.Claim, u.Pool
	if have := c.Annotations[hashAnnotation]; have != "" && p.Hash != "" && have != p.Hash {
		return "NodePoolDrifted", "spec.template of the NodePool has changed"
	}
	if u.UnmetRequirement != "" {
		return "RequirementsDrifted", "the NodePool requires " + u.UnmetRequirement
	}
	if old := c.Created.Add(time.Hour); isNotOffered(u) && c.Labels[model.LabelZone] != "" && c.Labels[model.LabelCapacityType] != "" && !ix.Now.Before(old) {
		return "InstanceTypeNotFound", c.Labels[model.LabelInstanceType] + " is no longer offered in " + c.Labels[model.LabelZone] + " as " + c.Labels[model.LabelCapacityType]
	}
	if reason, asked := ix.Snapshot.Drift[c.UID]; asked {
		if reason != "" {
			return reason, "the instance no longer matches " + c.ClassKind + " " + c.ClassName
		}
	} else if d := c.Conditions[lifecycle.Drifted]; d.True() && !slices.Contains(ownDriftReasons, d.Reason) {
		return d.Reason, d.Message // the provider said so, and has not answered again yet
	}
	return "", ""
}

// unmetRequirement returns the requirement of its pool that a machine does not meet, as its claim records the machine;
// empty: it meets all. Labels of the pool's template are left out: a change of them is a change of the template's hash.
func unmetRequirement(u *disrupt.Candidate) string {
	for i := range u.Pool.Requirements {
		r := &u.Pool.Requirements[i]
		if _, ofTemplate := u.Pool.Labels[r.Key]; ofTemplate {
			continue
		}
		if v, ok := u.Labels[r.Key]; !r.Matches(v, ok) {
			return r.String()
		}
	}
	return ""
}

// ownDriftReasons are the reasons that are found here.
var ownDriftReasons = []string{"NodePoolDrifted", "RequirementsDrifted", "InstanceTypeNotFound"}
