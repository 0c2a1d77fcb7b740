// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Shadow is what Dovetail would have done over a time in which it only watched, beside what was done.
type Shadow struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Others []string  `json:"otherAutoscalers"` // that are live, for people

	Pods        ShadowPods        `json:"pods"`
	Cost        ShadowCost        `json:"cost"`
	Disruptions ShadowDisruptions `json:"disruptions"`
	Decisions   ShadowDecisions   `json:"decisions"`
	Placements  ShadowPlacements  `json:"placements"`

	// Disagreements are the latest decisions that differ, oldest first.
	Disagreements []ShadowDisagreement `json:"disagreements"`
}

// ShadowPods says how soon pods got a node that Dovetail would have launched a node for. Both are taken to need the
// same time from the NodeClaim to the running pod, so what is compared is when the node was decided on.
type ShadowPods struct {
	Decided       int     `json:"decided"` // pods that Dovetail would have launched a node for
	Sooner        int     `json:"sooner"`  // of those that have a node now: with Dovetail by more than 0.1 s
	Same          int     `json:"same"`
	Later         int     `json:"later"`
	SecondsSaved  float64 `json:"secondsSaved"`  // sum over those that would have run sooner
	MedianSeconds float64 `json:"medianSeconds"` // of the latest 10,000 of those
}

// ShadowCost compares dollars. With Dovetail is what was paid, plus the difference in price of the nodes for the same
// pods as long as those run, less what disruptions would have saved that were not carried out.
type ShadowCost struct {
	PaidUSD               float64 `json:"paidUSD"`
	DovetailUSD           float64 `json:"dovetailUSD"`
	PaidUSDPerHour        float64 `json:"paidUSDPerHour"` // now
	DovetailUSDPerHour    float64 `json:"dovetailUSDPerHour"`
	LaunchedUSDPerHour    float64 `json:"launchedUSDPerHour"`              // price of the nodes launched for pods that Dovetail decided on too
	WouldLaunchUSDPerHour float64 `json:"dovetailLaunchedUSDPerHour"`      // of Dovetail's for the same pods
	WouldSaveUSDPerHour   float64 `json:"dovetailNotCarriedOutUSDPerHour"` // saving of the disruptions that nobody carries out, now
}

// ShadowDisruptions counts nodes.
type ShadowDisruptions struct {
	Both         int `json:"both"`
	OnlyDovetail int `json:"onlyDovetail"`
	OnlyOther    int `json:"onlyOther"`
	Open         int `json:"open"`
}

// ShadowDecisions counts decisions that were compared: nodes launched and nodes disrupted. Launches are compared by what
// came of them: launches of both that have pods in common belong together, however the pods were divided into batches and
// among nodes, and of these each node that has one of the same NodePool, instance type and capacity type on the other side
// is one decision that is the same. Nodes that replace others, or that a static NodePool or a Headroom asks for, are for no
// pending pods: they are the same by the NodeClaim's name, or else by these three.
type ShadowDecisions struct {
	Compared  int     `json:"compared"`
	Agreed    int     `json:"agreed"`
	Agreement float64 `json:"agreement"` // Agreed of Compared; 1 where nothing was compared
	Open      int     `json:"open"`      // not known yet what the other does
	NoAnswer  int     `json:"noAnswer"`  // can't be compared: pods were gone, the other decided sooner, or too many were open
}

// ShadowPlacements counts pods that Dovetail would have bound to a node: which of equal pods goes to which of the nodes
// that are there buys and removes nothing.
type ShadowPlacements struct {
	Compared int `json:"compared"`
	Agreed   int `json:"agreed"` // went to that node
}

