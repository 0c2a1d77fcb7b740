// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plane

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"k8s.io/component-base/version"
)

var (
	//go:embed stages/node.yaml
	nodeStages string
	//go:embed stages/pod.yaml
	podStages string
	//go:embed rbac.yaml
	rbac string
)

// kwokOptions are those of kwok's settings that have no flag. A pod's patch
// takes a few milliseconds, most of them waiting, so two dozen in flight keep
// two cores busy with a burst; more only queue in the API server.
const kwokOptions = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 24
  nodePlayStageParallelism: 16
  podsOnNodeSyncParallelism: 8
  enableDebuggingHandlers: false
`

// KwokConfig is kwok's configuration: its options and the stages that nodes and
// pods go through. A pod takes pull to start, a fifth more or less: how much
// is a hash of seed and the pod's name, so that the same pod under the same
// seed takes the same time. Nodes report the control plane's version.
func KwokConfig(pull time.Duration, seed int64) string {
	delay := ""
	if pull > 0 {
		delay = pullDelay(pull, seed)
	}
	pods := strings.Replace(podStages, "  #DELAY\n", delay, 1)
	pods = strings.ReplaceAll(pods, "  #STOP\n", stopDelay)
	nodes := strings.ReplaceAll(nodeStages, "#VERSION", version.Get().GitVersion)
	return strings.Join([]string{kwokOptions, nodes, pods}, "---\n")
}

// pullDelay is written in jq, kwok's expression language. It has no hash of its
// own, hence the polynomial; the last factor spreads names that differ in the
// last character only.
func pullDelay(pull time.Duration, seed int64) string {
	const prime = 1000003
	start := ((seed % prime) + prime) % prime
	base, span := (pull * 4 / 5).Milliseconds(), (pull * 2 / 5).Milliseconds()
	hash := fmt.Sprintf(`(.metadata.namespace + "/" + .metadata.name) | explode | reduce .[] as $c (%d; (. * 33 + $c) %% %d) | (. * 618033) %% %d`,
		start, prime, prime)
	return fmt.Sprintf(`  delay:
    durationMilliseconds: %d
    durationFrom:
      expressionFrom: '%s | (. * %d / %d | floor) + %d | tostring + "ms"'
`, pull.Milliseconds(), hash, span, prime, base)
}

// stopDelay is when a deleted pod ends, in jq: at once where no container has a
// preStop hook that sleeps, be it with a sleep action or the command sleep;
// else when the longest of those hooks ends, counted from the deletion, and at
// the end of the grace period at the latest. The API server's
// deletionTimestamp is that end.
const stopDelay = `  delay:
    durationMilliseconds: 0
    durationFrom:
      expressionFrom: >-
        (.metadata.deletionGracePeriodSeconds // 0) as $grace
        | ([.spec.containers[] | .lifecycle.preStop
        | (.sleep.seconds // ((.exec.command // []) | join(" ") | capture("(^|[ ;&/])sleep (?<s>[0-9]+)").s | tonumber))] | max // 0) as $sleep
        | if .status.phase != "Running" or $sleep == 0 or $grace == 0 then "0s"
        else ((.metadata.deletionTimestamp | fromdateiso8601) - $grace + ([$sleep, $grace] | min) | todateiso8601) end
`

// RBAC is what the sandbox's own parts need beyond the roles that Kubernetes
// ships: the simulated cloud makes Nodes, as real machines' kubelets do.
func RBAC() string { return rbac }
