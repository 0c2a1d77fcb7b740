// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// writeNodeadm is the user data of AL2023: the user's parts, then a NodeConfig of ours. nodeadm merges them, the
// later over the earlier.
func (r *Resolved) writeNodeadm(clusterName, own string, j Registration) (string, error) {
	list, err := readParts(own)
	if err != nil {
		return "", err
	}
	config := maps.Clone(j.kubelet.fields)
	if config == nil {
		config = map[string]any{}
	}
	config["maxPods"] = j.maxPods
	if dns := r.clusterDNS(); len(dns) > 0 {
		config["clusterDNS"] = dns
	}
	if len(j.taints) > 0 {
		var taints []any
		for _, t := range j.taints {
			taint := map[string]any{"key": t.Key, "effect": string(t.Effect)}
			if t.Value != "" {
				taint["value"] = t.Value
			}
			taints = append(taints, taint)
		}
		config["registerWithTaints"] = taints
	}
	kubelet := map[string]any{"config": config}
	if len(j.labels) > 0 {
		kubelet["flags"] = []any{"--node-labels=\"" + joinPairs(j.labels, "=", ",") + "\""}
	}
	spec := map[string]any{
		"cluster": map[string]any{
			"name": clusterName, "apiServerEndpoint": r.Cluster.Endpoint, "certificateAuthority": r.Cluster.CABundle, "cidr": r.Cluster.CIDR,
		},
		"kubelet": kubelet,
	}
	if p := r.Spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 {
		spec["instance"] = map[string]any{"localStorage": map[string]any{"strategy": "RAID0"}}
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})
	if err != nil {
		return "", err
	}
	return writeMultipart(append(list, mimePart{kindNodeConfig, string(text)}))
}

// writeBootstrapScript is the user data of AL2: the user's parts, then a call of EKS's bootstrap.sh.
func (r *Resolved) writeBootstrapScript(clusterName, own string, j Registration) (string, error) {
	list, err := readParts(own)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n")
	fmt.Fprintf(&b, "/etc/eks/bootstrap.sh '%s' --apiserver-endpoint '%s' --b64-cluster-ca '%s'", clusterName, r.Cluster.Endpoint, r.Cluster.CABundle)
	if r.Cluster.IPv6 {
		b.WriteString(" --ip-family ipv6")
	}
	if dns := r.clusterDNS(); len(dns) > 0 {
		fmt.Fprintf(&b, " --dns-cluster-ip '%s'", dns[0])
	}
	if p := r.Spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 {
		b.WriteString(" --local-disks raid0")
	}
	fmt.Fprintf(&b, " --use-max-pods false --kubelet-extra-args '%s'\n", strings.Join(r.kubeletFlags(j), " "))
	return writeMultipart(append(list, mimePart{kindScript, b.String()}))
}

// writePowerShell is the user data of Windows: the user's script, then a call of EKS's.
func (r *Resolved) writePowerShell(clusterName, own string, j Registration) string {
	own = strings.TrimSpace(own)
	own = strings.TrimSuffix(strings.TrimPrefix(own, "<powershell>"), "</powershell>")
	var b strings.Builder
	b.WriteString("<powershell>\n")
	if own = strings.TrimSpace(own); own != "" {
		b.WriteString(own + "\n")
	}
	b.WriteString("[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n")
	fmt.Fprintf(&b, "& $EKSBootstrapScriptFile -EKSClusterName '%s' -APIServerEndpoint '%s' -Base64ClusterCA '%s'", clusterName, r.Cluster.Endpoint, r.Cluster.CABundle)
	fmt.Fprintf(&b, " -KubeletExtraArgs '%s'", strings.Join(r.kubeletFlags(j), " "))
	if dns := r.clusterDNS(); len(dns) > 0 {
		fmt.Fprintf(&b, " -DNSClusterIP '%s'", dns[0])
	}
	b.WriteString("\n</powershell>")
	return b.String()
}
