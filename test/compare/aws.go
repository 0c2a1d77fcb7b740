// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
	"github.com/dovetail-sh/dovetail/test/watch"
)

// The systems of the comparison on the simulated AWS.
const (
	dovetailFleet           = "Dovetail on EC2 Fleet"
	dovetailGroups          = "Dovetail on groups"
	karpenterFleet          = "Karpenter on EC2 Fleet"
	clusterAutoscalerGroups = "Cluster Autoscaler on groups"
)

// unlimitedScaleDown are the flags of Cluster Autoscaler equivalent to a disruption budget of 100 % for the groups of awsGroups.
var unlimitedScaleDown = []string{"--max-scale-down-parallelism=200", "--max-drain-parallelism=200"}

// onGroups reports whether a system launches from Auto Scaling groups.
func onGroups(system string) bool {
	return system == dovetailGroups || system == clusterAutoscalerGroups
}

// AWSRun is the result of a run on the simulated AWS with one boot time.
type AWSRun struct {
	Start        Start           `json:"start"`
	Burst        AWSBurst        `json:"burst"`
	ScaleDown    AWSScaleDown    `json:"scaleDown,omitzero"`    // with instances that boot only
	Interruption AWSInterruption `json:"interruption,omitzero"` // during the scale-down
}

// AWSBurst is the result of a burst of pods on the simulated AWS.
type AWSBurst struct {
	Seconds float64 `json:"seconds"` // until all run
	Nodes   int     `json:"nodes"`
	USD     float64 `json:"usdPerHour"`
	Calls   int     `json:"calls"` // to AWS, from the creation of the pods until a few seconds after all run
}

// measureAWS runs the workload twice with one system, each time in a new sandbox: with boot time, and without.
func measureAWS(ctx context.Context, system string, o options) (run *Run, err error) {
	run = &Run{System: system}
	if run.Busy, err = busy(ctx); err != nil {
		return nil, err
	}
	if err := runAWS(ctx, system, o, o.Boot, run, &run.Booting); err != nil {
		return nil, fmt.Errorf("with a boot time of %s: %w", o.Boot, err)
	}
	if err := runAWS(ctx, system, o, 0, run, &run.Ready); err != nil {
		return nil, fmt.Errorf("without boot time: %w", err)
	}
	return run, nil
}

// runAWS runs the workload with one system and one boot time in a new sandbox. Scale-down and interruptions are only run with a boot time.
func runAWS(ctx context.Context, system string, o options, boot time.Duration, run *Run, out *AWSRun) (err error) {
	dir, err := os.MkdirTemp("", "dovetail-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// A node too small for any pod: without nodes, kube-scheduler retries a new pod after one second at the earliest.
	flags := []string{"--cloud", "aws", "--boot", boot.String(), "--pull", "0", "--seed", strconv.Itoa(o.seed), "--base", "t3.nano"}
	if onGroups(system) {
		groups := filepath.Join(dir, "groups.yaml")
		if err := os.WriteFile(groups, []byte(awsGroups), 0o600); err != nil {
			return err
		}
		flags = append(flags, "--groups="+groups)
	}
	switch system {
	case dovetailGroups:
		flags = append(flags, "--controller-arg=--node-group-defaults=--scale-down-unneeded-time="+o.ConsolidateAfter.String()+" --scale-down-delay-after-add=0s "+strings.Join(unlimitedScaleDown, " "))
	case karpenterFleet, clusterAutoscalerGroups:
		flags = append(flags, "--no-autoscaler")
	}
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sandbox"), flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if system == karpenterFleet { // before NodeClaims are watched
		if err := s.ApplyKarpenterAWSCRDs(ctx); err != nil {
			return err
		}
	}
	followed, err := watch.Follow(ctx, s, "default")
	if err != nil {
		return err
	}
	c := &cluster{Cluster: followed}
	stop, err := c.startAWSSystem(ctx, system, o, run)
	if err != nil {
		return err
	}
	defer stop()
	server, err := s.Kube.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	run.Kubernetes = server.GitVersion
	start, err := c.start(ctx)
	if err != nil {
		return err
	}
	if err := c.awsTimes(ctx, start, system); err != nil {
		return err
	}
	out.Start = *start
	if out.Burst, err = c.burstAWS(ctx, o.Pods); err != nil || boot == 0 {
		return err
	}
	out.ScaleDown, out.Interruption, err = c.scaleDownAWS(ctx, system, o)
	return err
}

