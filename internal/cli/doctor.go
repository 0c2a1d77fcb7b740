// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/fleet"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/quota"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/doctor"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// foundProblems is the exit status of an examination that found something broken or costly.
const foundProblems = 3

type doctorFlags struct {
	clusterFlags
	files []string
	priceFlags
	output, scheduler, html string
	ignore                  []string
}

func doctorCommand() *cobra.Command {
	f := doctorFlags{}
	c := &cobra.Command{
		Use:   "doctor [-f FILE…]",
		Short: "Show the cost of a cluster, its minimum cost, and the causes of the difference",
		Long: `Examines a cluster with any autoscaler. Prints the monthly cost of its nodes, the cost after consolidation, the minimum
cost, and the findings that explain the difference:
  - blockers that prevent node removal, with their pods, their cost, and the change that resolves them
  - NodePools that cannot launch nodes, overlap, or have reached a limit
  - pods that fit no node, have no requests, or have no second replica
  - missing permissions, and other autoscalers
It ends with three next steps. It needs read access only, and changes nothing.

The cost of a finding is a what-if: the cost of the consolidated cluster minus its cost without that finding. Prices are from
the built-in EC2 catalog, or from --catalog; for other instance types, from --price-file or the NodeClaims (price at launch).
With -f, the command reads files, as 'dovetail plan' does, instead of a cluster. For a recording, it examines the state at
the end; 'dovetail replay' shows the cost of the whole recording with other NodePools.

Exit status: 0 no findings of severity broken or costly, 3 at least one (risky findings and --ignore codes do not count),
1 the cluster or a file cannot be read, 2 usage error, 130 or 143 interrupted or terminated.`,
		Example: "  dovetail doctor\n" +
			"  dovetail doctor --context production --html production.html\n" +
			"  dovetail doctor --ignore StaticPool,SpotNeverAllowed || echo 'look at the findings'\n" +
			"  kubectl get nodes,pods,nodepools,nodeclaims,poddisruptionbudgets -A -o yaml | dovetail doctor -f -",
		RunE: prompt(func(c *cobra.Command, args []string, shown *progress) error {
			f.files = append(f.files, args...)
			return runDoctor(c, f, shown)
		}),
	}
	g := c.Flags()
	g.StringArrayVarP(&f.files, "filename", "f", nil, "File, directory, or - for standard input, to read instead of a cluster. Can be repeated")
	f.clusterFlags.add(g)
	f.priceFlags.add(g, catalogUsage)
	g.StringVar(&f.scheduler, "scheduler-config", "", schedulerConfigUsage)
	addOutput(g, &f.output)
	g.StringVar(&f.html, "html", "", "Also write the report as an HTML page to this file")
	g.StringSliceVar(&f.ignore, "ignore", nil, "Finding codes to ignore, for example StaticPool")
	return c
}

func (f *doctorFlags) check() error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	for _, code := range f.ignore {
		if !slices.Contains(report.DoctorCodes(), doctor.Code(code)) {
			all := make([]string, 0, len(report.DoctorCodes()))
			for _, c := range report.DoctorCodes() {
				all = append(all, string(c))
			}
			slices.Sort(all)
			return exit{2, fmt.Errorf("--ignore %q: no such code; use one of %s", code, strings.Join(all, ", "))}
		}
	}
	if len(f.files) > 0 && f.isNamed() {
		return exit{2, errors.New("-f reads files, not a cluster: remove --kubeconfig and --context")}
	}
	return nil
}

// kept returns the flags that the answer depends on.
func (f *doctorFlags) kept() report.DoctorFlags {
	out := report.DoctorFlags{Cluster: f.clusterFlags.args(), Prices: f.priceFlags.args(), Planning: flagArgs("--scheduler-config", f.scheduler), Doctor: flagArgs("--ignore", strings.Join(f.ignore, ","))}
	if len(f.files) == 0 {
		kubectl := clusterFlags{f.path(os.Getenv), f.context} // which knows of no sandbox
		out.Kubectl = kubectl.args()
	}
	return out
}

