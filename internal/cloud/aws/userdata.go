// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// userDataLimit is EC2's, before it is encoded.
const userDataLimit = 16 << 10

// boundary separates the parts of user data. It is fixed, so that equal settings make equal user data.
const boundary = "//"

// joining is what a machine must know to become a node as asked for.
type joining struct {
	labels model.Labels
	taints []model.Taint
	pods   int64
}

// bootLabels are those that a kubelet may set on its own node; the others are set when the node is registered.
func bootLabels(in model.Labels) model.Labels {
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

// join is what a claim's machine must know.
func join(r cloud.LaunchRequest, pods int64) joining {
	taints := slices.Concat(r.Taints, r.StartupTaints)
	if !slices.ContainsFunc(taints, func(t model.Taint) bool { return t.Key == model.TaintUnregistered }) {
		taints = append(taints, model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute})
	}
	return joining{bootLabels(r.NodeLabels), taints, pods}
}

// userData writes what a machine boots with. Errors are about spec.userData.
func (r *resolved) userData(clusterName string, j joining) (string, error) {
	own := deref(r.spec.UserData)
	var out string
	var err error
	switch {
	case r.family == familyAL2023:
		out, err = r.nodeadm(clusterName, own, j)
	case r.family == familyBottlerocket:
		out, err = r.bottlerocket(clusterName, own, j)
	case r.family == familyAL2:
		out, err = r.bootstrap(clusterName, own, j)
	case windows(r.family):
		out = r.powershell(clusterName, own, j)
	default:
		out = own
	}
	if err != nil {
		return "", fmt.Errorf("spec.userData: %w", err)
	}
	if len(out) > userDataLimit {
		return "", &unresolvedError{awsv1.ReasonUserDataSizeLimitExceeded, fmt.Sprintf(
			"spec.userData: with what the cluster needs it is %d bytes, EC2 allows %d; shorten it", len(out), userDataLimit)}
	}
	if out == "" {
		return "", nil
	}
	return base64.StdEncoding.EncodeToString([]byte(out)), nil
}

// part is one of MIME multipart user data.
type part struct{ kind, body string }

const (
	kindNodeConfig = "application/node.eks.aws"
	kindScript     = `text/x-shellscript; charset="us-ascii"`
)

// parts are those of a user's own user data: MIME multipart, or one part of the kind that it looks like.
func parts(own string) ([]part, error) {
	if strings.TrimSpace(own) == "" {
		return nil, nil
	}
	if message, err := mail.ReadMessage(strings.NewReader(strings.TrimLeft(own, "\r\n"))); err == nil {
		kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
		if err == nil && strings.HasPrefix(kind, "multipart/") {
			var out []part
			for reader := multipart.NewReader(message.Body, params["boundary"]); ; {
				p, err := reader.NextRawPart()
				if err == io.EOF {
					break
				}
				if err != nil {
					return nil, fmt.Errorf("read MIME parts: %w", err)
				}
				body, err := io.ReadAll(p)
				if err != nil {
					return nil, fmt.Errorf("read MIME parts: %w", err)
				}
				out = append(out, part{p.Header.Get("Content-Type"), string(body)})
			}
			if len(out) == 0 {
				return nil, fmt.Errorf("MIME multipart without a part")
			}
			return out, nil
		}
	}
	var config struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(own), &config); err == nil && config.Kind == "NodeConfig" {
		return []part{{kindNodeConfig, own}}, nil
	}
	return []part{{kindScript, own}}, nil
}

func multi(list []part) (string, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=%q\r\n\r\n", boundary)
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary("//"); err != nil {
		return "", err
	}
	for _, p := range list {
		out, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {p.kind}})
		if err != nil {
			return "", err
		}
		if _, err := io.WriteString(out, p.body); err != nil {
			return "", err
		}
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return b.String(), nil
}

// nodeadm is AL2023's: the user's parts, then ours. nodeadm merges them, the later over the earlier.
func (r *resolved) nodeadm(clusterName, own string, j joining) (string, error) {
	list, err := parts(own)
	if err != nil {
		return "", err
	}
	config := maps.Clone(r.kubelet.all)
	if config == nil {
		config = map[string]any{}
	}
	config["maxPods"] = j.pods
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
		kubelet["flags"] = []any{"--node-labels=\"" + pairs(j.labels, "=", ",") + "\""}
	}
	spec := map[string]any{
		"cluster": map[string]any{
			"name": clusterName, "apiServerEndpoint": r.cluster.endpoint, "certificateAuthority": r.cluster.caBundle, "cidr": r.cluster.cidr,
		},
		"kubelet": kubelet,
	}
	if p := r.spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 {
		spec["instance"] = map[string]any{"localStorage": map[string]any{"strategy": "RAID0"}}
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})
	if err != nil {
		return "", err
	}
	return multi(append(list, part{kindNodeConfig, string(text)}))
}

// pairs writes a map in the order of its keys.
func pairs[V any](m map[string]V, between, after string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+between+fmt.Sprint(m[k]))
	}
	return strings.Join(out, after)
}

