// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"fmt"
	"strconv"

	"github.com/pelletier/go-toml/v2"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// writeBottlerocket is the user data of Bottlerocket, in TOML: the user's settings with ours over them.
func (r *Resolved) writeBottlerocket(clusterName, own string, j Registration) (string, error) {
	all := map[string]any{}
	if err := toml.Unmarshal([]byte(own), &all); err != nil {
		return "", fmt.Errorf("not TOML: %w", err)
	}
	table := func(in map[string]any, key string) (map[string]any, error) {
		if v, ok := in[key]; ok {
			m, ok := v.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s is a %T, need a table", key, v)
			}
			return m, nil
		}
		m := map[string]any{}
		in[key] = m
		return m, nil
	}
	settings, err := table(all, "settings")
	if err != nil {
		return "", err
	}
	k, err := table(settings, "kubernetes")
	if err != nil {
		return "", err
	}
	k["cluster-name"], k["api-server"], k["cluster-certificate"] = clusterName, r.Cluster.Endpoint, r.Cluster.CABundle
	k["max-pods"] = j.maxPods
	if dns := r.KubeletConfig.ClusterDNS; len(dns) == 1 {
		k["cluster-dns-ip"] = dns[0]
	} else if len(dns) > 1 {
		k["cluster-dns-ip"] = dns
	}
	for _, f := range []struct {
		key string
		m   map[string]string
	}{{"kube-reserved", r.KubeletConfig.KubeReserved}, {"system-reserved", r.KubeletConfig.SystemReserved}, {"eviction-hard", r.KubeletConfig.EvictionHard}, {"eviction-soft", r.KubeletConfig.EvictionSoft}} {
		if len(f.m) > 0 {
			k[f.key] = f.m
		}
	}
	for _, f := range []struct{ field, key string }{
		{"evictionSoftGracePeriod", "eviction-soft-grace-period"}, {"evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"},
		{"imageGCHighThresholdPercent", "image-gc-high-threshold-percent"}, {"imageGCLowThresholdPercent", "image-gc-low-threshold-percent"},
		{"cpuCFSQuota", "cpu-cfs-quota-enforced"},
	} {
		switch v := r.KubeletConfig.fields[f.field].(type) {
		case nil:
		case float64:
			k[f.key] = strconv.FormatFloat(v, 'f', -1, 64)
			if f.field == "evictionMaxPodGracePeriod" {
				k[f.key] = int64(v)
			}
		default:
			k[f.key] = v
		}
	}
	labels, err := table(k, "node-labels")
	if err != nil {
		return "", err
	}
	for key, v := range j.labels {
		labels[key] = v
	}
	taints, err := table(k, "node-taints")
	if err != nil {
		return "", err
	}
	for _, t := range j.taints {
		had, _ := taints[t.Key].([]any)
		taints[t.Key] = append(had, t.Value+":"+string(t.Effect))
	}
	if p := r.Spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 {
		commands, err := table(settings, "bootstrap-commands")
		if err != nil {
			return "", err
		}
		commands["000-mount-instance-storage"] = map[string]any{
			"commands": []any{[]any{"apiclient", "ephemeral-storage", "init"}, []any{"apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods", "/var/lib/soci-snapshotter"}},
			"mode":     "always", "essential": true,
		}
	}
	out, err := toml.Marshal(all)
	return string(out), err
}
