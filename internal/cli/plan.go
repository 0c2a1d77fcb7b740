// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/fleet"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// unplaced is the exit status of a plan that leaves pods without a place.
const unplaced = 3

// liveLimit is how long a cluster has to show all it has.
const liveLimit = time.Minute

func planCommand() *cobra.Command {
	f := planFlags{}
	defaults := decide.DefaultPolicy().Solve
	c := &cobra.Command{
		Use:   "plan (-f FILE… | --live) [--compare]",
		Short: "Show the nodes to launch for pending pods, their cost, and why",
		Long: `Reads workloads, nodes and NodePools from files or from a cluster, and prints:
  - the nodes that would be launched for pods without a node, and the pods on each
  - the pods that fit on existing nodes
  - the pods that cannot be placed, with the reason
  - the cost, and how far it is from the proven minimum
The command changes nothing. With files, it needs no cluster and no network.

-f accepts what kubectl accepts: YAML or JSON files, multiple documents, Lists, directories (*.yaml, *.yml, *.json), and -
for standard input. Deployments, ReplicaSets, StatefulSets, Jobs and CronJobs are expanded to the pods they would create,
minus those in the input. Every unbound pod counts as unschedulable unless it is gated, nominated, or assigned to another
scheduler. With --live, files are added to the objects of the cluster.

With --compare, the command prints the monthly cost of the current nodes, after consolidation, and after rescheduling
every pod (with the nodes to launch), and the minimum cost. 'dovetail doctor' explains the difference. 'dovetail replay'
shows the cost of a recorded week with other NodePools.

Exit status: 0 every pod has a node, 3 some pods have none, 1 invalid input (with file, line, field and value), 2 usage error,
130 or 143 interrupted or terminated before the plan was complete.`,
		Example: "  dovetail plan -f examples/nodepool.yaml -f examples/deployment.yaml\n" +
			"  kubectl get deployments,nodepools -A -o yaml | dovetail plan -f - -o json\n" +
			"  dovetail plan -f manifests/ --catalog catalog.json --max-gap 1%\n" +
			"  dovetail plan --live --kubeconfig ~/.kube/config\n" +
			"  dovetail plan --live --compare",
		// Arguments are files too: a shell turns -f *.yaml into one file of the flag and others behind it.
		RunE: prompt(func(c *cobra.Command, args []string, shown *progress) error {
			f.files = append(f.files, args...)
			return runPlan(c, f, shown)
		}),
	}
	g := c.Flags()
	g.StringArrayVarP(&f.files, "filename", "f", nil, "File, directory, or - for standard input. Can be repeated")
	g.BoolVar(&f.live, "live", false, "Read the cluster of the kubeconfig. Changes nothing")
	g.BoolVar(&f.compare, "compare", false, "Compare the current nodes with a repacked cluster, in dollars per month")
	g.BoolVar(&f.headroom, "headroom", false, "Show the cost of the Headrooms' calendars in the next 24 hours (docs/HEADROOM.md)")
	f.clusterFlags.add(g)
	g.StringVar(&f.clusterAPI.cluster, "cluster-api-cluster", "", "With --live: NAMESPACE/NAME of the Cluster whose node groups are read. Default: that of the running controller")
	g.StringVar(&f.clusterAPI.management, "management-kubeconfig", "", "With --live: path to the kubeconfig of Cluster API's management cluster. If unset, the workload cluster is its own management cluster")
	f.priceFlags.add(g, "File with instance types and prices, in the format of the built-in EC2 catalog or of Karpenter's KWOK instance types.")
	g.StringVar(&f.scheduler, "scheduler-config", "", schedulerConfigUsage)
	f.demand.add(g)
	f.limits.add(g)
	addOutput(g, &f.output)
	g.StringVar(&f.maxGap, "max-gap", ppmText(defaults.MaxGapPPM), "Stop optimizing when the cost is proven to be within this gap of the minimum, as a percentage or a fraction")
	g.Int64Var(&f.work, "work", defaults.Work, "Maximum number of optimization steps. 0 means use the first plan found")
	return c
}

// ppmText writes parts per million as a percentage.
func ppmText(ppm int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0"), ".") + "%"
}

// parsePPM reads a percentage or a fraction.
func parsePPM(s string) (int64, error) {
	digits, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, ok := new(big.Rat).SetString(strings.TrimSpace(digits))
	if !ok || v.Sign() < 0 || strings.ContainsAny(digits, "/eEpPxX_") {
		return 0, fmt.Errorf("--max-gap %q: need a percentage such as 0.3%% or a fraction such as 0.003", s)
	}
	if percent {
		v.Quo(v, big.NewRat(100, 1))
	}
	v.Mul(v, big.NewRat(1_000_000, 1))
	n := new(big.Int).Quo(v.Num(), v.Denom())
	if !n.IsInt64() || n.Int64() > 1_000_000_000 {
		return 0, fmt.Errorf("--max-gap %q: must be at most 100000%%", s)
	}
	return n.Int64(), nil
}

