// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// A pod as a Deployment's usually is, then one with the constraints that cost most.
func BenchmarkPod(b *testing.B) {
	for _, c := range []struct{ name, manifest string }{
		{"plain", `
apiVersion: v1
kind: Pod
metadata:
  name: web-7d4b9c6f5-x2x7k
  labels: {app: web, team: shop, pod-template-hash: 7d4b9c6f5, app.kubernetes.io/part-of: shop}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7d4b9c6f5, uid: 0a1b, controller: true}]
spec:
  tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  containers:
  - {name: a, resources: {requests: {cpu: 250m, memory: 1Gi}}}
  - {name: b, resources: {requests: {cpu: 50m, memory: 64Mi}}}
status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}
`},
		{"constrained", `
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: web, team: shop, pod-template-hash: 7d4b9c6f5}}
spec:
  nodeSelector: {kubernetes.io/arch: amd64}
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]
  topologySpreadConstraints:
  - {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [pod-template-hash]}
  affinity:
    nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b, c]}]}]}}
    podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}
  containers: [{name: a, resources: {requests: {cpu: 250m, memory: 1Gi}}}]
`},
	} {
		b.Run(c.name, func(b *testing.B) {
			m, err := Read("bench", []byte(c.manifest))
			if err != nil {
				b.Fatal(err)
			}
			t := &translate.Translator{Table: state.NewResourceTable()}
			p := m.objects[0].Object.(*corev1.Pod)
			b.ReportAllocs()
			for b.Loop() {
				t.Pod(p)
			}
		})
	}
}
