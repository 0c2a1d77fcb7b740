// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// convertCommand is told its whole command line, to put it right where it is wrong.
func convertCommand(line []string) *cobra.Command {
	f := convertFlags{}
	var conv *conversion
	c := &cobra.Command{
		Use:   "convert --from cluster-autoscaler [-f FILE…] [--args FILE] [--groups FILE | --live] [-- FLAGS…]",
		Short: "Convert Cluster Autoscaler flags and node groups to NodePools and NodeGroupClasses",
		Long: `Converts the flags and node groups of a Cluster Autoscaler to NodePools and NodeGroupClasses, and prints them for kubectl apply.
A report on standard error lists the result for every flag and tag, and explains which ones have no counterpart. The command
changes nothing, and contacts AWS only with --live.

Input:
  flags        after --, from a file (--args), or from the manifest of the Deployment (-f: file, directory, or - for standard
               input; the ConfigMap of the priority expander is read from there, too)
  node groups  the output of 'aws autoscaling describe-auto-scaling-groups' (--groups), or AWS itself (--live)

With --apply, the command shows how the objects differ from the cluster's, asks for confirmation (skip with --yes), and writes
them by server-side apply.

Exit status: 0 converted, 1 invalid input, 2 wrong usage, 130 or 143 interrupted or terminated.`,
		Example: "  kubectl -n kube-system get deploy,cm -o yaml | dovetail convert --from cluster-autoscaler -f - --groups groups.json | kubectl apply -f -\n" +
			"  dovetail convert --from cluster-autoscaler -- --cloud-provider=aws --nodes=1:10:workers --expander=least-waste",
		RunE: prompt(func(c *cobra.Command, args []string, shown *progress) (err error) {
			if at := c.ArgsLenAtDash(); at > 0 || at < 0 && len(args) > 0 {
				return exit{2, fmt.Errorf("unexpected argument %q: put Cluster Autoscaler's flags behind --", args[0])}
			}
			if err := f.checkAsking(c.InOrStdin()); err != nil {
				return err
			}
			shown.at("converting")
			if f.live {
				shown.at("asking AWS what the groups are")
			}
			if conv, err = runConvert(c, f, args); err == nil && f.apply {
				shown.end()
				err = conv.applyObjects(c, f)
			}
			return err
		}),
		// After the objects: what became of the flags.
		PostRunE: func(c *cobra.Command, _ []string) error {
			if f.output == "json" {
				return nil // it is in the document
			}
			return conv.table(c.ErrOrStderr())
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return exit{2, fmt.Errorf("%w%s; see 'dovetail convert --help'", err, foreignFlag(c, err, line))}
	})
	g := c.Flags()
	g.StringVar(&f.from, "from", "", "Source autoscaler: cluster-autoscaler")
	g.StringArrayVarP(&f.files, "filename", "f", nil, "Cluster Autoscaler manifests: file, directory, or - for standard input. Can be repeated")
	g.StringVar(&f.args, "args", "", "File with Cluster Autoscaler's flags, in shell syntax")
	g.StringVar(&f.groups, "groups", "", "File with the output of 'aws autoscaling describe-auto-scaling-groups', or - for standard input")
	g.BoolVar(&f.live, "live", false, "Read the Auto Scaling groups from AWS, with the default AWS credentials and region")
	g.BoolVar(&f.apply, "apply", false, "Show the difference to the cluster's objects, ask for confirmation, then apply them")
	g.BoolVarP(&f.yes, "yes", "y", false, "With --apply: do not ask for confirmation")
	g.StringVar(&f.kubeconfig, "kubeconfig", "", "With --apply: path of a kubeconfig with rights to change NodePools and NodeGroupClasses. Default: $KUBECONFIG, then ~/.kube/config, then a running sandbox, then in-cluster")
	g.StringVarP(&f.output, "output", "o", "yaml", "Output format: yaml, or json (objects and the result for every flag in one document)")
	return c
}

