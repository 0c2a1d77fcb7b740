{{/*
SPDX-License-Identifier: Apache-2.0
Copyright 2026 The Dovetail Authors

There is one Dovetail in a cluster: its objects have fixed names, whatever the release is called.
*/}}

{{- define "dovetail.selector" -}}
app.kubernetes.io/name: dovetail
app.kubernetes.io/component: controller
{{- end }}

{{- define "dovetail.labels" -}}
app.kubernetes.io/name: dovetail
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dovetail.image" -}}
{{- $i := .Values.controller.image -}}
{{- if $i.digest -}}
{{ $i.repository }}@{{ $i.digest }}
{{- else -}}
{{ $i.repository }}:{{ $i.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/*
A file that `dovetail manifests` prints as it is, with this release's namespace, ServiceAccount and labels in place of the usual ones.
Called with the root and the file's name.
*/}}
{{- define "dovetail.file" -}}
{{- $root := index . 0 -}}
{{- $account := $root.Values.serviceAccount.name -}}
{{- $root.Files.Get (index . 1)
  | replace "system:serviceaccount:dovetail-system:dovetail" (printf "system:serviceaccount:%s:%s" $root.Release.Namespace $account)
  | replace "kind: ServiceAccount\n    name: dovetail\n" (printf "kind: ServiceAccount\n    name: %s\n" $account)
  | replace "[karpenter-leader-election, cluster-autoscaler]" (toJson $root.Values.otherAutoscalers)
  | replace "namespace: dovetail-system" (printf "namespace: %s" $root.Release.Namespace)
  | replace "  labels:\n    app.kubernetes.io/name: dovetail\n" (printf "  labels:\n%s\n" (include "dovetail.labels" $root | indent 4)) -}}
{{- end }}

{{/*
The landing mode. A bare off is false in YAML, so false means off. exactLanding is deprecated: false means off, true means nothing.
*/}}
{{- define "dovetail.landing" -}}
{{- $landing := get .Values "landing" | toString | replace "false" "off" | default "bind" -}}
{{- if and (hasKey .Values "exactLanding") (not .Values.exactLanding) -}}
{{- if eq $landing "tolerate" -}}
{{- fail "exactLanding: false conflicts with landing: tolerate; remove exactLanding, which is deprecated" -}}
{{- end -}}
{{- $landing = "off" -}}
{{- end -}}
{{- $landing -}}
{{- end }}

{{/* Volumes and volume mounts: those of the values, and the certificate. */}}
{{- define "dovetail.volumes" -}}
{{- $out := .Values.extraVolumes -}}
{{- if and .Values.secureServing.enabled .Values.secureServing.tlsSecret -}}
{{- $out = append $out (dict "name" "dovetail-tls" "secret" (dict "secretName" .Values.secureServing.tlsSecret)) -}}
{{- end -}}
{{- if eq .Values.cloud "externalgrpc" -}}
{{- $out = append $out (dict "name" "dovetail-externalgrpc" "secret" (dict "secretName" .Values.externalgrpcSecret)) -}}
{{- end -}}
{{- if and (eq .Values.cloud "clusterapi") .Values.clusterAPI.managementSecret -}}
{{- $out = append $out (dict "name" "dovetail-management" "secret" (dict "secretName" .Values.clusterAPI.managementSecret)) -}}
{{- end -}}
{{- with .Values.priceConfigMap -}}
{{- $out = append $out (dict "name" "dovetail-prices" "configMap" (dict "name" .)) -}}
{{- end -}}
{{- with .Values.recording -}}
{{- if and .enabled .persistentVolumeClaim -}}
{{- $out = append $out (dict "name" "dovetail-recordings" "persistentVolumeClaim" (dict "claimName" .persistentVolumeClaim)) -}}
{{- else if .enabled -}}
{{- $out = append $out (dict "name" "dovetail-recordings" "emptyDir" (dict "sizeLimit" (printf "%dMi" (mul 20 (int64 .maxFileSizeMiB))))) -}}
{{- end -}}
{{- end -}}
{{- if $out -}}{{- toYaml $out -}}{{- end -}}
{{- end }}

