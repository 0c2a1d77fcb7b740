// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command gen completes the CustomResourceDefinitions that controller-gen generates from the types in api.
//
// Markers apply to the field below them, but not to fields of types from other modules (a taint, a condition) or to map values. The table
// below contains only the rules for these; all other rules are markers. The command changes files in the given directory and is
// idempotent. A path that is not in a schema is an error, so that a renamed field cannot lose its rules.
//
// The command changes the files in the given directory, and is idempotent. A path that is not in a schema is an
// error, so that a renamed field cannot lose its rules. Both steps, from the root of the repository (`make gen`):
//
//	go tool -modfile=go.tools.mod controller-gen object:headerFile=api/gen/header.txt crd paths=./api/... output:crd:dir=charts/dovetail/crds
//	go run ./api/gen charts/dovetail/crds
//
// Start reading at amendments.
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed header.txt
var header string

const (
	qualifiedName   = `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	labelValue      = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	conditionReason = `^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?|)$`
)

// amendment sets keywords of the schema at a path below openAPIV3Schema. A nil value takes the keyword away.
type amendment struct {
	path     string
	keywords map[string]any
}

func taint(path string) []amendment {
	return []amendment{
		{path + ".items.properties.key", map[string]any{"minLength": 1, "pattern": qualifiedName}},
		{path + ".items.properties.value", map[string]any{"pattern": qualifiedName}},
		{path + ".items.properties.effect", map[string]any{"enum": []any{"NoSchedule", "PreferNoSchedule", "NoExecute"}}},
	}
}

func labelValues(path string) []amendment {
	return []amendment{{path + ".additionalProperties", map[string]any{"maxLength": 63, "pattern": labelValue}}}
}

// relaxedConditions takes conditions as old objects bear them: without a message, without a reason or with an empty one.
func relaxedConditions(path string) []amendment {
	return []amendment{
		{path + ".items.properties.reason", map[string]any{"minLength": nil, "pattern": conditionReason}},
		{path + ".items", map[string]any{"required": []any{"lastTransitionTime", "status", "type"}}},
	}
}

// amendments by file name.
func amendments() map[string][]amendment {
	const (
		spec     = "properties.spec.properties."
		status   = "properties.status.properties."
		template = spec + "template.properties."
	)
	return map[string][]amendment{
		"karpenter.sh_nodepools.yaml": join(
			taint(template+"spec.properties.taints"),
			taint(template+"spec.properties.startupTaints"),
			labelValues(template+"metadata.properties.labels"),
		),
		"karpenter.sh_nodeclaims.yaml": join(
			taint(spec+"taints"),
			taint(spec+"startupTaints"),
			relaxedConditions(status+"conditions"),
		),
		"karpenter.sh_provisioners.yaml": join(
			taint(spec+"taints"),
			taint(spec+"startupTaints"),
			labelValues(spec+"labels"),
			relaxedConditions(status+"conditions"),
		),
		"karpenter.k8s.aws_awsnodetemplates.yaml":               nil,
		"karpenter.sh_nodeoverlays.yaml":                        nil,
		"autoscaling.x-k8s.io_capacitybuffers.yaml":             nil,
		"autoscaling.x-k8s.io_capacityquotas.yaml":              nil,
		"karpenter.kwok.sh_kwoknodeclasses.yaml":                nil,
		"karpenter.k8s.aws_ec2nodeclasses.yaml":                 nil,
		"dovetail.sh_headrooms.yaml":                            nil,
		"dovetail.sh_nodegroupclasses.yaml":                     nil,
		"karpenter.cluster.x-k8s.io_clusterapinodeclasses.yaml": nil,
	}
}

// olderVersion is a version of a kind that is served beside the stored one, with the same fields, so that the API server
// converts by writing another apiVersion.
type olderVersion struct{ name, warning string }

// olderVersions by file name.
func olderVersions() map[string]olderVersion {
	return map[string]olderVersion{
		"autoscaling.x-k8s.io_capacitybuffers.yaml": {"v1alpha1", "autoscaling.x-k8s.io/v1alpha1 CapacityBuffer is deprecated; use autoscaling.x-k8s.io/v1beta1"},
		"autoscaling.x-k8s.io_capacityquotas.yaml":  {"v1alpha1", "autoscaling.x-k8s.io/v1alpha1 CapacityQuota is deprecated; use autoscaling.x-k8s.io/v1beta1"},
	}
}

// serveOlder has a version be served like the stored one.
func serveOlder(crd map[string]any, older olderVersion) error {
	spec, err := only(crd, "spec")
	if err != nil {
		return err
	}
	stored, err := only(spec, "versions", 0)
	if err != nil {
		return err
	}
	copied := maps.Clone(stored)
	copied["name"], copied["storage"], copied["deprecated"], copied["deprecationWarning"] = older.name, false, true, older.warning
	spec["versions"] = []any{stored, copied} // what is there besides the first is ours, of an earlier run
	return nil
}

func join(lists ...[]amendment) []amendment {
	var all []amendment
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen DIRECTORY: finish the CustomResourceDefinitions in DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string) error {
	table := amendments()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	for _, file := range files {
		list, known := table[filepath.Base(file)]
		if !known {
			return fmt.Errorf("finish %s: not in the table: add it, or delete the file if its kind is gone", file)
		}
		delete(table, filepath.Base(file))
		if err := finish(file, list); err != nil {
			return err
		}
	}
	for name := range table {
		return fmt.Errorf("finish %s: no such file: did controller-gen run", filepath.Join(dir, name))
	}
	return nil
}

func finish(file string, list []amendment) error {
	in, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(in, &crd); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	// The version that the tool writes down says nothing that go.tools.mod doesn't.
	if metadata, ok := crd["metadata"].(map[string]any); ok {
		delete(metadata, "annotations")
	}
	if older, ok := olderVersions()[filepath.Base(file)]; ok {
		if err := serveOlder(crd, older); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
	schema, err := only(crd, "spec", "versions", 0, "schema", "openAPIV3Schema")
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	for _, a := range list {
		at := schema
		for _, key := range strings.Split(a.path, ".") {
			next, ok := at[key].(map[string]any)
			if !ok {
				return fmt.Errorf("amend %s: no schema at %s: was the field renamed", file, a.path)
			}
			at = next
		}
		for keyword, value := range a.keywords {
			if value == nil {
				delete(at, keyword)
				continue
			}
			at[keyword] = value
		}
	}
	body, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	var out bytes.Buffer
	out.WriteString(strings.ReplaceAll(header, "//", "#"))
	out.WriteString("# Generated from api by `make gen`. Do not edit.\n")
	out.Write(body)
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// only walks from an object by keys and positions to an object.
func only(from any, path ...any) (map[string]any, error) {
	at := from
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := at.(map[string]any)
			at = object[step]
		case int:
			list, _ := at.([]any)
			if step >= len(list) {
				return nil, fmt.Errorf("no element %d on the way %v", step, path)
			}
			at = list[step]
		}
	}
	object, ok := at.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no object at %v", path)
	}
	return object, nil
}
