// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // calendars name time zones, and an image has no zone files

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/cloud/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/controller/deletioncosts"
	"github.com/dovetail-sh/dovetail/internal/controller/demandhistory"
	"github.com/dovetail-sh/dovetail/internal/controller/headrooms"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/controller/savingskeeper"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	promhistory "github.com/dovetail-sh/dovetail/internal/prometheus"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const (
	// setAsideFor is how long an offering that had no capacity is not asked for again; the reference's value.
	setAsideFor = 3 * time.Minute
	// loopWork is how far a plan is refined before it is carried out: about a fifth of a second at most, since pods
	// wait meanwhile and a consolidation mends what is left. `dovetail plan` may take longer.
	loopWork = 4_000_000
)

// The modes of a controller.
const (
	modeActive = "active"
	modeShadow = "shadow" // it decides and does nothing
)

// The values of --cloud. Cluster Autoscaler's --cloud-provider has the first two.
const (
	cloudAWS          = "aws"
	cloudClusterAPI   = "clusterapi"
	cloudExternalGRPC = "externalgrpc"
	cloudKWOK         = "kwok" // simulated
)

var clouds = []string{cloudAWS, cloudClusterAPI, cloudExternalGRPC, cloudKWOK}

func unknownCloud(value string) error {
	return exit{2, fmt.Errorf("--cloud %q: use %s or %s", value, strings.Join(clouds[:len(clouds)-1], ", "), clouds[len(clouds)-1])}
}

type controllerFlags struct {
	mode                                                        string
	kubeconfig, cloud, machines, metrics, health, format, level string
	scheduler, gates, prometheus, prices, cloudConfig           string
	clusterAPI, management                                      string
	leaderElect, profiling, unobserved, alone, legacyRepair     bool
	landing                                                     landingFlags
	demand                                                      demandFlags
	secure                                                      secureFlags
	others                                                      []string
	qps                                                         float32
	burst                                                       int
	lease                                                       client.Lease
	config                                                      controller.Config
	ledgerSize                                                  int
	aws                                                         awsFlags
	groups                                                      groupFlags
	limits                                                      limitFlags
	recording                                                   recordingFlags
}

