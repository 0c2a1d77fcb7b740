// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// pools are three NodePools of small instances.
const pools = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: default}
spec: {}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  weight: 10
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}
      - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["4", "8"]}
  limits: {cpu: "600"}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 20s, budgets: [{nodes: "10%"}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: spot}
spec:
  template:
    metadata: {labels: {tier: spot}}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      taints: [{key: tier, value: spot, effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
      - {key: karpenter.k8s.aws/instance-cpu, operator: In, values: ["8"]}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 20s}
`

// workload is a Deployment.
type workload struct {
	namespace, name string
	replicas, after int // after: replicas at the end; the same: it is not scaled down
	cpu, memory     string
	more            string // of the pod's spec, as YAML in braces without them
	annotations     string
}

const onSpot = `tolerations: [{key: tier, value: spot, effect: NoSchedule}], nodeSelector: {tier: spot}`

// workloads fill about seventy nodes, then sixty.
var workloads = []workload{
	{"shop", "frontend", 40, 28, "500m", "1Gi", "", ""}, {"shop", "cart", 24, 24, "1", "2Gi", "", ""}, {"shop", "catalog", 30, 30, "1", "3Gi", "", ""},
	{"shop", "recommendations", 16, 16, "2", "4Gi", "", ""}, {"payments", "ledger", 12, 12, "2", "8Gi", "", ""}, {"payments", "fraud", 10, 10, "3", "6Gi", "", ""},
	{"payments", "gateway", 18, 18, "1", "2Gi", "", ""}, {"search", "index", 14, 14, "3", "20Gi", "", ""}, {"search", "query", 30, 18, "1500m", "3Gi", "", ""},
	{"data", "spark-executor", 40, 26, "3", "8Gi", onSpot, ""}, {"data", "stream", 20, 20, "2", "4Gi", onSpot, ""}, {"ml", "training", 6, 6, "7", "12Gi", "", `karpenter.sh/do-not-disrupt: "true"`},
	{"ml", "features", 12, 12, "2", "10Gi", "", ""}, {"platform", "metrics", 9, 9, "1", "12Gi", "", ""}, {"platform", "logs", 12, 12, "500m", "4Gi", "", ""},
	{"ml", "inference", 7, 7, "2", "8Gi", `nodeSelector: {kubernetes.io/arch: arm64}`, ""},
	{"search", "experiment", 5, 5, "64", "100Gi", "", ""}, {"platform", "agent", 2, 2, "1", "1Gi", `nodeSelector: {kubernetes.io/os: windows}`, ""},
	{"shop", "orders", 3, 3, "1", "1Gi", `volumes: [{name: data, persistentVolumeClaim: {claimName: orders}}]`, ""},
}

func (w *workload) yaml() string {
	return fmt.Sprintf(`
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}, annotations: {%[7]s}}
    spec: {containers: [{name: app, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: %[4]q, memory: %[5]q}}}], %[6]s}
`, w.namespace, w.name, w.replicas, w.cpu, w.memory, w.more, w.annotations)
}

// budget never allows an eviction, so that a deleted NodeClaim is blocked.
const budget = `
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: ledger, namespace: payments}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: ledger}}}
`

// fill creates NodePools and workloads, and returns when the pods that can start have started.
func fill(ctx context.Context, s *sandbox.Sandbox) error {
	var b strings.Builder
	b.WriteString(pools)
	made := map[string]bool{}
	for i := range workloads {
		if w := &workloads[i]; !made[w.namespace] {
			made[w.namespace] = true
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", w.namespace)
		}
	}
	for i := range workloads {
		b.WriteString(workloads[i].yaml())
	}
	b.WriteString(budget)
	if _, err := kubectl(ctx, s, b.String(), "apply", "-f", "-"); err != nil {
		return err
	}
	for _, w := range []string{"shop deployment/recommendations", "payments deployment/fraud", "search deployment/index", "data deployment/spark-executor", "ml deployment/training"} {
		namespace, name, _ := strings.Cut(w, " ")
		if _, err := kubectl(ctx, s, "", "-n", namespace, "rollout", "status", name, "--timeout=3m"); err != nil {
			return err
		}
	}
	return nil
}

// shrink scales workloads down, deletes a NodeClaim whose node a PodDisruptionBudget keeps, and returns when nodes were removed.
func shrink(ctx context.Context, s *sandbox.Sandbox) error {
	node, err := kubectl(ctx, s, "", "-n", "payments", "get", "pods", "-l", "app=ledger", "-o", "jsonpath={.items[0].spec.nodeName}")
	if err != nil {
		return err
	}
	claim, err := kubectl(ctx, s, "", "get", "nodeclaims", "-o", `jsonpath={.items[?(@.status.nodeName=="`+node+`")].metadata.name}`)
	if err != nil {
		return err
	}
	if _, err := kubectl(ctx, s, "", "delete", "nodeclaim", claim, "--wait=false"); err != nil {
		return err
	}
	for i := range workloads {
		if w := &workloads[i]; w.after < w.replicas {
			if _, err := kubectl(ctx, s, "", "-n", w.namespace, "scale", "deployment/"+w.name, fmt.Sprintf("--replicas=%d", w.after)); err != nil {
				return err
			}
		}
	}
	before, err := nodeCount(ctx, s)
	if err != nil {
		return err
	}
	return awaitFewer(ctx, s, before)
}

// awaitFewer returns when at least five nodes of before are gone, and no more go for twenty seconds.
func awaitFewer(ctx context.Context, s *sandbox.Sandbox, before int) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	last, since := before, time.Now()
	for last > before-5 || time.Since(since) < 20*time.Second {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d nodes were %d: %w", last, before, ctx.Err())
		case <-time.After(time.Second):
		}
		n, err := nodeCount(ctx, s)
		if err != nil {
			return err
		}
		if n != last {
			last, since = n, time.Now()
		}
	}
	return nil
}

func nodeCount(ctx context.Context, s *sandbox.Sandbox) (int, error) {
	out, err := kubectl(ctx, s, "", "get", "nodes", "-o", "name")
	return len(strings.Fields(out)), err
}

func kubectl(ctx context.Context, s *sandbox.Sandbox, in string, args ...string) (string, error) {
	bin, _, err := sandbox.Binaries()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, bin, append([]string{"--dir", s.Dir, "kubectl"}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
