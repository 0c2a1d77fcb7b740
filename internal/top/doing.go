// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// States of a node.
const (
	Launching = "Launching" // the cloud has not answered with an instance yet
	Booting   = "Booting"   // there is an instance and no Node yet
	Starting  = "Starting"  // registered, and not fit for its pods yet
	Ready     = "Ready"
	NotReady  = "NotReady"
	Draining  = "Draining" // it is being deleted, and pods that need another place are still on it
	Ending    = "Ending"   // it is being deleted, and empty
)

// Conditions of NodeClaims that say what is being done.
const (
	conditionLaunched         = "Launched"
	conditionRegistered       = "Registered"
	conditionInitialized      = "Initialized"
	conditionDrifted          = "Drifted"
	conditionExpired          = "Expired"
	conditionConsolidatable   = "Consolidatable"
	conditionDisruptionReason = "DisruptionReason"
)

// Taints of other autoscalers.
const (
	taintToBeDeleted        = "ToBeDeletedByClusterAutoscaler"
	taintDeletionCandidate  = "DeletionCandidateOfClusterAutoscaler"
	taintKarpenterV1Beta    = "karpenter.sh/disruption"
	terminationHandlerTaint = "aws-node-termination-handler/"
)

func (c *Claim) is(condition string) bool {
	return c != nil && c.Conditions[condition].Status == "True"
}

// state returns one of the states. Either of node and claim may be nil.
func state(n *Node, c *Claim, l load) string {
	ending := n != nil && !n.Deleting.IsZero() || c != nil && !c.Deleting.IsZero()
	switch {
	case ending && l.movable > 0:
		return Draining
	case ending:
		return Ending
	case n == nil && !c.is(conditionLaunched):
		return Launching
	case n == nil:
		return Booting
	case c != nil && c.Conditions[conditionInitialized].Status != "True" && len(c.Conditions) > 0:
		return Starting
	case n.Ready == "True":
		return Ready
	}
	return NotReady
}

// keptFor begins what doing says of a node that an annotation keeps.
const keptFor = "Kept: "

// doing says what is being done to a node, or what keeps it, the most pressing first; empty: nothing.
func doing(n *Node, c *Claim, l load) string {
	if n == nil {
		return claimDoing(c)
	}
	hasTaint := func(key string) bool {
		return slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return t.Key == key })
	}
	switch s := state(n, c, l); s {
	case Draining:
		return "Draining: " + model.Count(l.movable, "pod") + " left" + because(c)
	case Ending:
		return "Terminating its instance" + because(c)
	case Starting:
		return claimDoing(c)
	case NotReady:
		return cmp.Or(clean(n.NotReady), "Not ready")
	}
	if hasTaint(model.TaintDisrupted) || hasTaint(taintKarpenterV1Beta) {
		return "Being disrupted" + because(c)
	}
	if hasTaint(taintToBeDeleted) {
		return "Cluster Autoscaler is removing it"
	}
	if i := slices.IndexFunc(n.Taints, func(t model.Taint) bool { return strings.HasPrefix(t.Key, terminationHandlerTaint) }); i >= 0 {
		return "Interruption: " + strings.TrimPrefix(n.Taints[i].Key, terminationHandlerTaint)
	}
	if hasTaint(model.TaintReserved) {
		return "Reserved for the pods it was launched for"
	}
	if n.Cordoned {
		return "Cordoned"
	}
	switch {
	case c.is(conditionDrifted):
		return "Drifted" + in(c.Conditions[conditionDrifted].Reason, conditionDrifted)
	case c.is(conditionExpired):
		return "Expired"
	}
	if hasTaint(taintDeletionCandidate) {
		return "Candidate for removal by Cluster Autoscaler"
	}
	switch {
	case n.Annotations[model.AnnotationDoNotDisrupt] == "true":
		return keptFor + "do-not-disrupt on the node"
	case n.Annotations[model.AnnotationScaleDownDisabled] == "true":
		return keptFor + "scale-down-disabled on the node"
	case l.kept > 0:
		return keptFor + "do-not-disrupt on " + model.Count(l.kept, "pod")
	case c.is(conditionConsolidatable):
		return "Consolidatable"
	}
	return ""
}

// claimDoing says how far the launch of a claim is.
func claimDoing(c *Claim) string {
	for _, step := range []struct{ condition, text string }{
		{conditionLaunched, "Waiting for the cloud"},
		{conditionRegistered, "Waiting for the node to register"},
		{conditionInitialized, "Waiting for the node to be initialized"},
	} {
		if have := c.Conditions[step.condition]; have.Status != "True" {
			if have.Message == "" || have.Reason == "AwaitingReconciliation" {
				return step.text
			}
			return step.text + ": " + clean(have.Message)
		}
	}
	return ""
}

// because says why a node is disrupted, where its claim tells.
func because(c *Claim) string {
	if c == nil {
		return ""
	}
	if at := interruptedAt(c); !at.IsZero() {
		return " (interrupted, instance end " + at.UTC().Format(clockOfDay) + ")"
	}
	if d := c.Conditions[conditionDisruptionReason]; d.Status == "True" {
		return in(d.Reason, conditionDisruptionReason)
	}
	if c.is(conditionDrifted) {
		return in(conditionDrifted, "")
	}
	return ""
}

// clockOfDay is how a time of the near future or past is written.
const clockOfDay = "15:04:05 UTC"

// interruptedAt returns when the cloud ends the instance of a claim, as the claim's condition says; zero: nobody has announced that.
func interruptedAt(c *Claim) time.Time {
	if c == nil {
		return time.Time{}
	}
	d := c.Conditions[conditionDisruptionReason]
	i := strings.LastIndex(d.Message, " at ")
	if d.Status != "True" || d.Reason != "Interrupted" || i < 0 {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, d.Message[i+len(" at "):])
	if err != nil {
		return time.Time{}
	}
	return at
}

// in puts a word in brackets that says more than another.
func in(word, said string) string {
	if word == "" || word == said {
		return ""
	}
	return " (" + clean(word) + ")"
}

// clean makes one line of what a cluster wrote: control characters, which a terminal would obey, become spaces.
func clean(s string) string {
	bad := func(r rune) bool {
		return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	}
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if bad(r) {
			return ' '
		}
		return r
	}, s)), " ")
}
