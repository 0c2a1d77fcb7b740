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

// mimeBoundary separates the parts of user data. It is fixed, so that equal settings make equal user data.
const mimeBoundary = "//"

// nodeRegistration is what a machine must know to become a node as asked for.
type nodeRegistration struct {
	labels  model.Labels
	taints  []model.Taint
	maxPods int64
}

// kubeletLabels are those that a kubelet may set on its own node; the others are set when the node is registered.
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

// registrationOf is what a claim's machine must know.
func registrationOf(r cloud.LaunchRequest, pods int64) nodeRegistration {
	taints := slices.Concat(r.Taints, r.StartupTaints)
	if !slices.ContainsFunc(taints, func(t model.Taint) bool { return t.Key == model.TaintUnregistered }) {
		taints = append(taints, model.Taint{Key: model.TaintUnregistered, Effect: model.NoExecute})
	}
	return nodeRegistration{kubeletLabels(r.NodeLabels), taints, pods}
}

// writeUserData writes what a machine boots with. Errors are about spec.userData.
func (r *resolvedClass) writeUserData(clusterName string, j nodeRegistration) (string, error) {
	own := deref(r.spec.UserData)
	var out string
	var err error
	switch {
	case r.family == familyAL2023:
		out, err = r.writeNodeadm(clusterName, own, j)
	case r.family == familyBottlerocket:
		out, err = r.writeBottlerocket(clusterName, own, j)
	case r.family == familyAL2:
		out, err = r.writeBootstrapScript(clusterName, own, j)
	case isWindows(r.family):
		out = r.writePowerShell(clusterName, own, j)
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

// mimePart is one of MIME multipart user data.
type mimePart struct{ kind, body string }

const (
	kindNodeConfig = "application/node.eks.aws"
	kindScript     = `text/x-shellscript; charset="us-ascii"`
)

// readParts are those of a user's own user data: MIME multipart, or one part of the kind that it looks like.
func readParts(own string) ([]mimePart, error) {
	if strings.TrimSpace(own) == "" {
		return nil, nil
	}
	if message, err := mail.ReadMessage(strings.NewReader(strings.TrimLeft(own, "\r\n"))); err == nil {
		kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
		if err == nil && strings.HasPrefix(kind, "multipart/") {
			var out []mimePart
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
				out = append(out, mimePart{p.Header.Get("Content-Type"), string(body)})
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
		return []mimePart{{kindNodeConfig, own}}, nil
	}
	return []mimePart{{kindScript, own}}, nil
}

func writeMultipart(list []mimePart) (string, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=%q\r\n\r\n", mimeBoundary)
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

// writeNodeadm is AL2023's: the user's parts, then ours. nodeadm merges them, the later over the earlier.
func (r *resolvedClass) writeNodeadm(clusterName, own string, j nodeRegistration) (string, error) {
	list, err := readParts(own)
	if err != nil {
		return "", err
	}
	config := maps.Clone(r.kubeletConfig.fields)
	if config == nil {
		config = map[string]any{}
	}
	config["maxPods"] = j.maxPods
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
	return writeMultipart(append(list, mimePart{kindNodeConfig, string(text)}))
}

// joinPairs writes a map in the order of its keys.
func joinPairs[V any](m map[string]V, between, after string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+between+fmt.Sprint(m[k]))
	}
	return strings.Join(out, after)
}

// kubeletFlags are the kubelet's, for families that take flags and not a file.
func (r *resolvedClass) kubeletFlags(j nodeRegistration) []string {
	k := r.kubeletConfig
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
	add("max-pods", formatInt(j.maxPods))
	if k.PodsPerCore != nil {
		add("pods-per-core", formatInt(*k.PodsPerCore))
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

func formatTaint(t model.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// writeBootstrapScript is AL2's: the user's parts, then a call of EKS's script.
func (r *resolvedClass) writeBootstrapScript(clusterName, own string, j nodeRegistration) (string, error) {
	list, err := readParts(own)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("#!/bin/bash -xe\nexec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n")
	fmt.Fprintf(&b, "/etc/eks/bootstrap.sh '%s' --apiserver-endpoint '%s' --b64-cluster-ca '%s'", clusterName, r.cluster.endpoint, r.cluster.caBundle)
	if len(r.kubeletConfig.ClusterDNS) > 0 {
		fmt.Fprintf(&b, " --dns-cluster-ip '%s'", r.kubeletConfig.ClusterDNS[0])
	}
	if p := r.spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 {
		b.WriteString(" --local-disks raid0")
	}
	fmt.Fprintf(&b, " --use-max-pods false --kubelet-extra-args '%s'\n", strings.Join(r.kubeletFlags(j), " "))
	return writeMultipart(append(list, mimePart{kindScript, b.String()}))
}

// writePowerShell is Windows's: the user's script, then a call of EKS's.
func (r *resolvedClass) writePowerShell(clusterName, own string, j nodeRegistration) string {
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
	if len(r.kubeletConfig.ClusterDNS) > 0 {
		fmt.Fprintf(&b, " -DNSClusterIP '%s'", r.kubeletConfig.ClusterDNS[0])
	}
	b.WriteString("\n</powershell>")
	return b.String()
}

// writeBottlerocket is TOML: the user's settings with ours over them.
func (r *resolvedClass) writeBottlerocket(clusterName, own string, j nodeRegistration) (string, error) {
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
	k["max-pods"] = j.maxPods
	if dns := r.kubeletConfig.ClusterDNS; len(dns) == 1 {
		k["cluster-dns-ip"] = dns[0]
	} else if len(dns) > 1 {
		k["cluster-dns-ip"] = dns
	}
	for _, f := range []struct {
		key string
		m   map[string]string
	}{{"kube-reserved", r.kubeletConfig.KubeReserved}, {"system-reserved", r.kubeletConfig.SystemReserved}, {"eviction-hard", r.kubeletConfig.EvictionHard}, {"eviction-soft", r.kubeletConfig.EvictionSoft}} {
		if len(f.m) > 0 {
			k[f.key] = f.m
		}
	}
	for _, f := range []struct{ field, key string }{
		{"evictionSoftGracePeriod", "eviction-soft-grace-period"}, {"evictionMaxPodGracePeriod", "eviction-max-pod-grace-period"},
		{"imageGCHighThresholdPercent", "image-gc-high-threshold-percent"}, {"imageGCLowThresholdPercent", "image-gc-low-threshold-percent"},
		{"cpuCFSQuota", "cpu-cfs-quota-enforced"},
	} {
		switch v := r.kubeletConfig.fields[f.field].(type) {
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
var flagKubeletFields = []string{
	"clusterDNS", "maxPods", "podsPerCore", "systemReserved", "kubeReserved", "evictionHard", "evictionSoft", "evictionSoftGracePeriod",
	"evictionMaxPodGracePeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "cpuCFSQuota",
}

// unsupportedKubeletFields are the fields of the kubelet configuration that the family can't be told.
func (c *nodeClass) unsupportedKubeletFields() []string {
	if c.family == familyAL2023 || c.family == familyCustom {
		return nil
	}
	var out []string
	for _, f := range slices.Sorted(maps.Keys(c.kubeletConfig.fields)) {
		if !slices.Contains(flagKubeletFields, f) {
			out = append(out, f)
		}
	}
	return out
}

var scriptLine = regexp.MustCompile(`\r\n?`)

// decodeUserData writes user data as a person reads it.
func decodeUserData(encoded string) string {
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return encoded
	}
	return scriptLine.ReplaceAllString(string(b), "\n")
}
