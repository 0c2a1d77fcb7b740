// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseNodes parses a value of Cluster Autoscaler's flag --nodes: <min>:<max>:<name>.
func ParseNodes(text string) (NodeGroup, error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 || parts[2] == "" {
		return NodeGroup{}, errors.New("need <min>:<max>:<name of the group>")
	}
	lo, err1 := strconv.ParseInt(parts[0], 10, 32)
	hi, err2 := strconv.ParseInt(parts[1], 10, 32)
	switch {
	case err1 != nil || err2 != nil || lo < 0:
		return NodeGroup{}, errors.New("need <min>:<max>:<name of the group> with counts of 0 or more")
	case hi < lo:
		return NodeGroup{}, fmt.Errorf("the maximum %d is below the minimum %d", hi, lo)
	}
	a, b := int32(lo), int32(hi)
	return NodeGroup{Name: parts[2], Min: &a, Max: &b}, nil
}

// ParseDiscovery returns the tags that groups must have in a value of Cluster Autoscaler's flag
// --node-group-auto-discovery: asg:tag=<key>[=<value>],… An empty value matches any.
func ParseDiscovery(text string) (map[string]string, error) {
	const form = "need asg:tag=<key>[=<value>],…"
	list, ok := strings.CutPrefix(text, "asg:tag=")
	if !ok {
		return nil, errors.New(form)
	}
	tags := map[string]string{}
	for one := range strings.SplitSeq(list, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(one), "=")
		if key == "" {
			return nil, errors.New(form + ": a tag's key is empty")
		}
		tags[key] = value
	}
	return tags, nil
}

// ClusterAPIDiscovery configures how Cluster Autoscaler discovers node groups of Cluster API.
type ClusterAPIDiscovery struct {
	Namespace, ClusterName string            // empty: any
	Labels                 map[string]string // labels of the object that owns the Machines
}

// Cluster returns NAMESPACE/NAME of the Cluster object; empty if either is unset.
func (d ClusterAPIDiscovery) Cluster() string {
	if d.Namespace == "" || d.ClusterName == "" {
		return ""
	}
	return d.Namespace + "/" + d.ClusterName
}

// ParseClusterAPIDiscovery parses a value of Cluster Autoscaler's flag --node-group-auto-discovery for Cluster API:
// clusterapi:<key>=<value>,… with the keys namespace, clusterName, and label keys.
func ParseClusterAPIDiscovery(text string) (ClusterAPIDiscovery, error) {
	const form = "need clusterapi:namespace=<namespace>,clusterName=<name>,<label>=<value>,…"
	d := ClusterAPIDiscovery{Labels: map[string]string{}}
	list, ok := strings.CutPrefix(text, "clusterapi:")
	if !ok {
		return d, errors.New(form)
	}
	for one := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(one), "=")
		switch {
		case !ok || key == "" || value == "":
			return d, fmt.Errorf("%s: %q is not a key and a value", form, one)
		case key == "namespace":
			d.Namespace = value
		case key == "clusterName":
			d.ClusterName = value
		default:
			d.Labels[key] = value
		}
	}
	return d, nil
}

// Bears reports whether a group has all of these tags, with their values unless empty.
func (g *NodeGroup) Bears(tags map[string]string) bool {
	for k, v := range tags {
		if have, ok := g.Tags[k]; !ok || v != "" && have != v {
			return false
		}
	}
	return true
}

// SelectNodeGroups returns the named groups with their requested bounds, and the groups with all tags of one of the
// sets. missing are names without a group.
func SelectNodeGroups(have, named []NodeGroup, sets []map[string]string) (out []NodeGroup, missing []string) {
	by := map[string]NodeGroup{}
	for _, g := range have {
		by[g.Name] = g
	}
	taken := map[string]bool{}
	for _, n := range named {
		g, ok := by[n.Name]
		if !ok {
			missing = append(missing, n.Name)
			continue
		}
		g.Min, g.Max = n.Min, n.Max
		out = append(out, g)
		taken[g.Name] = true
	}
	for _, g := range have {
		if !taken[g.Name] && slices.ContainsFunc(sets, g.Bears) {
			out = append(out, g)
			taken[g.Name] = true
		}
	}
	return out, missing
}
