// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// kubelet is what user data makes of a node's kubelet.
type kubelet struct {
	cluster, endpoint string
	labels            model.Labels
	taints            []machines.Taint
	maxPods           int64             // 0: the image's own rule
	kubeReserved      map[string]string // nil: the image's own rule
	systemReserved    map[string]string
	evictionHard      map[string]string
	raid0             bool // local disks are the node's ephemeral storage
}

// readUserData reads user data as an image of this family does. An error is what its log would say when the kubelet doesn't start.
func readUserData(family, encoded string) (*kubelet, error) {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("user data: %w", err)
	}
	k := &kubelet{labels: model.Labels{}}
	switch family {
	case bottlerocket:
		err = k.bottlerocket(data)
	case al2023:
		err = k.parts(data, (*kubelet).nodeadm)
	default:
		err = k.parts(data, (*kubelet).either)
	}
	if err != nil {
		return nil, err
	}
	for _, l := range slices.Sorted(maps.Keys(k.labels)) {
		if !ownLabel(l) {
			return nil, fmt.Errorf("kubelet: unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [%s]", l)
		}
	}
	return k, nil
}

// ownLabel reports whether a kubelet may put this label on its own node.
func ownLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	under := func(d, parent string) bool { return d == parent || strings.HasSuffix(d, "."+parent) }
	if !ok || !under(domain, "kubernetes.io") && !under(domain, "k8s.io") {
		return true
	}
	if under(domain, "kubelet.kubernetes.io") || under(domain, "node.kubernetes.io") {
		return true
	}
	switch key {
	case model.LabelHostname, model.LabelZone, model.LabelRegion, model.LabelArch, model.LabelOS, model.LabelInstanceType,
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region", "beta.kubernetes.io/instance-type", "beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return true
	}
	return false
}

// parts hands each part of MIME multipart user data to read, or the whole if it is none.
func (k *kubelet) parts(data []byte, read func(*kubelet, string, []byte) error) error {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return read(k, "", data)
	}
	kind, params, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return read(k, kind, data)
	}
	found := false
	for r := multipart.NewReader(message.Body, params["boundary"]); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("user data: read MIME part: %w", err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return fmt.Errorf("user data: read MIME part: %w", err)
		}
		found = true
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err := read(k, kind, body); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("user data: MIME multipart without a part")
	}
	return nil
}

