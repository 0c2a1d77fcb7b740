// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plane

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// OwnGroups is the value of Options.Groups that stands for groups.yaml.
const OwnGroups = "two"

// GroupDiscovery is how the controller finds the groups that bear the usual
// tags: Cluster Autoscaler's flag of the same name.
const GroupDiscovery = "asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/" + clusterName

//go:embed groups.yaml
var ownGroups []byte

// Group is an Auto Scaling group to be made in the simulated AWS.
type Group struct {
	Name          string   `json:"name"`
	Min           int      `json:"min"`
	Max           int      `json:"max"`
	InstanceTypes []string `json:"instanceTypes"`

	// Request is all that its entry in the file says, for PUT /_aws/groups:
	// the simulated AWS judges it.
	Request map[string]any `json:"-"`
}

// ReadGroups reads the groups that Options.Groups names: a file of YAML or
// JSON, a list whose entries PUT /_aws/groups takes. No name: no groups.
func ReadGroups(from string) ([]Group, error) {
	var text []byte
	switch from {
	case "":
		return nil, nil
	case OwnGroups:
		text = ownGroups
	default:
		var err error
		if text, err = os.ReadFile(from); err != nil {
			return nil, fmt.Errorf("read the groups: %w", err)
		}
	}
	var entries []map[string]any
	if err := yaml.UnmarshalStrict(text, &entries); err != nil {
		return nil, fmt.Errorf("read the groups of %s: need a list: %w", from, err)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("read the groups of %s: the list is empty", from)
	}
	var out []Group
	for i, entry := range entries {
		raw, err := json.Marshal(entry)
		if err != nil {
			return nil, fmt.Errorf("read the groups of %s: entry %d: %w", from, i+1, err)
		}
		var g Group
		if err := json.Unmarshal(raw, &g); err != nil {
			return nil, fmt.Errorf("read the groups of %s: entry %d: %w", from, i+1, err)
		}
		g.Request = entry
		out = append(out, g)
	}
	return out, nil
}

// clusterName is what the simulated AWS calls this cluster, and its queue.
const clusterName = "sandbox"