func runDoctor(c *cobra.Command, f doctorFlags, shown *progress) error {
	if err := f.check(); err != nil {
		return err
	}
	d, in, err := readSurvey(c, f, shown)
	if err != nil {
		return err
	}
	shown.at("examining %s", model.Count(len(in.Snapshot.Nodes), "node"))
	d.Report, d.Ignored = doctor.Examine(*in), f.ignore
	d.Complete()
	if f.html != "" {
		if err := writePage(f.html, func(w io.Writer) error { return report.DoctorHTML(w, d) }); err != nil {
			return err
		}
	}
	write := report.DoctorText
	if isStructured(f.output) {
		write = report.DoctorJSON
	}
	if err := write(c.OutOrStdout(), d); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if d.Problems() > 0 {
		return exit{foundProblems, errors.New("")}
	}
	return nil
}

// readSurvey reads what is examined: files where some are named, else a cluster.
func readSurvey(c *cobra.Command, f doctorFlags, shown *progress) (*report.Doctor, *doctor.Input, error) {
	cat, prices, err := f.priceFlags.read()
	if err != nil {
		return nil, nil, err
	}
	m := manifests.New()
	if m.Scheduler, err = schedulerConfig(f.scheduler); err != nil {
		return nil, nil, err
	}
	d := &report.Doctor{Catalog: cat.Name, PricesAsOf: cat.PricesAsOf, PriceFile: f.prices, Files: f.files, Flags: f.kept()}
	in := &doctor.Input{Policy: decide.DefaultPolicy()}
	if len(f.files) > 0 {
		shown.at("reading manifests")
		d.Cluster = strings.Join(f.files, ", ")
		err = readFiles(m, f.files, c.InOrStdin())
	} else {
		shown.at("reading the cluster")
		d.Cluster, d.ClockSkew, err = surveyCluster(c.Context(), f, m, in, c.ErrOrStderr())
	}
	if err != nil {
		return nil, nil, err
	}
	now := time.Now().Add(-d.ClockSkew)
	if !m.At.IsZero() {
		now = m.At
	}
	takeIn(m, cat, prices, in, d, now, len(f.files) == 0)
	f.priceFlags.warn(c.ErrOrStderr(), prices, cat, in.Types)
	return d, in, nil
}

// takeIn makes the snapshot of what was read, with instance types for every pool: those of the catalog, or if the nodes are of another cloud, those of
// nodes with a price. prices may be nil. now is by the cluster's clock, which may not be this machine's. What figures then rest on, and what of the
// input can't be known, it notes in the report.
func takeIn(m *manifests.Set, cat *catalog.Catalog, prices *catalog.PriceList, in *doctor.Input, d *report.Doctor, now time.Time, live bool) {
	s := state.New()
	types := cat.InstanceTypes(s.Resources().Dim) // first, so that the numbers of resources do not depend on the input
	m.Feed(s)
	in.Now = now
	var zones []string
	first := s.Snapshot(in.Now)
	for _, n := range first.Nodes {
		zones = append(zones, n.Labels[model.LabelZone])
	}
	own, isForeign, counts := typesOfNodes(first.Nodes, cat, pricesOfNodes(first, prices))
	d.OwnTypes, d.NoTypes, d.ByClaim, d.ByNode = len(own) > 0, isForeign && len(own) == 0, counts.byClaim, counts.byNode
	if !d.OwnTypes {
		cat, d.Elsewhere = cat.InZones(zones)
	}
	switch {
	case d.OwnTypes:
		types = own
	case d.Elsewhere:
		types = cat.InstanceTypes(s.Resources().Dim)
	}
	if in.Types = types; d.NoTypes {
		in.Types = nil
	}
	of := offerer{types: types, estimator: fleet.NewEstimator(cat, s.Resources()), live: live}
	of.offer(context.Background(), s)
	in.Snapshot = s.Snapshot(in.Now)
	d.Booting, d.BootingMicro = booting(in.Snapshot)
	d.GroupPools = slices.ContainsFunc(in.Snapshot.Pools, func(p *model.NodePool) bool { return p.OfGroups })
	for _, q := range m.FullQuotas() {
		in.FullQuotas = append(in.FullQuotas, doctor.FullQuota(q))
	}
	d.Unknown = unknowns(m, &of, false)
}

// booting counts the NodeClaims that have no node yet, and sums up what their nodes cost.
func booting(s *model.Snapshot) (n int, micro int64) {
	nodes := map[string]bool{} // by name, and by NodeClaim
	for _, x := range s.Nodes {
		nodes["node/"+x.Name], nodes["claim/"+x.Claim] = true, true
	}
	for _, c := range s.Claims {
		if c.Deleting.IsZero() && !nodes["node/"+c.NodeName] && !nodes["claim/"+c.Name] {
			n, micro = n+1, micro+c.LaunchPriceMicro()
		}
	}
	return n, micro
}

