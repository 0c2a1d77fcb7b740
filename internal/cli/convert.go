// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/convert"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/report"
)

type convertFlags struct {
	from, args, groups, output string
	files                      []string
	kubeconfig                 string
	live, apply, yes           bool
}

// convertCommand is told its whole command line, to put it right where it is wrong.
func convertCommand(line []string) *cobra.Command {
	f := convertFlags{}
	var conv *convert.Conversion
	c := &cobra.Command{
		Use:   "convert --from cluster-autoscaler [-f FILE…] [--args FILE] [--groups FILE | --live] [-- FLAGS…]",
		Short: "Convert Cluster Autoscaler flags and node groups to NodePools and NodeGroupClasses",
		Long: `Converts the flags and node groups of a Cluster Autoscaler to NodePools and NodeGroupClasses, and prints them for kubectl
apply. A report on standard error lists the result for every flag and tag, including those without a counterpart. The
command changes nothing, and contacts AWS only with --live.

Input:
  flags        after --, from a file (--args), or from the manifest of the Deployment (-f: file, directory, or - for standard
               input; the ConfigMap of the priority expander is read from there, too)
  node groups  the output of 'aws autoscaling describe-auto-scaling-groups' (--groups), or AWS itself (--live)

With --apply, the command shows the differences from the cluster's objects, asks for confirmation (skip with --yes), and
uses server-side apply.

Exit status: 0 converted, 1 invalid input, 2 usage error, 130 or 143 interrupted or terminated.`,
		Example: "  kubectl -n kube-system get deploy,cm -o yaml | dovetail convert --from cluster-autoscaler -f - --groups groups.json | kubectl apply -f -\n" +
			"  dovetail convert --from cluster-autoscaler -- --cloud-provider=aws --nodes=1:10:workers --expander=least-waste",
		RunE: prompt(func(c *cobra.Command, args []string, shown *progress) (err error) {
			if at := c.ArgsLenAtDash(); at > 0 || at < 0 && len(args) > 0 {
				return exit{2, fmt.Errorf("unexpected argument %q: put Cluster Autoscaler's flags after --", args[0])}
			}
			if err := f.checkAsking(c.InOrStdin()); err != nil {
				return err
			}
			shown.at("converting")
			if f.live {
				shown.at("reading Auto Scaling groups from AWS")
			}
			if conv, err = runConvert(c, f, args); err == nil && f.apply {
				shown.end()
				err = applyObjects(c, conv, f)
			}
			return err
		}),
		// After the objects: what became of the flags.
		PostRunE: func(c *cobra.Command, _ []string) error {
			if f.output == "json" {
				return nil // it is in the document
			}
			if err := conv.WriteTable(c.ErrOrStderr(), columnsOf(c.ErrOrStderr())); err != nil {
				return err
			}
			line := "helm"
			for _, word := range conv.HelmArgs() {
				line += " " + report.ShellWord(word)
			}
			_, err := fmt.Fprintln(c.ErrOrStderr(), "chart:", line)
			return err
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
	g.BoolVar(&f.apply, "apply", false, "Show the differences from the cluster's objects, ask for confirmation, then apply")
	g.BoolVarP(&f.yes, "yes", "y", false, "With --apply: do not ask for confirmation")
	g.StringVar(&f.kubeconfig, "kubeconfig", "", "With --apply: path to a kubeconfig with permission to change NodePools and NodeGroupClasses. Default: $KUBECONFIG, then ~/.kube/config, then a running sandbox, then in-cluster")
	g.StringVarP(&f.output, "output", "o", "yaml", "Output format: yaml, or json (objects and the result for every flag in one document)")
	return c
}

// foreignFlag says how to give convert a flag that is Cluster Autoscaler's and no flag of its own: the same command line with all that is
// not convert's after --. Of any other flag it says nothing.
func foreignFlag(c *cobra.Command, err error, line []string) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := strings.ReplaceAll(unknown.GetSpecifiedName(), "_", "-")
	if !convert.IsFlag(name) {
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
	return ", which is Cluster Autoscaler's: put its flags after --, as in '" + strings.Join(append(own, theirs...), " ") + "'"
}

func runConvert(c *cobra.Command, f convertFlags, args []string) (*convert.Conversion, error) {
	switch {
	case f.from != convert.ClusterAutoscaler:
		return nil, exit{2, fmt.Errorf("--from %q: use %s", f.from, convert.ClusterAutoscaler)}
	case f.apply && f.output != "yaml":
		return nil, exit{2, errors.New("--apply and --output can't be combined: remove --output")}
	case f.live && f.groups != "":
		return nil, exit{2, errors.New("--live and --groups can't be combined: use one of them")}
	}
	if err := checkOutput(f.output, "yaml", "json"); err != nil {
		return nil, err
	}
	in, err := readConvertInput(f, args, c.InOrStdin())
	if err != nil {
		return nil, err
	}
	conv := convert.New(in)
	if err := conv.ReadFlags(in.Args); err != nil {
		return nil, err
	}
	switch {
	case f.live && conv.IsClusterAPI:
		return nil, exit{2, errors.New("--live reads Auto Scaling groups from AWS, and --cloud-provider is " + cloudClusterAPI + ": leave --live out; the controller reads the groups from the management cluster")}
	case f.groups != "" && conv.IsClusterAPI:
		return nil, exit{2, errors.New("--groups describes Auto Scaling groups, and --cloud-provider is " + cloudClusterAPI + ": leave --groups out; the controller reads the groups from the management cluster")}
	}
	if f.live && len(conv.Named)+len(conv.Discovery) > 0 {
		clients, err := connectAWS(c.Context(), "leave --live out and describe the groups with --groups, or set --cloud-provider after -- if they are of another cloud")
		if err != nil {
			return nil, fmt.Errorf("--live: %w", err)
		}
		groups, missing, err := findGroups(c.Context(), clients, conv.Named, conv.Discovery)
		if err != nil {
			return nil, err
		}
		if len(missing) > 0 {
			return nil, fmt.Errorf("--nodes names the group %q, which does not exist in region %s", missing[0], clients.Region)
		}
		conv.Described = append([]translate.NodeGroup{}, groups...)
	}
	if err := conv.Translate(); err != nil {
		return nil, err
	}
	switch {
	case f.apply:
		return conv, nil
	case f.output == "json":
		return conv, conv.WriteJSON(c.OutOrStdout())
	}
	return conv, conv.WriteYAML(c.OutOrStdout())
}

// readConvertInput reads all that convert's flags name. args are what follows --.
func readConvertInput(f convertFlags, args []string, stdin io.Reader) (*convert.Input, error) {
	in, files := &convert.Input{}, inputFiles{stdin: stdin}
	if len(args) > 0 {
		if err := in.AddFlags(args, "after --"); err != nil {
			return nil, err
		}
	}
	if f.args != "" {
		text, err := files.read(f.args)
		if err != nil {
			return nil, err
		}
		words, err := convert.ShellWords(string(text))
		if err != nil {
			return nil, fmt.Errorf("--args %s: %w", f.args, err)
		}
		if err := in.AddFlags(words, "--args "+f.args); err != nil {
			return nil, err
		}
	}
	for _, name := range f.files {
		paths := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if paths, err = manifestsIn(name); err != nil {
				return nil, err
			}
		}
		for _, p := range paths {
			data, err := files.read(p)
			if err != nil {
				return nil, err
			}
			if err := in.AddManifests(p, data); err != nil {
				return nil, err
			}
		}
	}
	if in.Holder == "" {
		if len(f.files) > 0 {
			return nil, fmt.Errorf("%s: no container in it runs cluster-autoscaler", strings.Join(f.files, ", "))
		}
		return nil, exit{2, errors.New("no command line to convert: put Cluster Autoscaler's flags after --, or use --args or -f; see 'dovetail convert --help'")}
	}
	if f.groups != "" {
		data, err := files.read(f.groups)
		if err != nil {
			return nil, err
		}
		if in.Groups, err = convert.DescribedGroups(data); err != nil {
			return nil, fmt.Errorf("--groups %s: %w", f.groups, err)
		}
	}
	return in, nil
}

// inputFiles reads files, and the standard input as - once.
type inputFiles struct {
	stdin io.Reader
	done  bool // with the standard input
}

func (f *inputFiles) read(name string) ([]byte, error) {
	if name != "-" {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read input: %w", err)
		}
		return data, nil
	}
	if f.done {
		return nil, exit{2, errors.New("the standard input can be read only once")}
	}
	f.done = true
	data, err := io.ReadAll(f.stdin)
	if err != nil {
		return nil, fmt.Errorf("read the standard input: %w", err)
	}
	return data, nil
}

// columnsOf is how many columns a writer shows; 0: it is no terminal, and nothing is shortened.
func columnsOf(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(f.Fd()); err == nil {
			return n
		}
	}
	return 0
}
