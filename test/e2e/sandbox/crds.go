// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// crdsPath is the path of CustomResourceDefinitions.
const crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// crdList is what is read of CustomResourceDefinitions.
type crdList struct {
	Items []struct {
		Spec struct {
			Group    string                  `json:"group"`
			Names    struct{ Plural string } `json:"names"`
			Versions []struct {
				Name   string `json:"name"`
				Served bool   `json:"served"`
			} `json:"versions"`
		} `json:"spec"`
	} `json:"items"`
}

// CreateCRD creates a CustomResourceDefinition and returns when its objects can be read.
func (s *Sandbox) CreateCRD(ctx context.Context, text string) error {
	if err := s.Create(ctx, crdsPath, text); err != nil {
		return err
	}
	return s.awaitCRDs(ctx)
}

// ApplyCRDs applies the CustomResourceDefinitions of a file or a folder and returns when their objects can be read.
func (s *Sandbox) ApplyCRDs(ctx context.Context, at string) error {
	if out, err := exec.CommandContext(ctx, s.bin, "--dir", s.Dir, "kubectl", "apply", "--server-side", "--force-conflicts", "-f", at).CombinedOutput(); err != nil {
		return fmt.Errorf("apply %s: %w\n%s", at, err, out)
	}
	return s.awaitCRDs(ctx)
}

// awaitCRDs waits until objects of each CustomResourceDefinition in the cluster can be listed, in each version that is served. Condition Established does
// not say so: the API server refuses lists of a new resource with 429 until it has filled its cache, except those with a limit, which need no cache.
func (s *Sandbox) awaitCRDs(ctx context.Context) error {
	err := testwait.Poll(ctx, testwait.Scale(testwait.Limit), 50*time.Millisecond, func(ctx context.Context) error {
		list, err := Get[crdList](ctx, s, crdsPath)
		if err != nil {
			return err
		}
		for _, crd := range list.Items {
			for _, v := range crd.Spec.Versions {
				if !v.Served {
					continue
				}
				at := strings.Join([]string{"/apis", crd.Spec.Group, v.Name, crd.Spec.Names.Plural}, "/")
				if _, err := Get[struct{}](ctx, s, at); err != nil {
					return fmt.Errorf("list %s: %w", at, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait until the API server serves all CustomResourceDefinitions: %w", err)
	}
	return nil
}