// kubeletFlags are the kubelet's, for families that take flags and not a file.
func (r *resolved) kubeletFlags(j joining) []string {
	k := r.kubelet
	var out []string
	add := func(flag, value string) {
		if value != "" {
			out = append(out, "--"+flag+"="+value)
		}
	}
	add("node-labels", pairs(j.labels, "=", ","))
	var taints []string
	for _, t := range j.taints {
		taints = append(taints, taintText(t))
	}
	add("register-with-taints", strings.Join(taints, ","))
	add("max-pods", number(j.pods))
	if k.PodsPerCore != nil {
		add("pods-per-core", number(*k.PodsPerCore))
	}
	add("system-reserved", pairs(k.SystemReserved, "=", ","))
	add("kube-reserved", pairs(k.KubeReserved, "=", ","))
	add("eviction-hard", pairs(k.EvictionHard, "<", ","))
	add("eviction-soft", pairs(k.EvictionSoft, "<", ","))
	for _, f := range []struct{ field, flag string }{
		{"evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"}, {"imageGCHighThresholdPercent", "image-gc-high-threshold"},
		{"imageGCLowThresholdPercent", "image-gc-low-threshold"}, {"cpuCFSQuota", "cpu-cfs-quota"},
	} {
		if v, ok := k.all[f.field]; ok {
			add(f.flag, fmt.Sprint(v))
		}
	}
	if m, ok := k.all["evictionSoftGracePeriod"].(map[string]any); ok {
		add("eviction-soft-grace-period", pairs(m, "=", ","))
	}
	return out
}

func taintText(t model.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// bootstrap is AL2's: the user's parts, then a call of EKS's script.
func (r *resolved) bootstrap(clusterName, own string, j joining) (string, error) {
	list, err := parts(own)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n")
	fmt.Fprintf(&b, "/etc/eks/bootstrap.sh '%s' --apiserver-endpoint '%s' --b64-cluster-ca '%s'", clusterName, r.cluster.endpoint, r.cluster.caBundle)
	if len(r.kubelet.ClusterDNS) > 0 {
		fmt.Fprintf(&b, " --dns-cluster-ip '%s'", r.kubelet.ClusterDNS[0])
	}
	if p := r.spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 {
		b.WriteString(" --local-disks raid0")
	}
	fmt.Fprintf(&b, " --use-max-pods false --kubelet-extra-args '%s'\n", strings.Join(r.kubeletFlags(j), " "))
	return multi(append(list, part{kindScript, b.String()}))
}

// powershell is Windows's: the user's script, then a call of EKS's.
func (r *resolved) powershell(clusterName, own string, j joining) string {
	own = strings.TrimSpace(own)
	own = strings.TrimSuffix(strings.TrimPrefix(own, "<powershell>"), "</powershell>")
	var b strings.Builder
	b.WriteString("<powershell>\n")
	if own = strings.TrimSpace(own); own != "" {
		b.WriteString(own + "\n")
	}
	b.WriteString("[string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n")
	fmt.Fprintf(&b, "& $EKSBootstrapScriptFile -EKSClusterName '%s' -APIServerEndpoint '%s' -Base64ClusterCA '%s'", clusterName, r.cluster.endpoint, r.cluster.caBundle)
	fmt.Fprintf(&b, " -KubeletExtraArgs '%s'", strings.Join(r.kubeletFlags(j), " "))
	if len(r.kubelet.ClusterDNS) > 0 {
		fmt.Fprintf(&b, " -DNSClusterIP '%s'", r.kubelet.ClusterDNS[0])
	}
	b.WriteString("\n</powershell>")
	return b.String()
}

// bottlerocket is TOML: the user's settings with ours over them.
func (r *resolved) bottlerocket(clusterName, own string, j joining) (string, error) {
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
	k["cluster-name"], k["api-server"], k["cluster-certificate"] = clusterName, r.cluster.endpoint, r.cluster.caBundle
	k["max-pods"] = j.pods
	if dns := r.kubelet.ClusterDNS; len(dns) == 1 {
		k["cluster-dns-ip"] = dns[0]
	} else if len(dns) > 1 {
		k["cluster-dns-ip"] = dns
	}
	for _, f := range []struct {
		key string
		m   map[string]string
	}{{"kube-reserved", r.kubelet.KubeReserved}, {"system-reserved", r.kubelet.SystemReserved}, {"eviction-hard", r.kubelet.EvictionHard}, {"eviction-soft", r.kubelet.EvictionSoft}} {
		if len(f.m) > 0 {
			k[f.key] = f.m
		}
	}
	for _, f := range []struct{ field, key string }{
		{"evictionSoftGracePeriod", "eviction-soft-grace-period"}, {"evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"},
		{"imageGCHighThresholdPercent", "image-gc-high-threshold-percent"}, {"imageGCLowThresholdPercent", "image-gc-low-threshold-percent"},
		{"cpuCFSQuota", "cpu-cfs-quota-enforced"},
	} {
		switch v := r.kubelet.all[f.field].(type) {
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
	if p := r.spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 {
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

// kubeletFields are those that a family can be told besides the ones every family can.
var commonKubeletFields = []string{
	"clusterDNS", "maxPods", "podsPerCore", "systemReserved", "kubeReserved", "evictionHard", "evictionSoft", "evictionSoftGracePeriod",
	"evictionMaxPodGracePeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "cpuCFSQuota",
}

// unsupported are the fields of the kubelet configuration that the family can't be told.
func (c *class) unsupported() []string {
	if c.family == familyAL2023 || c.family == familyCustom {
		return nil
	}
	var out []string
	for _, f := range slices.Sorted(maps.Keys(c.kubelet.all)) {
		if !slices.Contains(commonKubeletFields, f) {
			out = append(out, f)
		}
	}
	return out
}

var scriptLine = regexp.MustCompile(`\r\n?`)

// plain writes user data as a person reads it.
func plain(encoded string) string {
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return encoded
	}
	return scriptLine.ReplaceAllString(string(b), "\n")
}
