// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// userDataLimit is how many bytes of user data EC2 takes, before they are encoded.
const userDataLimit = 16 << 10

// Registration is the data with which a machine registers its node.
type Registration struct {
	labels  model.Labels
	taints  []model.Taint
	kubelet *KubeletConfig
	maxPods int64
}

// kubeletLabels are those of the labels that a kubelet may set on its own node; the others are set when the node has
// registered.
func kubeletLabels(in model.Labels) model.Labels {
	out := model.Labels{}
	for k, v := range in {
		domain, _, ok := strings.Cut(k, "/")
		under := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
		if ok && (under("kubernetes.io") || under("k8s.io")) && !under("node.kubernetes.io") && !under("kubelet.kubernetes.io") {
			continue
		}
		out[k] = v
	}
	return out
}

// RegistrationOf returns the data with which the kubelet of a launch request's machine registers its node, for AMI
// families whose user data Dovetail writes. The kubelet sets all taints itself, and the label LabelDoNotSyncTaints says
// so: a startup taint that its DaemonSet removes before Dovetail registers the node must not be added again, since
// nothing would remove it a second time.
func RegistrationOf(r cloud.LaunchRequest, kubelet *KubeletConfig, pods int64) Registration {
	taints := slices.Concat(r.Taints, r.StartupTaints)
	if !slices.ContainsFunc(taints, func(t model.Taint) bool { return t.Key == model.TaintUnregistered }) {
		taints = append(taints, model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute})
	}
	labels := kubeletLabels(r.NodeLabels)
	labels[model.LabelDoNotSyncTaints] = "true"
	return Registration{labels, taints, kubelet, pods}
}

// WriteUserData returns the user data, in base64, with which a machine of the class joins a cluster; empty if there is
// none. Errors concern spec.userData.
func (r *Resolved) WriteUserData(clusterName string, j Registration) (string, error) {
	own := awsapi.Deref(r.Spec.UserData)
	var out string
	var err error
	switch {
	case r.Family == FamilyAL2023:
		out, err = r.writeNodeadm(clusterName, own, j)
	case r.Family == FamilyBottlerocket:
		out, err = r.writeBottlerocket(clusterName, own, j)
	case r.Family == FamilyAL2:
		out, err = r.writeBootstrapScript(clusterName, own, j)
	case IsWindows(r.Family):
		out = r.writePowerShell(clusterName, own, j)
	default:
		out = own
	}
	if err != nil {
		return "", fmt.Errorf("spec.userData: %w", err)
	}
	if len(out) > userDataLimit {
		return "", awsapi.NewUnresolvedError(awsv1.ReasonUserDataSizeLimitExceeded,
			"spec.userData: %d bytes with bootstrap data, EC2 allows %d; shorten it", len(out), userDataLimit)
	}
	if out == "" {
		return "", nil
	}
	return base64.StdEncoding.EncodeToString([]byte(out)), nil
}

// kubeletFlags are the flags of the kubelet, for image families that take flags and no file.
func (r *Resolved) kubeletFlags(j Registration) []string {
	k := j.kubelet
	var out []string
	add := func(flag, value string) {
		if value != "" {
			out = append(out, "--"+flag+"="+value)
		}
	}
	add("node-labels", joinPairs(j.labels, "=", ","))
	var taints []string
	for _, t := range j.taints {
		taints = append(taints, formatTaint(t))
	}
	add("register-with-taints", strings.Join(taints, ","))
	add("max-pods", strconv.FormatInt(j.maxPods, 10))
	if k.PodsPerCore != nil {
		add("pods-per-core", strconv.FormatInt(*k.PodsPerCore, 10))
	}
	add("system-reserved", joinPairs(k.SystemReserved, "=", ","))
	add("kube-reserved", joinPairs(k.KubeReserved, "=", ","))
	add("eviction-hard", joinPairs(k.EvictionHard, "<", ","))
	add("eviction-soft", joinPairs(k.EvictionSoft, "<", ","))
	for _, f := range []struct{ field, flag string }{
		{"evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"}, {"imageGCHighThresholdPercent", "image-gc-high-threshold"},
		{"imageGCLowThresholdPercent", "image-gc-low-threshold"}, {"cpuCFSQuota", "cpu-cfs-quota"},
	} {
		if v, ok := k.fields[f.field]; ok {
			add(f.flag, fmt.Sprint(v))
		}
	}
	if m, ok := k.fields["evictionSoftGracePeriod"].(map[string]any); ok {
		add("eviction-soft-grace-period", joinPairs(m, "=", ","))
	}
	return out
}

// clusterDNS are the addresses at which pods find the cluster's DNS: the class's own, or else the cluster's; none where
// neither is known.
func (r *Resolved) clusterDNS() []string {
	if own := r.KubeletConfig.ClusterDNS; len(own) > 0 {
		return own
	}
	if r.Cluster.DNS != "" {
		return []string{r.Cluster.DNS}
	}
	return nil
}

// joinPairs writes a map in the order of its keys, with between between key and value and after between pairs.
func joinPairs[V any](m map[string]V, between, after string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+between+fmt.Sprint(m[k]))
	}
	return strings.Join(out, after)
}

// formatTaint writes a taint as a kubelet's flag has it.
func formatTaint(t model.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// flagKubeletFields are the fields of spec.kubelet that every AMI family supports.
var flagKubeletFields = []string{
	"clusterDNS", "maxPods", "podsPerCore", "systemReserved", "kubeReserved", "evictionHard", "evictionSoft", "evictionSoftGracePeriod",
	"evictionMaxPodGracePeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "cpuCFSQuota",
}

// unsupportedKubeletFields returns the fields of spec.kubelet that the AMI family of the class does not support, sorted.
func (c *Class) unsupportedKubeletFields() []string {
	if c.Family == FamilyAL2023 || c.Family == familyCustom {
		return nil
	}
	var out []string
	for _, f := range slices.Sorted(maps.Keys(c.KubeletConfig.fields)) {
		if !slices.Contains(flagKubeletFields, f) {
			out = append(out, f)
		}
	}
	return out
}
