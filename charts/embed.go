// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package charts holds what has to be in a cluster before the controller can work there: the CustomResourceDefinitions, the
// controller's identity and its rights. They are plain YAML that kubectl takes as it is, and the Helm chart's templates hand the same
// files on (templates/rights.yaml), so that the sandbox runs with exactly the rights that are shipped.
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

// unneeded is what a landing mode leaves out of dovetail/rights, which has what the default, bind, needs.
var unneeded = map[string][]string{
	"bind":     nil,
	"tolerate": {"dovetail/rights/landing-bind.yaml"},
	"off":      {"dovetail/rights/landing-bind.yaml", "dovetail/rights/landing-tolerate.yaml", "dovetail/rights/reserved-tolerations.yaml"},
}

// Manifests is all of it as one stream of YAML documents, in the order in which to apply it, with the rights that the landing mode (bind,
// tolerate or off) needs. Of what is optional it has only what is named: surge is the right to restart Deployments, priorities that to read
// the ConfigMap of Cluster Autoscaler's expander priority, group-status that to write the ConfigMap of its status, cluster-api those
// of --cloud clusterapi.
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

// Definition is the CustomResourceDefinition of a kind as YAML; nil if there is none of it here.
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

// ShadowManifests is what a controller with --mode=shadow needs, in the order in which to apply it: its identity, and
// rights to read. CustomResourceDefinitions are not among it: those of whoever acts stay as they are.
func ShadowManifests() ([]byte, error) {
	return join([]string{"dovetail/rights/namespace.yaml", "dovetail/rights/serviceaccount.yaml", "dovetail/shadow/clusterrole.yaml", "dovetail/rights/viewer.yaml"})
}

// join makes one stream of YAML documents of files.
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
