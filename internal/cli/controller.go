// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/kube"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// setAsideFor is how long an offering that had no capacity is not asked for again; the reference's value.
const setAsideFor = 3 * time.Minute

// loopWork is how far a plan is refined before it is carried out: about a fifth of a second at most, since pods wait meanwhile and a
// consolidation mends what is left. `dovetail plan` may take longer.
const loopWork = 4_000_000

type controllerFlags struct {
	kubeconfig, cloud, machines, metrics, health, format, level, preferences string
	scheduler                                                                string
	leaderElect, profiling, alone                                            bool
	landing                                                                  landingFlags
	others                                                                   []string
	qps                                                                      float32
	burst                                                                    int
	lease                                                                    kube.Lease
	config                                                                   controller.Config
	ledgerSize                                                               int
	aws                                                                      awsFlags
	groups                                                                   groupFlags
}

func controllerCommand() *cobra.Command {
	f := &controllerFlags{config: controller.DefaultConfig(), lease: kube.DefaultLease()}
	c := &cobra.Command{
		Use:   "controller",
		Short: "run the autoscaler against a cluster",
		Long: "Watches the cluster, buys machines for pods that fit nowhere, lands them there, and gives machines back.\n" +
			"Only the leader acts; a second replica watches and takes over. While the lease of a Karpenter or a Cluster Autoscaler\n" +
			"is live, it buys and moves nothing, and says what it would do. A name in capitals is the environment variable, of\n" +
			"Karpenter's, that is read where the flag is not given.",
		Example: "  dovetail controller --kubeconfig dovetail.kubeconfig --cloud kwok --machines http://127.0.0.1:7080 --leader-elect=false",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runController(c, f) },
	}
	g := c.Flags()
	g.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the controller's identity; empty: in-cluster")
	g.StringVar(&f.cloud, "cloud", "kwok", "where machines are bought: aws (EC2), or kwok (the simulated cloud)")
	g.StringVar(&f.machines, "machines", "", "address of the simulated cloud, for --cloud kwok")
	f.aws.add(g)
	f.groups.add(g)
	g.StringVar(&f.metrics, "metrics-address", ":8080", "address of /metrics, /ledger and /why/KIND/NAME; empty: none (METRICS_PORT)")
	g.StringVar(&f.health, "health-address", ":8081", "address of /healthz and /readyz; empty: none (HEALTH_PROBE_PORT)")
	g.BoolVar(&f.profiling, "profiling", false, "serve /debug/pprof on the metrics address (ENABLE_PROFILING)")
	g.BoolVar(&f.leaderElect, "leader-elect", true, "act only while holding the lease; for more than one replica (DISABLE_LEADER_ELECTION)")
	g.BoolVar(&f.alone, "ignore-other-autoscalers", false, "act though a Karpenter or Cluster Autoscaler is live; two that buy for the same pods buy twice")
	g.StringSliceVar(&f.others, "other-autoscalers", kube.OtherLeases, "names of the leases, in any namespace, by which other autoscalers are known to be live")
	g.StringVar(&f.lease.Namespace, "leader-elect-namespace", f.lease.Namespace, "namespace of the lease, and of what is learned (LEADER_ELECTION_NAMESPACE, SYSTEM_NAMESPACE)")
	g.StringVar(&f.lease.Name, "leader-elect-name", f.lease.Name, "name of the lease; another needs a Role that allows it (LEADER_ELECTION_NAME)")
	g.DurationVar(&f.lease.Duration, "leader-elect-lease-duration", f.lease.Duration, "how long a lease lasts that is not renewed")
	g.DurationVar(&f.lease.Renew, "leader-elect-renew-deadline", f.lease.Renew, "how long the leader tries to renew before it stops acting")
	g.DurationVar(&f.lease.Retry, "leader-elect-retry-period", f.lease.Retry, "pause between tries")
	f.landing.add(g)
	g.DurationVar(&f.config.Idle, "batch-idle-duration", f.config.Idle, "decide when no new unschedulable pod came for this long (BATCH_IDLE_DURATION)")
	g.DurationVar(&f.config.Max, "batch-max-duration", f.config.Max, "decide at the latest this long after the first one (BATCH_MAX_DURATION)")
	g.StringVar(&f.scheduler, "scheduler-config", "", schedulerConfigUsage+" (SCHEDULER_CONFIG)")
	g.StringVar(&f.preferences, "preference-policy", respect, "what preferences of pods are worth: Respect (a price), Ignore (nothing) (PREFERENCE_POLICY)")
	g.Float32Var(&f.qps, "kube-client-qps", 0, "calls a second to the API server; 0: as many as it takes (KUBE_CLIENT_QPS)")
	g.IntVar(&f.burst, "kube-client-burst", 0, "calls at once beyond that (KUBE_CLIENT_BURST)")
	g.IntVar(&f.ledgerSize, "ledger-size", 10000, "how many decisions are kept for /ledger")
	g.StringVar(&f.format, "log-format", "json", "text or json")
	g.StringVar(&f.level, "log-level", "info", "debug, info, warn or error (LOG_LEVEL)")
	return c
}