func controllerCommand() *cobra.Command {
	f := &controllerFlags{config: controller.DefaultConfig(), lease: client.DefaultLease()}
	c := &cobra.Command{
		Use:   "controller",
		Short: "Run the autoscaler",
		Long: `Watches the cluster, launches nodes for unschedulable pods, binds the pods to them, and removes nodes that are not needed.

Only the leader acts. Standby replicas watch, and one of them takes over if the leader fails. While Karpenter or Cluster
Autoscaler renews its lease, the controller launches and disrupts nothing, and reports what it would do.

Names in capitals are environment variables, most of them Karpenter's. They are read if the flag is not set.`,
		Example: "  dovetail controller --cloud aws --cluster-name production\n" +
			"  dovetail controller --kubeconfig dovetail.kubeconfig --cloud kwok --machines http://127.0.0.1:7080 --leader-elect=false",
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runController(c, f) },
	}
	g := c.Flags()
	g.StringVar(&f.mode, "mode", modeActive, "active or shadow. In shadow mode the controller decides but changes nothing; 'dovetail shadow' compares its decisions with those of the active autoscaler")
	g.StringVar(&f.kubeconfig, "kubeconfig", "", "Path to the kubeconfig. If unset, the in-cluster service account is used")
	g.StringVar(&f.cloud, "cloud", cloudKWOK, "Cloud provider: aws (EC2), clusterapi (Cluster API MachineDeployments, experimental), externalgrpc (a server for Cluster Autoscaler's externalgrpc protocol, experimental) or kwok (the simulated cloud)")
	g.StringVar(&f.cloudConfig, "cloud-config", "", "Connection settings of the externalgrpc server, in Cluster Autoscaler's --cloud-config format: address, key, cert, cacert, grpc_timeout. Required with --cloud=externalgrpc")
	g.StringVar(&f.clusterAPI, "cluster-api-cluster", "", "NAMESPACE/NAME of the Cluster object whose MachineDeployments are the node groups. Required with --cloud=clusterapi")
	g.StringVar(&f.management, "management-kubeconfig", "", "Path to the management cluster's kubeconfig, for --cloud=clusterapi. If unset, the workload cluster is its own management cluster")
	g.StringVar(&f.machines, "machines", "", "URL of the simulated cloud. Required with --cloud=kwok")
	g.StringVar(&f.prices, "price-file", "", priceFileUsage+" Read again when it changes")
	f.aws.add(g)
	f.groups.add(g)
	g.StringVar(&f.metrics, "metrics-address", ":8080", "Address of /metrics. On a loopback address it also serves /why, /history, /ledger, /pending, /savings and /shadow. If empty, nothing is served (METRICS_PORT)")
	f.secure.add(g)
	g.StringVar(&f.health, "health-address", ":8081", "Address of /healthz and /readyz. If empty, nothing is served (HEALTH_PROBE_PORT)")
	g.BoolVar(&f.unobserved, "disable-cluster-state-observability", false, "Disable metrics per pod, per node and per object condition (DISABLE_CLUSTER_STATE_OBSERVABILITY)")
	g.BoolVar(&f.profiling, "profiling", false, "Serve /debug/pprof on the metrics address (ENABLE_PROFILING)")
	g.BoolVar(&f.leaderElect, "leader-elect", true, "Act only while holding the leader lease. Required with more than one replica (DISABLE_LEADER_ELECTION)")
	g.BoolVar(&f.alone, "ignore-other-autoscalers", false, "Act even if another autoscaler is running. Both may launch nodes for the same pods")
	g.StringSliceVar(&f.others, "other-autoscalers", client.OtherLeases, "Names of the leases, in any namespace, that show that another autoscaler is running")
	g.StringVar(&f.lease.Namespace, "leader-elect-namespace", f.lease.Namespace, "Namespace of the leader lease and of Dovetail's ConfigMaps (LEADER_ELECTION_NAMESPACE, SYSTEM_NAMESPACE)")
	g.StringVar(&f.lease.Name, "leader-elect-name", f.lease.Name, "Name of the leader lease. A different name needs a matching Role (LEADER_ELECTION_NAME)")
	g.DurationVar(&f.lease.Duration, "leader-elect-lease-duration", f.lease.Duration, "Lease duration: how long standby replicas wait for the leader to renew before taking over")
	g.DurationVar(&f.lease.Renew, "leader-elect-renew-deadline", f.lease.Renew, "Renew deadline: how long the leader retries renewing before it stops acting")
	g.DurationVar(&f.lease.Retry, "leader-elect-retry-period", f.lease.Retry, "Retry period: wait between attempts to acquire or renew the lease")
	f.landing.add(g)
	f.limits.add(g)
	g.DurationVar(&f.config.Idle, "batch-idle-duration", f.config.Idle, "Idle batch window: decide after this time without a new unschedulable pod (BATCH_IDLE_DURATION)")
	g.DurationVar(&f.config.Max, "batch-max-duration", f.config.Max, "Maximum batch window: longest wait after the first unschedulable pod (BATCH_MAX_DURATION)")
	g.StringVar(&f.scheduler, "scheduler-config", "", schedulerConfigUsage+" (SCHEDULER_CONFIG)")
	f.demand.add(g)
	g.StringVar(&f.gates, "feature-gates", "", "Feature gates, as NAME=true,NAME=false: NodeRepair (default false), SpotToSpotConsolidation (default false), ReservedCapacity (default true), TerminateFirstDrift (default false), TerminateFirstRepair (default false), PodDeletionCostManagement (default false) (FEATURE_GATES)")
	g.BoolVar(&f.legacyRepair, "legacy-node-repair", false, "Forcefully terminate a node that is not repaired within 10 minutes, ignoring disruption budgets and karpenter.sh/do-not-disrupt (LEGACY_NODE_REPAIR)")
	g.Float32Var(&f.qps, "kube-client-qps", 0, "Maximum requests per second to the API server. 0 means no client-side limit (KUBE_CLIENT_QPS)")
	g.IntVar(&f.burst, "kube-client-burst", 0, "Maximum burst of requests to the API server, with --kube-client-qps (KUBE_CLIENT_BURST)")
	g.StringVar(&f.prometheus, "prometheus-url", "", "URL of a Prometheus server with kube-state-metrics, used to backfill the demand history of workloads. Optional")
	f.recording.add(g)
	g.IntVar(&f.ledgerSize, "ledger-size", 10000, "Number of decisions kept for /ledger")
	g.StringVar(&f.format, "log-format", "json", "Log format: text or json")
	g.StringVar(&f.level, "log-level", "info", "Log level: debug, info, warn or error (LOG_LEVEL)")
	return c
}

