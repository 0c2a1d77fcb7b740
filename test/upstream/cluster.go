// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// cluster is a sandbox with one autoscaler.
type cluster struct {
	*sandbox.Sandbox
	stopKarpenter func() // nil where the sandbox runs Dovetail
}

// startCluster brings a sandbox up in dir, without nodes, pods or pools, as the suites want to find a cluster. Both
// autoscalers buy from the same instance types, and a node is there as soon as it is bought.
func startCluster(ctx context.Context, dir string, o options, b built, autoscaler string) (c *cluster, err error) {
	text, err := scaledown.Catalogue()
	if err != nil {
		return nil, err
	}
	catalog := filepath.Join(dir, "instance-types.json")
	if err := os.WriteFile(catalog, text, 0o600); err != nil {
		return nil, err
	}
	flags := []string{"--boot", "0s", "--catalog", catalog}
	if autoscaler == karpenter {
		flags = append(flags, "--no-autoscaler")
	}
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sandbox"), flags...)
	if err != nil {
		return nil, err
	}
	c = &cluster{Sandbox: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if err := c.addMissingCRDs(ctx, filepath.Join(b.module, "pkg", "apis", "crds")); err != nil {
		return nil, err
	}
	if autoscaler == karpenter {
		var env []string
		if o.suite == "regression" {
			env = append(env, "FEATURE_GATES=NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true") // they have specs
		}
		if c.stopKarpenter, err = s.StartKarpenter(b.controller, catalog, filepath.Join(dir, "karpenter.log"), env...); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// addMissingCRDs creates Karpenter's CRDs that the sandbox doesn't have: those of a later Karpenter that Dovetail doesn't
// ship yet. The suites list every kind when they clean up after a spec, and would fail there. Dovetail's own are left as
// they are; test/oracle holds their schemas against Karpenter's.
func (c *cluster) addMissingCRDs(ctx context.Context, dir string) error {
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no CRDs in %s", dir)
	}
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return fmt.Errorf("decode %s: %w", file, err)
		}
		if err := c.Create(ctx, path, string(text)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create CRD %s: %w", crd.Name, err)
		}
		if err := c.waitEstablished(ctx, path+"/"+crd.Name); err != nil {
			return err
		}
	}
	return nil
}

// waitEstablished returns when the API server serves a CRD.
func (c *cluster) waitEstablished(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		crd, err := sandbox.Get[apiextensionsv1.CustomResourceDefinition](ctx, c.Sandbox, path)
		if err != nil {
			return fmt.Errorf("wait for %s to be served: %w", path, err)
		}
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// stop ends Karpenter, where it runs, and the sandbox. Logs stay.
func (c *cluster) stop() error {
	if c.stopKarpenter != nil {
		c.stopKarpenter()
	}
	return c.Down()
}
