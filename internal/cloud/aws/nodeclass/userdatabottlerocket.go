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
	settings, err := tableOf(all, "settings")
	if err != nil {
		return "", err
	}
	k, err := tableOf(settings, "kubernetes")
	if err != nil {
		return "", err
	}
	k["cluster-name"], k["api-server"], k["cluster-certificate"] = clusterName, r.Cluster.Endpoint, r.Cluster.CABundle
	k["max-pods"] = j.maxPods
	if _, given := k["cluster-dns-ip"]; !given && r.Cluster.DNS != "" {
		k["cluster-dns-ip"] = r.Cluster.DNS
	}
	j.kubelet.setBottlerocket(k)
	labels, err := tableOf(k, "node-labels")
	if err != nil {
		return "", err
	}
	for key, v := range j.labels {
		labels[key] = v
	}
	taints, err := tableOf(k, "node-taints")
	if err != nil {
		return "", err
	}
	for _, t := range j.taints {
		had, _ := taints[t.Key].([]any)
		taints[t.Key] = append(had, t.Value+":"+string(t.Effect))
	}
	if p := r.Spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 {
		commands, err := tableOf(settings, "bootstrap-commands")
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

// tableOf is the table under a key of a TOML table, made if there is none. An error: something else stands there.
func tableOf(in map[string]any, key string) (map[string]any, error) {
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

// setBottlerocket writes a kubelet configuration into the table settings.kubernetes.
func (k *KubeletConfig) setBottlerocket(settings map[string]any) {
	if dns := k.ClusterDNS; len(dns) == 1 {
		settings["cluster-dns-ip"] = dns[0]
	} else if len(dns) > 1 {
		settings["cluster-dns-ip"] = dns
	}
	for _, f := range []struct {
		key string
		m   map[string]string
	}{{"kube-reserved", k.KubeReserved}, {"system-reserved", k.SystemReserved}, {"eviction-hard", k.EvictionHard}, {"eviction-soft", k.EvictionSoft}} {
		if len(f.m) > 0 {
			settings[f.key] = f.m
		}
	}
	for _, f := range []struct{ field, key string }{
		{"evictionSoftGracePeriod", "eviction-soft-grace-period"}, {"evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"},
		{"imageGCHighThresholdPercent", "image-gc-high-threshold-percent"}, {"imageGCLowThresholdPercent", "image-gc-low-threshold-percent"},
		{"cpuCFSQuota", "cpu-cfs-quota-enforced"},
	} {
		switch v := k.fields[f.field].(type) {
		case nil:
		case float64:
			settings[f.key] = strconv.FormatFloat(v, 'f', -1, 64)
			if f.field == "evictionMaxPodGracePeriod" {
				settings[f.key] = int64(v)
			}
		default:
			settings[f.key] = v
		}
	}
}