// runController runs the autoscaler until its context ends, which is no error, or a part of it fails.
func runController(c *cobra.Command, f *controllerFlags) error {
	ctx := c.Context()
	s, err := readControllerSettings(c, f)
	if err != nil {
		return err
	}
	cluster, err := connectCluster(ctx, f, s)
	if err != nil {
		return err
	}
	st := state.New()
	s.limits.into(st)
	provider, refresh, err := connectProvider(ctx, f, s, cluster, st.Resources())
	if err != nil {
		return err
	}
	objects := &translate.Translator{Table: st.Resources(), Lookup: cluster.Seen.Lookup(), Defaults: s.scheduler}
	provider = cloud.NewPriced(provider, s.prices, s.log)
	actor := write.NewActor(cluster, objects, time.Now)
	registry := newRegistry()
	client.RegisterMetrics(registry)
	ctl := newController(f, s, cluster, actor, provider, st, registry)
	registerLeaderMetrics(registry, ctl, f.lease.Name, !f.unobserved)
	keeper := headrooms.New(ctl, write.NewHeadrooms(cluster, objects, time.Now), ctl.Demand(), s.log, time.LoadLocation)
	ctl.Answers.Headrooms = keeper
	ctl.Account().Headroom = keeper.MicroPerHour
	registry.MustRegister(headrooms.NewMetrics(keeper), savingskeeper.NewMetrics(ctl.Account()))
	p := &controllerProcess{flags: f, settings: s, client: cluster, objects: objects, actor: actor, ctl: ctl, refresh: refresh, headrooms: keeper,
		deletionCosts: &deletioncosts.Keeper{Loop: ctl, Store: actor, On: s.deletionCosts, Log: s.log, Metrics: deletioncosts.NewMetrics(registry)}, failed: make(chan error, 5)}
	return p.run(ctx, registry)
}

// controllerSettings are what the flags and the environment say, read and checked before anything is connected to.
type controllerSettings struct {
	log              *slog.Logger
	policy           decide.Policy        // without what the provider adds to it
	aws              awsapi.Config        // for --cloud aws
	server           *externalgrpc.Config // for --cloud externalgrpc
	clusterAPI       clusterapi.Config    // for --cloud clusterapi
	reservedCapacity bool                 // machines are launched into capacity reservations
	deletionCosts    bool                 // deletion costs are written to pods

	limits *clusterLimits // nil: there are none
	groups *discovery     // nil: no node groups are looked for

	prices func() cloud.PriceTable // the content of --price-file now; nil: there is none

	expander controller.Expander // nil: no program outside chooses among node groups

	statusNamespace, statusName string // of the ConfigMap with the status of node groups; empty: none is written

	past      demandhistory.PastReplicas  // nil: no Prometheus is asked
	scheduler translate.SchedulerDefaults // nil: kube-scheduler's own

	provisioners translate.ProvisionerDefaults // what Provisioners leave to their cluster; known once the cloud is connected to
}

// readControllerSettings takes in the environment for flags that are not given, and says what is wrong with either. It
// makes the logger the process's own, and limits its memory.
func readControllerSettings(c *cobra.Command, f *controllerFlags) (*controllerSettings, error) {
	unheeded, err := readEnvironment(c.Flags(), os.Getenv)
	if err != nil {
		return nil, err
	}
	if !c.Flags().Changed("batch-max-duration") { // who asks for a longer silence alone means to wait for it
		f.config.Max = max(f.config.Max, f.config.Idle)
	}
	if f.mode != modeActive && f.mode != modeShadow {
		return nil, exit{2, fmt.Errorf("--mode %q: use active or shadow", f.mode)}
	}
	s := &controllerSettings{policy: decide.DefaultPolicy()}
	if err := f.demand.into(&s.policy); err != nil {
		return nil, err
	}
	if s.log, err = logger(c.ErrOrStderr(), f.format, f.level); err != nil {
		return nil, err
	}
	if err := errors.Join(f.config.Validate(), f.secure.validate(), f.recording.validate()); err != nil {
		return nil, exit{2, err}
	}
	if err := f.landing.into(&s.policy); err != nil {
		return nil, err
	}
	if s.limits, err = f.limits.read(); err != nil {
		return nil, err
	}
	s.policy.Solve.Work = loopWork
	if err := s.readGates(f.gates); err != nil {
		return nil, exit{2, fmt.Errorf("--feature-gates: %w", err)}
	}
	s.policy.LegacyRepair = f.legacyRepair
	slog.SetDefault(s.log)
	for _, v := range unheeded {
		s.log.Warn("environment variable has no effect", "variable", v.name, "value", v.value, "why", v.why)
	}
	limitMemory(os.Getenv)
	if err := s.readCloud(f); err != nil {
		return nil, err
	}
	if s.scheduler, err = schedulerConfig(f.scheduler); err != nil {
		return nil, err
	}
	if f.prometheus != "" {
		if s.past, err = promhistory.Connect(f.prometheus); err != nil {
			return nil, exit{2, fmt.Errorf("--prometheus-url: %w", err)}
		}
	}
	return s, nil
}