func runController(c *cobra.Command, f *controllerFlags) error {
	idle, err := readEnvironment(c.Flags(), os.Getenv)
	if err != nil {
		return err
	}
	if !c.Flags().Changed("batch-max-duration") { // who asks for a longer silence alone means to wait for it
		f.config.Max = max(f.config.Max, f.config.Idle)
	}
	if f.preferences != respect && f.preferences != ignore {
		return exit{2, fmt.Errorf("--preference-policy %q: use Respect or Ignore", f.preferences)}
	}
	log, err := logger(c.ErrOrStderr(), f.format, f.level)
	if err != nil {
		return err
	}
	if err := f.config.Validate(); err != nil {
		return exit{2, err}
	}
	policy := decide.DefaultPolicy()
	if err := f.landing.into(&policy); err != nil {
		return err
	}
	slog.SetDefault(log)
	for _, v := range idle {
		log.Warn("environment variable has no effect", "variable", v.name, "value", v.value, "why", v.why)
	}
	limitMemory(os.Getenv)
	var ec2 awsapi.Config
	discovery, err := f.groups.read(os.Getenv)
	if err != nil {
		return err
	}
	if discovery != nil && f.cloud != "aws" {
		return exit{2, fmt.Errorf("--cloud %s: it has no node groups; --nodes and --node-group-auto-discovery are for --cloud aws", f.cloud)}
	}
	switch f.cloud {
	case "kwok":
		if f.machines == "" {
			return exit{2, errors.New("--machines: the address of the simulated cloud is needed for --cloud kwok, e.g. http://127.0.0.1:7080")}
		}
	case "aws":
		if ec2, err = f.aws.read(os.Getenv); err != nil {
			return err
		}
	default:
		return exit{2, fmt.Errorf("--cloud %q: use aws or kwok", f.cloud)}
	}
	defaults, err := schedulerConfig(f.scheduler)
	if err != nil {
		return err
	}
	client, err := kube.Connect(c.Context(), f.kubeconfig, f.qps, f.burst, "dovetail/"+version())
	if err != nil {
		return err
	}
	client.Log, client.Scheduler = log, defaults

	st := state.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var source cloud.Provider
	var refresh func(context.Context) // keeps what the provider knows fresh, on the leader
	if f.cloud == "aws" {
		clients, err := awsapi.Connect(c.Context())
		if err != nil {
			return exit{2, fmt.Errorf("--cloud aws: %w", err)}
		}
		bought, err := awsProvider(c.Context(), clients, ec2, client, st.Resources(), log)
		if err != nil {
			return err
		}
		if discovery != nil {
			discovery.clients = clients
		}
		bought.KeepNodeMemory(kube.Figures{Kept: kube.NewKept(client, f.lease.Namespace, "memory.json")})
		source, refresh = bought, bought.Run
	} else {
		source = kwok.New(f.machines, machinesClient(), st.Resources(), cloud.Wall{})
	}
	provider := cloud.Retry(source, cloud.Wall{}, cloud.DefaultRetry())
	actor := kube.NewActor(client, st.Resources(), time.Now)
	policy.Solve.Work = loopWork
	if f.preferences == ignore {
		policy.Solve.PreferencePPM = 0
	}
	policy.Lifecycle.ListDelay = max(policy.Lifecycle.ListDelay, provider.Traits().ListDelay)
	for _, k := range provider.Traits().Classes {
		policy.Classes = append(policy.Classes, k.Group+"/"+k.Kind)
	}
	ctl := controller.New(&controller.Controller{
		Cluster: actor, Provider: cloud.NewSetAside(provider, cloud.Wall{}, setAsideFor), State: st, Ledger: ledger.New(f.ledgerSize),
		Metrics: controller.NewMetrics(registry, version()), Log: log, Config: f.config, Policy: policy,
		Keeper: kube.NewKept(client, f.lease.Namespace, "short.json"),
	})

	registry.MustRegister(controller.NewStateMetrics(ctl), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "leader_election_master_status", Help: "1 where this process leads.", ConstLabels: prometheus.Labels{"name": f.lease.Name},
	}, func() float64 {
		if ctl.Leading() {
			return 1
		}
		return 0
	}))

	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	failed := make(chan error, 4)
	if err := serveController(ctx, f, ctl, registry, failed); err != nil {
		return err
	}
	synced, err := kube.Watch(ctx, client, st.Resources(), ctl.Emit)
	if err != nil {
		return err
	}
	go func() {
		select {
		case <-synced:
			log.Info("cluster is known")
			ctl.Synced()
		case <-ctx.Done():
		}
	}()
	if refresh != nil {
		ctl.While = append(ctl.While, refresh)
	}
	if discovery != nil {
		ctl.While = append(ctl.While, func(ctx context.Context) {
			select {
			case <-synced: // which claims there are decides what may be deleted
			case <-ctx.Done():
				return
			}
			if err := kube.NodeGroups(ctx, client, discovery.with(actor, log)); err != nil && ctx.Err() == nil {
				failed <- err
			}
		})
	}
	ctl.While = append(ctl.While, func(ctx context.Context) {
		if err := kube.Provisioners(ctx, client, log); err != nil && ctx.Err() == nil {
			failed <- err
		}
	})
	lead := func(ctx context.Context) {
		log.Info("leading")
		ctl.Recall(ctx)
		if f.alone {
			ctl.Lead()
			<-ctx.Done()
			return
		}
		client.Others(ctx, f.others, f.lease, func(others []string) {
			ctl.StandDown(others)
			ctl.Lead() // not before it is known who else there is
		})
	}
	ended, released := make(chan struct{}), make(chan struct{}) // the loop has, the lease is
	go func() {
		defer close(released)
		if !f.leaderElect {
			lead(ctx)
			return
		}
		err := kube.Lead(ctx, client, f.lease, func(held context.Context) {
			lead(held)
			if ctx.Err() != nil {
				<-ended // nothing is begun any more: another may lead
			}
		})
		// A leader that loses its lease must not act on: the process ends, as the supervisor will start another.
		if ctx.Err() == nil {
			failed <- fmt.Errorf("leader election: lost the lease: %w", err)
		}
	}()
	go func() {
		err := ctl.Run(ctx)
		close(ended)
		failed <- err
	}()
	err = <-failed
	cancel()
	select {
	case <-released: // or the next leader would wait until the lease has run out
	case <-time.After(releaseLimit):
	}
	if c.Context().Err() != nil {
		return nil
	}
	return err
}

