// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package oracle

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ours "github.com/dovetail-sh/dovetail/api/aws/v1"
)

// Karpenter's AWS provider, whose module can't be required: it asks for a later Go than we are built with, and its own packages don't.
// So its source is had from the module proxy, held against this sum, and what is needed of it is built in a module of its own.
const (
	karpenterAWS        = "github.com/aws/karpenter-provider-aws"
	karpenterAWSVersion = "v1.15.1"
	karpenterAWSSum     = "h1:6eH///KgWKDwD2R6wHRnKGN8Vu8OHueaXjNdx64TnuY="
)

// karpenterAWSFiles are the files of its pkg/apis, tests left out, by path in the module.
var karpenterAWSFiles = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "oracle-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "mod", "download", "-json", karpenterAWS+"@"+karpenterAWSVersion)
	cmd.Dir = dir // no module of ours: none has it
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, failed := cmd.Output() // that it asks for a later Go is said as an error, when all is there
	var m struct{ Zip, Sum, Error string }
	if err := json.Unmarshal(out, &m); err != nil || m.Zip == "" {
		return nil, fmt.Errorf("download %s@%s: %w: %s%s", karpenterAWS, karpenterAWSVersion, errors.Join(failed, err), m.Error, stderr.String())
	}
	if m.Sum != karpenterAWSSum {
		return nil, fmt.Errorf("download %s@%s: its sum is %s, want %s", karpenterAWS, karpenterAWSVersion, m.Sum, karpenterAWSSum)
	}
	z, err := zip.OpenReader(m.Zip)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	files := map[string][]byte{}
	for _, f := range z.File {
		name, ok := strings.CutPrefix(f.Name, karpenterAWS+"@"+karpenterAWSVersion+"/")
		if !ok || !strings.HasPrefix(name, "pkg/apis/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		files[name] = b
	}
	return files, nil
})

func karpenterAWSFile(t *testing.T, name string) []byte {
	t.Helper()
	files, err := karpenterAWSFiles()
	if err != nil {
		t.Fatal(err)
	}
	b := files[name]
	if len(b) == 0 {
		t.Fatalf("%s %s has no %s", karpenterAWS, karpenterAWSVersion, name)
	}
	return b
}

// asked is a class as it is asked about.
type asked struct {
	Class    json.RawMessage
	CABundle *string `json:",omitempty"`
}

// The hash that Karpenter left on an EC2NodeClass's machines is the one that we compute, so nothing drifts when one takes over from the
// other.
func TestEC2NodeClassHash(t *testing.T) {
	const drawn = 500
	ca := "LS0tLS1CRUdJTg=="
	var questions []asked
	gen := generator[ours.EC2NodeClassSpec]()
	for i := range drawn {
		spec := gen.Example(i)
		spec.AMISelectorTerms = []ours.AMISelectorTerm{{Alias: []string{"al2@latest", "al2023@v20260801", "bottlerocket@1.20.0", "windows2022@latest"}[i%4]}}
		if i%3 == 0 {
			family := []string{ours.AMIFamilyAL2, ours.AMIFamilyAL2023, ours.AMIFamilyCustom}[i%7%3]
			spec.AMIFamily = &family
			if i%2 == 0 {
				spec.AMISelectorTerms = []ours.AMISelectorTerm{{ID: "ami-1"}}
			}
		}
		class, err := json.Marshal(ours.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		q := asked{Class: class}
		if i%2 == 0 {
			q.CABundle = &ca
		}
		questions = append(questions, q)
	}
	written := len(questions)
	for _, spec := range []string{
		`{"kubelet": {"maxPods": 42, "evictionHard": {"nodefs.available": "5%", "memory.available": "5%"}}}`,
		`{"kubelet": {"evictionHard": {"memory.available": "5%", "nodefs.available": "5%"}, "maxPods": 42}}`,
		`{"kubelet": {"imageGCHighThresholdPercent": 1e1, "registryPullQPS": 0, "clusterDNS": ["10.0.0.10"], "tlsCipherSuites": ["a<b>&c", "é"]}}`,
		`{"kubelet": {}}`, `{"kubelet": null}`, `{}`,
		`{"placementGroupSelector": {"name": "p"}}`, `{"placementGroupSelector": {"id": "pg-1"}}`, `{"ipPrefixCount": 2}`,
		`{"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}, {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "20G", "encrypted": true}}]}`,
		`{"blockDeviceMappings": [{"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "20G", "encrypted": true}}, {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20480Mi"}}]}`,
		`{"tags": {"a": "b"}, "userData": "#!/bin/sh\n", "context": "c", "detailedMonitoring": true, "associatePublicIPAddress": false}`,
	} {
		var fields map[string]any
		if err := json.Unmarshal([]byte(spec), &fields); err != nil {
			t.Fatal(err)
		}
		text := strings.TrimSuffix(spec, "}")
		if len(fields) > 0 {
			text += ", "
		}
		text += `"role": "r", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [{"id": "subnet-1"}], "securityGroupSelectorTerms": [{"id": "sg-1"}]}`
		questions = append(questions, asked{Class: json.RawMessage(`{"metadata": {"name": "c"}, "spec": ` + text + `}`)})
	}
	answers := askKarpenterAWS(t, questions)
	if answers[0] != ours.EC2NodeClassHashVersion {
		t.Fatalf("our hash is of version %s, theirs of %s", ours.EC2NodeClassHashVersion, answers[0])
	}
	seen, wrong := map[string]bool{}, 0
	for i, q := range questions {
		var class ours.EC2NodeClass
		if err := json.Unmarshal(q.Class, &class); err != nil {
			t.Fatal(err)
		}
		bundle := ""
		if q.CABundle != nil {
			bundle = *q.CABundle
		}
		got, err := class.Spec.Hash(bundle)
		if err != nil {
			t.Fatal(err)
		}
		if got != answers[i+1] {
			if wrong++; wrong <= 3 {
				t.Errorf("hash %s, Karpenter's %s, of %s", got, answers[i+1], q.Class)
			}
		}
		seen[got] = true
	}
	if wrong > 0 {
		t.Errorf("%d of %d hashes differ", wrong, len(questions))
	}
	if len(seen) < written/2 {
		t.Errorf("only %d different hashes were compared", len(seen))
	}
}

// askKarpenterAWS has Karpenter's code answer; the first line is the version of its hash.
func askKarpenterAWS(t *testing.T, questions []asked) []string {
	t.Helper()
	files, err := karpenterAWSFiles()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, b []byte) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range files {
		write(name, b)
	}
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		b, err := os.ReadFile(filepath.Join("testdata", "karpenteraws", name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, b)
	}
	var in bytes.Buffer
	for _, q := range questions {
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(b, '\n'))
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Dir, cmd.Stdin = dir, &in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run Karpenter's code: %v: %s", err, stderr.String())
	}
	answers := strings.Fields(string(out))
	if len(answers) != len(questions)+1 {
		t.Fatalf("%d answers for %d classes", len(answers)-1, len(questions))
	}
	return answers
}
