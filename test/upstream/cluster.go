// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// cluster is a sandbox with one autoscaler.
type cluster struct {
	*sandbox.Sandbox
	stopKarpenter func()           // nil where the sandbox runs Dovetail
	pod           *podServer       // nil for suites that don't measure the autoscaler
	driver        *sandbox.Process // Karpenter's DRA driver for kwok nodes; nil where the suite needs none
}

// gates are the feature gates that a suite has specs for. Dovetail always serves those that it does not know.
var gates = map[string]string{
	regression: "NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true",
	disruption: "NodeRepair=true,TerminateFirstRepair=true,TerminateFirstDrift=true,StaticCapacity=true",
}

// settings is a Deployment without replicas, in which suites look up how the autoscaler, a process of the sandbox, runs. Specs that want
// it to run so do not ask for a restart then.
const settings = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"karpenter","namespace":"kube-system"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"karpenter"}},
"template":{"metadata":{"labels":{"app":"karpenter"}},"spec":{"containers":[{"name":"controller","image":"none","env":[{"name":"FEATURE_GATES","value":%q}]}]}}}}`

// startCluster brings a sandbox up in dir, without nodes, pods or pools, as the suites want to find a cluster. Both
// autoscalers buy from the same instance types, and a node is there as soon as it is bought.
func startCluster(ctx context.Context, dir string, o options, b built, autoscaler string) (c *cluster, err error) {
	catalog, err := writeCatalogue(dir, o, b)
	if err != nil {
		return nil, err
	}
	flags := []string{"--boot", "0s", "--catalog", catalog}
	switch {
	case autoscaler == karpenter:
		flags = append(flags, "--no-autoscaler")
	case gates[o.suite] != "":
		flags = append(flags, "--controller-arg", "--feature-gates="+gates[o.suite])
	}
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sandbox"), flags...)
	if err != nil {
		return nil, err
	}
	c = &cluster{Sandbox: s}
	if err := c.Create(ctx, "/apis/apps/v1/namespaces/kube-system/deployments", fmt.Sprintf(settings, gates[o.suite])); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	if b.driver != "" {
		if err := c.startDriver(ctx, b, filepath.Join(dir, "driver.log")); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	metrics := ""
	if autoscaler == karpenter {
		var env []string
		if gates[o.suite] != "" {
			env = append(env, "FEATURE_GATES="+gates[o.suite])
		}
		if c.stopKarpenter, metrics, err = s.StartMeasuredKarpenter(b.controller, catalog, filepath.Join(dir, "karpenter.log"), env...); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	} else {
		all, err := s.Components(sandbox.Controller)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		metrics = fmt.Sprintf("http://127.0.0.1:%d/metrics", all[0].Ports["metrics"])
	}
	if o.suite == performance {
		at, err := url.Parse(metrics)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		if c.pod, err = servePod(ctx, s, at.Host, dir); err != nil {
			return nil, errors.Join(err, c.stop())
		}
	}
	return c, nil
}

// kubeconfig returns the path of the kubeconfig that the suite uses.
func (c *cluster) kubeconfig() string {
	if c.pod != nil {
		return c.pod.Kubeconfig
	}
	return c.Kubeconfig(sandbox.Admin)
}

// draConfigs is the file of the definition of DRAConfigs, which the DRA driver reads, in Karpenter's module.
var draConfigs = filepath.Join("dra-kwok-driver", "pkg", "apis", "crds", "test.karpenter.sh_draconfigs.yaml")

// startDriver installs DRAConfigs and starts Karpenter's DRA driver.
func (c *cluster) startDriver(ctx context.Context, b built, log string) (err error) {
	if err := c.ApplyCRDs(ctx, filepath.Join(b.module, draConfigs)); err != nil {
		return err
	}
	c.driver, err = c.StartDRADriver(b.driver, log)
	return err
}

// writeCatalogue is the file of the instance types that a suite runs with. The performance suite has those on amd64 whose prices
// Dovetail's other figures are of; the others those that Karpenter runs them with, for their specs ask for types of either architecture.
func writeCatalogue(dir string, o options, b built) (string, error) {
	if o.suite != performance {
		return filepath.Join(b.module, "kwok", "cloudprovider", "instance_types.json"), nil
	}
	return scaledown.WriteCatalogue(dir)
}

// stop ends Karpenter and the DRA driver, where they run, and the sandbox. Logs stay.
func (c *cluster) stop() error {
	if c.driver != nil {
		c.driver.Stop()
	}
	if c.stopKarpenter != nil {
		c.stopKarpenter()
	}
	if c.pod != nil {
		c.pod.stop()
	}
	return c.Down()
}