// nodeConfig is nodeadm's configuration, as much of it as makes the Node.
type nodeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Cluster struct {
			Name                 string `json:"name"`
			APIServerEndpoint    string `json:"apiServerEndpoint"`
			CertificateAuthority string `json:"certificateAuthority"`
		} `json:"cluster"`
		Instance struct {
			LocalStorage struct {
				Strategy string `json:"strategy"`
			} `json:"localStorage"`
		} `json:"instance"`
		Kubelet struct {
			Config struct {
				MaxPods            int64             `json:"maxPods"`
				KubeReserved       map[string]string `json:"kubeReserved"`
				SystemReserved     map[string]string `json:"systemReserved"`
				EvictionHard       map[string]string `json:"evictionHard"`
				RegisterWithTaints []machines.Taint  `json:"registerWithTaints"`
			} `json:"config"`
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// nodeadm reads a part of AL2023's user data; scripts in it run and are of no matter here.
func (k *kubelet) nodeadm(kind string, data []byte) error {
	if kind != "" && kind != "application/node.eks.aws" {
		return nil
	}
	for _, doc := range regexp.MustCompile(`(?m)^---\s*$`).Split(string(data), -1) {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		var c nodeConfig
		if err := yaml.Unmarshal([]byte(doc), &c); err != nil {
			if kind == "" { // a script without MIME
				return nil
			}
			return fmt.Errorf("nodeadm: %w", err)
		}
		if !strings.HasPrefix(c.APIVersion, "node.eks.aws/") || c.Kind != "NodeConfig" {
			if kind == "" {
				return nil
			}
			return fmt.Errorf("nodeadm: kind %s of %s is no NodeConfig of node.eks.aws", c.Kind, c.APIVersion)
		}
		// A later part wins over an earlier one; lists of flags go one behind another.
		s := c.Spec
		set(&k.cluster, s.Cluster.Name)
		set(&k.endpoint, s.Cluster.APIServerEndpoint)
		k.raid0 = k.raid0 || s.Instance.LocalStorage.Strategy == "RAID0"
		if s.Kubelet.Config.MaxPods > 0 {
			k.maxPods = s.Kubelet.Config.MaxPods
		}
		merge(&k.kubeReserved, s.Kubelet.Config.KubeReserved)
		merge(&k.systemReserved, s.Kubelet.Config.SystemReserved)
		merge(&k.evictionHard, s.Kubelet.Config.EvictionHard)
		k.taints = append(k.taints, s.Kubelet.Config.RegisterWithTaints...)
		for _, f := range s.Kubelet.Flags {
			if err := k.flags(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// either reads what images of one's own are given: a NodeConfig, or a script that calls the kubelet or EKS's bootstrap.sh.
func (k *kubelet) either(kind string, data []byte) error {
	if kind == "application/node.eks.aws" || kind == "" && bytes.Contains(data, []byte("node.eks.aws/")) {
		return k.nodeadm(kind, data)
	}
	text := string(data)
	if m := regexp.MustCompile(`bootstrap\.sh\s+['"]?([^'"\s\\]+)`).FindStringSubmatch(text); m != nil {
		k.cluster = m[1]
	}
	if m := regexp.MustCompile(`--apiserver-endpoint[= ]['"]?([^'"\s\\]+)`).FindStringSubmatch(text); m != nil {
		k.endpoint = m[1]
	}
	return k.flags(text)
}

var kubeletFlag = regexp.MustCompile(`--(node-labels|register-with-taints|max-pods|kube-reserved|system-reserved|eviction-hard)[= ]["']?([^"'\s\\]+)`)

// flags reads the kubelet's command line, wherever it stands in a text.
func (k *kubelet) flags(text string) error {
	for _, m := range kubeletFlag.FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "node-labels":
			for _, l := range strings.Split(m[2], ",") {
				key, value, _ := strings.Cut(l, "=")
				k.labels[key] = value
			}
		case "register-with-taints":
			for _, s := range strings.Split(m[2], ",") {
				t, err := taint(s)
				if err != nil {
					return err
				}
				k.taints = append(k.taints, t)
			}
		case "max-pods":
			n, err := strconv.ParseInt(m[2], 10, 64)
			if err != nil || n < 1 {
				return fmt.Errorf("kubelet: --max-pods=%s: need a number of at least 1", m[2])
			}
			k.maxPods = n
		case "kube-reserved":
			merge(&k.kubeReserved, pairs(m[2], "="))
		case "system-reserved":
			merge(&k.systemReserved, pairs(m[2], "="))
		case "eviction-hard":
			merge(&k.evictionHard, pairs(m[2], "<"))
		}
	}
	return nil
}

// taint reads key=value:Effect or key:Effect.
func taint(s string) (machines.Taint, error) {
	i := strings.LastIndexByte(s, ':')
	if i < 1 {
		return machines.Taint{}, fmt.Errorf("kubelet: taint %q: need key=value:Effect", s)
	}
	key, value, _ := strings.Cut(s[:i], "=")
	t := machines.Taint{Key: key, Value: value, Effect: s[i+1:]}
	switch t.Effect {
	case "NoSchedule", "NoExecute", "PreferNoSchedule":
		return t, nil
	}
	return t, fmt.Errorf("kubelet: taint %q: effect %q: use NoSchedule, NoExecute or PreferNoSchedule", s, t.Effect)
}

// bottlerocketSettings are Bottlerocket's, as much of them as makes the Node.
type bottlerocketSettings struct {
	Settings struct {
		Kubernetes struct {
			ClusterName        string              `toml:"cluster-name"`
			APIServer          string              `toml:"api-server"`
			ClusterCertificate string              `toml:"cluster-certificate"`
			NodeLabels         map[string]string   `toml:"node-labels"`
			NodeTaints         map[string][]string `toml:"node-taints"`
			MaxPods            int64               `toml:"max-pods"`
			KubeReserved       map[string]string   `toml:"kube-reserved"`
			SystemReserved     map[string]string   `toml:"system-reserved"`
			EvictionHard       map[string]string   `toml:"eviction-hard"`
		} `toml:"kubernetes"`
	} `toml:"settings"`
}

func (k *kubelet) bottlerocket(data []byte) error {
	var s bottlerocketSettings
	if err := toml.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("bottlerocket: user data is no TOML: %w", err)
	}
	b := s.Settings.Kubernetes
	k.cluster, k.endpoint, k.maxPods = b.ClusterName, b.APIServer, b.MaxPods
	k.kubeReserved, k.systemReserved, k.evictionHard = b.KubeReserved, b.SystemReserved, b.EvictionHard
	maps.Copy(k.labels, b.NodeLabels)
	for _, key := range slices.Sorted(maps.Keys(b.NodeTaints)) {
		for _, v := range b.NodeTaints[key] {
			t, err := taint(key + "=" + v)
			if err != nil {
				return err
			}
			k.taints = append(k.taints, t)
		}
	}
	return nil
}

func set(to *string, value string) {
	if value != "" {
		*to = value
	}
}

func merge(into *map[string]string, from map[string]string) {
	for key, value := range from {
		if *into == nil {
			*into = map[string]string{}
		}
		(*into)[key] = value
	}
}

// pairs reads a=b,c=d.
func pairs(s, between string) map[string]string {
	out := map[string]string{}
	for _, p := range strings.Split(s, ",") {
		key, value, _ := strings.Cut(p, between)
		out[key] = value
	}
	return out
}
