// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package examples embeds the example NodePools, which 'dovetail manifests --nodepool' prints.
package examples

import (
	_ "embed"
	"fmt"
	"slices"
)

//go:embed nodepool.yaml
var kwok []byte

//go:embed aws/nodepool.yaml
var aws []byte

// NodePool returns the YAML of an example NodePool and its node class. cloud is kwok or aws.
func NodePool(cloud string) ([]byte, error) {
	switch cloud {
	case "kwok":
		return slices.Clone(kwok), nil
	case "aws":
		return slices.Clone(aws), nil
	}
	return nil, fmt.Errorf("no example NodePool for cloud %q; use aws or kwok", cloud)
}