// foreignFlag says how to give convert a flag that is Cluster Autoscaler's and no flag of its own: the same command line with all that is
// not convert's behind --. Of any other flag it says nothing.
func foreignFlag(c *cobra.Command, err error, line []string) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-")
	if !slices.ContainsFunc(caFlags, func(d caFlag) bool { return d.name == name }) {
		return ""
	}
	own, theirs := []string{c.CommandPath()}, []string{"--"}
	at := slices.Index(line, c.Name()) + 1
	for i := at; i < len(line); i++ {
		word := line[i]
		if word == "--" {
			for _, w := range line[i+1:] {
				theirs = append(theirs, report.ShellWord(w))
			}
			break
		}
		var flag *pflag.Flag
		name, _, valued := strings.Cut(strings.TrimLeft(word, "-"), "=")
		switch {
		case strings.HasPrefix(word, "--"):
			flag = c.Flags().Lookup(name)
		case strings.HasPrefix(word, "-") && len(word) > 1:
			flag, valued = c.Flags().ShorthandLookup(word[1:2]), len(word) > 2
		}
		if flag == nil {
			theirs = append(theirs, report.ShellWord(word))
			continue
		}
		own = append(own, report.ShellWord(word))
		if flag.NoOptDefVal == "" && !valued && i+1 < len(line) {
			i++
			own = append(own, report.ShellWord(line[i]))
		}
	}
	return ", which is Cluster Autoscaler's: put its flags behind --, as in '" + strings.Join(append(own, theirs...), " ") + "'"
}

// groupRow says what became of what a group asks for.
type groupRow struct {
	Group   string `json:"group"`
	Pool    string `json:"nodePool"`
	Field   string `json:"field"`
	Value   string `json:"value"`
	Outcome string `json:"outcome"`
	What    string `json:"what"`
}

func runConvert(c *cobra.Command, f convertFlags, args []string) (*conversion, error) {
	switch {
	case f.from != fromClusterAutoscaler:
		return nil, exit{2, fmt.Errorf("--from %q: use %s", f.from, fromClusterAutoscaler)}
	case f.apply && f.output != "yaml":
		return nil, exit{2, errors.New("--apply and --output: what is applied is shown as a difference; leave --output out")}
	case f.live && f.groups != "":
		return nil, exit{2, errors.New("--live and --groups: the groups are described twice; give one")}
	}
	if err := checkOutput(f.output, "yaml", "json"); err != nil {
		return nil, err
	}
	in := &convertInput{}
	if err := in.read(f, args, c.InOrStdin()); err != nil {
		return nil, err
	}
	conv := &conversion{settings: translate.DefaultGroupSettings(), given: map[string]bool{}, described: in.groups, notes: in.notes}
	conv.settings.Priorities = in.priorities
	if err := conv.flags(in.args); err != nil {
		return nil, err
	}
	if f.live && conv.isClusterAPI {
		return nil, exit{2, errors.New("--live reads Auto Scaling groups from AWS, and --cloud-provider is " + cloudClusterAPI + ": leave --live out; the controller reads the groups from the management cluster")}
	}
	if err := conv.settleClusterAPI(); err != nil {
		return nil, err
	}
	if f.live && len(conv.named)+len(conv.discovery) > 0 {
		clients, err := connectAWS(c.Context(), "leave --live out and describe the groups with --groups, or give --cloud-provider behind -- if they are of another cloud")
		if err != nil {
			return nil, fmt.Errorf("--live: %w", err)
		}
		groups, missing, err := findGroups(c.Context(), clients, conv.named, conv.discovery)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			return nil, fmt.Errorf("--nodes names the group %q, which does not exist in region %s", missing[0], clients.Region)
		}
		conv.described = append([]translate.NodeGroup{}, groups...)
	}
	if err := conv.translate(); err != nil {
		return nil, err
	}
	if in.priorities != nil && !slices.Contains(conv.settings.Expanders, dovetailv1alpha1.ExpanderPriority) {
		conv.notes = append(conv.notes, "ConfigMap "+translate.PriorityConfigMap+" is there, and --expander does not say priority: it has no effect")
	}
	switch {
	case f.apply:
		return conv, nil
	case f.output == "json":
		return conv, conv.json(c.OutOrStdout())
	}
	return conv, conv.yaml(c.OutOrStdout())
}

