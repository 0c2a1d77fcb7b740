// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Headroom is one Headroom as its status says.
type Headroom struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Mode      string `json:"mode"`
	Target    string `json:"target"`
	Ready     string `json:"ready"` // a condition's status; empty: no controller has looked at it
	// Problem is why it is not Ready, or which limit keeps it from holding what it wants; empty: nothing is wrong.
	Problem        string           `json:"problem,omitempty"`
	Held           int              `json:"held"` // pods; in mode Recommend: would be held
	DollarsPerHour string           `json:"heldDollarsPerHour,omitempty"`
	Next           *HeadroomOpening `json:"nextWindow,omitempty"`
	LastWeek       HeadroomWeek     `json:"lastWeek"`
}

// HeadroomOpening is one opening of a window.
type HeadroomOpening struct {
	Window     string    `json:"window"`
	LaunchFrom time.Time `json:"launchFrom"`
	Opens      time.Time `json:"opens"`
	Closes     time.Time `json:"closes"`
}

// HeadroomWeek is what came of the last seven days.
type HeadroomWeek struct {
	Hits             int    `json:"hits"`
	Misses           int    `json:"misses"`
	SparedPodMinutes int64  `json:"sparedPodMinutes"`
	WaitedPodMinutes int64  `json:"waitedPodMinutes"`
	IdlePodMinutes   int64  `json:"idlePodMinutes"`
	Dollars          string `json:"dollars"`
}

// HeadroomsText writes a table for people.
func HeadroomsText(w io.Writer, list []Headroom, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "There is no Headroom.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAMESPACE\tNAME\tMODE\tTARGET\tREADY\tHELD\t$/H\tNEXT WINDOW\tMET\tMISSED\tSPARED POD-MINUTES\tIDLE POD-MINUTES\tLAST WEEK $")
	for _, h := range list {
		next := "-"
		if n := h.Next; n != nil {
			next = n.Window + " in " + roughly(n.Opens.Sub(now))
			if !n.Opens.After(now) {
				next = n.Window + " open, " + roughly(n.Closes.Sub(now)) + " left"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", h.Namespace, h.Name, h.Mode, h.Target, cmp.Or(h.Ready, "Unknown"), h.Held,
			cmp.Or(h.DollarsPerHour, "-"), next, h.LastWeek.Hits, h.LastWeek.Misses, h.LastWeek.SparedPodMinutes, h.LastWeek.IdlePodMinutes, cmp.Or(h.LastWeek.Dollars, "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, h := range list {
		if h.Problem != "" {
			if _, err := fmt.Fprintf(w, "\n%s/%s: %s\n", h.Namespace, h.Name, h.Problem); err != nil {
				return err
			}
		}
	}
	return nil
}

// roughly writes a duration in the two largest units that it has.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return strconv.Itoa(int(d.Hours())/24) + "d" + strconv.Itoa(int(d.Hours())%24) + "h"
	case d >= time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h" + strconv.Itoa(int(d.Minutes())%60) + "m"
	case d >= time.Minute:
		return strconv.Itoa(int(d.Minutes())) + "m"
	}
	return strconv.Itoa(int(d.Seconds())) + "s"
}

// HeadroomPlan is what calendars would cost in the next 24 hours.
type HeadroomPlan struct {
	Catalog      string           `json:"catalog"`
	From         time.Time        `json:"from"`
	Rows         []HeadroomPeriod `json:"periods"` // by headroom and time
	Problems     []string         `json:"problems,omitempty"`
	TotalDollars float64          `json:"totalDollars"`
}

// HeadroomPeriod is a time in which what a Headroom holds does not change.
type HeadroomPeriod struct {
	Headroom       string    `json:"headroom"` // namespace/name
	Mode           string    `json:"mode"`
	For            string    `json:"for"` // the windows
	From           time.Time `json:"from"`
	To             time.Time `json:"to"`
	Pods           int       `json:"pods"`
	Nodes          int       `json:"nodes"`
	Refused        int       `json:"refused,omitempty"` // pods that no NodePool can launch a node for
	DollarsPerHour float64   `json:"dollarsPerHour"`
	Dollars        float64   `json:"dollars"`
	Limited        string    `json:"limited,omitempty"`
}

// HeadroomPlanText writes it for people.
func HeadroomPlanText(w io.Writer, p *HeadroomPlan) error {
	fmt.Fprintf(w, "Headroom from %s for 24 h, by %s; capacity that is free already costs nothing and is not counted\n", p.From.UTC().Format(time.RFC3339), p.Catalog)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HEADROOM\tMODE\tWINDOW\tNODES FROM\tTO\tPODS\tNODES\t$/H\t$")
	for _, r := range p.Rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.4f\t%.2f\n", r.Headroom, r.Mode, r.For, r.From.UTC().Format("Mon 15:04:05Z"), r.To.UTC().Format("Mon 15:04:05Z"),
			r.Pods, r.Nodes, r.DollarsPerHour, r.Dollars)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "Total $%.2f\n", p.TotalDollars)
	for _, r := range p.Rows {
		if r.Refused > 0 {
			fmt.Fprintf(w, "%s, window %s: no NodePool can launch a node for %s of it.\n", r.Headroom, r.For, model.Count(r.Refused, "pod"))
		}
		if r.Limited != "" {
			fmt.Fprintf(w, "%s: %s\n", r.Headroom, r.Limited)
		}
	}
	var err error
	for _, text := range p.Problems {
		_, err = fmt.Fprintln(w, text)
	}
	return err
}

// HeadroomJSON writes a table or a plan for programs.
func HeadroomJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
