// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Anonymizer replaces names with tokens. Equal names have equal tokens in all objects, which preserves references. Tokens cannot be
// computed without its key.
type Anonymizer struct{ key []byte }

const keyBytes = 32

// OpenAnonymizer returns the Anonymizer with the key in a file. If the file does not exist and mayCreate is set, it creates the
// file.
func OpenAnonymizer(path string, mayCreate bool) (*Anonymizer, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && mayCreate {
		key := make([]byte, keyBytes)
		if _, err := rand.Read(key); err != nil {
			return nil, fmt.Errorf("create the anonymization key: %w", err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("write the anonymization key: %w", err)
		}
		_, err = f.WriteString(hex.EncodeToString(key) + "\n")
		if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
			return nil, fmt.Errorf("write the anonymization key: %w", err)
		}
		return &Anonymizer{key}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: it holds the anonymization key of the recording; restore it, or record to another file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the anonymization key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("%s: need an anonymization key of %d hexadecimal digits; restore the file, or record to another file", path, 2*keyBytes)
	}
	return &Anonymizer{key}, nil
}

// fingerprint returns a text by which a recording recognizes the key of its tokens.
func (a *Anonymizer) fingerprint() string { return a.Token("fingerprint of this key") }

// keptNames are the names that every cluster has. They stay, wherever they stand.
var keptNames = []string{
	"", "default", "kube-system", "kube-public", "kube-node-lease", "system-cluster-critical", "system-node-critical",
}

// Token returns the token of a name.
func (a *Anonymizer) Token(s string) string {
	if slices.Contains(keptNames, s) {
		return s
	}
	h := hmac.New(sha256.New, a.key)
	h.Write([]byte(s))
	return "x" + hex.EncodeToString(h.Sum(nil)[:7])
}

// keptLabels are the prefixes of labels whose values stay: they name places, machines and Karpenter's objects.
var keptLabels = []string{
	"topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/", "topology.k8s.aws/", "topology.ebs.csi.aws.com/",
	"node.kubernetes.io/", "node-role.kubernetes.io/", "beta.kubernetes.io/", "kubernetes.io/arch", "kubernetes.io/os",
	"karpenter.sh/", "karpenter.k8s.aws/", "karpenter.kwok.sh/", "dovetail.sh/", "eks.amazonaws.com/capacityType", "eks.amazonaws.com/compute-type",
}

// hashLabels are labels whose values are parts of names, also if they are whole numbers.
var hashLabels = []string{"pod-template-hash", "controller-revision-hash"}

// labelValue returns what stands for the value of a label. Whole numbers stay, since Gt and Lt compare them.
func (a *Anonymizer) labelValue(key, v string) string {
	if slices.ContainsFunc(keptLabels, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
		return v
	}
	if strings.Trim(v, "0123456789") == "" && !slices.Contains(hashLabels, key) {
		return v
	}
	return a.Token(v)
}

// keptOwners are the kinds of owners whose names stay.
var keptOwners = []string{"NodePool", "NodeOverlay", "KWOKNodeClass", "EC2NodeClass", "NodeGroupClass", "ClusterAPINodeClass"}

// look notes what the names of an object are made of.
func (p *projection) look(object map[string]any) {
	meta, _ := object["metadata"].(map[string]any)
	if have, ok := meta["labels"].(map[string]any); ok {
		p.hash, _ = have["pod-template-hash"].(string)
	}
	owners, _ := meta["ownerReferences"].([]any)
	for _, o := range owners {
		if o, ok := o.(map[string]any); ok && o["kind"] == "Pod" {
			if s, ok := o["name"].(string); ok {
				p.podOwners = append(p.podOwners, s)
			}
		}
	}
}

// replaced returns what stands for the value of a field. beside are the fields of the same object.
func (p *projection) replaced(of treatment, field string, beside map[string]any, v any) any {
	key, _ := beside["key"].(string)
	switch of {
	case name:
		return each(v, func(s string) string { return p.name(field, s) })
	case value:
		return each(v, func(s string) string { return p.a.labelValue(key, s) })
	case provider:
		return each(v, p.a.providerID)
	case owner:
		kind, _ := beside["kind"].(string)
		return each(v, func(s string) string {
			switch {
			case slices.Contains(keptOwners, kind):
				return s
			case kind == "ReplicaSet":
				return p.hashed(s)
			}
			return p.a.Token(s)
		})
	case labels:
		have, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		out := make(map[string]any, len(have))
		for k, x := range have {
			out[k] = each(x, func(s string) string { return p.a.labelValue(k, s) })
		}
		return out
	}
	return v
}

// name returns what stands for a name. Names that Kubernetes makes of others are made of their tokens.
func (p *projection) name(field, s string) string {
	if field == "name" {
		if p.kind == "ReplicaSet" {
			return p.hashed(s)
		}
		if p.kind == "PersistentVolumeClaim" { // of a generic ephemeral volume: named after its pod and the volume
			for _, pod := range p.podOwners {
				if volume, ok := strings.CutPrefix(s, pod+"-"); ok {
					return p.a.Token(pod) + "-" + p.a.Token(volume)
				}
			}
		}
	}
	return p.a.Token(s)
}

// hashed returns what stands for the name of a ReplicaSet: its Deployment's name and the hash of its template.
func (p *projection) hashed(s string) string {
	if deployment, ok := strings.CutSuffix(s, "-"+p.hash); ok && p.hash != "" {
		return p.a.Token(deployment) + "-" + p.a.Token(p.hash)
	}
	return p.a.Token(s)
}

// providerID keeps of a provider ID what stands before its last slash: the cloud and the zone.
func (a *Anonymizer) providerID(s string) string {
	i := strings.LastIndexByte(s, '/')
	return s[:i+1] + a.Token(s[i+1:])
}

// each applies f to a text or to each text of a list.
func each(v any, f func(string) string) any {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = each(x, f)
		}
		return out
	}
	return nil
}

// The treatments; fields.txt describes them.
const (
	keep        treatment = "keep"
	name        treatment = "name"
	labels      treatment = "labels"
	value       treatment = "value"
	annotations treatment = "annotations"
	provider    treatment = "provider"
	owner       treatment = "owner"
	podSpec     treatment = "pod"
	command     treatment = "command"
	plain       treatment = "plain"
)

// treatment is what becomes of the value of a field in an anonymized recording.
type treatment string

// projection is the work on one object.
type projection struct {
	a         *Anonymizer // nil: names stay
	kind      string
	hash      string // of the pod template, as the object's label says it
	podOwners []string
}