{{- define "dovetail.volumeMounts" -}}
{{- $out := .Values.controller.extraVolumeMounts -}}
{{- if and .Values.secureServing.enabled .Values.secureServing.tlsSecret -}}
{{- $out = append $out (dict "name" "dovetail-tls" "mountPath" "/etc/dovetail/tls" "readOnly" true) -}}
{{- end -}}
{{- if eq .Values.cloud "externalgrpc" -}}
{{- $out = append $out (dict "name" "dovetail-externalgrpc" "mountPath" "/etc/dovetail/externalgrpc" "readOnly" true) -}}
{{- end -}}
{{- if and (eq .Values.cloud "clusterapi") .Values.clusterAPI.managementSecret -}}
{{- $out = append $out (dict "name" "dovetail-management" "mountPath" "/etc/dovetail/management" "readOnly" true) -}}
{{- end -}}
{{- if .Values.priceConfigMap -}}
{{- $out = append $out (dict "name" "dovetail-prices" "mountPath" "/etc/dovetail/prices" "readOnly" true) -}}
{{- end -}}
{{- if .Values.recording.enabled -}}
{{- $out = append $out (dict "name" "dovetail-recordings" "mountPath" "/var/lib/dovetail/recordings") -}}
{{- end -}}
{{- if $out -}}{{- toYaml $out -}}{{- end -}}
{{- end }}

{{/* Pod anti-affinity and spread terms without a selector apply to the pods of this Deployment. */}}
{{- define "dovetail.affinity" -}}
{{- $selector := dict "labelSelector" (dict "matchLabels" (include "dovetail.selector" . | fromYaml)) -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- range $kind := list "podAffinity" "podAntiAffinity" -}}
{{- range $term := dig $kind "requiredDuringSchedulingIgnoredDuringExecution" list $affinity -}}
{{- $_ := merge $term $selector -}}
{{- end -}}
{{- range $term := dig $kind "preferredDuringSchedulingIgnoredDuringExecution" list $affinity -}}
{{- $_ := merge $term.podAffinityTerm $selector -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end }}

{{- define "dovetail.spread" -}}
{{- $selector := dict "labelSelector" (dict "matchLabels" (include "dovetail.selector" . | fromYaml)) -}}
{{- $out := list -}}
{{- range .Values.topologySpreadConstraints -}}
{{- $out = append $out (merge (deepCopy .) $selector) -}}
{{- end -}}
{{- toYaml $out -}}
{{- end }}

{{/* Karpenter's environment variables for the settings with a value. */}}
{{- define "dovetail.environment" -}}
{{- $s := .Values.settings -}}
{{- $env := list -}}
{{- range $v := list
  (list "CLUSTER_NAME" $s.clusterName)
  (list "CLUSTER_ENDPOINT" $s.clusterEndpoint)
  (list "CLUSTER_CA_BUNDLE" $s.clusterCABundle)
  (list "INTERRUPTION_QUEUE" $s.interruptionQueue)
  (list "VM_MEMORY_OVERHEAD_PERCENT" $s.vmMemoryOverheadPercent)
  (list "RESERVED_ENIS" $s.reservedENIs)
  (list "ISOLATED_VPC" $s.isolatedVPC)
  (list "EKS_CONTROL_PLANE" $s.eksControlPlane)
  (list "DISABLE_DRY_RUN" $s.disableDryRun)
  (list "ENABLE_ZONAL_SHIFT" $s.enableZonalShift)
  (list "AMI_REFRESH_INTERVAL" $s.amiRefreshInterval)
  (list "SUBNET_REFRESH_INTERVAL" $s.subnetRefreshInterval)
  (list "SECURITY_GROUP_REFRESH_INTERVAL" $s.securityGroupRefreshInterval)
  (list "AWS_DEFAULT_INSTANCE_PROFILE" $s.defaultInstanceProfile)
  (list "BATCH_IDLE_DURATION" $s.batchIdleDuration)
  (list "BATCH_MAX_DURATION" $s.batchMaxDuration)
  (list "PREFERENCE_POLICY" $s.preferencePolicy)
  (list "MIN_VALUES_POLICY" $s.minValuesPolicy)
  (list "IGNORE_DRA_REQUESTS" $s.ignoreDRARequests)
  (list "DISABLE_CLUSTER_STATE_OBSERVABILITY" $s.disableClusterStateObservability)
  (list "LEGACY_NODE_REPAIR" $s.legacyNodeRepair)
-}}
{{- $value := index $v 1 | toString -}}
{{- if and (ne $value "") (ne $value "<nil>") (ne $value "false") -}}
{{- $env = append $env (dict "name" (index $v 0) "value" $value) -}}
{{- else if and (eq (index $v 0) "IGNORE_DRA_REQUESTS") (eq $value "false") -}}
{{- $env = append $env (dict "name" (index $v 0) "value" $value) -}}
{{- end -}}
{{- end -}}
{{- range $name, $list := dict "FEATURE_GATES" $s.featureGates "AWS_FEATURE_GATES" $s.awsFeatureGates -}}
{{- $gates := list -}}
{{- range $gate, $on := $list -}}
{{- if kindIs "bool" $on -}}
{{- $gates = append $gates (printf "%s=%t" (regexReplaceAll "^Dra" (printf "%s%s" ($gate | trunc 1 | upper) ($gate | substr 1 -1)) "DRA") $on) -}}
{{- end -}}
{{- end -}}
{{- with $gates -}}
{{- $env = append $env (dict "name" $name "value" (join "," .)) -}}
{{- end -}}
{{- end -}}
{{- if dig "limits" "memory" "" .Values.controller.resources -}}
{{- $env = append $env (dict "name" "MEMORY_LIMIT" "valueFrom" (dict "resourceFieldRef" (dict "containerName" "controller" "resource" "limits.memory" "divisor" "0"))) -}}
{{- end -}}
{{- toYaml (concat $env .Values.controller.env) -}}
{{- end }}

