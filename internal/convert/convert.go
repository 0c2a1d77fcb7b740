// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package convert converts the flags and node groups of a Cluster Autoscaler to NodePools and NodeGroupClasses, and
// reports the result for every flag, tag and annotation.
//
// It reads neither a cluster nor a cloud: an Input contains everything. Start reading at Conversion.
package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// ClusterAutoscaler is the name of the only supported source, and of its binary.
const ClusterAutoscaler = "cluster-autoscaler"

// Conversion is the state of a conversion: New, ReadFlags, Translate, then the output methods.
type Conversion struct {
	Settings     translate.GroupSettings
	Named        []translate.NodeGroup // from --nodes, in order
	Discovery    []map[string]string   // tags of each --node-group-auto-discovery
	Described    []translate.NodeGroup // nil: the groups were not described
	IsClusterAPI bool
	Controller   []string  // flags of dovetail controller
	Rows         []FlagRow // in the order of Cluster Autoscaler's flags
	Notes        []string

	given    map[string]bool // flags
	maxNodes int64
	cluster  string // NAMESPACE/NAME of Cluster API's Cluster; empty: not said
	groups   []translate.GroupObjects
}

// New returns a conversion without flags.
func New(in *Input) *Conversion {
	c := &Conversion{Settings: translate.DefaultGroupSettings(), Described: in.Groups, Notes: in.Notes, given: map[string]bool{}}
	c.Settings.Priorities = in.Priorities
	return c
}

// fate is what became of a flag: an outcome, a sentence, and how that compares with Cluster Autoscaler.
type fate struct{ outcome, what, pace string }

// FlagRow is the result for a flag.
type FlagRow struct {
	Flag    string `json:"flag"`
	Value   string `json:"value"`
	Given   bool   `json:"given"`
	Outcome string `json:"outcome"`
	What    string `json:"what"`
	Pace    string `json:"pace,omitempty"` // PaceMore or PaceLess
}

// Outcomes of a flag.
const (
	InObjects    = "objects"        // part of the objects
	ToController = "controller"     // a flag of dovetail controller
	SameHere     = "same"           // Dovetail's standard behaviour
	NoEffect     = "no effect"      // no effect in Cluster Autoscaler on AWS either
	NoMatch      = "no counterpart" // with the reason
)

// GroupRow is the result for a tag or setting of a group.
type GroupRow struct {
	Group   string `json:"group"`
	Pool    string `json:"nodePool"`
	Field   string `json:"field"`
	Value   string `json:"value"`
	Outcome string `json:"outcome"`
	What    string `json:"what"`
}

// ReadFlags parses a command line of Cluster Autoscaler, without the program name, and determines the result for each flag.
func (c *Conversion) ReadFlags(args []string) error {
	g := pflag.NewFlagSet(ClusterAutoscaler, pflag.ContinueOnError)
	g.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	g.Usage, g.SortFlags = func() {}, false
	values := map[string]*rawValue{}
	for i := range caFlags {
		d := &caFlags[i]
		v := &rawValue{kind: d.kind}
		short := ""
		if d.name == "v" {
			short = "v"
		}
		flag := g.VarPF(v, d.name, short, "")
		if d.kind == asBool {
			flag.NoOptDefVal = "true"
		}
		values[d.name] = v
	}
	if err := g.Parse(args); err != nil {
		//lint:ignore ST1005 it begins with a name
		return fmt.Errorf("Cluster Autoscaler's command line: %w", err)
	}
	if g.NArg() > 0 {
		//lint:ignore ST1005 it begins with a name
		return fmt.Errorf("Cluster Autoscaler's command line: %q is not a flag", g.Arg(0))
	}
	for name, v := range values {
		c.given[name] = len(v.given) > 0
	}
	if !c.given["cloud-provider"] {
		c.Controller = append(c.Controller, "--cloud=aws")
		c.Notes = append(c.Notes, "--cloud-provider is not set: aws is assumed")
	}
	for i := range caFlags {
		d := &caFlags[i]
		list, given := values[d.name].given, true
		if len(list) == 0 {
			if !d.always {
				continue
			}
			list, given = []string{d.def}, false
		}
		for _, v := range list {
			x, err := d.fate(c, v)
			if err != nil {
				//lint:ignore ST1005 it begins with a name
				return fmt.Errorf("Cluster Autoscaler's command line: %w", err)
			}
			c.Rows = append(c.Rows, FlagRow{d.name, v, given, x.outcome, x.what, x.pace})
		}
	}
	c.settleClusterAPI()
	return nil
}

// fate is what becomes of a flag with a value, as far as its own value says.
func (d *caFlag) fate(c *Conversion, v string) (fate, error) {
	switch {
	case d.convert != nil:
		return d.convert(c, v)
	case d.same != "" && alike(d.kind, d.same, v):
		return fate{outcome: SameHere, what: d.why}, nil
	}
	return fate{outcome: d.outcome, what: d.why, pace: d.pace}, nil
}

// alike reports whether two texts are the same value.
func alike(kind int, a, b string) bool {
	if kind == asDuration {
		x, err1 := time.ParseDuration(a)
		y, err2 := time.ParseDuration(b)
		return err1 == nil && err2 == nil && x == y
	}
	return a == b
}