// ShadowDisagreement is one decision that differs, or launches for the same pods that differ.
type ShadowDisagreement struct {
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`    // launch or disrupt
	Subject  string    `json:"subject"` // pod/NAMESPACE/NAME, node/NAME or nodeclaim/NAME
	Dovetail string    `json:"dovetail"`
	Other    string    `json:"other"`
	Pods     []string  `json:"pods,omitempty"`
}

// ShadowJSON writes a report for programs.
func ShadowJSON(w io.Writer, s *Shadow) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// mostDisagreements is how many disagreements the text shows; the JSON has all that are kept.
const mostDisagreements = 20

// ShadowText writes a report for people.
func ShadowText(w io.Writer, s *Shadow) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Compared for %s, from %s to %s.\n", s.To.Sub(s.From).Round(time.Second), s.From.UTC().Format(time.RFC3339), s.To.UTC().Format(time.RFC3339))
	if len(s.Others) > 0 {
		fmt.Fprintf(&b, "Other autoscalers: %s.\n", strings.Join(s.Others, "; "))
	} else {
		fmt.Fprintf(&b, "No other autoscaler is running.\n")
	}
	p := s.Pods
	fmt.Fprintf(&b, "\nPods that needed a new node: %d\n", p.Decided)
	if p.Sooner+p.Same+p.Later > 0 {
		fmt.Fprintf(&b, "  would have run sooner with Dovetail: %d", p.Sooner)
		if p.Sooner > 0 {
			fmt.Fprintf(&b, ", by a median of %.1f s", p.MedianSeconds)
		}
		fmt.Fprintf(&b, "\n  at the same time: %d, later: %d\n", p.Same, p.Later)
	}
	c := s.Cost
	fmt.Fprintf(&b, "\nCost in this period: $%.4f, with Dovetail $%.4f%s\n", c.PaidUSD, c.DovetailUSD, saved(c.PaidUSD, c.DovetailUSD))
	fmt.Fprintf(&b, "  now: $%.4f/h, with Dovetail $%.4f/h%s\n", c.PaidUSDPerHour, c.DovetailUSDPerHour, saved(c.PaidUSDPerHour, c.DovetailUSDPerHour))
	if c.LaunchedUSDPerHour > 0 || c.WouldLaunchUSDPerHour > 0 {
		fmt.Fprintf(&b, "  nodes launched for the same pods: $%.4f/h, Dovetail's $%.4f/h\n", c.LaunchedUSDPerHour, c.WouldLaunchUSDPerHour)
	}
	if c.WouldSaveUSDPerHour > 0 {
		fmt.Fprintf(&b, "  disruptions that Dovetail would carry out now save $%.4f/h\n", c.WouldSaveUSDPerHour)
	}
	d := s.Disruptions
	fmt.Fprintf(&b, "\nNodes disrupted: by both %d, only by Dovetail %d, only by the other %d, not known yet %d\n", d.Both, d.OnlyDovetail, d.OnlyOther, d.Open)
	n := s.Decisions
	fmt.Fprintf(&b, "Decisions compared: %d, of which %d are the same (%.2f %%); not known yet: %d, can't be compared: %d\n", n.Compared, n.Agreed, 100*n.Agreement, n.Open, n.NoAnswer)
	if p := s.Placements; p.Compared > 0 {
		fmt.Fprintf(&b, "Pods that Dovetail would have bound: %d, of which %d went to the same node\n", p.Compared, p.Agreed)
	}
	if len(s.Disagreements) > 0 {
		first := max(0, len(s.Disagreements)-mostDisagreements)
		fmt.Fprintf(&b, "\nDisagreements")
		if first > 0 {
			fmt.Fprintf(&b, " (the latest %d; --output json has more)", mostDisagreements)
		}
		fmt.Fprintln(&b)
		for _, x := range s.Disagreements[first:] {
			fmt.Fprintf(&b, "  %s %s\n    Dovetail: %s\n    other:    %s\n", x.At.UTC().Format(time.TimeOnly), x.Subject, x.Dovetail, x.Other)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// saved says how much less or more the second amount is than the first; nothing where they hardly differ.
func saved(paid, ours float64) string {
	if paid <= 0 {
		return ""
	}
	switch part := 100 * (paid - ours) / paid; {
	case part >= 0.05:
		return fmt.Sprintf(" (%.1f %% less)", part)
	case part <= -0.05:
		return fmt.Sprintf(" (%.1f %% more)", -part)
	}
	return ""
}