{{/* Flags for node groups, if any are configured. */}}
{{- define "dovetail.groupDefaults" -}}
{{- $g := .Values.nodeGroups -}}
{{- $flags := $g.defaults -}}
{{- with $g.expander -}}
{{- $flags = append $flags (printf "--expander=%s" .) -}}
{{- if has "priority" (splitList "," .) -}}
{{- $flags = append $flags (printf "--namespace=%s" $g.priorityNamespace) -}}
{{- end -}}
{{- end -}}
{{- if or $g.autoDiscovery $g.nodes -}}
{{- join " " $flags -}}
{{- end -}}
{{- end }}

{{/* ConfigMap for the status of node groups; empty if disabled. */}}
{{- define "dovetail.statusConfigMap" -}}
{{- $g := .Values.nodeGroups -}}
{{- if $g.statusConfigMap -}}
{{- if ne $g.statusConfigMap "none" }}{{ $g.statusConfigMap }}{{ end -}}
{{- else if or $g.autoDiscovery $g.nodes -}}
cluster-autoscaler-status
{{- end -}}
{{- end }}

{{/* Settings without effect, one per line. */}}
{{- define "dovetail.unserved" -}}
{{- $s := .Values.settings -}}
{{- if $s.eksControlPlane }}
  settings.eksControlPlane: true    missing settings are read from EKS with either value
{{- end }}
{{- if $s.enableDRA }}
  settings.enableDRA: true    devices that pods claim are counted with either value
{{- end }}
{{- range $gate, $on := $s.awsFeatureGates }}
{{- if and $on (not (has $gate (list "nodeClassCEL" "rebootForRepair"))) }}
  settings.awsFeatureGates.{{ $gate }}: true    the feature is not supported
{{- end }}
{{- end }}
{{- range $gate, $on := $s.featureGates }}
{{- if and (not $on) (has $gate (list "staticCapacity" "drift" "capacityBuffer")) }}
  settings.featureGates.{{ $gate }}: false    the feature is always on
{{- else if and $on (eq $gate "podDeletionCostManagement") (eq (include "dovetail.landing" $) "off") }}
  settings.featureGates.{{ $gate }}: true    landing is off, and the right to patch pods is not granted with it
{{- end }}
{{- end }}
{{- end }}

{{/* IAM policy of the controller's role, with known values and without unused statements. */}}
{{- define "dovetail.iamPolicy" -}}
{{- $queue := .Values.settings.interruptionQueue -}}
{{- $shift := .Values.settings.enableZonalShift -}}
{{- $policy := .Files.Get "aws-iam-policy.json"
  | replace "${Partition}" .Values.aws.partition
  | replace "${Region}" (.Values.aws.region | default "${Region}")
  | replace "${Account}" (.Values.aws.accountID | default "${Account}")
  | replace "${ClusterName}" .Values.settings.clusterName
  | replace "${NodeRole}" (.Values.aws.nodeRole | default "${NodeRole}")
  | replace "${InterruptionQueue}" $queue | fromJson -}}
{{- $statements := list -}}
{{- range $policy.Statement -}}
{{- if and (or $queue (ne .Sid "HearOfInterruptions")) (or $shift (ne .Sid "ReadZonalShifts")) -}}
{{- $statements = append $statements . -}}
{{- end -}}
{{- end -}}
{{- toPrettyJson (dict "Version" $policy.Version "Statement" $statements) -}}
{{- end }}
