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
	dovetailFleet  = "Dovetail on EC2 Fleet"
	dovetailGroups = "Dovetail on Auto Scaling groups"
	karpenterFleet = "Karpenter on EC2 Fleet"
)

// AWSRun is what the comparison on the simulated AWS measures of a cluster whose instances all boot equally long.
type AWSRun struct {
	Start Start    `json:"start"`
	Burst AWSBurst `json:"burst"`
}

// AWSBurst is many pods at once on the simulated AWS.
type AWSBurst struct {
	Seconds float64 `json:"seconds"` // until all run
	Nodes   int     `json:"nodes"`
	USD     float64 `json:"usdPerHour"`
	Calls   int     `json:"calls"` // to AWS, from the creation of the pods until a few seconds after all run
}

// measureAWS runs one system through the work twice, each time on a sandbox of its own: with instances that boot, and with instances that are ready at once.
func measureAWS(ctx context.Context, system string, o options) (run *Run, err error) {
	run = &Run{System: system}
	if run.Busy, err = busy(ctx); err != nil {
		return nil, err
	}
	if err := runAWS(ctx, system, o, o.Boot, run, &run.Booting); err != nil {
		return nil, fmt.Errorf("instances that boot in %s: %w", o.Boot, err)
	}
	if err := runAWS(ctx, system, o, 0, run, &run.Ready); err != nil {
		return nil, fmt.Errorf("instances that are ready at once: %w", err)
	}
	return run, nil
}

func runAWS(ctx context.Context, system string, o options, boot time.Duration, run *Run, out *AWSRun) (err error) {
	dir, err := os.MkdirTemp("", "dovetail-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// A node too small for any pod: if there is none at all, kube-scheduler looks at a new pod no sooner than after a second.
	flags := []string{"--cloud", "aws", "--boot", boot.String(), "--pull", "0", "--seed", strconv.Itoa(o.seed), "--base", "t3.nano"}
	switch system {
	case dovetailGroups:
		groups := filepath.Join(dir, "groups.yaml")
		if err := os.WriteFile(groups, []byte(awsGroups), 0o600); err != nil {
			return err
		}
		flags = append(flags, "--groups="+groups)
	case karpenterFleet:
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
	if system == karpenterFleet {
		p, err := s.StartKarpenterAWS(o.karpenterAWS, filepath.Join(o.dir, strings.ReplaceAll(strings.ToLower(system), " ", "-")+".log"))
		if err != nil {
			return err
		}
		defer p.Stop()
	}
	if err := c.createAWSPool(ctx, system, o); err != nil {
		return err
	}
	server, err := s.Kube.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	run.Kubernetes = server.GitVersion
	if run.Version, err = version(system, o, ""); err != nil {
		return err
	}
	start, err := c.start(ctx)
	if err != nil {
		return err
	}
	if err := c.awsTimes(ctx, start, system); err != nil {
		return err
	}
	out.Start = *start
	out.Burst, err = c.burstAWS(ctx, o.Pods)
	return err
}

// createAWSPool creates the NodePool that a system launches from, unless it makes its own of Auto Scaling groups, and waits until it is Ready.
func (c *cluster) createAWSPool(ctx context.Context, system string, o options) error {
	if system == dovetailGroups {
		return c.poolsReady(ctx, "small", "large")
	}
	err := errors.Join(c.Sandbox.Create(ctx, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", `{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default},
		spec: {role: sandbox-node, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}], securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]}}`),
		c.Sandbox.Create(ctx, "/apis/karpenter.sh/v1/nodepools", fmt.Sprintf(`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: %s},
		template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64]},
			{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}, {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["2"]}]}}}}`, o.ConsolidateAfter)))
	if err != nil {
		return err
	}
	return c.poolsReady(ctx, "default")
}

// awsTimes adds what the simulated AWS knows of the first node: when the desired capacity of its group was raised, and when its instance was launched.
func (c *cluster) awsTimes(ctx context.Context, start *Start, system string) error {
	b, err := c.books(ctx)
	if err != nil {
		return err
	}
	for _, i := range b.Alive {
		start.InstanceMs = max(start.InstanceMs, start.since(i.Launched))
	}
	if start.InstanceMs == 0 {
		return errors.New("the pod runs, and the simulated AWS has no instance")
	}
	if system == dovetailGroups {
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
	// Instances that were asked for and come later are paid for too.
	if _, err := c.follow(ctx, "the nodes to be there", patience, 3*time.Second, func() bool { return true }); err != nil {
		return out, err
	}
	b, err := c.books(ctx)
	if err != nil {
		return out, err
	}
	micro := int64(0)
	for _, i := range b.Alive {
		micro += i.PriceMicro
	}
	for _, calls := range b.Calls {
		out.Calls += calls.Count
	}
	out.Nodes, out.USD = len(b.Alive), round(float64(micro)/1e6)
	return out, nil
}