func (f *planFlags) policy() (decide.Policy, error) {
	pol := decide.DefaultPolicy()
	gap, err := parsePPM(f.maxGap)
	if err != nil {
		return pol, exit{2, err}
	}
	pol.Solve.MaxGapPPM, pol.Solve.Work = gap, f.work
	if err := pol.Solve.Validate(); err != nil {
		return pol, exit{2, err}
	}
	if err := f.demand.into(&pol); err != nil {
		return pol, err
	}
	if err := checkOutput(f.output); err != nil {
		return pol, err
	}
	switch {
	case len(f.files) == 0 && !f.live:
		return pol, exit{2, errors.New("plan needs input: files (-f), or the cluster of the kubeconfig (--live); see 'dovetail plan --help'")}
	case f.compare && f.live && len(f.files) > 0:
		return pol, exit{2, errors.New("--compare reads files or a cluster: leave out -f or --live")}
	case f.clusterAPI != (clusterAPIFlags{}) && !f.live:
		return pol, exit{2, errors.New("--cluster-api-cluster and --management-kubeconfig require --live")}
	case f.isNamed() && !f.live:
		return pol, exit{2, errors.New("--kubeconfig and --context require --live")}
	}
	return pol, nil
}

func runPlan(c *cobra.Command, f planFlags, shown *progress) error {
	began := time.Now()
	pol, err := f.policy()
	if err != nil {
		return err
	}
	if f.compare {
		return runCompare(c, f, pol, shown)
	}
	cat, list, err := f.priceFlags.read()
	if err != nil {
		return err
	}
	limits, err := f.limits.read()
	if err != nil {
		return err
	}
	s := state.New()
	// First, so that the numbers of resources do not depend on the input.
	types := cat.InstanceTypes(s.Resources().Dim)
	limits.into(s)
	m := manifests.New()
	if m.Scheduler, err = schedulerConfig(f.scheduler); err != nil {
		return err
	}
	shown.at("reading manifests")
	if err := readFiles(m, f.files, c.InOrStdin()); err != nil {
		return err
	}
	var cluster *client.Client
	if f.live {
		shown.at("reading the cluster")
		if cluster, err = readCluster(c.Context(), s, f.clusterFlags, m.Scheduler, c.ErrOrStderr()); err != nil {
			return err
		}
	}
	shown.at("loading %d objects", m.Len())
	m.Feed(s)
	of := offerer{types: types, estimator: fleet.NewEstimator(cat, s.Resources()), live: f.live}
	if f.live && slices.ContainsFunc(s.Pools.ListPools(), func(p *model.NodePool) bool { return p.OfGroups }) {
		shown.at("reading node groups")
		if of.groups, err = readGroups(c.Context(), cluster, f.clusterAPI, s, list, c.ErrOrStderr()); err != nil {
			return err
		}
	}
	of.offer(c.Context(), s)
	f.priceFlags.warn(c.ErrOrStderr(), list, cat, of.used)
	if f.headroom {
		shown.at("pricing headroom")
		return planHeadroom(c, f, pol, m, s, cat.Name)
	}

	start := time.Now()
	now := start
	if !m.At.IsZero() {
		now = m.At
	}
	static := addStaticClaims(s, now, pol)
	snap := s.Snapshot(now)
	shown.at("planning for %s", model.Count(len(snap.Pending), "pod"))
	out, err := approve.WhatIf(snap, now, pol)
	if err != nil {
		return fmt.Errorf("internal error, so no plan is shown; please report this with the input: %w", err)
	}
	shown.at("writing the plan")
	p := reported(snap, &out, static)
	p.Lacking = lackingPools(snap, now, pol)
	p.Unknown, p.NotCreated = unknowns(m, &of, len(f.files) > 0), notCreated(m)
	for _, b := range snap.Buffers {
		if b.Ready.Status == "False" {
			p.Unknown = append(p.Unknown, fmt.Sprintf("CapacityBuffer %s is ignored: %s", b.Key(), b.Ready.Message))
		}
	}
	for _, o := range s.Pools.ListNodeOverlays() {
		p.Overlays = append(p.Overlays, report.Overlay{Name: o.Name, NotApplied: o.Verdict.NotApplied()})
	}
	p.Catalog, p.PricesAsOf, p.Skipped = cat.Name, cat.PricesAsOf, m.Skipped
	p.Planned, p.Elapsed = time.Since(start), time.Since(began)
	write := report.Text
	if isStructured(f.output) {
		write = report.JSON
	}
	if err := write(c.OutOrStdout(), p); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if len(p.Refused)+len(p.NotCreated) > 0 {
		return exit{unplaced, errors.New("")}
	}
	return nil
}

