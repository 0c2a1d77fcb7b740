// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a values file of Karpenter's charts (1.14) may say and this chart takes, each value as a user would set it.
const valuesTaken = `
additionalLabels: {team: platform}
imagePullPolicy: Always
imagePullSecrets: [{name: registry}]
service: {annotations: {a: b}}
serviceAccount: {create: true, name: karpenter, annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/karpenter"}}
serviceMonitor: {enabled: true, additionalLabels: {release: prometheus}, endpointConfig: {interval: 30s}}
replicas: 2
revisionHistoryLimit: 10
strategy: {rollingUpdate: {maxUnavailable: 1}}
podLabels: {a: b}
podAnnotations: {a: b}
podDisruptionBudget: {maxUnavailable: 1}
podSecurityContext: {fsGroup: 65532}
priorityClassName: system-cluster-critical
terminationGracePeriodSeconds: 30
hostNetwork: false
schedulerName: default-scheduler
dnsPolicy: ClusterFirst
dnsConfig: {options: [{name: ndots, value: "2"}]}
nodeSelector: {kubernetes.io/os: linux}
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}]}}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
tolerations: [{key: CriticalAddonsOnly, operator: Exists}]
extraVolumes: [{name: v, emptyDir: {}}]
controller:
  image: {repository: r.example/karpenter, tag: v1, digest: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
  securityContext: {appArmorProfile: {type: RuntimeDefault}}
  env: [{name: AWS_REGION, value: eu-west-1}]
  envFrom: [{configMapRef: {name: more}}]
  resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 1Gi}}
  extraVolumeMounts: [{name: v, mountPath: /v}]
  metrics: {port: 8080}
  healthProbe: {port: 8081}
logLevel: info
settings:
  batchMaxDuration: 10s
  batchIdleDuration: 1s
  preferencePolicy: Ignore
  minValuesPolicy: BestEffort
  ignoreDRARequests: true
  clusterCABundle: "Q0E="
  clusterName: demo
  clusterEndpoint: https://demo.eks.example
  isolatedVPC: false
  eksControlPlane: false
  vmMemoryOverheadPercent: 0.075
  interruptionQueue: demo
  reservedENIs: "0"
  disableClusterStateObservability: false
  disableDryRun: false
  enableZonalShift: false
  enableDRA: false
  legacyNodeRepair: false
  amiRefreshInterval: 1m
  subnetRefreshInterval: 1m
  securityGroupRefreshInterval: 1m
  featureGates: {nodeRepair: true, reservedCapacity: true, spotToSpotConsolidation: true, nodeOverlay: true, staticCapacity: true, capacityBuffer: true,
    terminateFirstDrift: false, terminateFirstRepair: false, podDeletionCostManagement: false}
  awsFeatureGates: {nodeClassCEL: true, draNVIDIAGPU: null, draEFA: null, rebootForRepair: false}
`

// valuesNotTaken are those that this chart refuses, each with what its message says.
var valuesNotTaken = map[string]string{
	"nameOverride: x":                         "'nameOverride' not allowed",
	"fullnameOverride: x":                     "'fullnameOverride' not allowed",
	"additionalAnnotations: {a: b}":           "'additionalAnnotations' not allowed",
	"additionalClusterRoleRules: [{}]":        "'additionalClusterRoleRules' not allowed",
	"podDisruptionBudget: {name: karpenter}":  "'name' not allowed",
	"controller: {containerName: controller}": "'containerName' not allowed",
	"controller: {sidecarContainer: [{}]}":    "'sidecarContainer' not allowed",
	"controller: {sidecarVolumeMounts: [{}]}": "'sidecarVolumeMounts' not allowed",
	"logOutputPaths: [stdout]":                "'logOutputPaths' not allowed",
	"logErrorOutputPaths: [stderr]":           "'logErrorOutputPaths' not allowed",
	"settings: {schedulerConfig: {}}":         "'schedulerConfig' not allowed",
}

// Every value of Karpenter's charts is taken, or refused by its name.
func TestValuesOfKarpenter(t *testing.T) {
	render := func(values string) (string, error) {
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
			t.Fatal(err)
		}
		return helm(t, "template", "dovetail", chart, "--set", "settings.clusterName=demo", "-f", file)
	}
	if _, err := render(valuesTaken); err != nil {
		t.Errorf("a values file of Karpenter's is refused: %v", err)
	}
	for values, want := range valuesNotTaken {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", values, err, want)
		}
	}
}
