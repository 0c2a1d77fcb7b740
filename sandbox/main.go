// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command dovetail-sandbox is a real Kubernetes control plane on loopback in
// one file: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
// kwok and kubectl, Dovetail's simulated cloud and simulated AWS, and the
// commands that start and stop them (up, down, status) and show what Dovetail
// does (demo).
// It uses no containers, downloads nothing at run time, and listens only on
// 127.0.0.1.
//
// It is a multi-call binary: the first argument, or the name of the executable,
// selects the program. It does not contain Dovetail's controller: `up` starts
// the binary `dovetail` in the same directory as a child process. Of Dovetail's
// module it links only the models of the simulated clouds, which `dovetail` does
// not link.
//
// Start reading at internal/supervise (processes, their order and shutdown) and
// internal/plane (configuration of each component). Only this package imports
// the components; of the internal packages only demo uses client-go, so that
// the tests of the others build in seconds.
//
// Build it with
//
//	V=k8s.io/component-base/version
//	CGO_ENABLED=0 go -C sandbox build -trimpath -ldflags "-s -w \
//	  -X $V.gitVersion=v1.37.2 -X $V.gitMajor=1 -X $V.gitMinor=37 -X $V.gitTreeState=clean" \
//	  -o ../bin/dovetail-sandbox .
//
// Without the -X flags the control plane reports version v0.0.0-master.
// With -modfile=go.kubernetes-1.36.mod and the flags of v1.36.3 the control
// plane is Kubernetes 1.36 (`make sandbox-1.36`).
// CGO_ENABLED=0 and -trimpath are part of the build cache's key: use them for
// vet and test of this module too, or everything is compiled a second time.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/sandbox/internal/verbs"
)

func main() {
	if name := filepath.Base(os.Args[0]); components[name] != nil {
		runComponent(name, os.Args[1:], "")
	}
	// A component's arguments are its own: they must not pass through our flag
	// parser. Only --dir may stand before kubectl.
	dir, rest, err := verbs.SplitDir(os.Args[1:])
	if err == nil && len(rest) > 0 && components[rest[0]] != nil {
		runComponent(rest[0], rest[1:], dir)
	}
	// The components' packages put flags of theirs into the process-wide set,
	// which cobra would show as ours.
	pflag.CommandLine = pflag.NewFlagSet(os.Args[0], pflag.ExitOnError)
	os.Exit(verbs.Main(os.Args[1:]))
}