// readGates has the feature gates turn on and off what they stand for.
func (s *controllerSettings) readGates(text string) error {
	repair, err := isGateOn(text, gateNodeRepair)
	if err != nil {
		return err
	}
	spot, _ := isGateOn(text, gateSpotToSpot)
	s.reservedCapacity, _ = isGateOn(text, gateReservedCapacity)
	s.policy.NoRepair, s.policy.Disrupt.NoSpotToSpot = !repair, !spot
	s.policy.TerminateFirstDrift, _ = isGateOn(text, gateTerminateFirstDrift)
	s.policy.TerminateFirstRepair, _ = isGateOn(text, gateTerminateFirstRepair)
	s.deletionCosts, _ = isGateOn(text, gatePodDeletionCost)
	return nil
}

// readCloud takes in the settings of the cloud where machines are bought.
func (s *controllerSettings) readCloud(f *controllerFlags) (err error) {
	if s.prices, err = watchPrices(f.prices, s.log); err != nil {
		return err
	}
	if s.groups, err = f.groups.read(os.Getenv); err != nil {
		return err
	}
	if s.statusNamespace, s.statusName, err = f.groups.statusConfigMap(); err != nil {
		return err
	}
	if s.expander, err = f.groups.connectExpander(); err != nil {
		return err
	}
	if s.groups != nil && f.cloud != cloudAWS {
		return exit{2, fmt.Errorf("--nodes, --node-group-auto-discovery: they are for --cloud aws, not for --cloud %s; remove them", f.cloud)}
	}
	if f.cloudConfig != "" && f.cloud != cloudExternalGRPC {
		return exit{2, fmt.Errorf("--cloud-config: it is for --cloud externalgrpc, not for --cloud %s; remove it", f.cloud)}
	}
	if (f.clusterAPI != "" || f.management != "") && f.cloud != cloudClusterAPI {
		return exit{2, fmt.Errorf("--cluster-api-cluster, --management-kubeconfig: they are for --cloud clusterapi, not for --cloud %s; remove them", f.cloud)}
	}
	switch f.cloud {
	case cloudClusterAPI:
		if s.clusterAPI, err = clusterapi.ReadConfig(f.clusterAPI); err != nil {
			return exit{2, fmt.Errorf("--cluster-api-cluster: %w", err)}
		}
		return nil
	case cloudExternalGRPC:
		if f.cloudConfig == "" {
			return exit{2, errors.New("--cloud-config: the file with the address of the server is needed for --cloud externalgrpc")}
		}
		if s.server, err = externalgrpc.ReadConfig(f.cloudConfig); err != nil {
			return exit{2, fmt.Errorf("--cloud-config: %w", err)}
		}
		return nil
	case cloudKWOK:
		if f.machines == "" {
			return exit{2, errors.New("--machines: the address of the simulated cloud is needed for --cloud kwok, e.g. http://127.0.0.1:7080")}
		}
		return nil
	case cloudAWS:
		s.aws, err = f.aws.read(os.Getenv)
		s.aws.NoReservedCapacity = !s.reservedCapacity
		return err
	default:
		return unknownCloud(f.cloud)
	}
}

// connectCluster connects to the API server.
func connectCluster(ctx context.Context, f *controllerFlags, s *controllerSettings) (*client.Client, error) {
	access := client.ReadWrite
	if f.mode == modeShadow {
		access = client.ReadOnly
	}
	cluster, err := client.Connect(ctx, f.kubeconfig, f.qps, f.burst, "dovetail/"+version(), access)
	if err != nil {
		return nil, err
	}
	cluster.Log = s.log
	return cluster, nil
}