// flags reads a command line and decides what becomes of each flag.
func (c *conversion) flags(args []string) error {
	g := pflag.NewFlagSet(fromClusterAutoscaler, pflag.ContinueOnError)
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
		return fmt.Errorf("Cluster Autoscaler's command line: %q is no flag", g.Arg(0))
	}
	for name, v := range values {
		c.given[name] = len(v.given) > 0
	}
	if !c.given["cloud-provider"] {
		c.controller = append(c.controller, "--cloud=aws")
		c.notes = append(c.notes, "--cloud-provider is not given: taken as aws")
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
			c.rows = append(c.rows, flagRow{d.name, v, given, x.outcome, x.what, x.pace})
		}
	}
	return nil
}

// fate is what becomes of a flag with a value, as far as its own value says.
func (d *caFlag) fate(c *conversion, v string) (fate, error) {
	switch {
	case d.convert != nil:
		return d.convert(c, v)
	case d.same != "" && alike(d.kind, d.same, v):
		return fate{outcome: sameHere, what: d.why}, nil
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

// translate makes the objects, and says what was known only then.
func (c *conversion) translate() error {
	groups := c.named
	if c.described != nil {
		chosen, missing := translate.SelectNodeGroups(c.described, c.named, c.discovery)
		if len(missing) > 0 {
			return fmt.Errorf("--nodes names the group %q, which the description of groups does not have", missing[0])
		}
		if len(c.named)+len(c.discovery) == 0 {
			chosen = c.described
			c.notes = append(c.notes, "the command line names no groups: all that are described are taken")
		}
		groups = chosen
	} else if len(c.named)+len(c.discovery) == 0 {
		return errors.New("the command line names no groups: give --nodes or --node-group-auto-discovery among Cluster Autoscaler's flags, or --groups")
	}
	var err error
	if c.groups, err = translate.NodeGroups(groups, c.settings); err != nil {
		return err
	}
	if c.described == nil {
		for _, tags := range c.discovery {
			one, err := translate.TaggedGroups(tags, c.settings)
			if err != nil {
				return err
			}
			c.groups = append(c.groups, one)
		}
		if len(c.named) > 0 {
			c.notes = append(c.notes, "nobody has described the groups: labels and taints of their nodes are not in the pools; give --groups, where they bear any")
		}
	}
	if len(c.groups) == 0 {
		return errors.New("no group that is described bears the tags of --node-group-auto-discovery, or is named by --nodes")
	}
	for i := range c.rows {
		r := &c.rows[i]
		at := slices.IndexFunc(caFlags, func(d caFlag) bool { return d.name == r.Flag })
		if d := caFlags[at].deferred; d != nil && r.Given {
			if x := d(c, r.Value); x.outcome != "" {
				r.Outcome, r.What, r.Pace = x.outcome, x.what, x.pace
			}
		}
	}
	return nil
}

// groupRows are what became of what groups ask for.
func (c *conversion) groupRows() []groupRow {
	rows := []groupRow{}
	for _, g := range c.groups {
		for _, x := range g.Fields {
			r := groupRow{x.Group, g.Pool.Name, strings.TrimPrefix(x.Field, "k8s.io/cluster-autoscaler/"), x.Value, inObjects, x.Became}
			switch {
			case x.Needless:
				r.Outcome, r.What = sameHere, x.Why
			case x.Became == "":
				r.Outcome, r.What = noMatch, x.Why
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// objects are what is to be applied: each class before its pool.
func (c *conversion) objects() ([]map[string]any, error) {
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

func (c *conversion) yaml(w io.Writer) error {
	list, err := c.objects()
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

func (c *conversion) json(w io.Writer) error {
	list, err := c.objects()
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]any{
		"objects": list, "flags": c.rows, "groups": c.groupRows(), "marks": caMarks,
		"controller": append([]string{"dovetail", "controller"}, c.controller...), "notes": append([]string{}, c.notes...),
	}); err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	return nil
}

// count is how many groups are known by name.
func (c *conversion) count() int {
	n := 0
	for _, g := range c.groups {
		n += len(g.Groups)
	}
	return n
}