// Translate creates the objects, and adds the results that depend on them.
func (c *Conversion) Translate() error {
	groups := c.Named
	if c.Described != nil {
		chosen, missing := translate.SelectNodeGroups(c.Described, c.Named, c.Discovery)
		if len(missing) > 0 {
			return fmt.Errorf("--nodes names the group %q, which is not in the description of groups", missing[0])
		}
		if len(c.Named)+len(c.Discovery) == 0 {
			chosen = c.Described
			c.Notes = append(c.Notes, "the command line names no groups: all described groups are converted")
		}
		groups = chosen
	} else if len(c.Named)+len(c.Discovery) == 0 {
		return errors.New("the command line names no groups: add --nodes or --node-group-auto-discovery to Cluster Autoscaler's flags, or use --groups")
	}
	var err error
	if c.groups, err = translate.NodeGroups(groups, c.Settings); err != nil {
		return err
	}
	if c.Described == nil {
		for _, tags := range c.Discovery {
			one, err := translate.TaggedGroups(tags, c.Settings)
			if err != nil {
				return err
			}
			c.groups = append(c.groups, one)
		}
		switch {
		case c.IsClusterAPI && len(c.Named) == 0:
		case len(c.Discovery) > 0 && !c.IsClusterAPI:
			c.Notes = append(c.Notes, "the groups with these tags were not read: one NodePool selects all of them, without the labels and taints of their nodes. Use --groups or --live to get one NodePool per group")
		default:
			c.Notes = append(c.Notes, "the groups were not read: the labels and taints of their nodes are not in the NodePools; use --groups if they have any")
		}
	}
	if len(c.groups) == 0 {
		return errors.New("no described group has the tags of --node-group-auto-discovery, or is listed in --nodes")
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		at := slices.IndexFunc(caFlags, func(d caFlag) bool { return d.name == r.Flag })
		if d := caFlags[at].deferred; d != nil && r.Given {
			if x := d(c, r.Value); x.outcome != "" {
				r.Outcome, r.What, r.Pace = x.outcome, x.what, x.pace
			}
		}
	}
	if c.Settings.Priorities != nil && !slices.Contains(c.Settings.Expanders, dovetailv1alpha1.ExpanderPriority) {
		c.Notes = append(c.Notes, "ConfigMap "+translate.PriorityConfigMap+" exists, but has no effect without --expander=priority")
	}
	return nil
}

// groupRows are what became of what groups ask for.
func (c *Conversion) groupRows() []GroupRow {
	rows := []GroupRow{}
	for _, g := range c.groups {
		for _, x := range g.Fields {
			r := GroupRow{x.Group, g.Pool.Name, strings.TrimPrefix(x.Field, "k8s.io/cluster-autoscaler/"), x.Value, InObjects, x.Became}
			switch {
			case x.Needless:
				r.Outcome, r.What = SameHere, x.Why
			case x.Became == "":
				r.Outcome, r.What = NoMatch, x.Why
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// Objects returns the objects to apply, each node class before its NodePool.
func (c *Conversion) Objects() ([]map[string]any, error) {
	var out []map[string]any
	for _, g := range c.groups {
		for _, o := range []any{g.Class, g.Pool} {
			b, err := json.Marshal(o)
			if err != nil {
				return nil, fmt.Errorf("write objects of group %s: %w", g.Pool.Name, err)
			}
			var m map[string]any
			if err := json.Unmarshal(b, &m); err != nil {
				return nil, fmt.Errorf("write objects of group %s: %w", g.Pool.Name, err)
			}
			delete(m, "status")
			if meta, ok := m["metadata"].(map[string]any); ok {
				delete(meta, "creationTimestamp")
			}
			prune(m)
			out = append(out, m)
		}
	}
	return out, nil
}

// prune takes out maps without anything in them.
func prune(m map[string]any) {
	for k, v := range m {
		if sub, ok := v.(map[string]any); ok {
			if prune(sub); len(sub) == 0 {
				delete(m, k)
			}
		}
	}
}

func (c *Conversion) WriteYAML(w io.Writer) error {
	list, err := c.Objects()
	if err != nil {
		return err
	}
	for _, o := range list {
		b, err := yaml.Marshal(o)
		if err != nil {
			return fmt.Errorf("write objects: %w", err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", b); err != nil {
			return fmt.Errorf("write objects: %w", err)
		}
	}
	return nil
}

func (c *Conversion) WriteJSON(w io.Writer) error {
	list, err := c.Objects()
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]any{
		"objects": list, "flags": c.Rows, "groups": c.groupRows(), "marks": Marks,
		"controller": append([]string{"dovetail", "controller"}, c.Controller...), "helm": append([]string{"helm"}, c.HelmArgs()...), "notes": append([]string{}, c.Notes...),
	}); err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	return nil
}

// count is how many groups are known by name.
func (c *Conversion) count() int {
	n := 0
	for _, g := range c.groups {
		n += len(g.Groups)
	}
	return n
}
