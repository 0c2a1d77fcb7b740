// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// textDecisions is how many decisions the text shows; the JSON has all that a View holds.
const textDecisions = 10

// Text writes a View for people, once, for a terminal of that width; 0: as wide as it needs to be.
func Text(w io.Writer, v *View, l *Look) error {
	t := v.rows(l)
	out := append(summary(v, l.Width), problems(v, l.Width, 0)...)
	full := *l
	if l.Width == 0 {
		full.Width = 1 << 16
	}
	part := func(title string, lines []Line) {
		out = append(out, Line{}, text(title, Head))
		out = append(out, lines...)
	}
	if len(t.pools) > 0 {
		part("Pools", table(poolColumns(), t.pools, 0, len(t.pools), &full, Pools, -1))
	}
	if len(t.nodes) > 0 {
		part("Nodes", table(nodeColumns(v.UseKnown), t.nodes, 0, len(t.nodes), &full, Nodes, -1))
	}
	if len(t.pending) > 0 {
		part("Pending pods", table(causeColumns(), t.pending, 0, len(t.pending), &full, Pending, -1))
	}
	if n := min(len(t.decisions), textDecisions); n > 0 {
		part("Last decisions, from "+v.From, table(decisionColumns(v.At), t.decisions[:n], 0, n, &full, Decisions, -1))
	}
	if len(v.Notes) > 0 {
		out = append(out, Line{})
		for _, note := range v.Notes {
			for _, part := range wrap(note, l.Width) {
				out = append(out, text(part, Dim))
			}
		}
	}
	var b strings.Builder
	for _, line := range crop(out, full.Width) {
		b.WriteString(line.String())
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// money is micro-dollars, written as a number of dollars.
type money int64

func (m money) MarshalJSON() ([]byte, error) {
	return []byte(model.FormatMicro(int64(m))), nil
}

type wireAmounts struct {
	CPU    string `json:"cpu"`
	Memory string `json:"memory"`
}

func wire(a Amounts) wireAmounts {
	return wireAmounts{strconv.FormatInt(a.CPU, 10) + "m", strconv.FormatInt(a.Memory, 10)}
}

type wireNode struct {
	Name         string       `json:"name"`
	NodeClaim    string       `json:"nodeClaim,omitempty"`
	IsClaim      bool         `json:"launching,omitempty"`
	Pool         string       `json:"pool,omitempty"`
	Type         string       `json:"instanceType,omitempty"`
	Zone         string       `json:"zone,omitempty"`
	CapacityType string       `json:"capacityType,omitempty"`
	AgeSeconds   int64        `json:"ageSeconds"`
	Allocatable  wireAmounts  `json:"allocatable"`
	Requested    wireAmounts  `json:"requested"`
	Used         *wireAmounts `json:"used,omitempty"`
	Pods         int64        `json:"pods"`
	PodsMax      int64        `json:"podsAllocatable"`
	Price        *money       `json:"pricePerHour,omitempty"`
	Modelled     bool         `json:"priceModelled,omitempty"`
	State        string       `json:"state"`
	Doing        string       `json:"doing,omitempty"`
	Blocked      string       `json:"blockedBy,omitempty"`
	Disrupted    bool         `json:"toBeDrained,omitempty"`
	Kept         string       `json:"keptBecause,omitempty"`
	Saving       *money       `json:"commandSavesPerHour,omitempty"`
}

type wirePool struct {
	Key         string      `json:"pool"`
	Nodes       int         `json:"nodes"`
	NotReady    int         `json:"nodesNotReady"`
	Allocatable wireAmounts `json:"allocatable"`
	Requested   wireAmounts `json:"requested"`
	PerHour     money       `json:"dollarsPerHour"`
	Unpriced    int         `json:"nodesWithoutPrice"`
	Limits      string      `json:"limits,omitempty"`
	State       string      `json:"state,omitempty"`
	Takeover    string      `json:"takeover,omitempty"`
}

type wireCause struct {
	Cause         string      `json:"cause"`
	Pods          []string    `json:"pods"`
	Requests      wireAmounts `json:"requests"`
	OldestSeconds int64       `json:"oldestSeconds"`
	Said          string      `json:"autoscalerSaid,omitempty"`
	SaidBy        string      `json:"saidBy,omitempty"`
}

type wireDecision struct {
	At      time.Time `json:"at"`
	Last    time.Time `json:"last,omitzero"`
	Count   int       `json:"count,omitempty"`
	By      string    `json:"by"`
	Kind    string    `json:"kind"`
	Subject string    `json:"subject"`
	Text    string    `json:"text"`
}

type wireTotal struct {
	Nodes       int            `json:"nodes"`
	NotReady    int            `json:"nodesNotReady"`
	States      map[string]int `json:"nodesByState"`
	Allocatable wireAmounts    `json:"allocatable"`
	Requested   wireAmounts    `json:"requested"`
	Used        *wireAmounts   `json:"used,omitempty"`
	PerHour     money          `json:"dollarsPerHour"`
	Unpriced    int            `json:"nodesWithoutPrice"`
	Pods        int            `json:"pods"`
	Pending     int            `json:"podsPending"`
	Starting    int            `json:"podsStarting"`
}

type wireView struct {
	At          time.Time      `json:"at"`
	Cluster     Cluster        `json:"cluster"`
	Autoscalers []Autoscaler   `json:"autoscalers"`
	Prices      string         `json:"prices"`
	PricesAsOf  string         `json:"pricesAsOf,omitempty"`
	Total       wireTotal      `json:"total"`
	Pools       []wirePool     `json:"pools"`
	Nodes       []wireNode     `json:"nodes"`
	Pending     []wireCause    `json:"pending"`
	Decisions   []wireDecision `json:"decisions"`
	From        string         `json:"decisionsFrom"`
	Next        []string       `json:"next"`
	Problems    []string       `json:"problems"`
	Notes       []string       `json:"notes"`
}

// JSON writes a View as one JSON object; docs/reference/json.md says what each field means. Sort order and filter are the Look's.
func JSON(w io.Writer, v *View, l *Look) error {
	t := v.rows(l)
	out := wireView{At: v.At.UTC(), Cluster: v.Cluster, Autoscalers: append([]Autoscaler{}, v.Autoscalers...), Prices: v.Prices.Name, PricesAsOf: v.Prices.AsOf,
		Total: wireTotal{Nodes: v.Total.Nodes, NotReady: v.Total.NotReady, States: v.Total.States, Allocatable: wire(v.Total.Allocatable), Requested: wire(v.Total.Requested),
			PerHour: money(v.Total.Micro), Unpriced: v.Total.Unpriced, Pods: v.Total.Pods, Pending: v.Total.Pending, Starting: v.Total.Starting},
		Pools: []wirePool{}, Nodes: []wireNode{}, Pending: []wireCause{}, Decisions: []wireDecision{}, From: v.From,
		Next:     append([]string{}, v.Next...),
		Problems: append([]string{}, v.Problems...), Notes: append([]string{}, v.Notes...)}
	if v.UseKnown {
		used := wire(v.Total.Used)
		out.Total.Used = &used
	}
	for i := range t.pools {
		p := &t.pools[i]
		out.Pools = append(out.Pools, wirePool{p.Key, p.Nodes, p.NotReady, wire(p.Allocatable), wire(p.Requested), money(p.Micro), p.Unpriced, p.Limits, p.State, p.Takeover})
	}
	for i := range t.nodes {
		r := &t.nodes[i]
		n := wireNode{Name: r.Name, NodeClaim: r.Claim, IsClaim: r.IsClaim, Pool: r.Pool, Type: r.Type, Zone: r.Zone, CapacityType: r.CapacityType,
			AgeSeconds: int64(r.Age / time.Second), Allocatable: wire(r.Allocatable), Requested: wire(r.Requested), Pods: r.Pods, PodsMax: r.PodsMax,
			Modelled: r.Price.Modelled, State: r.State, Doing: r.Doing, Blocked: r.Blocked,
			Disrupted: r.Disrupted, Kept: r.Kept}
		if r.Saving > 0 {
			saving := money(r.Saving)
			n.Saving = &saving
		}
		if r.Priced {
			price := money(r.Price.Micro)
			n.Price = &price
		}
		if r.UseKnown {
			used := wire(r.Used)
			n.Used = &used
		}
		out.Nodes = append(out.Nodes, n)
	}
	for i := range t.pending {
		c := &t.pending[i]
		wc := wireCause{Cause: c.Cause, Requests: wire(c.Requests), OldestSeconds: int64(c.Oldest / time.Second), Said: c.Said, SaidBy: c.SaidBy}
		for _, p := range c.Pods {
			wc.Pods = append(wc.Pods, p.Namespace+"/"+p.Name)
		}
		out.Pending = append(out.Pending, wc)
	}
	for _, d := range t.decisions {
		out.Decisions = append(out.Decisions, wireDecision{d.At.UTC(), d.Last, d.Count, d.By, d.Kind, d.Subject, d.Text})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