// releaseLimit is how long a process that ends tries to give its lease up.
const releaseLimit = 5 * time.Second

// machinesClient keeps a connection for each launch that may be under way at once.
func machinesClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute}}
}

// serveController serves metrics, the ledger and health.
func serveController(ctx context.Context, f *controllerFlags, ctl *controller.Controller, registry *prometheus.Registry, failed chan<- error) error {
	metrics := http.NewServeMux()
	metrics.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	metrics.HandleFunc("/ledger", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(ctl.Ledger.Entries(nil)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	metrics.HandleFunc("/why/", func(w http.ResponseWriter, r *http.Request) { serveWhy(ctl, w, r) })
	if f.profiling {
		metrics.HandleFunc("/debug/pprof/", pprof.Index)
		metrics.HandleFunc("/debug/pprof/profile", pprof.Profile)
		metrics.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	health := http.NewServeMux()
	health.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	health.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ctl.Ready() {
			http.Error(w, "the cluster is not known yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	for _, s := range []struct {
		flag, address string
		handler       http.Handler
	}{{"--metrics-address", f.metrics, metrics}, {"--health-address", f.health, health}} {
		if s.address == "" {
			continue
		}
		l, err := net.Listen("tcp", s.address)
		if err != nil {
			return fmt.Errorf("listen on %s (%s): %w", s.address, s.flag, err)
		}
		server := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second}
		go func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", s.address, err)
			}
		}()
		go func() {
			<-ctx.Done()
			_ = server.Close()
		}()
	}
	return nil
}