// surveyCluster reads the cluster of the flags into m, and what may not be read of it into in. It returns its name,
// and how far this machine's clock is ahead of its API server's.
func surveyCluster(ctx context.Context, f doctorFlags, m *manifests.Set, in *doctor.Input, errs io.Writer) (name string, skew time.Duration, err error) {
	client, name, err := connectUser(ctx, f.clusterFlags, "doctor")
	if err != nil {
		return "", 0, err
	}
	if client.Log, err = logger(errs, "text", "error"); err != nil {
		return "", 0, err
	}
	ctx, cancel := readWithin(ctx, client.Address, liveLimit)
	defer cancel()
	survey, err := watch.ReadSurvey(ctx, client, m)
	if err != nil {
		return "", 0, err
	}
	for _, x := range survey.Denied {
		in.Denied = append(in.Denied, doctor.Denied{Resource: x.Resource, Group: x.Group, Why: x.Why})
	}
	priceMachines(ctx, client, m, in)
	for _, a := range survey.Autoscalers {
		in.Autoscalers = append(in.Autoscalers, doctor.Autoscaler{Name: a.Name, Lease: a.Lease})
	}
	for _, w := range survey.Writes {
		in.Writes = append(in.Writes, doctor.Write(w))
	}
	for _, r := range survey.Refusals {
		if quotaName, size := quota.NameIn(r.Text); quotaName != "" {
			in.CloudQuotas = append(in.CloudQuotas, doctor.CloudQuota{Name: quotaName, Size: size, Subject: r.Subject, At: r.LastAt()})
		}
	}
	return name, survey.Skew, nil
}

// priceMachines gives the nodes that Cluster API has made, and that have no price of their own, the price of their MachineDeployment, and those without an
// instance type that of its template, if its management cluster is this one. What can't be read is noted.
func priceMachines(ctx context.Context, api clusterapi.API, m *manifests.Set, in *doctor.Input) {
	offers := map[clusterapi.Config]map[string]clusterapi.NodeOffer{}
	untyped := map[string]bool{}
	for _, n := range m.Nodes() {
		untyped[n.Name] = n.Labels[model.LabelInstanceType] == ""
	}
	for _, n := range m.Nodes() {
		of := clusterapi.ClusterOf(n.Annotations)
		if of == (clusterapi.Config{}) {
			continue
		}
		if _, read := offers[of]; !read {
			var err error
			if offers[of], err = clusterapi.NodeOffers(ctx, of, api, func(node string) bool { return untyped[node] }); err != nil { // the rest can be said without
				in.Denied = append(in.Denied, doctor.Denied{Resource: "machines", Group: "cluster.x-k8s.io", Why: err.Error()})
			}
		}
		offer := offers[of][n.Name]
		if _, own := n.Annotations[model.AnnotationPrice]; !own && offer.Price != "" {
			n.Annotations[model.AnnotationPrice] = offer.Price
		}
		for key, value := range map[string]string{model.LabelInstanceType: offer.Type, model.LabelZone: offer.Zone} {
			if value != "" && n.Labels[key] == "" {
				metav1.SetMetaDataLabel(&n.ObjectMeta, key, value)
			}
		}
	}
}

// runCompare is plan --compare: what doctor says of a cluster in dollars, and which nodes it would take.
func runCompare(c *cobra.Command, f planFlags, pol decide.Policy, shown *progress) error {
	d, in, err := readSurvey(c, doctorFlags{files: f.files, clusterFlags: f.clusterFlags, priceFlags: f.priceFlags, scheduler: f.scheduler}, shown)
	if err != nil {
		return err
	}
	if len(in.Snapshot.Nodes) == 0 {
		return fmt.Errorf("%s: no nodes in the input; add the cluster's nodes and pods", d.Cluster)
	}
	in.Policy = pol
	shown.at("comparing %s", model.Count(len(in.Snapshot.Nodes), "node"))
	d.Report = &doctor.Report{Compared: doctor.Compare(*in)}
	write := report.CompareText
	if isStructured(f.output) {
		write = report.CompareJSON
	}
	if err := write(c.OutOrStdout(), d); err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	return nil
}