// readFiles reads what -f names, in the order given.
func readFiles(m *manifests.Set, files []string, in io.Reader) error {
	stdin := false
	for _, name := range files {
		if name == "-" {
			if stdin {
				return exit{2, errors.New("-f -: the standard input can be read only once")}
			}
			stdin = true
			data, err := io.ReadAll(in)
			if err != nil {
				return fmt.Errorf("read the standard input: %w", err)
			}
			if err := m.Read("standard input", data); err != nil {
				return err
			}
			continue
		}
		paths := []string{name}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			if paths, err = manifestsIn(name); err != nil {
				return err
			}
		}
		for _, path := range paths {
			if is, err := readRecording(m, path); err != nil {
				return err
			} else if is {
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read manifests: %w", err)
			}
			if err := m.Read(path, data); err != nil {
				return err
			}
		}
	}
	if len(files) > 0 && m.Len() == 0 {
		if other := slices.Concat(m.Skipped, m.Custom); len(other) > 0 {
			return fmt.Errorf("%s: no object of a kind that 'dovetail plan' reads; found %s", strings.Join(files, ", "), strings.Join(other[:min(3, len(other))], ", "))
		}
		return fmt.Errorf("%s: contains no object", strings.Join(files, ", "))
	}
	return nil
}

// manifestsIn lists the manifests of a directory by name, those of directories in it left out, as kubectl does.
func manifestsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("directory %s contains no .yaml, .yml or .json file", dir)
	}
	return out, nil
}

// readCluster takes in all that a cluster has, once, and returns its client.
func readCluster(ctx context.Context, s *state.State, f clusterFlags, scheduler translate.SchedulerDefaults, errs io.Writer) (*client.Client, error) {
	cluster, _, err := connectUser(ctx, f, "plan")
	if err != nil {
		return nil, err
	}
	if cluster.Log, err = logger(errs, "text", "warn"); err != nil {
		return nil, err
	}
	ctx, cancel := readWithin(ctx, cluster.Address, liveLimit)
	defer cancel()
	return cluster, watch.Read(ctx, cluster, &translate.Translator{Table: s.Resources(), Lookup: cluster.Seen.Lookup(), Defaults: scheduler}, s)
}

// schedulerConfigUsage is what --scheduler-config says of itself, wherever it is.
const schedulerConfigUsage = "File with a KubeSchedulerConfiguration. Only its default topology spread constraints are used. If unset, kube-scheduler's built-in defaults apply, which reject no pod"

// schedulerConfig reads what --scheduler-config names.
func schedulerConfig(path string) (translate.SchedulerDefaults, error) {
	if path == "" {
		return nil, nil
	}
	if strings.ContainsAny(path, "{\n") { // Karpenter's SCHEDULER_CONFIG is the document itself
		return inlineSchedulerConfig(path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --scheduler-config: %w", err)
	}
	return manifests.ReadSchedulerConfig(path, data)
}

// inlineSchedulerConfig reads the document that Karpenter's SCHEDULER_CONFIG holds: of kube-scheduler's configuration the
// default constraints alone, for the default scheduler.
func inlineSchedulerConfig(text string) (translate.SchedulerDefaults, error) {
	var in struct {
		PodTopologySpread struct {
			DefaultConstraints []any `json:"defaultConstraints"`
		} `json:"podTopologySpread"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &in); err != nil {
		return nil, fmt.Errorf("read SCHEDULER_CONFIG: need podTopologySpread.defaultConstraints: %w", err)
	}
	if len(in.PodTopologySpread.DefaultConstraints) == 0 {
		return nil, nil
	}
	whole, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"profiles": []any{map[string]any{"pluginConfig": []any{map[string]any{"name": "PodTopologySpread", "args": map[string]any{
			"defaultingType": "List", "defaultConstraints": in.PodTopologySpread.DefaultConstraints,
		}}}}},
	})
	if err != nil {
		return nil, err
	}
	return manifests.ReadSchedulerConfig("SCHEDULER_CONFIG", whole)
}

// addStaticClaims shows the claims that pools with spec.replicas lack as under way, so that pending pods are planned onto
// them as a controller would do, and returns them.
func addStaticClaims(s *state.State, now time.Time, pol decide.Policy) []plan.CreateClaim {
	claims := decide.StaticClaims(s.Snapshot(now), now, pol)
	for _, a := range claims {
		s.Overlay.AddProvisionalClaim(a.Provisional(now))
	}
	return claims
}