// connectProvider connects to the cloud where machines are bought. refresh keeps fresh what the provider knows, and is
// for the leader to run; nil: nothing has to be.
func connectProvider(ctx context.Context, f *controllerFlags, s *controllerSettings, cluster *client.Client, resources *state.ResourceTable) (
	p cloud.Provider, refresh func(context.Context), err error) {
	if f.cloud == cloudKWOK {
		simulated := kwok.New(f.machines, machinesClient(), resources, cloud.Wall{})
		simulated.AdoptNodes(write.NewSimulated(cluster))
		return cloud.Retry(simulated, cloud.Wall{}, cloud.DefaultRetry()), nil, nil
	}
	var records nodegroups.Records = write.NewKept(cluster, f.lease.Namespace, f.cloud+".json")
	if f.mode == modeShadow {
		records = nodegroups.NoRecords{}
	}
	if f.cloud == cloudClusterAPI {
		management := cluster
		if f.management != "" {
			access := client.ReadWrite
			if f.mode == modeShadow {
				access = client.ReadOnly
			}
			if management, err = client.Connect(ctx, f.management, f.qps, f.burst, "dovetail/"+version(), access); err != nil {
				return nil, nil, exit{2, fmt.Errorf("--management-kubeconfig: %w", err)}
			}
		}
		s.log.Info("launching through Cluster API", "management", management.Address, "cluster", f.clusterAPI)
		return cloud.Retry(clusterapi.New(s.clusterAPI, management, records, resources, cloud.Wall{}, s.log), cloud.Wall{}, cloud.DefaultRetry()), nil, nil
	}
	if f.cloud == cloudExternalGRPC {
		server, err := externalgrpc.New(s.server, records, resources, cloud.Wall{}, s.log)
		if err != nil {
			return nil, nil, exit{2, fmt.Errorf("--cloud-config: %w", err)}
		}
		server.FindNodes(write.NewMachineNodes(cluster))
		s.log.Info("launching through an externalgrpc server", "address", s.server.Address)
		return cloud.Retry(server, cloud.Wall{}, cloud.DefaultRetry()), nil, nil
	}
	clients, err := awsapi.Connect(ctx)
	if err != nil {
		return nil, nil, exit{2, fmt.Errorf("--cloud aws: %w", err)}
	}
	source, err := awsProvider(ctx, clients, &s.aws, cluster, resources, s.log)
	if err != nil {
		return nil, nil, err
	}
	if s.groups != nil {
		s.groups.clients = clients
	}
	s.provisioners = translate.ProvisionerDefaults{OnAWS: true, InstanceProfile: f.aws.profile, KubernetesVersion: s.aws.KubernetesVersion}
	if f.mode == modeShadow {
		return cloud.Retry(source, cloud.Wall{}, cloud.DefaultRetry()), source.Run, nil
	}
	source.KeepNodeMemory(write.Figures{Kept: write.NewKept(cluster, f.lease.Namespace, "memory.json")})
	return cloud.Retry(source, cloud.Wall{}, cloud.DefaultRetry()), source.Run, nil
}

// newController puts the loop together: what it sees, what it may do, and what it decides by.
func newController(f *controllerFlags, s *controllerSettings, cluster *client.Client, actor *write.Actor, provider cloud.Provider, st *state.State,
	registry *prometheus.Registry) *controller.Controller {
	policy, traits := s.policy, provider.Traits()
	policy.Lifecycle.ListDelay = max(policy.Lifecycle.ListDelay, traits.ListDelay)
	for _, k := range traits.Classes {
		policy.NodeClasses = append(policy.NodeClasses, k.Group+"/"+k.Kind)
	}
	var status controller.GroupStatus
	if s.statusName != "" {
		status = write.NewGroupStatus(cluster, s.statusNamespace, s.statusName)
	}
	ctl := controller.New(&controller.Controller{
		ReadOnly: f.mode == modeShadow, Cluster: actor, Provider: cloud.NewSetAside(provider, cloud.Wall{}, setAsideFor), State: st, Ledger: ledger.New(f.ledgerSize),
		Metrics: metrics.New(registry, version(), traits), Log: s.log, Config: f.config, Policy: policy,
		Keeper: write.NewKept(cluster, f.lease.Namespace, "short.json"), Histories: write.NewHistories(cluster, f.lease.Namespace), Past: s.past,
		Decisions: write.NewDecisions(cluster, f.lease.Namespace), Savings: write.NewSavings(cluster, f.lease.Namespace), GroupStatus: status, Expander: s.expander,
	})
	cluster.OnWrite(func(w client.Written) { ctl.WriteTold("write", w.Kind, write.AnswerOf(w)) })
	return ctl
}

// newRegistry makes the registry of metrics, with those of the process itself. The live heap is what Karpenter's performance suite measures.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	liveHeap := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}
	r.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// registerLeaderMetrics registers what is measured of the cluster as the loop sees it, single objects only where it is
// observed, and whether this process leads.
func registerLeaderMetrics(registry *prometheus.Registry, ctl *controller.Controller, lease string, observed bool) {
	registry.MustRegister(metrics.NewState(ctl.Metrics, ctl, ctl.Provider.Traits().NodeLabels, observed, ctl.Log), metrics.NewGroups(ctl.Metrics, ctl), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "leader_election_master_status", Help: "1 if this process is the leader.", ConstLabels: prometheus.Labels{"name": lease},
	}, func() float64 {
		if ctl.IsLeading() {
			return 1
		}
		return 0
	}))
}

// machinesClient keeps a connection for each launch that may be under way at once.
func machinesClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute}}
}
