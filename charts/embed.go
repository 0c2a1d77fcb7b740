// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package charts contains the manifests that the controller requires in a cluster: CustomResourceDefinitions, its ServiceAccount, and
// its RBAC rules. They are plain YAML for kubectl. The templates of the Helm chart include the same files (templates/rights.yaml), so the
// sandbox runs with exactly the published rights.
package charts

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed dovetail/crds/*.yaml dovetail/rights/*.yaml dovetail/optional/*.yaml dovetail/shadow/*.yaml
var files embed.FS

// unneeded lists the files in dovetail/rights that a landing mode does not need. The default, bind, needs all of them.
var unneeded = map[string][]string{
	"bind":     nil,
	"tolerate": {"dovetail/rights/landing-bind.yaml"},
	"off":      {"dovetail/rights/landing-bind.yaml", "dovetail/rights/landing-tolerate.yaml", "dovetail/rights/reserved-tolerations.yaml"},
}

// Manifests returns all manifests as one stream of YAML documents, in the order in which to apply them, with the rights that the landing
// mode (bind, tolerate or off) requires. Optional rights are included by name: surge to restart Deployments, priorities to read the
// ConfigMap of Cluster Autoscaler's priority expander, group-status to write its status ConfigMap, and cluster-api for --cloud clusterapi.
func Manifests(landing string, optional ...string) ([]byte, error) {
	without, ok := unneeded[landing]
	if !ok {
		return nil, fmt.Errorf("landing mode %q is not bind, tolerate or off", landing)
	}
	names, err := fs.Glob(files, "dovetail/crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	rights, err := fs.Glob(files, "dovetail/rights/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	// A namespace comes before what is in it.
	const namespace = "dovetail/rights/namespace.yaml"
	names = append(names, namespace)
	for _, name := range rights {
		if name != namespace && !slices.Contains(without, name) {
			names = append(names, name)
		}
	}
	for _, name := range optional {
		names = append(names, "dovetail/optional/"+name+".yaml")
	}
	return join(names)
}

// Definition returns the CustomResourceDefinition of a kind as YAML, or nil if this package has none.
func Definition(group, kind string) ([]byte, error) {
	plural := strings.ToLower(kind) + "s"
	if strings.HasSuffix(kind, "s") {
		plural = strings.ToLower(kind) + "es"
	}
	data, err := files.ReadFile("dovetail/crds/" + group + "_" + plural + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// ShadowManifests returns the manifests for --mode=shadow, in the order in which to apply them: the ServiceAccount and read access. They
// contain no CustomResourceDefinitions, so those of the active autoscaler are not changed.
func ShadowManifests() ([]byte, error) {
	return join([]string{"dovetail/rights/namespace.yaml", "dovetail/rights/serviceaccount.yaml", "dovetail/shadow/clusterrole.yaml", "dovetail/rights/viewer.yaml"})
}

// join returns the files as one stream of YAML documents.
func join(names []string) ([]byte, error) {
	var out bytes.Buffer
	for _, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read manifest %s: %w", name, err)
		}
		if !bytes.HasPrefix(b, []byte("---\n")) {
			out.WriteString("---\n")
		}
		out.Write(bytes.TrimRight(b, "\n"))
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}