// startAWSSystem starts a system, Dovetail having been started by the sandbox, notes its version, and returns when it can launch nodes.
func (c *cluster) startAWSSystem(ctx context.Context, system string, o options, run *Run) (stop func(), err error) {
	stop = func() {}
	log := filepath.Join(o.dir, strings.ReplaceAll(strings.ToLower(system), " ", "-")+".log")
	switch system {
	case karpenterFleet:
		// It panics if its first calls to AWS time out, as on a busy machine.
		stop, err = sandbox.KeepRunning(func(before int) (*sandbox.Process, error) {
			return c.Sandbox.StartKarpenterAWS(o.karpenterAWS, strings.TrimSuffix(log, ".log")+fmt.Sprintf("-%d.log", before))
		})
		if err != nil {
			return nil, err
		}
	case clusterAutoscalerGroups:
		after := o.ConsolidateAfter.String()
		if stop, err = c.Sandbox.StartClusterAutoscalerAWS(ctx, o.clusterAuto, log, append([]string{"--expander=least-waste", "--scale-down-unneeded-time=" + after, "--scale-down-delay-after-add=" + after}, unlimitedScaleDown...)...); err != nil {
			return nil, err
		}
	}
	if run.Version, err = version(system, o, log); err == nil && system != clusterAutoscalerGroups {
		err = c.createAWSPools(ctx, system, o)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// createAWSPools creates the two NodePools that a system launches from, unless it makes its own of Auto Scaling groups, and waits until they are Ready.
func (c *cluster) createAWSPools(ctx context.Context, system string, o options) error {
	if system == dovetailGroups {
		return c.poolsReady(ctx, "small", "large", "spot")
	}
	pool := func(name, capacityType, spec, requirements string) error {
		return c.Sandbox.Create(ctx, "/apis/karpenter.sh/v1/nodepools", fmt.Sprintf(`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: %s},
			spec: {disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: %s, budgets: [{nodes: "100%%"}]},
			template: {%s nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [%s]}, {key: kubernetes.io/arch, operator: In, values: [amd64]},
				{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}, {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["2"]}%s]}}}}`, name, o.ConsolidateAfter, spec, capacityType, requirements))
	}
	err := errors.Join(c.Sandbox.Create(ctx, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default},
		spec: {role: sandbox-node, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}], securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]}}`),
		pool("default", "on-demand", "spec: {", ""),
		pool("spot", "spot", "metadata: {labels: {pool: spot}}, spec: {taints: [{key: pool, value: spot, effect: NoSchedule}],", `, {key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ["9"]}`))
	if err != nil {
		return err
	}
	return c.poolsReady(ctx, "default", "spot")
}

// awsTimes adds times of the first node from the simulated AWS: when the desired capacity of its group was raised, and when its instance was launched.
func (c *cluster) awsTimes(ctx context.Context, start *Start, system string) error {
	b, err := c.books(ctx)
	if err != nil {
		return err
	}
	for _, i := range b.Alive {
		start.InstanceMs = max(start.InstanceMs, start.since(i.Launched))
	}
	if start.InstanceMs == 0 {
		return errors.New("the pod is running, but the simulated AWS has no instance")
	}
	if onGroups(system) {
		at, err := c.Sandbox.DesiredCapacityRaised(ctx, start.begun)
		if err != nil {
			return err
		}
		start.DesiredMs = start.since(at)
	}
	return nil
}

func (c *cluster) books(ctx context.Context) (b awstest.Books, err error) {
	err = c.Sandbox.AWS(ctx, http.MethodGet, "/_aws/books", nil, &b)
	return b, err
}

// burstAWS measures n pods at once. The pod of start stays.
func (c *cluster) burstAWS(ctx context.Context, n int) (out AWSBurst, err error) {
	if err := c.Sandbox.AWS(ctx, http.MethodDelete, "/_aws/calls", nil, nil); err != nil {
		return out, err
	}
	begin := time.Now()
	if err := scaledown.Deploy(ctx, c.Sandbox, scaledown.Deployment("burst", n, 30, "500m", "512Mi")); err != nil {
		return out, err
	}
	last, err := c.follow(ctx, fmt.Sprint(n+1, " pods to run"), patience, 0, func() bool { return c.Running() == n+1 })
	if err != nil {
		return out, err
	}
	out.Seconds = round(last.Sub(begin).Seconds())
	// Include instances that were requested and launch later.
	if _, err := c.follow(ctx, "all requested nodes", patience, 3*time.Second, func() bool { return true }); err != nil {
		return out, err
	}
	b, err := c.books(ctx)
	if err != nil {
		return out, err
	}
	out.Nodes, out.USD = billAWS(b, "on-demand")
	out.Calls = callsOf(b)
	return out, nil
}

// billAWS returns the number and hourly cost of running and booting instances of a capacity type.
func billAWS(b awstest.Books, capacityType string) (nodes int, usd float64) {
	micro := int64(0)
	for _, i := range b.Alive {
		if i.CapacityType == capacityType {
			nodes, micro = nodes+1, micro+i.PriceMicro
		}
	}
	return nodes, round(float64(micro) / 1e6)
}

func callsOf(b awstest.Books) (n int) {
	for _, calls := range b.Calls {
		n += calls.Count
	}
	return n
}
